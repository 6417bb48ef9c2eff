/* rope: each pair (i, i + dims/2) of a head turned by the angle of its token; the gradient
 * turns it back. Cosine and sine are made in double and rounded once. */
#include "kernels/ref/real.h"

#include "kernels/rope.h"

/* One head's vector; `sign` is 1, or -1 for the way back. */
static void rope_turn(const mpt_attrs *a, int64_t position, double sign, const mpt_real *x,
                      mpt_real *y) {
    int64_t half = a->rope.dims / 2;
    for (int64_t i = 0; i < half; i++) {
        double angle = (double)position * mpt_rope_frequency(&a->rope, i);
        mpt_real c = (mpt_real)cos(angle), s = (mpt_real)(sign * sin(angle));
        y[i] = x[i] * c - x[i + half] * s;
        y[i + half] = x[i + half] * c + x[i] * s;
    }
    for (int64_t i = a->rope.dims; i < a->head_dim; i++)
        y[i] = x[i];
}

static void rope_rows(const mpt_kernel_args *args, double sign) {
    const mpt_attrs *a = &args->node->attrs;
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++)
        for (int64_t h = 0; h < a->heads; h++) {
            int64_t at = (t * a->heads + h) * a->head_dim;
            rope_turn(a, t % a->sequence, sign, x + at, y + at);
        }
}

void MPT_REF(rope)(const mpt_kernel_args *args) {
    rope_rows(args, 1);
}

void MPT_REF(rope_grad)(const mpt_kernel_args *args) {
    rope_rows(args, -1);
}
