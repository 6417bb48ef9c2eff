/* The part of the text plan that speaks of formats: how many layers have which, how each
 * operand is quantized, what the other layers compute in. All of the first phase that runs. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "plan/text.h"
#include "recipe/schema.h"

enum { MOST_GROUPS = 4 };

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_coverage(const mpt_plan *plan, mpt_str *out) {
    const mpt_plan_phase *phase = &plan->phases[plan->first];
    mpt_table table;
    int64_t weights = 0;
    for (int i = 0; i < phase->n_covers; i++)
        weights += phase->covers[i].n_parameters;
    mpt_str_printf(out, "\nlinear layers by format%s\n",
                   plan->first > 0      ? ", in the first phase that runs"
                   : plan->n_phases > 1 ? ", in the first phase"
                                        : "");
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

/* "e4m3 under one a tensor", "e8m0 up", "fp32 delayed". */
static void print_scales(mpt_table *table, const mpt_quantizer *q) {
    static const char *const levels[] = {"", " under one a tensor", " under one a row"};
    bool given = q->scale.kind == MPT_SCALING_DELAYED || q->scale.kind == MPT_SCALING_STATIC;
    bool by_rule = q->scale_rule.kind != mpt_scale_format_rule(q->scale_format).kind ||
                   q->scale_format == MPT_SCALE_E8M0;
    mpt_table_cell(table, "%s%s%s%s%s%s", mpt_plan_scale_format(q), given ? " " : "",
                   given ? mpt_plan_scale(q) : "", by_rule ? " " : "",
                   by_rule ? mpt_plan_scale_rule(q) : "", levels[q->outer]);
}

/* What the columns and the lines below leave out: "nonfinite=saturate"; "" where nothing is. */
static void print_besides(const mpt_quantizer *q, char out[MPT_QUANTIZER_TEXT]) {
    mpt_quantizer rest, bare;
    out[0] = 0;
    if (!mpt_quantizer_by_name(mpt_plan_format(q), &bare) || mpt_quantizer_is_cast(q))
        return;
    rest = *q;
    rest.format = bare.format;
    rest.block_rows = rest.block_cols = 0;
    rest.scale_format = bare.scale_format;
    if (rest.scale.kind == MPT_SCALING_DELAYED)
        rest.scale = bare.scale;
    rest.outer = bare.outer;
    rest.rounding = bare.rounding;
    rest.hadamard = bare.hadamard;
    if (rest.scale_rule.kind != MPT_RULE_FOUR_OVER_SIX)
        rest.scale_rule = bare.scale_rule;
    mpt_quantizer_brief(&rest, out);
    const char *after = strstr(out, " tensor");
    after += strlen(" tensor") + (after[strlen(" tensor")] == ' ');
    memmove(out, after, strlen(after) + 1);
}

/* "16, fixed signs", "16, random signs of each layer, at each step, seed 7". */
static void print_hadamard(mpt_table *table, const mpt_quantizer *q) {
    const mpt_hadamard *h = &q->hadamard;
    mpt_words text = {.len = 0};
    mpt_words_add(&text, "%d, %s signs", (int)h->size,
                  h->signs == MPT_SIGNS_NONE ? "no" : mpt_plan_signs(q));
    if (h->signs == MPT_SIGNS_RANDOM) {
        mpt_words_add(&text, "%s%s", h->scope == MPT_SCOPE_LAYER ? " of each layer" : "",
                      h->redraw == MPT_REDRAW_STEP ? ", at each step" : "");
        if (h->seed >= 0)
            mpt_words_add(&text, ", seed %lld", (long long)h->seed);
        else
            mpt_words_add(&text, ", the run's seed");
    }
    mpt_table_cell(table, "%s", text.data);
}

/* A row of the table: how one quantizer treats these operands. */
static void print_quantizer(mpt_table *table, const char *operands, const mpt_quantizer *q) {
    char block[MPT_PLAN_LABEL];
    mpt_quantizer bare;
    bool other = q->name && mpt_quantizer_by_name(q->name, &bare) && bare.format != q->format;
    mpt_plan_block(q, block);
    mpt_table_cell(table, "%s", operands);
    mpt_table_cell(table, "%s%s%s", mpt_plan_format(q), other ? " of " : "",
                   other ? mpt_dtype_name(q->format) : "");
    mpt_table_cell(table, "%s", block);
    if (q->scale.kind == MPT_SCALING_NONE)
        mpt_table_cell(table, "-");
    else
        print_scales(table, q);
    mpt_table_cell(table, "%s", mpt_plan_rounding(q));
    if (q->hadamard.size == 0)
        mpt_table_cell(table, "-");
    else
        print_hadamard(table, q);
}

