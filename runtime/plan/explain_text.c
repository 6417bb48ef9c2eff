/* An explanation as text: a table a phase, a row a field, operands that agree folded.
 *
 * Layers with the same explanation are told of once. A later phase shows only what it changes.
 * On a terminal, values that no rule says itself are dim. */
#include "plan/explain.h"

#include <stdio.h>
#include <string.h>

#include "plan/sheet.h"
#include "plan/text.h"
#include "recipe/schema_store.h"

enum { HEADING = 160 };

/* The rows of one phase. */
typedef struct page {
    mpt_sheet sheet;
    const mpt_explained_phase *phase;
    const char *operands; /* what decides them where no rule does */
} page;

static void add_row(page *rows, const char *name, const char *value, const mpt_origin *origin,
                    const mpt_origin_text *words) {
    mpt_table_cell(&rows->sheet.table, "%s", name);
    mpt_table_cell(&rows->sheet.table, "%s", value);
    mpt_table_cell(&rows->sheet.table, "%s", words->at);
    mpt_table_cell(&rows->sheet.table, "%s", words->by);
    mpt_sheet_row(&rows->sheet, !mpt_origin_is_said(origin));
}

/* ---- slots ---- */

static bool same_origin(const mpt_origin *a, const mpt_origin *b) {
    bool same_file = a->where.file == b->where.file ||
                     (a->where.file && b->where.file && !strcmp(a->where.file, b->where.file));
    return a->how == b->how && a->rule == b->rule && same_file &&
           a->where.line == b->where.line;
}

/* Whether two slots, maybe of two phases, have the same values from the same places. */
static bool same_slot(const mpt_explanation *a, int i, const mpt_explanation *b, int k) {
    char left[MPT_QUANTIZER_TEXT], right[MPT_QUANTIZER_TEXT];
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++) {
        mpt_quantizer_field_text(&a->slot[i], f, left);
        mpt_quantizer_field_text(&b->slot[k], f, right);
        if (strcmp(left, right) != 0 || !same_origin(&a->field[i][f], &b->field[k][f]))
            return false;
    }
    return true;
}

/* "fprop.w, dgrad.w: nvfp4 16x16", of the slots in `group`. */
static void slot_heading(const mpt_explanation *x, const bool *group, char out[HEADING]) {
    char brief[MPT_QUANTIZER_TEXT] = "";
    mpt_words text = {.len = 0};
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        if (!group[s])
            continue;
        if (text.len == 0)
            mpt_quantizer_brief(&x->slot[s], brief);
        mpt_words_add(&text, "%s%s", text.len ? ", " : "", mpt_slot_name((mpt_slot)s));
    }
    snprintf(out, HEADING, "%.70s: %.80s", text.data, brief);
}

static void add_slot(page *rows, const mpt_explanation *x, int slot) {
    char value[MPT_QUANTIZER_TEXT];
    const char *format = mpt_plan_format(&x->slot[slot]);
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++) {
        mpt_origin_text words;
        mpt_quantizer_field_text(&x->slot[slot], f, value);
        mpt_origin_words(rows->phase, &x->field[slot][f], format, rows->operands, &words);
        add_row(rows, mpt_record_quantizer.fields[f].name, value, &x->field[slot][f], &words);
    }
}

/* All slots that differ from those of `before` (NULL: all), equal ones once. Gives the slots
 * left out. */
static int add_slots(page *rows, const mpt_explanation *x, const mpt_explanation *before) {
    bool done[MPT_SLOT_COUNT] = {false};
    char heading[HEADING];
    int left_out = 0;
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        done[s] = before && same_slot(x, s, before, s);
        left_out += done[s];
    }
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        bool group[MPT_SLOT_COUNT] = {false};
        if (done[s])
            continue;
        for (int t = s; t < MPT_SLOT_COUNT; t++)
            group[t] = !done[t] && same_slot(x, s, x, t);
        for (int t = s; t < MPT_SLOT_COUNT; t++)
            done[t] = done[t] || group[t];
        slot_heading(x, group, heading);
        mpt_sheet_heading(&rows->sheet, "  %s", heading);
        add_slot(rows, x, s);
    }
    return left_out;
}

