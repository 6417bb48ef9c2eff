/* An explanation as JSON: every layer on its own, every field with its value and its origin.
 *
 * Every function gives NULL where memory ran out, and jansson passes NULL on. */
#include "plan/explain.h"

#include "plan/json.h"
#include "recipe/schema_store.h"
#include "recipe/use.h"

#include <stdio.h>
#include <string.h>

static json_t *append(json_t *array, json_t *item) {
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* json_object_set_new that gives the object back, or NULL. */
static json_t *put(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static const char *how_word(mpt_decision how) {
    static const char *const words[] = {"default",         "said",   "by format",
                                        "by scale_format", "by ops", "by pad"};
    return words[how];
}

/* {"value", "at", "rule", "how"}; at: null where nothing but a default decided. */
static json_t *value_json(const mpt_explained_phase *phase, const char *value,
                          const mpt_origin *origin) {
    char rule[MPT_RULE_PATH];
    mpt_where where = origin->where;
    if (origin->rule < 0)
        return json_pack("{s:o, s:o, s:n, s:s}", "value", mpt_json_text(value), "at",
                         mpt_json_where(where), "rule", "how", how_word(origin->how));
    const mpt_cascade_rule *said = &phase->cascade.rules[origin->rule];
    mpt_rule_path(said, rule);
    if (!where.file)
        where = said->rule->where;
    return json_pack("{s:o, s:o, s:s, s:s}", "value", mpt_json_text(value), "at",
                     where.file ? mpt_json_where(where) : json_string("host"), "rule", rule,
                     "how", how_word(origin->how));
}

static json_t *slot_json(const mpt_explained_phase *phase, const mpt_explanation *x, int slot) {
    char value[MPT_QUANTIZER_TEXT];
    json_t *object = json_object();
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++) {
        mpt_quantizer_field_text(&x->slot[slot], f, value);
        object = put(object, mpt_record_quantizer.fields[f].name,
                     value_json(phase, value, &x->field[slot][f]));
    }
    return object;
}

static json_t *gemm_json(const mpt_explained_phase *phase, const mpt_explanation *x,
                         mpt_gemm gemm) {
    json_t *object = json_object();
    mpt_slot slots[2];
    mpt_gemm_slots(gemm, slots);
    for (int i = 0; i < 2; i++) {
        const char *name = strchr(mpt_slot_name(slots[i]), '.') + 1;
        object = put(object, name, slot_json(phase, x, (int)slots[i]));
    }
    char promote[32] = "never";
    if (x->promote[gemm] > 0)
        snprintf(promote, sizeof promote, "%d", (int)x->promote[gemm]);
    object = put(object, "output",
                 value_json(phase, mpt_dtype_name(x->output[gemm]), &x->output_why[gemm]));
    object =
        put(object, "accumulate",
            value_json(phase, mpt_dtype_name(x->accumulate[gemm]), &x->accumulate_why[gemm]));
    return put(object, "promote", value_json(phase, promote, &x->promote_why[gemm]));
}

static json_t *rules_json(const mpt_explained_phase *phase, int layer) {
    char path[MPT_RULE_PATH];
    json_t *array = json_array();
    for (int r = 0; array && r < phase->cascade.n_rules; r++) {
        const mpt_cascade_rule *rule = &phase->cascade.rules[r];
        if (!mpt_cascade_matches(&phase->cascade, r, layer))
            continue;
        mpt_rule_path(rule, path);
        array =
            append(array, json_pack("{s:s, s:o}", "rule", path, "at",
                                    rule->rule->where.file ? mpt_json_where(rule->rule->where)
                                                           : json_string("host")));
    }
    return array;
}

static json_t *phase_json(const mpt_explained_phase *phase, int layer) {
    const mpt_explanation *x = &phase->layers[layer];
    json_t *object = json_pack("{s:o, s:I, s:o}", "name", mpt_json_text(phase->name), "from",
                               (json_int_t)phase->from, "rules", rules_json(phase, layer));
    for (int g = 0; x->has_gemms && g < MPT_GEMM_COUNT; g++)
        object = put(object, mpt_gemm_name((mpt_gemm)g), gemm_json(phase, x, (mpt_gemm)g));
    if (x->has_gemms)
        return object;
    object =
        put(object, "compute", value_json(phase, mpt_dtype_name(x->compute), &x->compute_why));
    if (x->has_softmax)
        object = put(object, "softmax",
                     value_json(phase, mpt_dtype_name(x->softmax), &x->softmax_why));
    return object;
}

static json_t *layer_json(const mpt_explained *e, int index) {
    const mpt_layer *layer = &e->graph->layers[index];
    json_t *parts = json_array(), *phases = json_array();
    for (int i = 0; parts && i < layer->n_parts; i++)
        parts = append(parts, mpt_json_text(layer->parts[i]));
    for (int p = 0; phases && p < e->n_phases; p++)
        phases = append(phases, phase_json(&e->phases[p], index));
    return json_pack("{s:o, s:s, s:i, s:I, s:I, s:o, s:o}", "path", mpt_json_text(layer->path),
                     "kind", mpt_layer_kind_name(layer->kind), "block", layer->block,
                     "in_features", (json_int_t)layer->in_features, "out_features",
                     (json_int_t)layer->out_features, "parts", parts, "phases", phases);
}

mpt_status mpt_explain_json(const mpt_explained *e, mpt_str *out) {
    char model[256];
    json_t *layers = json_array();
    mpt_plan_model(e->program, model, sizeof model);
    for (int i = 0; layers && i < e->graph->n_layers; i++)
        if (e->set.in[i])
            layers = append(layers, layer_json(e, i));
    json_t *json =
        json_pack("{s:o, s:o, s:o}", "recipe", mpt_json_text(e->program->recipe->name), "model",
                  mpt_json_text(model), "layers", layers);
    return mpt_json_print(e->program->ctx, json, out);
}
