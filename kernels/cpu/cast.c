/* cpu.cast: rounding to a wide format, eight values at a time on every thread.
 *
 * The executor also calls it after each kernel whose output is not FP32, so it runs at the
 * speed of memory. Same bytes as ref_cast.c. */
#include "kernels/quantize.h"

#include <string.h>

#include "kernels/cpu/simd.h"

enum { PIECE = 16384 }; /* values a thread takes at a time; smaller calls stay on one thread */

#ifdef MPT_HAS_X86

MPT_LANE __m256 round_lane(mpt_dtype dtype, __m256 x) {
    if (dtype == MPT_DTYPE_BF16)
        return mpt_v_round_bf16(x);
    if (dtype == MPT_DTYPE_TF32)
        return mpt_v_keep_nan(x, mpt_v_round_wide(x, 13));
    mpt_v_format fp16 = MPT_V_FP16;
    fp16.overflow = mpt_bits_float(MPT_INF_BITS);
    return mpt_v_keep_nan(x, mpt_v_round_narrow(x, fp16));
}

MPT_LANE size_t round_lanes(mpt_dtype dtype, const float *x, float *y, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, round_lane(dtype, _mm256_loadu_ps(x + i)));
    return i;
}

/* Gives how many values it did: whole vectors only, and none of the formats that it lacks. */
MPT_AVX2 static size_t round_avx2(mpt_dtype dtype, const float *x, float *y, size_t n) {
    switch (dtype) {
    case MPT_DTYPE_BF16:
        return round_lanes(MPT_DTYPE_BF16, x, y, n);
    case MPT_DTYPE_TF32:
        return round_lanes(MPT_DTYPE_TF32, x, y, n);
    case MPT_DTYPE_FP16:
        return round_lanes(MPT_DTYPE_FP16, x, y, n);
    default:
        return 0;
    }
}
#endif

static void round_piece(mpt_dtype dtype, const float *x, float *y, size_t n) {
    size_t done = 0;
#ifdef MPT_HAS_X86
    if (mpt_cpu_has_avx2())
        done = round_avx2(dtype, x, y, n);
#endif
    for (size_t i = done; i < n; i++)
        y[i] = mpt_round(dtype, x[i]);
}

void mpt_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n) {
    if (dtype == MPT_DTYPE_FP32) {
        if (x != y)
            memcpy(y, x, n * sizeof *y);
        return;
    }
#pragma omp parallel for schedule(static) if (n > PIECE)
    for (size_t at = 0; at < n; at += PIECE)
        round_piece(dtype, x + at, y + at, n - at < PIECE ? n - at : PIECE);
}

void mpt_round_to(mpt_dtype dtype, float *x, size_t n) {
    mpt_round_copy(dtype, x, x, n);
}

void mpt_cpu_cast(const mpt_kernel_args *args) {
    const mpt_tensor *x = &args->in[0], *y = &args->out[0];
    size_t n = 1;
    for (int i = 0; i < x->rank; i++)
        n *= (size_t)x->dims[i];
    mpt_round_copy(y->dtype, x->data, y->data, n);
}
