/* embedding: rows of a table, and the sum of gradients into them.
 *
 * The sum is divided by columns, not tokens: every row then gets its tokens in their order
 * whatever the number of threads. An id outside the table gives NaN, as in ref. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { COLUMNS = 32 };

void mpt_cpu_embedding(const mpt_kernel_args *args) {
    const int32_t *ids = args->in[0].data;
    const float *table = args->in[1].data;
    float *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[1]), width = mpt_tensor_cols(&args->in[1]);
    int64_t n_tokens = mpt_tensor_elements(&args->in[0]);
#pragma omp parallel for schedule(static) if (n_tokens * width > 16384)
    for (int64_t t = 0; t < n_tokens; t++) {
        if (ids[t] >= 0 && ids[t] < n_rows)
            memcpy(y + t * width, table + ids[t] * width, mpt_cpu_floats(width));
        else
            for (int64_t i = 0; i < width; i++)
                y[t * width + i] = NAN;
    }
}

/* Columns first ... end of all tokens. */
static void add_columns(const mpt_kernel_args *args, int64_t first, int64_t end) {
    const int32_t *ids = args->in[0].data;
    const float *dy = args->in[1].data;
    float *dtable = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), width = mpt_tensor_cols(&args->out[0]);
    int64_t n_tokens = mpt_tensor_elements(&args->in[0]);
    for (int64_t t = 0; t < n_tokens; t++) {
        if (ids[t] < 0 || ids[t] >= n_rows)
            continue;
        const float *from = dy + t * width;
        float *to = dtable + ids[t] * width;
#pragma omp simd
        for (int64_t i = first; i < end; i++)
            to[i] += from[i];
    }
}

void mpt_cpu_embedding_grad(const mpt_kernel_args *args) {
    int64_t width = mpt_tensor_cols(&args->out[0]), n = (width + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < n; p++) {
        int64_t end = (p + 1) * COLUMNS;
        add_columns(args, p * COLUMNS, end < width ? end : width);
    }
}
