/* ref.cast: the same numbers in another format, the definition.
 *
 * Also what rounds the outputs of every other kernel of the ref backend. */
#include "kernels/quantize.h"

#include "kernels/numerics.h"

void mpt_ref_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = dtype == MPT_DTYPE_FP32 ? x[i] : mpt_round(dtype, x[i]);
}

void mpt_ref_round_to(mpt_dtype dtype, float *x, size_t n) {
    mpt_ref_round_copy(dtype, x, x, n);
}

void mpt_ref_cast(const mpt_kernel_args *args) {
    const mpt_tensor *x = &args->in[0], *y = &args->out[0];
    size_t n = 1;
    for (int i = 0; i < x->rank; i++)
        n *= (size_t)x->dims[i];
    mpt_ref_round_copy(y->dtype, x->data, y->data, n);
}
