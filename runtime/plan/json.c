/* Pieces of JSON shared by plan_json.c and schedule_json.c. */
#include "plan/json.h"

#include <stdio.h>

#include "plan/plan.h"

json_t *mpt_json_text(const char *text) {
    char ascii[256];
    size_t n = 0;
    json_t *json = json_string(text);
    if (json)
        return json;
    for (; text[n] && n < sizeof ascii - 1; n++)
        ascii[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
    ascii[n] = 0;
    return json_string(ascii);
}

json_t *mpt_json_where(mpt_where where) {
    char place[MPT_ERROR_WHERE];
    if (!where.file)
        return json_null();
    if (where.line > 0)
        snprintf(place, sizeof place, "%s:%d", where.file, where.line);
    else
        snprintf(place, sizeof place, "%s", where.file);
    return mpt_json_text(place);
}

/* What a delayed scale is made from; null elsewhere. */
static json_t *delayed(const mpt_scale_source *scale) {
    if (scale->kind != MPT_SCALING_DELAYED)
        return json_null();
    return json_pack("{s:i, s:s, s:i, s:f, s:b}", "history", (int)scale->history, "algo",
                     scale->algo == MPT_AMAX_MAX ? "max" : "most_recent", "margin",
                     (int)scale->margin, "headroom", scale->headroom, "reduce_amax",
                     (int)scale->reduce_amax);
}

/* Null where there is none; what random signs are drawn from is null with others. */
static json_t *hadamard_json(const mpt_quantizer *q) {
    const mpt_hadamard *h = &q->hadamard;
    bool random = h->signs == MPT_SIGNS_RANDOM;
    if (h->size == 0)
        return json_null();
    return json_pack("{s:i, s:s, s:o, s:o, s:o}", "size", (int)h->size, "signs",
                     mpt_plan_signs(q), "scope",
                     random ? json_string(mpt_plan_scope(q)) : json_null(), "redraw",
                     random ? json_string(mpt_plan_redraw(q)) : json_null(), "seed",
                     random ? json_integer((json_int_t)h->seed) : json_null());
}

/* The first eight fields are those of the recipe language's page; `text` says everything. */
json_t *mpt_json_quantizer(const mpt_quantizer *q) {
    char text[MPT_QUANTIZER_TEXT];
    bool fixed = q->scale.kind == MPT_SCALING_STATIC;
    mpt_quantizer_text(q, text);
    return json_pack(
        "{s:s, s:[i,i], s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:f, s:s, s:s, s:s, s:s}",
        "format", mpt_plan_format(q), "block", (int)q->block_rows, (int)q->block_cols, "scale",
        mpt_plan_scale(q), "scale_format", mpt_plan_scale_format(q), "scale_rule",
        mpt_plan_scale_rule(q), "outer", mpt_plan_outer(q), "rounding", mpt_plan_rounding(q),
        "hadamard", hadamard_json(q), "elements", mpt_dtype_name(q->format), "delayed",
        delayed(&q->scale), "static", fixed ? json_real(q->scale.value) : json_null(),
        "headroom", q->headroom == 0 ? 1.0 : q->headroom, "nonfinite", mpt_plan_nonfinite(q),
        "source", mpt_plan_source(q), "pad", mpt_plan_pad(q), "text", text);
}

json_t *mpt_json_sum(mpt_dtype accumulate, int32_t promote) {
    return json_pack("{s:s, s:o}", "accumulate", mpt_dtype_name(accumulate), "promote",
                     promote ? json_integer(promote) : json_null());
}

static int append(const char *text, size_t length, void *out) {
    mpt_str_append(out, text, length);
    return ((mpt_str *)out)->failed ? -1 : 0;
}

mpt_status mpt_json_print(mpt_ctx *ctx, json_t *json, mpt_str *out) {
    int failed = json ? json_dump_callback(json, append, out, JSON_INDENT(1)) : -1;
    json_decref(json);
    mpt_str_append(out, "\n", 1);
    return failed || out->failed ? mpt_fail_memory(ctx, out->cap) : MPT_OK;
}
