/* What a bench of the quantizers found, and how it is told.
 *
 * bench.c measures, bench_text.c prints. */
#ifndef MPT_TOOLS_BENCH_H
#define MPT_TOOLS_BENCH_H

#include "tools/tools.h"

/* What one run took. A slow quantizer runs over the first rows only. */
typedef struct mpt_bench_line {
    const char *name;
    double elements, bytes; /* bytes are read and written */
    double seconds;
    double of_copy; /* its speed in bytes, as a fraction of that of a copy */
} mpt_bench_line;

typedef struct mpt_bench_result {
    int64_t rows, cols; /* of the matrix */
    const mpt_bench_line *line;
    int n_lines;
} mpt_bench_result;

/* Appends the result to `out`, as a table or as JSON. */
mpt_status mpt_tool_bench_print(mpt_ctx *ctx, const mpt_bench_result *result, bool json,
                                mpt_str *out);

#endif
