/* A difference as text, one table of two columns: who is compared, then models, precision and
 * training. What is equal is left out, and so is what a stretch of the run repeats. */
#include "plan/diff.h"

#include <string.h>

#include "plan/sheet.h"
#include "plan/text.h"

enum { MOST_ROWS = 16 };

/* ---- rows ---- */

static void add_row(mpt_sheet *sheet, const char *lead, const char *name, const char *a,
                    const char *b) {
    mpt_table_cell(&sheet->table, "%s%s", lead, name);
    mpt_table_cell(&sheet->table, "%s", a ? a : "-");
    mpt_table_cell(&sheet->table, "%s", b ? b : "-");
    mpt_sheet_row(sheet, false);
}

static bool has_row(const mpt_diff_rows *rows, const mpt_diff_row *row) {
    const char *a = row->a ? row->a : "", *b = row->b ? row->b : "";
    for (int i = 0; rows && i < rows->n; i++)
        if (strcmp(rows->rows[i].name, row->name) == 0 &&
            strcmp(rows->rows[i].a ? rows->rows[i].a : "", a) == 0 &&
            strcmp(rows->rows[i].b ? rows->rows[i].b : "", b) == 0)
            return true;
    return false;
}

/* The rows that `before` (may be NULL) has not. */
static void add_rows(mpt_sheet *sheet, const char *lead, const mpt_diff_rows *rows,
                     const mpt_diff_rows *before) {
    int n = 0, left_out = 0;
    for (int i = 0; i < rows->n; i++) {
        const mpt_diff_row *row = &rows->rows[i];
        if (has_row(before, row))
            continue;
        if (n++ < MOST_ROWS)
            add_row(sheet, lead, row->name, row->a, row->b);
        else
            left_out++;
    }
    if (left_out)
        mpt_sheet_note(sheet, "%sand %d more: see --json", lead, left_out);
}

static void add_section(mpt_sheet *sheet, const char *title, const mpt_diff_rows *rows) {
    if (rows->n == 0)
        return;
    mpt_sheet_heading(sheet, "%s", title);
    add_rows(sheet, "  ", rows, NULL);
}

/* ---- who ---- */

static void add_sides(mpt_sheet *sheet, const mpt_diff *diff) {
    const mpt_program *side[2] = {diff->side[0], diff->side[1]};
    const char *file[2];
    mpt_words hashes[2] = {{.len = 0}, {.len = 0}};
    for (int s = 0; s < 2; s++) {
        file[s] = side[s]->recipe->file ? side[s]->recipe->file : "host";
        for (int p = 0; p < side[s]->n_phases; p++)
            mpt_words_add(&hashes[s], "%s%s", p ? " " : "", side[s]->phases[p]->schedule_hash);
    }
    add_row(sheet, "", "recipe", side[0]->recipe->name, side[1]->recipe->name);
    add_row(sheet, "", "written in", file[0], file[1]);
    add_row(sheet, "", "recipe hash", side[0]->recipe_hash, side[1]->recipe_hash);
    add_row(sheet, "", "schedule hash", hashes[0].data, hashes[1].data);
}

/* ---- precision ---- */

/* The heading of a stretch; a run of one phase needs no word for it. */
static void add_stretch(mpt_sheet *sheet, const mpt_diff *diff, const mpt_diff_pair *pair) {
    const char *a = diff->side[0]->phases[pair->phase[0]]->phase;
    const char *b = diff->side[1]->phases[pair->phase[1]]->phase;
    if (diff->side[0]->n_phases == 1 && diff->side[1]->n_phases == 1)
        mpt_sheet_heading(sheet, "precision of layers");
    else if (strcmp(a, b) == 0)
        mpt_sheet_heading(sheet, "precision of layers in phase %s", a);
    else
        mpt_sheet_heading(sheet, "precision of layers while a is in %s and b in %s", a, b);
}