/* ---- products, and what has none ---- */

static const char *output_default(const mpt_layer *layer, int gemm) {
    if (gemm == MPT_GEMM_WGRAD)
        return "the format of gradients";
    if (gemm == MPT_GEMM_FPROP && layer->kind == MPT_LAYER_ROUTER)
        return "logits, read by the choice of experts";
    return gemm == MPT_GEMM_FPROP && layer->kind == MPT_LAYER_HEAD ? "logits, read by the loss"
                                                                   : "precision.base";
}

static void add_product(page *rows, mpt_gemm gemm, const char *field, const char *value,
                        const mpt_origin *why, const char *fallback) {
    mpt_origin_text words;
    char name[64];
    snprintf(name, sizeof name, "%s.%s", mpt_gemm_name(gemm), field);
    mpt_origin_words(rows->phase, why, "", fallback, &words);
    add_row(rows, name, value, why, &words);
}

/* A product is told of whole where any of it changes. */
static bool same_product(const mpt_explanation *a, const mpt_explanation *b, int g) {
    return a->output[g] == b->output[g] && a->accumulate[g] == b->accumulate[g] &&
           a->promote[g] == b->promote[g] &&
           same_origin(&a->output_why[g], &b->output_why[g]) &&
           same_origin(&a->accumulate_why[g], &b->accumulate_why[g]) &&
           same_origin(&a->promote_why[g], &b->promote_why[g]);
}

static int add_products(page *rows, const mpt_layer *layer, const mpt_explanation *x,
                        const mpt_explanation *before) {
    int left_out = 0;
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        char promote[32] = "never";
        if (before && same_product(before, x, g)) {
            left_out++;
            continue;
        }
        if (g == left_out)
            mpt_sheet_heading(&rows->sheet, "  products");
        if (x->promote[g] > 0)
            snprintf(promote, sizeof promote, "%d", (int)x->promote[g]);
        add_product(rows, (mpt_gemm)g, "output", mpt_dtype_name(x->output[g]),
                    &x->output_why[g], output_default(layer, g));
        add_product(rows, (mpt_gemm)g, "accumulate", mpt_dtype_name(x->accumulate[g]),
                    &x->accumulate_why[g], "fp32 unless said");
        add_product(rows, (mpt_gemm)g, "promote", promote, &x->promote_why[g],
                    "never unless said");
    }
    return left_out;
}

static void add_format(page *rows, const char *name, mpt_dtype value, const mpt_origin *why,
                       const char *fallback) {
    mpt_origin_text words;
    mpt_origin_words(rows->phase, why, "", fallback, &words);
    add_row(rows, name, mpt_dtype_name(value), why, &words);
}

static int add_compute(page *rows, const mpt_layer *layer, const mpt_explanation *x,
                       const mpt_explanation *before) {
    int left_out = 0;
    if (before && before->compute == x->compute &&
        same_origin(&before->compute_why, &x->compute_why))
        left_out++;
    else
        add_format(rows, "compute", x->compute, &x->compute_why,
                   mpt_compute_default(rows->phase->cascade.recipe, layer->kind));
    if (x->has_softmax && !before) /* the same in all phases */
        add_format(rows, "softmax", x->softmax, &x->softmax_why, "autocast table");
    return left_out + (x->has_softmax && before);
}

/* ---- one layer ---- */

static void phase_heading(const mpt_explained *e, const mpt_explained_phase *phase,
                          const char *what, mpt_str *out) {
    mpt_words from = {.len = 0};
    mpt_words_count(&from, phase->from);
    mpt_str_printf(out, "\n");
    if (e->program->n_phases > 1)
        mpt_str_printf(out, "%sphase %s, from step %s%s%s\n", e->color ? MPT_BOLD : "",
                       phase->name, from.data, what, e->color ? MPT_PLAIN : "");
}

