/* A comparison as a table on a terminal, at most 100 columns wide where names are not long. */
#include <math.h>
#include <stdio.h>

#include "plan/text.h"
#include "report/compare.h"

static void cell_number(mpt_table *table, double x, int digits, const char *unit) {
    if (isnan(x))
        mpt_table_cell(table, "-");
    else
        mpt_table_cell(table, "%.*f%s", digits, x, unit);
}

static void cell_share(mpt_table *table, uint64_t part, uint64_t whole) {
    if (whole == 0)
        mpt_table_cell(table, "-");
    else
        mpt_table_cell(table, "%llu, %.1f %%", (unsigned long long)part,
                       100 * (double)part / (double)whole);
}

static void cell_percent(mpt_table *table, double x, bool sign) {
    char words[MPT_COMPARE_PERCENT];
    mpt_compare_percent(x, sign, words);
    mpt_table_cell(table, "%s", words);
}

static void cell_difference(mpt_table *table, const mpt_comparison_row *row) {
    if (row->outcome == MPT_COMPARE_BASE)
        mpt_table_cell(table, "base");
    else if (row->outcome == MPT_COMPARE_BROKE)
        mpt_table_cell(table, "broke");
    else
        cell_percent(table, row->relative_difference, true);
}

static void print_rows(const mpt_comparison *c, mpt_str *out) {
    mpt_table table;
    bool sweep = c->options.sweep, devices = mpt_compare_devices_differ(c);
    char columns[160];
    snprintf(columns, sizeof columns,
             "%s|>loss|>difference|>noise|%s>quantized GEMMs|>tokens/s%s%s",
             sweep ? "in BF16" : "recipe", sweep ? ">share|" : "", sweep ? "" : "|>memory",
             devices ? "|device" : "");
    mpt_table_init(&table, out->ctx, columns);
    for (int i = 0; i < c->n; i++) {
        const mpt_comparison_row *row = &c->recipes[c->order[i]].row;
        mpt_table_cell(&table, "%s", row->recipe);
        cell_number(&table, row->final_loss, 4, "");
        cell_difference(&table, row);
        cell_percent(&table, i == 0 ? (double)NAN : row->noise, false);
        if (sweep)
            cell_number(&table, 100 * row->share, 0, " %");
        cell_share(&table, row->quantized_gemms, row->gemms);
        cell_number(&table, row->tokens_per_s, 0, "");
        if (!sweep && row->n_runs > 0)
            mpt_table_cell(&table, "%.1f MB", (double)row->bytes * 1e-6);
        else if (!sweep)
            mpt_table_cell(&table, "-");
        if (devices)
            mpt_table_cell(&table, "%s", *row->device ? row->device : "-");
    }
    mpt_text_table(out, &table);
}

static void print_ran(const mpt_comparison *c, mpt_str *out) {
    mpt_table table;
    mpt_str_printf(out, "\nwhat ran\n");
    mpt_table_init(&table, out->ctx, "recipe|recipe hash|schedule|GEMMs by operands");
    for (int i = 0; i < c->n; i++) {
        const mpt_compared *r = &c->recipes[c->order[i]];
        char ran[512];
        if (r->row.n_runs == 0)
            continue;
        mpt_gemm_list_text(&r->gemms, ran, sizeof ran);
        mpt_table_cell(&table, "%s", r->row.recipe);
        mpt_table_cell(&table, "%s", r->row.recipe_hash);
        mpt_table_cell(&table, "%s", r->row.schedule_hash);
        mpt_table_cell(&table, "%s", ran);
    }
    mpt_text_table(out, &table);
}

/* What the column of losses is, or why it has none. */
static void print_heading(const mpt_comparison *c, mpt_str *out) {
    const char *device = mpt_compare_device(c);
    bool any = false;
    for (int i = 0; i < c->n; i++)
        any = any || !isnan(c->recipes[i].row.final_loss);
    if (any)
        mpt_str_printf(out, "%s loss after %lld steps, mean over %d seed%s%s%s\n",
                       c->validates ? "validation" : "training", (long long)c->planned,
                       c->n_seeds, c->n_seeds == 1 ? "" : "s", device ? ", on " : "",
                       device ? device : "");
    else
        mpt_str_printf(out,
                       "no run ended after its %lld steps with a loss: there is none to "
                       "compare\n",
                       (long long)c->planned);
}

void mpt_compare_text(const mpt_comparison *c, mpt_str *out) {
    mpt_str_printf(out, "%s\n\n", c->verdict);
    print_heading(c, out);
    print_rows(c, out);
    print_ran(c, out);
    for (int i = 0; i < c->n_flags; i++)
        mpt_str_printf(out, "%snote: %s\n", i == 0 ? "\n" : "", c->flags[i].text);
}
