/* dropout: x times 0 where the element's random word is below p 2^32, else times 1 / (1 - p).
 * By multiplication, so that a NaN which is dropped still shows. Backward is the same of dy. */
#include "kernels/ref/real.h"

#include "kernels/dropout.h"

void MPT_REF(dropout)(const mpt_kernel_args *args) {
    mpt_dropout d = mpt_dropout_of(args);
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    mpt_real kept = 1 / (1 - (mpt_real)args->node->attrs.p);
    for (int64_t i = 0; i < n; i++) {
        uint32_t words[4];
        mpt_random_words(&d.key, (uint64_t)(i / 4), words);
        y[i] = d.off ? x[i] : x[i] * (words[i % 4] < d.below ? 0 : kept);
    }
}
