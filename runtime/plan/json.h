/* Small steps over jansson that both JSON writers take. */
#ifndef MPT_PLAN_JSON_H
#define MPT_PLAN_JSON_H

#include <jansson.h>

#include "recipe/layer.h"

/* A string, also of text that is not UTF-8: its foreign bytes become '?'. */
json_t *mpt_json_text(const char *text);

/* "file:line"; null where no place is known. */
json_t *mpt_json_where(mpt_where where);

/* A quantizer with all its eight fields. */
json_t *mpt_json_quantizer(const mpt_quantizer *q);

/* How the products of a GEMM are summed up: {"accumulate", "promote"}, the latter null where
 * sums are never moved to FP32. */
json_t *mpt_json_sum(mpt_dtype accumulate, int32_t promote);

/* Appends the text of `json` and gives it back to jansson. NULL means that making it failed,
 * which only a lack of memory can do. */
mpt_status mpt_json_print(mpt_ctx *ctx, json_t *json, mpt_str *out);

#endif
