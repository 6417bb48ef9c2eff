/* split and concat: columns of a matrix into parts, and parts into columns.
 *
 * Each is the other's gradient. The widths of split's parts are attrs.sizes. */
#include "kernels/ref/real.h"

void MPT_REF(split)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]), at = 0;
    for (int part = 0; part < args->node->n_out; part++) {
        mpt_real *y = args->out[part].data;
        int64_t width = args->node->attrs.sizes[part];
        for (int64_t t = 0; y && t < n_rows; t++)
            for (int64_t i = 0; i < width; i++)
                y[t * width + i] = x[t * n + at + i];
        at += width;
    }
}

void MPT_REF(concat)(const mpt_kernel_args *args) {
    mpt_real *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]), at = 0;
    for (int part = 0; part < args->node->n_in; part++) {
        const mpt_real *x = args->in[part].data;
        int64_t width = mpt_tensor_cols(&args->in[part]);
        for (int64_t t = 0; t < n_rows; t++)
            for (int64_t i = 0; i < width; i++)
                y[t * n + at + i] = x[t * width + i];
        at += width;
    }
}
