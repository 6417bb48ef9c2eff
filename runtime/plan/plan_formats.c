/* The part of the text plan that speaks of formats: how many layers have which, how each
 * operand is quantized, what the other layers compute in. All of the first phase that runs. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "plan/text.h"
#include "recipe/schema_store.h"

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

/* "e4m3", "e8m0 up", "fp32 delayed". */
static void print_scales(mpt_table *table, const mpt_quantizer *q) {
    bool given = q->scale.kind == MPT_SCALING_DELAYED || q->scale.kind == MPT_SCALING_STATIC;
    bool by_rule = q->scale_rule.kind != mpt_scale_format_rule(q->scale_format).kind ||
                   q->scale_format == MPT_SCALE_E8M0;
    mpt_table_cell(table, "%s%s%s%s%s", mpt_plan_scale_format(q), given ? " " : "",
                   given ? mpt_plan_scale(q) : "", by_rule ? " " : "",
                   by_rule ? mpt_plan_scale_rule(q) : "");
    if (q->outer == MPT_OUTER_NONE)
        mpt_table_cell(table, "-");
    else
        mpt_table_cell(table, "%s", mpt_plan_outer(q));
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
    if (q->scale.kind == MPT_SCALING_NONE) {
        mpt_table_cell(table, "-");
        mpt_table_cell(table, "-");
    } else {
        print_scales(table, q);
    }
    mpt_table_cell(table, "%s", mpt_plan_rounding(q));
    if (q->hadamard.size == 0)
        mpt_table_cell(table, "-");
    else
        mpt_table_cell(table, "%d, %s signs", (int)q->hadamard.size,
                       q->hadamard.signs == MPT_SIGNS_NONE ? "no" : mpt_plan_signs(q));
}

/* ---- below the table ---- */

static const char *default_mark(const mpt_scale_source *source, const char *field) {
    const mpt_record *record = mpt_record_find("delayed");
    return mpt_record_has(record, source, mpt_record_lookup(record, field)) ? "" : " (default)";
}

static void describe_delayed(const mpt_quantizer *q, mpt_words *text) {
    const mpt_scale_source *source = &q->scale;
    if (source->kind != MPT_SCALING_DELAYED)
        return;
    mpt_words_add(
        text, "delayed: history %d%s, algo %s%s, margin %d%s", (int)source->history,
        default_mark(source, "history"), source->algo == MPT_AMAX_MAX ? "max" : "most_recent",
        default_mark(source, "algo"), (int)source->margin, default_mark(source, "margin"));
    if (source->headroom != 1)
        mpt_words_add(text, ", headroom %g", source->headroom);
    mpt_words_add(text, "%s; current scales at the first step",
                  source->reduce_amax ? "" : ", each rank its own");
}

/* "random signs: one draw for all layers, kept for the run, from the run's seed". */
static void describe_signs(const mpt_quantizer *q, mpt_words *text) {
    const mpt_hadamard *h = &q->hadamard;
    if (h->size == 0 || h->signs != MPT_SIGNS_RANDOM)
        return;
    mpt_words_add(text, "random signs: %s, %s, ",
                  h->scope == MPT_SCOPE_LAYER ? "each layer its own" : "the same in all layers",
                  h->redraw == MPT_REDRAW_STEP ? "drawn at each step" : "drawn once");
    if (h->seed >= 0)
        mpt_words_add(text, "seed %lld", (long long)h->seed);
    else
        mpt_words_add(text, "the run's seed");
}

static void describe_besides(const mpt_quantizer *q, mpt_words *text) {
    char besides[MPT_QUANTIZER_TEXT];
    print_besides(q, besides);
    if (*besides)
        mpt_words_add(text, "%s: %s", mpt_plan_format(q), besides);
}

/* A line for each distinct text that is there to say of the slots. */
static void print_below(const mpt_policy *policy,
                        void (*describe)(const mpt_quantizer *q, mpt_words *text),
                        mpt_str *out) {
    mpt_words texts[MPT_SLOT_COUNT] = {{.len = 0}};
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        describe(&policy->slot[s], &texts[s]);
        bool said = texts[s].len == 0;
        for (int t = 0; t < s && !said; t++)
            said = strcmp(texts[s].data, texts[t].data) == 0;
        if (!said)
            mpt_str_printf(out, "  %s\n", texts[s].data);
    }
}

/* Slots with the same quantizer, GEMM by GEMM: "fprop.x,w wgrad.x"; "all six". */
static void name_slots(const bool *mine, mpt_words *names) {
    int n = 0;
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        n += mine[s];
    if (n == MPT_SLOT_COUNT) {
        mpt_words_add(names, "all six");
        return;
    }
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        const char *name = mpt_slot_name((mpt_slot)s);
        bool joins = s % 2 == 1 && mine[s - 1]; /* the operand beside it stands there */
        if (mine[s])
            mpt_words_add(names, "%s%s",
                          joins        ? ","
                          : names->len ? " "
                                       : "",
                          joins ? strchr(name, '.') + 1 : name);
    }
}

/* The slots of one policy, those with the same quantizer on one line. */
static void print_slots(const mpt_policy *policy, mpt_str *out) {
    bool done[MPT_SLOT_COUNT] = {false};
    mpt_table table;
    mpt_table_init(&table, out->ctx, "operand|format|block|scale|outer|rounding|hadamard");
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        bool mine[MPT_SLOT_COUNT] = {false};
        mpt_words names = {.len = 0};
        for (int t = s; t < MPT_SLOT_COUNT; t++) {
            if (done[t] || !mpt_quantizer_equal(&policy->slot[s], &policy->slot[t]))
                continue;
            mine[t] = done[t] = true;
        }
        if (!mine[s])
            continue;
        name_slots(mine, &names);
        print_quantizer(&table, names.data, &policy->slot[s]);
    }
    mpt_text_table(out, &table);
    print_below(policy, describe_delayed, out);
    print_below(policy, describe_signs, out);
    print_below(policy, describe_besides, out);
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

/* ---- what fell back ---- */

/* One line: how many operands pad = "bf16" made BF16, and the first of them. */
static void print_fallbacks(const mpt_plan *plan, mpt_str *out) {
    const mpt_fallback *first = NULL;
    const char *path = "", *slot = "";
    int n = 0;
    for (int i = 0; i < plan->graph->n_layers; i++)
        for (int s = 0; s < MPT_SLOT_COUNT; s++) {
            const mpt_policy *policy = &plan->program->phases[plan->first]->policies[i];
            if (!policy->fallback[s].from)
                continue;
            if (n++ > 0)
                continue;
            first = &policy->fallback[s];
            path = plan->graph->layers[i].path;
            slot = mpt_slot_name((mpt_slot)s);
        }
    if (first)
        mpt_text_linef(
            out, "fell back",
            "%d operand%s to bf16, as pad says; first %s.%s: %lld %s are no multiple "
            "of %d",
            n, n == 1 ? "" : "s", path, slot, (long long)first->extent, first->word,
            (int)first->block);
}

void mpt_plan_print_formats(const mpt_plan *plan, mpt_str *out) {
    print_coverage(plan, out);
    print_operands(plan, out);
    print_elsewhere(plan, out);
    mpt_plan_print_ops(plan, out);
    print_fallbacks(plan, out);
    mpt_plan_print_sums(plan, out);
}
