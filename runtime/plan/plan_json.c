/* The plan as JSON, for scripts: `mptrun plan --json` and plan.json of a run folder.
 *
 * Sizes that span a whole dimension are 0 in a block, as in the quantizer itself. The first
 * running phase's coverage and layers stand at the top; each phase repeats its own coverage.
 * Every function gives NULL where memory ran out; jansson passes NULL on, so one test at the
 * end is enough. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "exec/backend.h"
#include "plan/fields.h"
#include "plan/json.h"
#include "plan/plan_watch.h"
#include "recipe/use.h"

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
                            json_integer((json_int_t)plan->bytes.of[c]));
    if (json_object_set_new(object, "total", json_integer((json_int_t)plan->bytes.total)) !=
            0 ||
        json_object_size(object) != MPT_MEMORY_CLASS_COUNT + 1) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* The activations of the phase that needs most, both ways. */
static json_t *recompute(const mpt_plan *plan) {
    return json_pack("{s:I, s:o, s:o}", "every",
                     (json_int_t)plan->program->train.recompute.every, "activations_kept",
                     integer((double)plan->activations_kept), "activations_recomputed",
                     integer((double)plan->activations_recomputed));
}

static json_t *shares(const mpt_plan_shares *of) {
    json_t *object = json_object();
    for (int i = 0; i < of->n; i++) {
        json_int_t n = (json_int_t)of->of[i].bytes;
        if (json_object_set_new(object, of->of[i].format, json_integer(n)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* What the classes hold; activations at the step at which most live. */
static json_t *bytes_by_format(const mpt_plan *plan) {
    const mpt_plan_shares *of = plan->bytes.shares;
    return json_pack(
        "{s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "master", shares(&of[MPT_MEMORY_MASTER]),
        "gradient", shares(&of[MPT_MEMORY_GRADIENT]), "optimizer",
        shares(&of[MPT_MEMORY_OPTIMIZER]), "working_weights", "rows",
        shares(&of[MPT_MEMORY_WORKING_WEIGHTS]), "columns", shares(&plan->bytes.columns),
        "activations", shares(&of[MPT_MEMORY_ACTIVATIONS]));
}

static json_t *flops(const mpt_plan_flops *f, double times) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "fprop", integer(f->fprop * times),
                     "dgrad", integer(f->dgrad * times), "wgrad", integer(f->wgrad * times),
                     "attention", integer(f->attention * times), "recompute",
                     integer(f->recompute * times), "other", integer(f->other * times));
}

/* GEMMs that each GPU multiplies by itself, out of how many. */
static json_t *hardware(const mpt_plan *plan) {
    json_t *object = json_object();
    for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++) {
        json_t *counts = json_pack("{s:i, s:i}", "native", plan->n_native[t], "emulated",
                                   plan->n_gemms - plan->n_native[t]);
        if (json_object_set_new(object, mpt_target_name((mpt_target)t), counts) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
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
        json_t *item = json_pack(
            "{s:o, s:I, s:s, s:s, s:I, s:o, s:i, s:s, s:f}", "name", mpt_json_text(phase->name),
            "from", (json_int_t)phase->from, "by", phase->by_applied ? "applied" : "attempted",
            "schedule_hash", phase->hash, "steps", (json_int_t)phase->steps, "coverage",
            coverage(phase, false), "layers_changed", phase->n_changed, "histories",
            histories(phase), "speedup_bound", phase->bound);
        array = append(array, item);
    }
    return array;
}

/* ---- what was filled in, what fell back ---- */

static json_t *defaults(const mpt_plan *plan) {
    json_t *array = json_array();
    for (int i = 0; array && i < plan->n_defaults; i++)
        array = append(array, json_pack("{s:s, s:o}", "path", plan->defaults[i].path, "value",
                                        mpt_json_text(plan->defaults[i].value)));
    return array;
}

static json_t *fallback(const mpt_layer *layer, mpt_slot slot, const mpt_fallback *f) {
    return json_pack("{s:o, s:s, s:s, s:s, s:I, s:s, s:i}", "layer", mpt_json_text(layer->path),
                     "slot", mpt_slot_name(slot), "from", f->from, "to", "bf16", "extent",
                     (json_int_t)f->extent, "of", f->word, "multiple", (int)f->block);
}

static json_t *fallbacks(const mpt_plan *plan) {
    const mpt_policy *policies = plan->program->phases[plan->first]->policies;
    json_t *array = json_array();
    for (int i = 0; i < plan->graph->n_layers; i++)
        for (int s = 0; array && s < MPT_SLOT_COUNT; s++)
            if (policies[i].fallback[s].from)
                array = append(array, fallback(&plan->graph->layers[i], (mpt_slot)s,
                                               &policies[i].fallback[s]));
    return array;
}

/* ---- layers ---- */

static json_t *decided_by(const mpt_policy *policy) {
    json_t *array = json_array();
    for (int i = 0; array && i < policy->n_decided; i++)
        array = append(array, mpt_json_where(policy->decided_by[i]));
    return array;
}

/* A GEMM: its two operands, whether the target multiplies them by itself, and as what; null for
 * the host, of which that is not asked, and for a GEMM that is not there. */
static json_t *gemm_json(const mpt_plan *plan, int layer, mpt_gemm gemm) {
    const mpt_policy *policy = &plan->program->phases[plan->first]->policies[layer];
    const mpt_plan_native *native = plan->natives ? &plan->natives[layer][gemm] : NULL;
    mpt_slot slots[2];
    mpt_gemm_slots(gemm, slots);
    bool there = native && native->there;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", strchr(mpt_slot_name(slots[0]), '.') + 1,
                     mpt_json_quantizer(&policy->slot[slots[0]]),
                     strchr(mpt_slot_name(slots[1]), '.') + 1,
                     mpt_json_quantizer(&policy->slot[slots[1]]), "native",
                     there ? json_boolean(native->native) : json_null(), "as",
                     there ? json_string(mpt_way_name(native->way)) : json_null(), "why",
                     native && native->why ? json_string(native->why) : json_null());
}

static json_t *sum(const mpt_policy *policy, mpt_gemm gemm) {
    return mpt_json_sum(policy->accumulate[gemm], policy->promote[gemm]);
}

static json_t *sums(const mpt_policy *policy) {
    return json_pack("{s:o, s:o, s:o}", "fprop", sum(policy, MPT_GEMM_FPROP), "dgrad",
                     sum(policy, MPT_GEMM_DGRAD), "wgrad", sum(policy, MPT_GEMM_WGRAD));
}

static json_t *layer_json(const mpt_plan *plan, int index) {
    const mpt_layer *layer = &plan->graph->layers[index];
    const mpt_policy *policy = &plan->program->phases[plan->first]->policies[index];
    return json_pack(
        "{s:o, s:i, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:s, s:o}", "path",
        mpt_json_text(layer->path), "block", layer->block, "kind",
        mpt_layer_kind_name(layer->kind), "in_features", (json_int_t)layer->in_features,
        "out_features", (json_int_t)layer->out_features, "fprop",
        gemm_json(plan, index, MPT_GEMM_FPROP), "dgrad", gemm_json(plan, index, MPT_GEMM_DGRAD),
        "wgrad", gemm_json(plan, index, MPT_GEMM_WGRAD), "sums", sums(policy), "output",
        mpt_dtype_name(policy->output[MPT_GEMM_FPROP]), "decided_by", decided_by(policy));
}

static json_t *layers(const mpt_plan *plan) {
    json_t *array = json_array();
    for (int i = 0; array && i < plan->graph->n_layers; i++)
        if (plan->graph->layers[i].kind == MPT_LAYER_LINEAR)
            array = append(array, layer_json(plan, i));
    return array;
}

/* ---- the whole ---- */

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

/* Where the plan's bytes are: what computes them, and the device that is asked about. */
static const char *backend_name(const mpt_program *program) {
    return program->target == MPT_TARGET_HOST ? program->phases[0]->backend->name : "cuda";
}

/* What evaluation uses in fprop; null where it has no precision of its own. */
static json_t *evaluation(const mpt_program *program) {
    mpt_str text;
    mpt_str_init(&text, program->ctx);
    bool own = mpt_program_eval_text(program, false, &text);
    json_t *json = !own                        ? json_null()
                   : text.data && !text.failed ? json_string(text.data)
                                               : NULL;
    mpt_str_deinit(&text);
    return json;
}

/* What is trained on: in words, how often, and its entropies in nats a token, null where
 * unknown. Null as a whole where the host gives all tokens. */
static json_t *training_data(const mpt_program *program) {
    const char *run = program->data ? mpt_data_describe_run(program->data) : NULL;
    if (!program->data || program->phases[0]->graph->own_tokens)
        return json_null();
    double floor = mpt_data_entropy(program->data);
    double unigram = mpt_data_unigram_entropy(program->data);
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "source",
                     mpt_json_text(mpt_data_describe(program->data)), "windows",
                     run ? mpt_json_text(run) : json_null(), "epochs",
                     run ? json_real(mpt_data_epochs(program->data)) : json_null(), "floor",
                     isfinite(floor) ? json_real(floor) : json_null(), "unigram",
                     isfinite(unigram) ? json_real(unigram) : json_null());
}