static void print_phase(const mpt_explained *e, int index, int layer, mpt_str *out) {
    const mpt_explained_phase *phase = &e->phases[index];
    const mpt_explanation *x = &phase->layers[layer];
    const mpt_explanation *before = index ? &e->phases[index - 1].layers[layer] : NULL;
    bool router = e->graph->layers[layer].kind == MPT_LAYER_ROUTER;
    page rows = {.phase = phase, .operands = router ? "routers are fp32" : "precision.base"};
    int left_out;
    mpt_sheet_init(&rows.sheet, out->ctx, "field|value|decided at|by", e->color, 4);
    if (x->has_gemms) {
        left_out = add_slots(&rows, x, before);
        left_out += add_products(&rows, &e->graph->layers[layer], x, before);
    } else {
        left_out = add_compute(&rows, &e->graph->layers[layer], x, before);
    }
    bool none = rows.sheet.n_rows == 0;
    phase_heading(e, phase,
                  !before         ? ""
                  : none          ? ": the same"
                  : left_out == 0 ? ": all changes"
                                  : ": what changes",
                  out);
    mpt_sheet_print(&rows.sheet, out);
}

/* The selectors, blocks and products of a rule, as a person would say them. */
static void add_rule(mpt_table *table, const mpt_cascade_rule *cascade_rule, mpt_ctx *ctx) {
    const mpt_rule *rule = cascade_rule->rule;
    char path[MPT_RULE_PATH], place[MPT_ORIGIN_TEXT];
    mpt_words text = {.len = 0};
    mpt_str blocks;
    mpt_str_init(&blocks, ctx);
    mpt_rule_path(cascade_rule, path);
    mpt_rule_place(rule, place);
    for (int i = 0; i < rule->n_selectors; i++)
        mpt_words_add(&text, "%s%s", i ? " " : "", rule->selectors[i]);
    mpt_blocks_print(&rule->blocks, &blocks);
    if (rule->blocks.kind != MPT_BLOCKS_ALL)
        mpt_words_add(&text, ", blocks %s", blocks.data ? blocks.data : "");
    for (int g = 0; rule->gemms && g < MPT_GEMM_COUNT; g++)
        if (rule->gemms >> g & 1)
            mpt_words_add(&text, ", %s", mpt_gemm_name((mpt_gemm)g));
    if (rule->predicate >= 0)
        mpt_words_add(&text, ", where it says so");
    mpt_table_cell(table, "%s", path);
    mpt_table_cell(table, "%s", place);
    mpt_table_cell(table, "%s", text.data);
    table->text.failed |= blocks.failed;
    mpt_str_deinit(&blocks);
}

/* The rules that speak of a layer, whether they decide or were overruled. */
static void print_rules(const mpt_explained *e, int layer, mpt_str *out) {
    mpt_table table;
    int n = 0;
    mpt_table_init(&table, out->ctx, "rule|written at|speaks of");
    for (int p = 0; p < e->n_phases; p++) {
        const mpt_cascade *cascade = &e->phases[p].cascade;
        for (int r = 0; r < cascade->n_rules; r++) {
            bool again = p > 0 && cascade->rules[r].phase < 0; /* the recipe's own, said */
            if (again || !mpt_cascade_matches(cascade, r, layer))
                continue;
            add_rule(&table, &cascade->rules[r], out->ctx);
            n++;
        }
    }
    if (n > 0) {
        mpt_str_printf(out, "\nrules that speak of it, a later one wins\n");
        mpt_text_table(out, &table);
    } else {
        mpt_str_printf(out, "\nno rule speaks of it\n");
        mpt_table_deinit(&table);
    }
}

