/* cpu.cast: rounding to a wide format, a vector at a time on every thread.
 *
 * The executor also calls it after each kernel whose output is not FP32, so it runs at the
 * speed of memory. Same bytes as ref_cast.c. */
#include <string.h>

#include "kernels/cpu/quantize.h"
#include "kernels/cpu/vector.h"

enum { PIECE = 16384 }; /* values a thread takes at a time; smaller calls stay on one thread */

void mpt_round_copy_with(const mpt_quantize_kernels *kernels, mpt_dtype dtype, const float *x,
                         float *y, size_t n) {
    if (dtype == MPT_DTYPE_FP32) {
        if (x != y)
            memcpy(y, x, n * sizeof *y);
        return;
    }
#pragma omp parallel for schedule(static) if (n > PIECE)
    for (size_t at = 0; at < n; at += PIECE)
        kernels->round(dtype, x + at, y + at, n - at < PIECE ? n - at : PIECE);
}

void mpt_round_copy_at(mpt_quantize_level level, mpt_dtype dtype, const float *x, float *y,
                       size_t n) {
    mpt_round_copy_with(mpt_quantize_kernels_of(level), dtype, x, y, n);
}

void mpt_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n) {
    mpt_round_copy_at(mpt_quantize_best_level(), dtype, x, y, n);
}

void mpt_round_to(mpt_dtype dtype, float *x, size_t n) {
    mpt_round_copy(dtype, x, x, n);
}

/* Magnitudes are in the order of their bits. NaN, which is above Inf there, becomes 0. */
MPT_CLONES static uint32_t amax_bits(const float *x, size_t n) {
    uint32_t most = 0;
#pragma omp simd reduction(max : most)
    for (size_t i = 0; i < n; i++) {
        uint32_t a = mpt_bits_of_float(x[i]) & 0x7fffffffu;
        a = a > 0x7f800000u ? 0 : a;
        most = a > most ? a : most;
    }
    return most;
}

float mpt_amax_of(const float *x, size_t n) {
    uint32_t most = 0;
#pragma omp parallel for schedule(static) reduction(max : most) if (n > PIECE)
    for (size_t at = 0; at < n; at += PIECE) {
        uint32_t a = amax_bits(x + at, n - at < PIECE ? n - at : PIECE);
        most = a > most ? a : most;
    }
    return mpt_float_of_bits(most);
}

void mpt_cpu_cast(const mpt_kernel_args *args) {
    const mpt_tensor *x = &args->in[0], *y = &args->out[0];
    size_t n = 1;
    for (int i = 0; i < x->rank; i++)
        n *= (size_t)x->dims[i];
    mpt_round_copy(y->dtype, x->data, y->data, n);
}
