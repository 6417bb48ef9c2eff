/* Collects the facts of a plan: coverage and phases here, the rest in the files beside.
 *
 * Everything is counted from what was compiled, not from what the recipe says: layers from the
 * graph, formats from the resolved policies, bytes from the memory plan, FLOPs from the cost of
 * each op. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recipe/schema_store.h"

/* ---- words of a quantizer ---- */

const char *mpt_plan_format(const mpt_quantizer *q) {
    return q->name ? q->name : mpt_dtype_name(q->format);
}

/* The word of a field of the quantizer's record; `none` where the value has none. */
static const char *word_of(const mpt_quantizer *q, const char *field, const char *none) {
    mpt_slot_use use = {.q = *q};
    const mpt_field *row = mpt_record_lookup(&mpt_record_quantizer, field);
    const char *word = mpt_field_word(row, (const char *)&use + row->offset);
    return word ? word : none;
}

const char *mpt_plan_scale(const mpt_quantizer *q) {
    return word_of(q, "scale", "none");
}

const char *mpt_plan_scale_format(const mpt_quantizer *q) {
    return q->scale.kind == MPT_SCALING_NONE ? "none" : mpt_scale_format_name(q->scale_format);
}

const char *mpt_plan_scale_rule(const mpt_quantizer *q) {
    return q->scale.kind == MPT_SCALING_NONE ? "none" : word_of(q, "scale_rule", "none");
}

const char *mpt_plan_outer(const mpt_quantizer *q) {
    return word_of(q, "outer", "none");
}

const char *mpt_plan_rounding(const mpt_quantizer *q) {
    return word_of(q, "rounding", "none");
}

static const char *hadamard_word(const mpt_quantizer *q, const char *field) {
    const mpt_field *row = mpt_record_lookup(&mpt_record_hadamard, field);
    return mpt_field_word(row, (const char *)&q->hadamard + row->offset);
}

const char *mpt_plan_signs(const mpt_quantizer *q) {
    return hadamard_word(q, "signs");
}

const char *mpt_plan_scope(const mpt_quantizer *q) {
    return hadamard_word(q, "scope");
}

const char *mpt_plan_redraw(const mpt_quantizer *q) {
    return hadamard_word(q, "redraw");
}

void mpt_plan_block(const mpt_quantizer *q, char out[MPT_PLAN_LABEL]) {
    const char *word = word_of(q, "block", NULL);
    if (q->scale.kind == MPT_SCALING_NONE)
        snprintf(out, MPT_PLAN_LABEL, "-");
    else if (word)
        snprintf(out, MPT_PLAN_LABEL, "%s", word);
    else
        snprintf(out, MPT_PLAN_LABEL, "%dx%d", (int)q->block_rows, (int)q->block_cols);
}

const char *mpt_plan_nonfinite(const mpt_quantizer *q) {
    return word_of(q, "nonfinite", "none");
}

const char *mpt_plan_source(const mpt_quantizer *q) {
    return word_of(q, "source", "none");
}

const char *mpt_plan_pad(const mpt_quantizer *q) {
    return word_of(q, "pad", "none");
}

void mpt_plan_label(const mpt_policy *policy, char out[MPT_PLAN_LABEL]) {
    size_t used = 0;
    out[0] = 0;
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        const char *format = mpt_plan_format(&policy->slot[s]);
        bool seen = false;
        for (int before = 0; before < s && !seen; before++)
            seen = strcmp(format, mpt_plan_format(&policy->slot[before])) == 0;
        if (seen || used >= MPT_PLAN_LABEL - 1)
            continue;
        int n = snprintf(out + used, MPT_PLAN_LABEL - used, "%s%s", used ? "+" : "", format);
        used += n > 0 ? (size_t)n : 0;
    }
}

void mpt_plan_model(const mpt_program *program, char *out, size_t size) {
    const mpt_recipe *recipe = program->recipe;
    const mpt_model_ref *model = program->proxy ? &recipe->proxy : &recipe->model;
    bool sized = model->size && *model->size;
    snprintf(out, size, "%s%s%s", model->name ? model->name : "model", sized ? " " : "",
             sized ? model->size : "");
}

/* ---- coverage ---- */

static bool is_linear(const mpt_layer *layer) {
    return layer->kind == MPT_LAYER_LINEAR;
}

static bool same_policy(const mpt_policy *a, const mpt_policy *b) {
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (!mpt_quantizer_equal(&a->slot[s], &b->slot[s]))
            return false;
    return memcmp(a->output, b->output, sizeof a->output) == 0 &&
           memcmp(a->accumulate, b->accumulate, sizeof a->accumulate) == 0 &&
           memcmp(a->promote, b->promote, sizeof a->promote) == 0;
}

static mpt_plan_cover *find_cover(mpt_arena *arena, mpt_plan_phase *phase, int *cap,
                                  const char *label) {
    for (int i = 0; i < phase->n_covers; i++)
        if (strcmp(phase->covers[i].label, label) == 0)
            return &phase->covers[i];
    mpt_plan_cover *covers =
        mpt_arena_grow(arena, phase->covers, sizeof *covers, phase->n_covers, cap);
    if (!covers)
        return NULL;
    phase->covers = covers;
    mpt_plan_cover *cover = &covers[phase->n_covers++];
    *cover = (mpt_plan_cover){.n_layers = 0};
    snprintf(cover->label, sizeof cover->label, "%s", label);
    return cover;
}

