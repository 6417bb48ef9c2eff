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

json_t *mpt_json_quantizer(const mpt_quantizer *q) {
    json_t *hadamard = q->hadamard.size ? json_pack("{s:i, s:s}", "size", (int)q->hadamard.size,
                                                    "signs", mpt_plan_signs(q))
                                        : json_null();
    return json_pack("{s:s, s:[i,i], s:s, s:s, s:s, s:s, s:s, s:o}", "format",
                     mpt_plan_format(q), "block", (int)q->block_rows, (int)q->block_cols,
                     "scale", mpt_plan_scale(q), "scale_format", mpt_plan_scale_format(q),
                     "scale_rule", mpt_plan_scale_rule(q), "outer", mpt_plan_outer(q),
                     "rounding", mpt_plan_rounding(q), "hadamard", hadamard);
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