static void print_shape(const mpt_layer *layer, mpt_str *out) {
    mpt_words text = {.len = 0};
    if (layer->in_features <= 0 || layer->out_features <= 0)
        return;
    mpt_words_count(&text, layer->in_features);
    mpt_words_add(&text, " in, ");
    mpt_words_count(&text, layer->out_features);
    mpt_str_printf(out, ", %s out", text.data);
}

static void print_part(const mpt_layer *layer, const char *part, mpt_str *out) {
    if (!layer->n_parts)
        return;
    mpt_str_printf(out, "%s%s", part ? part : "fused", part ? " is a part of it: " : ": ");
    for (int i = 0; i < layer->n_parts; i++)
        mpt_str_printf(out, "%s%s",
                       i == 0                   ? ""
                       : i < layer->n_parts - 1 ? ", "
                                                : " and ",
                       layer->parts[i]);
    mpt_str_printf(out, " are one product, with one precision\n");
}

/* The layers of a group: a path with its shape, or all of them in words. */
static void print_heading(const mpt_explained *e, const mpt_layer_set *group, int first,
                          mpt_str *out) {
    const mpt_layer *layer = &e->graph->layers[first];
    mpt_str_printf(out, "%s", e->color ? MPT_BOLD : "");
    mpt_layer_set_print(group, out);
    mpt_str_printf(out, "%s", e->color ? MPT_PLAIN : "");
    if (group->n == 1) {
        mpt_str_printf(out, ": %s", mpt_layer_kind_name(layer->kind));
        if (layer->block >= 0)
            mpt_str_printf(out, " in block %d of 0..%d", layer->block, e->graph->n_blocks - 1);
        print_shape(layer, out);
    } else {
        mpt_str_printf(out, ": the same in all");
    }
    mpt_str_printf(out, "\n");
    print_part(layer, e->set.part[first], out);
}

/* All that is said of a layer below its heading. */
static void print_body(const mpt_explained *e, int layer, mpt_str *out) {
    print_rules(e, layer, out);
    for (int p = 0; p < e->n_phases; p++)
        print_phase(e, p, layer, out);
}

/* ---- groups ---- */

static mpt_status print_groups(const mpt_explained *e, mpt_arena *arena, mpt_str *bodies,
                               mpt_str *out) {
    int n_layers = e->graph->n_layers;
    for (int i = 0; i < n_layers; i++)
        if (e->set.in[i])
            print_body(e, i, &bodies[i]);
    for (int i = 0, n = 0; i < n_layers; i++) {
        mpt_layer_set group;
        if (!bodies[i].data)
            continue;
        MPT_TRY(mpt_layer_set_make(arena, e->graph, &group));
        for (int k = i; k < n_layers; k++) {
            if (!bodies[k].data || strcmp(bodies[k].data, bodies[i].data) != 0)
                continue;
            mpt_layer_set_add(&group, k);
            if (k > i)
                mpt_str_deinit(&bodies[k]);
        }
        mpt_str_printf(out, "%s", n++ ? "\n" : "");
        print_heading(e, &group, i, out);
        mpt_str_append(out, bodies[i].data, bodies[i].len);
    }
    return MPT_OK;
}

void mpt_explain_text(const mpt_explained *e, mpt_str *out) {
    mpt_arena arena;
    mpt_arena_init(&arena, out->ctx);
    int n = e->graph->n_layers;
    mpt_str *bodies = mpt_arena_alloc(&arena, mpt_size_mul((size_t)n, sizeof *bodies));
    out->failed |= !bodies;
    for (int i = 0; bodies && i < n; i++)
        mpt_str_init(&bodies[i], out->ctx);
    if (bodies && print_groups(e, &arena, bodies, out) != MPT_OK)
        out->failed = true;
    for (int i = 0; bodies && i < n; i++) {
        out->failed |= bodies[i].failed;
        mpt_str_deinit(&bodies[i]);
    }
    mpt_arena_deinit(&arena);
}