/* Most layers first; equal counts by label, so that the order is always the same. */
static int by_layers(const void *left, const void *right) {
    const mpt_plan_cover *a = left, *b = right;
    if (a->n_layers != b->n_layers)
        return a->n_layers > b->n_layers ? -1 : 1;
    return strcmp(a->label, b->label);
}

static mpt_status cover_phase(mpt_arena *arena, const mpt_phase_program *program,
                              mpt_plan_phase *phase) {
    const mpt_graph *graph = program->graph;
    int cap = 0;
    for (int i = 0; i < graph->n_layers; i++) {
        char label[MPT_PLAN_LABEL];
        const mpt_layer *layer = &graph->layers[i];
        if (!is_linear(layer))
            continue;
        mpt_plan_label(&program->policies[i], label);
        mpt_plan_cover *cover = find_cover(arena, phase, &cap, label);
        if (!cover)
            return MPT_OUT_OF_MEMORY;
        cover->n_layers++;
        int64_t experts = layer->n_experts > 0 ? layer->n_experts : 1;
        cover->n_parameters += experts * layer->in_features * layer->out_features;
    }
    if (phase->n_covers > 1)
        qsort(phase->covers, (size_t)phase->n_covers, sizeof *phase->covers, by_layers);
    return MPT_OK;
}

/* ---- phases ---- */

/* Phases draw the same graph, so layer i is the same layer in both. */
static int count_changed(const mpt_phase_program *before, const mpt_phase_program *after) {
    int n = 0;
    for (int i = 0; i < after->graph->n_layers; i++)
        n += is_linear(&after->graph->layers[i]) &&
             !same_policy(&before->policies[i], &after->policies[i]);
    return n;
}

/* The operand of this name whose history a graph keeps, or NULL. */
static const mpt_graph_operand *find_history(const mpt_graph *graph, const char *name) {
    for (int i = 0; i < graph->n_operands; i++)
        if (graph->operands[i].scale >= 0 && strcmp(graph->operands[i].name, name) == 0)
            return &graph->operands[i];
    return NULL;
}

/* Who enters delayed scaling between two phases, and with which scales. */
static void count_entering(const mpt_graph *before, const mpt_graph *after,
                           mpt_plan_phase *phase) {
    for (int i = 0; i < after->n_operands; i++) {
        const mpt_graph_operand *operand = &after->operands[i];
        if (operand->scale < 0 || operand->recorded)
            continue;
        const mpt_graph_operand *had = find_history(before, operand->name);
        phase->n_entering += !had || had->recorded;
        phase->n_warm += had && had->recorded;
    }
}

/* The step at which a phase begins; a run that is too short for it never comes there. */
static int64_t start_of(const mpt_program *program, int p) {
    int64_t end = program->train.steps;
    return p < program->n_phases && program->phase_start[p] < end ? program->phase_start[p]
                                                                  : end;
}

static mpt_status collect_phases(const mpt_program *program, mpt_arena *arena, mpt_plan *out) {
    size_t bytes = mpt_size_mul((size_t)program->n_phases, sizeof *out->phases);
    out->n_phases = program->n_phases;
    out->phases = mpt_arena_alloc(arena, bytes);
    if (!out->phases)
        return MPT_OUT_OF_MEMORY;
    for (int p = 0; p < program->n_phases; p++) {
        mpt_plan_phase *phase = &out->phases[p];
        phase->name = program->phases[p]->phase;
        phase->from = start_of(program, p);
        phase->steps = start_of(program, p + 1) - phase->from;
        if (phase->steps == 0 && out->first == p && p + 1 < program->n_phases)
            out->first = p + 1;
        phase->hash = program->phases[p]->schedule_hash;
        phase->by_applied = mpt_program_by_applied(program, p);
        if (p > 0) {
            phase->n_changed = count_changed(program->phases[p - 1], program->phases[p]);
            count_entering(program->phases[p - 1]->graph, program->phases[p]->graph, phase);
        }
        MPT_TRY(cover_phase(arena, program->phases[p], phase));
    }
    return MPT_OK;
}

/* ---- the whole ---- */

/* All parameters, and those that work on a token: of experts, as many as it goes to. */
static void count_parameters(const mpt_graph *graph, mpt_plan *out) {
    for (int i = 0; i < graph->n_params; i++) {
        const mpt_param *param = &graph->params[i];
        int64_t n = mpt_value_elements(&graph->values[param->value]);
        out->n_parameters += n;
        out->n_active +=
            param->n_experts > 0 ? n / param->n_experts * graph->layers[param->layer].top_k : n;
    }
}

mpt_status mpt_plan_collect(const mpt_program *program, mpt_arena *arena, mpt_plan *out) {
    *out = (mpt_plan){.program = program};
    MPT_TRY(collect_phases(program, arena, out));
    const mpt_graph *graph = out->graph = program->phases[out->first]->graph;
    count_parameters(graph, out);
    for (int i = 0; i < graph->n_layers; i++)
        out->n_linear += is_linear(&graph->layers[i]);
    MPT_TRY(mpt_plan_sum_bytes(program, out));
    MPT_TRY(mpt_plan_sum_work(arena, out));
    return mpt_plan_find_defaults(arena, out);
}
