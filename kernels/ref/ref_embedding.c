/* embedding: y[t] = table[ids[t]]; its gradient adds dy[t] into the row of ids[t].
 *
 * The trainer checks tokens before a step. An id outside the table cannot be refused here, so
 * it makes a row of NaN, which the finite check reports, and adds nothing to the gradient. */
#include "kernels/ref/real.h"

void MPT_REF(embedding)(const mpt_kernel_args *args) {
    const int32_t *ids = args->in[0].data;
    const mpt_real *table = args->in[1].data;
    mpt_real *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[1]), width = mpt_tensor_cols(&args->in[1]);
    int64_t n_tokens = mpt_tensor_elements(&args->in[0]);
    for (int64_t t = 0; t < n_tokens; t++) {
        bool known = ids[t] >= 0 && ids[t] < n_rows;
        for (int64_t i = 0; i < width; i++)
            y[t * width + i] = known ? table[ids[t] * width + i] : (mpt_real)NAN;
    }
}

void MPT_REF(embedding_grad)(const mpt_kernel_args *args) {
    const int32_t *ids = args->in[0].data;
    const mpt_real *dy = args->in[1].data;
    mpt_real *dtable = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), width = mpt_tensor_cols(&args->out[0]);
    int64_t n_tokens = mpt_tensor_elements(&args->in[0]);
    for (int64_t t = 0; t < n_tokens; t++) {
        if (ids[t] < 0 || ids[t] >= n_rows)
            continue;
        for (int64_t i = 0; i < width; i++)
            dtable[ids[t] * width + i] += dy[t * width + i];
    }
}
