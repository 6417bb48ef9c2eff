/* Work on tensors without a recipe: files quantized, checkpoints probed, speeds measured.
 *
 * The calls of mpt/tools.h with their quantizers already read: lua/bind/tools.c reads them and
 * calls these. matrix.c makes a job for the kernels of each stored tensor; quantize_file.c,
 * probe.c and bench.c run the jobs. Nothing here knows Lua. */
#ifndef MPT_TOOLS_TOOLS_H
#define MPT_TOOLS_TOOLS_H

#include "mpt/tools.h"
#include "recipe/quantizer.h"
#include "base/base.h"

/* A quantizer and how its user wrote it. */
typedef struct mpt_tool_format {
    const char *text;
    mpt_quantizer q;
} mpt_tool_format;

/* Quantizes the tensors of `in` into `out`; the options are checked, out_summary may be NULL.
 */
mpt_status mpt_tool_quantize(mpt_ctx *ctx, const mpt_tool_format *format, const char *in,
                             const char *out, const mpt_quantize_options *options,
                             mpt_quantize_summary *out_summary);

enum { MPT_TOOL_FORMATS = 16 }; /* most quantizers of one probe */

/* Cuts "nvfp4 { block = {16, 16} }, e4m3" at the commas outside of brackets and quotes, into
 * texts in `arena`. An empty piece, or too many, is MPT_INVALID. */
mpt_status mpt_tool_split(mpt_arena *arena, const char *formats,
                          const char *out[MPT_TOOL_FORMATS], int *out_n);

mpt_status mpt_tool_probe(mpt_ctx *ctx, const mpt_tool_format *formats, int n_formats,
                          const char *weights, const mpt_probe_options *options, mpt_str *out);

mpt_status mpt_tool_bench(mpt_ctx *ctx, const mpt_bench_options *options, mpt_str *out);

#endif
