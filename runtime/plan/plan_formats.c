/* The part of the text plan that speaks of formats: how many layers have which, how each
 * operand is quantized, what the other layers compute in. All of the first phase. */
#include "plan/plan.h"

#include "plan/text.h"

enum { MOST_GROUPS = 4 };

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_coverage(const mpt_plan *plan, mpt_str *out) {
    const mpt_plan_phase *phase = &plan->phases[0];
    mpt_table table;
    int64_t weights = 0;
    for (int i = 0; i < phase->n_covers; i++)
        weights += phase->covers[i].n_parameters;
    mpt_str_printf(out, "\nlinear layers by format%s\n",
                   plan->n_phases > 1 ? ", in the first phase" : "");
    mpt_table_init(&table, out->ctx, "format|>layers|>share|>weights|>share");
    for (int i = 0; i < phase->n_covers; i++) {
        const mpt_plan_cover *cover = &phase->covers[i];
        mpt_words number = {.len = 0};
        mpt_words_count(&number, cover->n_parameters);
        mpt_table_cell(&table, "%s", cover->label);
        mpt_table_cell(&table, "%d", cover->n_layers);
        mpt_table_cell(&table, "%.1f %%", percent(cover->n_layers, plan->n_linear));
        mpt_table_cell(&table, "%s", number.data);
        mpt_table_cell(&table, "%.1f %%",
                       percent((double)cover->n_parameters, (double)weights));
    }
    mpt_text_table(out, &table);
}

/* ---- operands ---- */

/* A row of the table: how one quantizer treats these operands. */
static void print_quantizer(mpt_table *table, const char *operands, const mpt_quantizer *q) {
    bool scaled = q->scaling != MPT_SCALING_NONE;
    mpt_table_cell(table, "%s", operands);
    mpt_table_cell(table, "%s", mpt_plan_format(q));
    if (!scaled)
        mpt_table_cell(table, "-");
    else if (q->block_rows == 0 && q->block_cols == 0)
        mpt_table_cell(table, "tensor");
    else
        mpt_table_cell(table, "%dx%d", (int)q->block_rows, (int)q->block_cols);
    mpt_table_cell(table, "%s%s", scaled ? mpt_plan_scale_format(q) : "-",
                   q->outer == MPT_OUTER_TENSOR ? " under one a tensor" : "");
    mpt_table_cell(table, "%s", mpt_plan_rounding(q));
    if (q->hadamard.size == 0)
        mpt_table_cell(table, "-");
    else
        mpt_table_cell(table, "%d, %s signs", (int)q->hadamard.size,
                       q->hadamard.signs == MPT_SIGNS_NONE ? "no" : mpt_plan_signs(q));
}

/* The slots of one policy, those with the same quantizer on one line. */
static void print_slots(const mpt_policy *policy, mpt_str *out) {
    bool done[MPT_SLOT_COUNT] = {false};
    mpt_table table;
    mpt_table_init(&table, out->ctx, "operand|format|block|scales|rounding|hadamard");
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        mpt_words names = {.len = 0};
        for (int t = s; t < MPT_SLOT_COUNT; t++) {
            if (done[t] || !mpt_quantizer_equal(&policy->slot[s], &policy->slot[t]))
                continue;
            mpt_words_add(&names, "%s%s", names.len ? ", " : "", mpt_slot_name((mpt_slot)t));
            done[t] = true;
        }
        if (names.len > 0)
            print_quantizer(&table, names.data, &policy->slot[s]);
    }
    mpt_text_table(out, &table);
}

static bool is_plain(const mpt_policy *policy) {
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (!mpt_quantizer_is_cast(&policy->slot[s]))
            return false;
    return true;
}

static bool same_slots(const mpt_policy *a, const mpt_policy *b) {
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (!mpt_quantizer_equal(&a->slot[s], &b->slot[s]))
            return false;
    return true;
}

/* Each distinct way of quantizing, once, with the number of layers that have it. */
static void print_operands(const mpt_plan *plan, mpt_str *out) {
    const mpt_policy *policies = plan->program->phases[0]->policies;
    const mpt_policy *groups[MOST_GROUPS];
    int sizes[MOST_GROUPS] = {0}, n = 0, left_out = 0;
    for (int i = 0; i < plan->graph->n_layers; i++) {
        int g = 0;
        if (plan->graph->layers[i].kind != MPT_LAYER_LINEAR || is_plain(&policies[i]))
            continue;
        while (g < n && !same_slots(groups[g], &policies[i]))
            g++;
        if (g == n && n < MOST_GROUPS)
            groups[n++] = &policies[i];
        if (g < n)
            sizes[g]++;
        else
            left_out++;
    }
    for (int g = 0; g < n; g++) {
        char label[MPT_PLAN_LABEL];
        mpt_plan_label(groups[g], label);
        mpt_str_printf(out, "\n%d layers in %s\n", sizes[g], label);
        print_slots(groups[g], out);
    }
    if (left_out)
        mpt_str_printf(out, "\n%d more layers quantize in other ways: see --json\n", left_out);
}

/* What layers other than linear ones compute in; the head has operands as they do. */
static void print_elsewhere(const mpt_plan *plan, mpt_str *out) {
    const mpt_policy *policies = plan->program->phases[0]->policies;
    mpt_words text = {.len = 0};
    for (int kind = 0; kind < MPT_LAYER_KIND_COUNT; kind++) {
        bool head = kind == MPT_LAYER_HEAD;
        uint64_t seen = 0;
        if (kind == MPT_LAYER_LINEAR || kind == MPT_LAYER_OTHER)
            continue;
        for (int i = 0; i < plan->graph->n_layers; i++) {
            mpt_dtype dtype =
                head ? policies[i].slot[MPT_SLOT_FPROP_X].format : policies[i].compute;
            if (plan->graph->layers[i].kind != (mpt_layer_kind)kind || seen >> dtype & 1)
                continue;
            mpt_words_add(&text, "%s%s %s", text.len ? ", " : "",
                          mpt_layer_kind_name((mpt_layer_kind)kind), mpt_dtype_name(dtype));
            seen |= UINT64_C(1) << dtype;
        }
    }
    if (text.len) {
        mpt_str_append(out, "\n", 1);
        mpt_text_line(out, "elsewhere", text.data);
    }
}

void mpt_plan_print_formats(const mpt_plan *plan, mpt_str *out) {
    print_coverage(plan, out);
    print_operands(plan, out);
    print_elsewhere(plan, out);
}
