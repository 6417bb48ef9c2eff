/* A quantizer written as one expression of the recipe language, outside of any recipe.
 *
 * What `mptrun quantize 'nvfp4 { block = {16, 16} }' IN OUT` and the other tools on tensors
 * take from their user. */
#ifndef MPT_LUA_BIND_EXPRESSION_H
#define MPT_LUA_BIND_EXPRESSION_H

#include "recipe/recipe.h"

/* Reads "mxfp8", "e4m3 { scale = static(1) }" and the like in a sandbox of its own, and checks
 * it as a recipe's is checked. *out outlives the call: its name is a format's or a preset's.
 * What is no format is MPT_INVALID; the place of errors is the expression itself. */
mpt_status mpt_quantizer_from_text(mpt_ctx *ctx, const char *expression, mpt_quantizer *out);

#endif
