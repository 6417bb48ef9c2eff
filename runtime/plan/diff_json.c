/* A difference as JSON: the same facts as the text, none left out.
 *
 * Every function gives NULL where memory ran out, and jansson passes NULL on. */
#include "plan/diff.h"

#include "plan/json.h"

static json_t *append(json_t *array, json_t *item) {
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *text_or_null(const char *text) {
    return text ? mpt_json_text(text) : json_null();
}

static json_t *rows_json(const mpt_diff_rows *rows) {
    json_t *array = json_array();
    for (int i = 0; array && i < rows->n; i++)
        array = append(array,
                       json_pack("{s:o, s:o, s:o}", "name", mpt_json_text(rows->rows[i].name),
                                 "a", text_or_null(rows->rows[i].a), "b",
                                 text_or_null(rows->rows[i].b)));
    return array;
}

static json_t *side_json(const mpt_program *program) {
    char model[256];
    json_t *hashes = json_array();
    mpt_plan_model(program, model, sizeof model);
    for (int p = 0; hashes && p < program->n_phases; p++)
        hashes = append(hashes, json_string(program->phases[p]->schedule_hash));
    return json_pack("{s:o, s:o, s:o, s:s, s:o}", "recipe",
                     mpt_json_text(program->recipe->name), "file",
                     text_or_null(program->recipe->file), "model", mpt_json_text(model),
                     "recipe_hash", program->recipe_hash, "schedule_hashes", hashes);
}

static json_t *set_json(const mpt_layer_set *set) {
    json_t *array = json_array();
    for (int i = 0; array && i < set->graph->n_layers; i++)
        if (set->in[i])
            array = append(array, mpt_json_text(set->graph->layers[i].path));
    return array;
}

static json_t *groups_json(const mpt_diff_pair *pair) {
    json_t *array = json_array();
    for (int g = 0; array && g < pair->n_groups; g++)
        array = append(array, json_pack("{s:o, s:o}", "layers", set_json(&pair->groups[g].set),
                                        "differences", rows_json(&pair->groups[g].rows)));
    return array;
}

static json_t *covers_json(const mpt_diff_pair *pair) {
    json_t *array = json_array();
    for (int i = 0; array && i < pair->n_covers; i++) {
        const mpt_diff_cover *cover = &pair->covers[i];
        array = append(array,
                       json_pack("{s:s, s:s, s:o, s:o}", "side", cover->side == 0 ? "a" : "b",
                                 "kind", mpt_layer_kind_name(cover->kind), "precision",
                                 mpt_json_text(cover->label), "layers", set_json(&cover->set)));
    }
    return array;
}

static json_t *pairs_json(const mpt_diff *diff) {
    json_t *array = json_array();
    for (int i = 0; array && i < diff->n_pairs; i++) {
        const mpt_diff_pair *pair = &diff->pairs[i];
        const char *a = diff->side[0]->phases[pair->phase[0]]->phase;
        const char *b = diff->side[1]->phases[pair->phase[1]]->phase;
        array = append(array, json_pack("{s:o, s:o, s:o, s:o, s:o}", "a", mpt_json_text(a), "b",
                                        mpt_json_text(b), "groups", groups_json(pair), "kinds",
                                        covers_json(pair), "operands", rows_json(&pair->ways)));
    }
    return array;
}

mpt_status mpt_diff_json(const mpt_diff *diff, mpt_str *out) {
    json_t *json =
        json_pack("{s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:i}", "a",
                  side_json(diff->side[0]), "b", side_json(diff->side[1]), "identical",
                  (int)(mpt_diff_is_empty(diff) && diff->same_schedules), "same_schedules",
                  (int)diff->same_schedules, "same_layers", (int)diff->same_layers, "model",
                  rows_json(&diff->model), "precision", rows_json(&diff->precision), "phases",
                  pairs_json(diff), "training", rows_json(&diff->training), "proxy_fields",
                  diff->n_proxy);
    return mpt_json_print(diff->ctx, json, out);
}
