/* A comparison as JSON: an array with an object a recipe. What is not known is null. Every
 * function gives NULL where memory ran out; jansson passes it on. */
#include "plan/json.h"

#include <math.h>

#include "report/compare.h"

static json_t *real(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *count(uint64_t n) {
    return json_integer((json_int_t)n);
}

static const char *outcome_name(mpt_compare_outcome outcome) {
    static const char *const names[] = {"base",     "within", "beyond",
                                        "measured", "broke",  "unfinished"};
    return names[outcome];
}

/* {"nvfp4": 36000, "e5m2 x e4m3": 12} */
static json_t *gemms(const mpt_gemm_list *list) {
    json_t *object = json_object();
    char name[64];
    uint64_t runs;
    for (int i = 0; object && mpt_gemm_list_pair(list, i, name, &runs); i++)
        if (json_object_set_new(object, name, count(runs)) != 0) {
            json_decref(object);
            object = NULL;
        }
    return object;
}

/* One object a point; `difference` and `loss` were made at the same ones. */
static json_t *over_time(const mpt_band *loss, const mpt_band *difference) {
    json_t *array = json_array();
    for (int i = 0; array && i < loss->n; i++) {
        json_t *point =
            json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)llround(loss->tokens[i]),
                      "loss", real(loss->mean[i]), "relative_difference",
                      real(difference->mean[i]), "noise", real(difference->spread[i]));
        if (json_array_append_new(array, point) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *notes(const mpt_comparison *c, const mpt_compared *r) {
    json_t *array = json_array();
    for (int i = 0; array && i < c->n_flags; i++)
        if (&c->recipes[c->flags[i].recipe] == r &&
            json_array_append_new(array, mpt_json_text(c->flags[i].text)) != 0) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *row_json(const mpt_comparison *c, const mpt_compared *r) {
    const mpt_comparison_row *row = &r->row;
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:s, s:i, s:i, s:i, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o}",
        "recipe", mpt_json_text(row->recipe), "recipe_hash", row->recipe_hash, "schedule_hash",
        mpt_json_text(row->schedule_hash), "verdict", mpt_json_text(c->verdict), "outcome",
        outcome_name(row->outcome), "planned", row->n_planned, "runs", row->n_runs, "whole",
        row->n_whole, "final_loss", real(row->final_loss), "loss_of",
        c->validates ? "validation" : "training", "relative_difference",
        real(row->relative_difference), "noise", real(row->noise), "quantized_gemms",
        count(row->quantized_gemms), "gemms", count(row->gemms), "gemms_by_format",
        gemms(&r->gemms), "tokens_per_s", real(row->tokens_per_s), "bytes", count(row->bytes),
        "notes", notes(c, r), "training", over_time(&r->loss, &r->difference), "validation",
        over_time(&r->eval_loss, &r->eval_difference), "device",
        *row->device ? mpt_json_text(row->device) : json_null());
}

mpt_status mpt_compare_json(const mpt_comparison *c, mpt_str *out) {
    json_t *array = json_array();
    for (int i = 0; array && i < c->n; i++) {
        json_t *row = row_json(c, &c->recipes[c->order[i]]);
        if (c->options.sweep &&
            json_object_set_new(row, "share", real(c->recipes[c->order[i]].row.share)) != 0) {
            json_decref(row);
            row = NULL;
        }
        if (json_array_append_new(array, row) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return mpt_json_print(c->ctx, array, out);
}