/* What of the canonical text is about the training that runs, and about its data where the
 * recipe gives it. */
static bool is_of_training(const mpt_program *program, const mpt_field_line *line) {
    if (mpt_field_starts(line, "data"))
        return !program->data_given;
    return mpt_field_starts(line, "train") &&
           mpt_field_starts(line, "train.proxy") == program->proxy;
}

/* {"train.lr.peak": "0.001", ...} */
static json_t *training_fields(const mpt_program *program, mpt_arena *arena) {
    mpt_field_line line;
    json_t *object = json_object();
    const char *rest = program->fields;
    while (object && mpt_field_next(&rest, &line)) {
        if (!is_of_training(program, &line))
            continue;
        const char *name = mpt_arena_printf(arena, "%.*s", (int)line.n_name, line.name);
        const char *value =
            name ? mpt_field_readable(arena, name, line.value, line.n_value) : NULL;
        if (!value || json_object_set_new(object, name, mpt_json_text(value)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static json_t *training(const mpt_program *program, mpt_arena *arena) {
    const mpt_train *train = &program->train;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "steps", (json_int_t)train->steps,
        "batch", (json_int_t)train->batch, "micro_batch", (json_int_t)train->micro_batch,
        "sequence", (json_int_t)train->sequence, "seed", (json_int_t)train->seed, "checkpoint",
        mpt_plan_checkpoint_json(train), "watch", mpt_plan_watch_json(train), "telemetry",
        mpt_plan_telemetry_json(train), "fields", training_fields(program, arena));
}

static json_t *whole(const mpt_program *program, const mpt_plan *plan, mpt_arena *arena) {
    char model[256];
    mpt_plan_model(program, model, sizeof model);
    double step = (double)program->train.batch * (double)program->train.sequence;
    return json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "recipe", mpt_json_text(program->recipe->name), "model", mpt_json_text(model),
        "recipe_hash", program->recipe_hash, "backend", backend_name(program), "target",
        mpt_target_name(program->target), "parameters", (json_int_t)plan->n_parameters,
        "active_parameters", (json_int_t)plan->n_active, "blocks", plan->graph->n_blocks,
        "linear_layers", plan->n_linear, "coverage",
        coverage(&plan->phases[plan->first], false), "coverage_parameters",
        coverage(&plan->phases[plan->first], true), "bytes", bytes(plan), "recompute",
        recompute(plan), "bytes_by_format", bytes_by_format(plan), "flops_per_token",
        flops(&plan->flops, 1), "flops_per_step", flops(&plan->flops, step), "speedup_bound",
        plan->bound, "hardware", hardware(plan), "phases", phases(plan), "defaults",
        defaults(plan), "fallbacks", fallbacks(plan), "layers", layers(plan), "warnings",
        warnings(program), "evaluation", evaluation(program), "data", training_data(program),
        "train", training(program, arena));
}

mpt_status mpt_plan_json(const mpt_program *program, mpt_str *out) {
    mpt_plan plan;
    mpt_arena arena;
    mpt_arena_init(&arena, program->ctx);
    mpt_status status = mpt_plan_collect(program, &arena, &plan);
    if (status == MPT_OK)
        status = mpt_json_print(program->ctx, whole(program, &plan, &arena), out);
    mpt_arena_deinit(&arena);
    return status;
}
