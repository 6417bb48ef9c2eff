/* A difference as text: who is compared, then models, precision, training; what is equal is
 * left out. Two columns, a and b. */
#include "plan/diff.h"

#include <string.h>

#include "plan/text.h"

enum { MOST_ROWS = 16 };
#define BOLD "\033[1m"
#define END  "\033[0m"

static void print_title(const mpt_diff *diff, const char *title, mpt_str *out) {
    mpt_str_printf(out, "\n%s%s%s\n", diff->color ? BOLD : "", title, diff->color ? END : "");
}

/* ---- who ---- */

static void print_sides(const mpt_diff *diff, mpt_str *out) {
    mpt_table table;
    mpt_table_init(&table, out->ctx, "|recipe|written in|model|recipe hash|schedule hash");
    for (int s = 0; s < 2; s++) {
        const mpt_program *p = diff->side[s];
        char model[256];
        mpt_words hashes = {.len = 0};
        mpt_plan_model(p, model, sizeof model);
        for (int i = 0; i < p->n_phases; i++)
            mpt_words_add(&hashes, "%s%s", i ? " " : "", p->phases[i]->schedule_hash);
        mpt_table_cell(&table, "%s", s == 0 ? "a" : "b");
        mpt_table_cell(&table, "%s", p->recipe->name);
        mpt_table_cell(&table, "%s", p->recipe->file ? p->recipe->file : "host");
        mpt_table_cell(&table, "%s", model);
        mpt_table_cell(&table, "%s", p->recipe_hash);
        mpt_table_cell(&table, "%s", hashes.data);
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

/* ---- rows ---- */

static void add_rows(mpt_table *table, const mpt_diff_rows *rows) {
    for (int i = 0; i < rows->n && i < MOST_ROWS; i++) {
        mpt_table_cell(table, "%s", rows->rows[i].name);
        mpt_table_cell(table, "%s", rows->rows[i].a ? rows->rows[i].a : "-");
        mpt_table_cell(table, "%s", rows->rows[i].b ? rows->rows[i].b : "-");
    }
}

static void print_rows(const mpt_diff_rows *rows, const char *titles, mpt_str *out) {
    mpt_table table;
    mpt_table_init(&table, out->ctx, titles);
    add_rows(&table, rows);
    mpt_text_table(out, &table);
    if (rows->n > MOST_ROWS)
        mpt_str_printf(out, "  and %d more: see --json\n", rows->n - MOST_ROWS);
}

/* ---- precision ---- */

/* The heading of a pair of phases; a run of one phase needs no word for it. */
static void print_pair_title(const mpt_diff *diff, const mpt_diff_pair *pair, mpt_str *out) {
    mpt_words title = {.len = 0};
    const char *a = diff->side[0]->phases[pair->phase[0]]->phase;
    const char *b = diff->side[1]->phases[pair->phase[1]]->phase;
    mpt_words_add(&title, "precision of layers");
    if (diff->side[0]->n_phases > 1 || diff->side[1]->n_phases > 1) {
        if (strcmp(a, b) == 0)
            mpt_words_add(&title, ", in phase %s", a);
        else
            mpt_words_add(&title, ", while a is in %s and b in %s", a, b);
    }
    print_title(diff, title.data, out);
}

static void print_groups(const mpt_diff_pair *pair, mpt_str *out) {
    for (int g = 0; g < pair->n_groups && g < MOST_ROWS; g++) {
        const mpt_diff_group *group = &pair->groups[g];
        mpt_str table_text;
        mpt_table table;
        mpt_str_printf(out, "  ");
        mpt_layer_set_print(&group->set, out);
        mpt_str_printf(out, "\n");
        mpt_str_init(&table_text, out->ctx);
        mpt_table_init(&table, out->ctx, "|a|b");
        add_rows(&table, &group->rows);
        mpt_table_print(&table, &table_text);
        for (const char *p = table_text.data; p && *p;) {
            size_t length = strcspn(p, "\n");
            mpt_str_printf(out, "    %.*s\n", (int)length, p);
            p += length + (p[length] == '\n');
        }
        out->failed |= table_text.failed;
        mpt_str_deinit(&table_text);
        mpt_table_deinit(&table);
    }
    if (pair->n_groups > MOST_ROWS)
        mpt_str_printf(out, "  and %d more: see --json\n", pair->n_groups - MOST_ROWS);
}

static void print_covers(const mpt_diff_pair *pair, mpt_str *out) {
    mpt_table table;
    mpt_str layers;
    mpt_table_init(&table, out->ctx, "|precision|layers");
    for (int i = 0; i < pair->n_covers && i < MOST_ROWS; i++) {
        const mpt_diff_cover *cover = &pair->covers[i];
        mpt_str_init(&layers, out->ctx);
        mpt_layer_set_print(&cover->set, &layers);
        mpt_table_cell(&table, "%s", cover->side == 0 ? "a" : "b");
        mpt_table_cell(&table, "%s", cover->label);
        mpt_table_cell(&table, "%s", layers.data ? layers.data : "");
        table.text.failed |= layers.failed;
        mpt_str_deinit(&layers);
    }
    mpt_text_table(out, &table);
    if (pair->n_covers > MOST_ROWS)
        mpt_str_printf(out, "  and %d more: see --json\n", pair->n_covers - MOST_ROWS);
    if (pair->ways.n > 0)
        print_rows(&pair->ways, "operands|a|b", out);
}

static void print_pair(const mpt_diff *diff, const mpt_diff_pair *pair, mpt_str *out) {
    if (pair->n_groups + pair->n_covers == 0)
        return;
    print_pair_title(diff, pair, out);
    if (diff->same_layers)
        print_groups(pair, out);
    else
        print_covers(pair, out);
}

/* ---- the whole ---- */

static void print_equal(const mpt_diff *diff, mpt_str *out) {
    bool same_words = strcmp(diff->side[0]->recipe_hash, diff->side[1]->recipe_hash) == 0;
    print_title(diff,
                same_words && diff->same_schedules ? "identical" : "no difference in effect",
                out);
    if (same_words && diff->same_schedules)
        mpt_str_printf(out, "  the recipes say the same and compile to the same schedules\n");
    else if (diff->same_schedules)
        mpt_str_printf(out, "  the recipes are written differently, and compile to the same "
                            "schedules\n");
    else
        mpt_str_printf(out, "  no field and no layer differs, yet the schedules do: see "
                            "mptrun plan --schedule\n");
}

void mpt_diff_text(const mpt_diff *diff, mpt_str *out) {
    int n_layers = 0;
    print_sides(diff, out);
    if (diff->model.n > 0) {
        print_title(diff, "model", out);
        print_rows(&diff->model, "|a|b", out);
    }
    if (diff->precision.n > 0) {
        print_title(diff, "precision", out);
        print_rows(&diff->precision, "|a|b", out);
    }
    for (int i = 0; i < diff->n_pairs; i++) {
        n_layers += diff->pairs[i].n_groups + diff->pairs[i].n_covers;
        print_pair(diff, &diff->pairs[i], out);
    }
    if (n_layers + diff->precision.n == 0 && !mpt_diff_is_empty(diff))
        mpt_str_printf(out, "\nprecision: no difference\n");
    if (diff->training.n > 0) {
        print_title(diff, "training", out);
        print_rows(&diff->training, "|a|b", out);
    }
    if (diff->n_proxy > 0)
        mpt_str_printf(out, "\n%d field%s of the proxy's training %s: see --model proxy\n",
                       diff->n_proxy, diff->n_proxy == 1 ? "" : "s",
                       diff->n_proxy == 1 ? "differs" : "differ");
    if (mpt_diff_is_empty(diff))
        print_equal(diff, out);
}