static bool same_source(const mpt_scale_source *a, const mpt_scale_source *b) {
    return a->kind == b->kind && a->history == b->history && a->algo == b->algo &&
           a->margin == b->margin && a->reduce_amax == b->reduce_amax &&
           a->headroom == b->headroom;
}

/* Below the table, what delayed scales are made of: a line for each distinct way. */
static void print_delayed(const mpt_policy *policy, mpt_str *out) {
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        const mpt_scale_source *source = &policy->slot[s].scale;
        bool said = source->kind != MPT_SCALING_DELAYED;
        for (int t = 0; t < s && !said; t++)
            said = same_source(source, &policy->slot[t].scale);
        if (said)
            continue;
        mpt_str_printf(out, "  delayed: %s of the last %d steps, margin %d",
                       source->algo == MPT_AMAX_MAX ? "largest amax" : "most recent amax",
                       (int)source->history, (int)source->margin);
        if (source->headroom != 1)
            mpt_str_printf(out, ", headroom %g", source->headroom);
        mpt_str_printf(out, "%s; current scales at the first step\n",
                       source->reduce_amax ? "" : ", each rank its own");
    }
}

/* The slots of one policy, those with the same quantizer on one line. */
static void print_slots(const mpt_policy *policy, mpt_str *out) {
    bool done[MPT_SLOT_COUNT] = {false}, any = false;
    char besides[MPT_QUANTIZER_TEXT];
    mpt_table table;
    for (int s = 0; s < MPT_SLOT_COUNT && !any; s++) {
        print_besides(&policy->slot[s], besides);
        any = *besides != 0;
    }
    mpt_table_init(&table, out->ctx,
                   any ? "operand|format|block|scales|rounding|hadamard|besides"
                       : "operand|format|block|scales|rounding|hadamard");
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        mpt_words names = {.len = 0};
        for (int t = s; t < MPT_SLOT_COUNT; t++) {
            if (done[t] || !mpt_quantizer_equal(&policy->slot[s], &policy->slot[t]))
                continue;
            mpt_words_add(&names, "%s%s", names.len ? ", " : "", mpt_slot_name((mpt_slot)t));
            done[t] = true;
        }
        if (names.len == 0)
            continue;
        print_quantizer(&table, names.data, &policy->slot[s]);
        print_besides(&policy->slot[s], besides);
        if (any)
            mpt_table_cell(&table, "%s", *besides ? besides : "-");
    }
    mpt_text_table(out, &table);
    print_delayed(policy, out);
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
    const mpt_policy *policies = plan->program->phases[plan->first]->policies;
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
        mpt_words heading = {.len = 0};
        mpt_words_things(&heading, sizes[g], "layer");
        mpt_str_printf(out, "\n%s in %s\n", heading.data, label);
        print_slots(groups[g], out);
    }
    if (left_out)
        mpt_str_printf(out, "\n%d more quantize in other ways: see --json\n", left_out);
}

/* What a layer that is no linear one computes in; the head has operands as those do. */
static void elsewhere_label(const mpt_plan *plan, int layer, char out[MPT_PLAN_LABEL]) {
    const mpt_policy *policy = &plan->program->phases[plan->first]->policies[layer];
    if (plan->graph->layers[layer].kind == MPT_LAYER_HEAD)
        mpt_plan_label(policy, out);
    else
        snprintf(out, MPT_PLAN_LABEL, "%s", mpt_dtype_name(policy->compute));
}

/* Whether a layer before this one is of its kind and computes in the same. */
static bool said_before(const mpt_plan *plan, int layer, const char *label) {
    for (int i = 0; i < layer; i++) {
        char before[MPT_PLAN_LABEL];
        if (plan->graph->layers[i].kind != plan->graph->layers[layer].kind)
            continue;
        elsewhere_label(plan, i, before);
        if (strcmp(before, label) == 0)
            return true;
    }
    return false;
}

static void print_elsewhere(const mpt_plan *plan, mpt_str *out) {
    mpt_words text = {.len = 0};
    for (int kind = 0; kind < MPT_LAYER_KIND_COUNT; kind++) {
        if (kind == MPT_LAYER_LINEAR || kind == MPT_LAYER_OTHER)
            continue;
        for (int i = 0; i < plan->graph->n_layers; i++) {
            char label[MPT_PLAN_LABEL];
            if (plan->graph->layers[i].kind != (mpt_layer_kind)kind)
                continue;
            elsewhere_label(plan, i, label);
            if (!said_before(plan, i, label))
                mpt_words_add(&text, "%s%s %s", text.len ? ", " : "",
                              mpt_layer_kind_name((mpt_layer_kind)kind), label);
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
    mpt_plan_print_ops(plan, out);
    mpt_plan_print_sums(plan, out);
}