static void add_groups(mpt_sheet *sheet, const mpt_diff_pair *pair) {
    for (int g = 0; g < pair->n_groups && g < MOST_ROWS; g++) {
        mpt_str layers;
        mpt_str_init(&layers, sheet->table.text.ctx);
        mpt_layer_set_print(&pair->groups[g].set, &layers);
        mpt_sheet_note(sheet, "  %s", layers.data ? layers.data : "");
        sheet->lines.failed |= layers.failed;
        mpt_str_deinit(&layers);
        add_rows(sheet, "    ", &pair->groups[g].rows, NULL);
    }
    if (pair->n_groups > MOST_ROWS)
        mpt_sheet_note(sheet, "  and %d more: see --json", pair->n_groups - MOST_ROWS);
}

static bool same_groups(const mpt_diff_pair *a, const mpt_diff_pair *b) {
    bool same = a->n_groups == b->n_groups;
    for (int g = 0; same && g < a->n_groups; g++) {
        const mpt_diff_group *x = &a->groups[g], *y = &b->groups[g];
        size_t n = (size_t)x->set.graph->n_layers;
        same = x->rows.n == y->rows.n && memcmp(x->set.in, y->set.in, n) == 0;
        for (int i = 0; same && i < x->rows.n; i++)
            same = has_row(&y->rows, &x->rows.rows[i]);
    }
    return same;
}

static bool same_kinds(const mpt_diff_pair *a, const mpt_diff_pair *b) {
    bool same = a->where.n == b->where.n && a->ways.n == b->ways.n;
    for (int i = 0; same && i < a->where.n; i++)
        same = has_row(&b->where, &a->where.rows[i]);
    for (int i = 0; same && i < a->ways.n; i++)
        same = has_row(&b->ways, &a->ways.rows[i]);
    return same;
}

static void add_pair(mpt_sheet *sheet, const mpt_diff *diff, int index) {
    const mpt_diff_pair *pair = &diff->pairs[index];
    const mpt_diff_pair *before = index > 0 ? &diff->pairs[index - 1] : NULL;
    if (pair->n_groups + pair->n_covers == 0)
        return;
    add_stretch(sheet, diff, pair);
    if (before && (diff->same_layers ? same_groups(pair, before) : same_kinds(pair, before))) {
        mpt_sheet_note(sheet, "  as before");
    } else if (diff->same_layers) {
        add_groups(sheet, pair);
    } else {
        add_rows(sheet, "  ", &pair->where, before ? &before->where : NULL);
        add_rows(sheet, "  ", &pair->ways, before ? &before->ways : NULL);
    }
}

/* ---- the whole ---- */

static void add_equal(mpt_sheet *sheet, const mpt_diff *diff) {
    bool same_words = strcmp(diff->side[0]->recipe_hash, diff->side[1]->recipe_hash) == 0;
    if (same_words && diff->same_schedules) {
        mpt_sheet_heading(sheet, "identical");
        mpt_sheet_note(sheet, "  they say the same and compile to the same schedules");
        return;
    }
    mpt_sheet_heading(sheet, diff->same_schedules ? "no difference in effect"
                                                  : "the schedules differ");
    if (diff->same_schedules)
        mpt_sheet_note(sheet,
                       "  they are written differently and compile to the same schedules");
    else
        mpt_sheet_note(sheet, "  no field and no layer differs, yet the schedules do: compare "
                              "mptrun plan --schedule");
}

void mpt_diff_text(const mpt_diff *diff, mpt_str *out) {
    mpt_sheet sheet;
    int n_layers = 0;
    mpt_sheet_init(&sheet, out->ctx, "|a|b", diff->color, 0);
    add_sides(&sheet, diff);
    add_section(&sheet, "model", &diff->model);
    add_section(&sheet, "precision", &diff->precision);
    for (int i = 0; i < diff->n_pairs; i++) {
        n_layers += diff->pairs[i].n_groups + diff->pairs[i].n_covers;
        add_pair(&sheet, diff, i);
    }
    if (n_layers + diff->precision.n == 0 && !mpt_diff_is_empty(diff))
        mpt_sheet_heading(&sheet, "precision: no difference");
    add_section(&sheet, "training", &diff->training);
    if (diff->n_proxy > 0)
        mpt_sheet_note(&sheet, "  and %d of the proxy's: see --model proxy", diff->n_proxy);
    if (mpt_diff_is_empty(diff))
        add_equal(&sheet, diff);
    mpt_sheet_print(&sheet, out);
}
