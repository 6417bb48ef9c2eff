/* The plan as JSON, for scripts: `mptrun plan --json` and plan.json of a run folder.
 *
 * Sizes that span a whole dimension are 0 in a block, as in the quantizer itself. The first
 * running phase's coverage and layers stand at the top; each phase repeats its own coverage.
 * Every function gives NULL where memory ran out; jansson passes NULL on, so one test at the
 * end is enough. */
#include "plan/plan.h"

#include <math.h>

#include "plan/json.h"

static json_t *integer(double value) {
    return json_integer((json_int_t)llround(value));
}

/* {"nvfp4": 104, "bf16": 20}; with_parameters: weights instead of layers */
static json_t *coverage(const mpt_plan_phase *phase, bool with_parameters) {
    json_t *object = json_object();
    for (int i = 0; i < phase->n_covers; i++) {
        const mpt_plan_cover *cover = &phase->covers[i];
        json_int_t n = with_parameters ? cover->n_parameters : cover->n_layers;
        if (json_object_set_new(object, cover->label, json_integer(n)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *bytes(const mpt_plan *plan) {
    json_t *object = json_object();
    for (int c = 0; c < MPT_MEMORY_CLASS_COUNT; c++)
        json_object_set_new(object, mpt_memory_class_name((mpt_memory_class)c),
                            json_integer((json_int_t)plan->bytes[c]));
    if (json_object_set_new(object, "total", json_integer((json_int_t)plan->bytes_total)) !=
            0 ||
        json_object_size(object) != MPT_MEMORY_CLASS_COUNT + 1) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *flops(const mpt_plan_flops *f) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "fprop", integer(f->fprop), "dgrad",
                     integer(f->dgrad), "wgrad", integer(f->wgrad), "attention",
                     integer(f->attention), "recompute", integer(f->recompute), "other",
                     integer(f->other));
}

/* The activations of the phase that needs most, both ways. */
static json_t *recompute(const mpt_plan *plan) {
    return json_pack("{s:I, s:o, s:o}", "every",
                     (json_int_t)plan->program->train.recompute.every, "activations_kept",
                     integer((double)plan->activations_kept), "activations_recomputed",
                     integer((double)plan->activations_recomputed));
}

/* Appends to an array; gives NULL, and frees it, where that fails. */
static json_t *append(json_t *array, json_t *item) {
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* What operands that enter delayed scaling begin with. */
static const char *histories(const mpt_plan_phase *phase) {
    if (phase->n_entering == 0)
        return "none";
    return phase->n_warm == phase->n_entering ? "warm" : "current";
}

static json_t *phases(const mpt_plan *plan) {
    json_t *array = json_array();
    for (int p = 0; array && p < plan->n_phases; p++) {
        const mpt_plan_phase *phase = &plan->phases[p];
        json_t *item =
            json_pack("{s:o, s:I, s:s, s:s, s:I, s:o, s:i, s:s}", "name",
                      mpt_json_text(phase->name), "from", (json_int_t)phase->from, "by",
                      phase->by_applied ? "applied" : "attempted", "schedule_hash", phase->hash,
                      "steps", (json_int_t)phase->steps, "coverage", coverage(phase, false),
                      "layers_changed", phase->n_changed, "histories", histories(phase));
        array = append(array, item);
    }
    return array;
}

static json_t *decided_by(const mpt_policy *policy) {
    json_t *array = json_array();
    for (int i = 0; array && i < policy->n_decided; i++)
        array = append(array, mpt_json_where(policy->decided_by[i]));
    return array;
}

static json_t *slot(const mpt_policy *policy, mpt_slot at) {
    return mpt_json_quantizer(&policy->slot[at]);
}

static json_t *sum(const mpt_policy *policy, mpt_gemm gemm) {
    return mpt_json_sum(policy->accumulate[gemm], policy->promote[gemm]);
}

static json_t *sums(const mpt_policy *policy) {
    return json_pack("{s:o, s:o, s:o}", "fprop", sum(policy, MPT_GEMM_FPROP), "dgrad",
                     sum(policy, MPT_GEMM_DGRAD), "wgrad", sum(policy, MPT_GEMM_WGRAD));
}

static json_t *layer_json(const mpt_layer *layer, const mpt_policy *policy) {
    return json_pack(
        "{s:o, s:i, s:s, s:I, s:I, s:{s:o, s:o}, s:{s:o, s:o}, s:{s:o, s:o}, s:o, s:s, s:o}",
        "path", mpt_json_text(layer->path), "block", layer->block, "kind",
        mpt_layer_kind_name(layer->kind), "in_features", (json_int_t)layer->in_features,
        "out_features", (json_int_t)layer->out_features,                                   //
        "fprop", "x", slot(policy, MPT_SLOT_FPROP_X), "w", slot(policy, MPT_SLOT_FPROP_W), //
        "dgrad", "dy", slot(policy, MPT_SLOT_DGRAD_DY), "w", slot(policy, MPT_SLOT_DGRAD_W),
        "wgrad", "dy", slot(policy, MPT_SLOT_WGRAD_DY), "x", slot(policy, MPT_SLOT_WGRAD_X),
        "sums", sums(policy), "output", mpt_dtype_name(policy->output[MPT_GEMM_FPROP]),
        "decided_by", decided_by(policy));
}

static json_t *layers(const mpt_plan *plan) {
    json_t *array = json_array();
    for (int i = 0; array && i < plan->graph->n_layers; i++) {
        const mpt_layer *layer = &plan->graph->layers[i];
        if (layer->kind == MPT_LAYER_LINEAR)
            array = append(array,
                           layer_json(layer, &plan->program->phases[plan->first]->policies[i]));
    }
    return array;
}

static json_t *warnings(const mpt_program *program) {
    json_t *array = json_array();
    for (int i = 0; array && i < program->n_warnings; i++) {
        const mpt_warning *w = &program->warnings[i];
        array =
            append(array, json_pack("{s:s, s:o, s:o}", "name", w->name, "where",
                                    mpt_json_where(w->where), "text", mpt_json_text(w->text)));
    }
    return array;
}

mpt_status mpt_plan_json(const mpt_program *program, mpt_str *out) {
    mpt_plan plan;
    mpt_arena arena;
    mpt_arena_init(&arena, program->ctx);
    mpt_status status = mpt_plan_collect(program, &arena, &plan);
    if (status == MPT_OK) {
        char name[256];
        mpt_plan_model(program, name, sizeof name);
        json_t *json = json_pack(
            "{s:o, s:o, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "recipe",
            mpt_json_text(program->recipe->name), "model", mpt_json_text(name), "parameters",
            (json_int_t)plan.n_parameters, "blocks", plan.graph->n_blocks, "linear_layers",
            plan.n_linear, "coverage", coverage(&plan.phases[plan.first], false),
            "coverage_parameters", coverage(&plan.phases[plan.first], true), "bytes",
            bytes(&plan), "recompute", recompute(&plan), "flops_per_token", flops(&plan.flops),
            "phases", phases(&plan), "layers", layers(&plan), "warnings", warnings(program));
        status = mpt_json_print(program->ctx, json, out);
    }
    mpt_arena_deinit(&arena);
    return status;
}
