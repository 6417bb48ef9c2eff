/* What the vectorised loops of the cpu backend share: run-time dispatch and an exponential.
 *
 * MPT_CLONES compiles a function for AVX2 and for the base instruction set; the loader picks.
 * It goes on functions that hold loops over one piece of work, not on those that open a
 * parallel region, whose body the compiler takes out of the clone. Reductions are written with
 * `omp simd`, which at -O2 is also what makes gcc vectorise. */
#ifndef MPT_KERNELS_CPU_VECTOR_H
#define MPT_KERNELS_CPU_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__)
#define MPT_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define MPT_CLONES
#endif

#define MPT_ALWAYS_INLINE static inline __attribute__((always_inline))

MPT_ALWAYS_INLINE float mpt_float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

MPT_ALWAYS_INLINE uint32_t mpt_bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e^x within 2 ulp, subnormal results included; NaN stays NaN, no branch. x = n ln2 + r with
 * |r| <= ln2 / 2; ln2 is split so that n * high is exact; 2^n is applied in two factors, since
 * one would overflow before the result does. */
MPT_ALWAYS_INLINE float mpt_expf(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + magic;
    float n = shifted - magic;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t whole = mpt_bits_of_float(shifted) - 0x4b400000u;
    uint32_t half = (uint32_t)((int32_t)whole >> 1);
    return p * mpt_float_of_bits((half + 127u) << 23) *
           mpt_float_of_bits((whole - half + 127u) << 23);
}

MPT_ALWAYS_INLINE float mpt_sigmoidf(float x) {
    return 1.0f / (1.0f + mpt_expf(-x));
}

/* log(1 + e) of e in [0, 1] within 2 ulp: twice the area tangent of e / (2 + e), by its series,
 * whose ninth term is below half an ulp at 1. */
MPT_ALWAYS_INLINE float mpt_log1pf_unit(float e) {
    float s = e / (2.0f + e), q = s * s;
    float p = 1.0f / 15.0f;
    p = p * q + 1.0f / 13.0f;
    p = p * q + 1.0f / 11.0f;
    p = p * q + 1.0f / 9.0f;
    p = p * q + 1.0f / 7.0f;
    p = p * q + 1.0f / 5.0f;
    p = p * q + 1.0f / 3.0f;
    return 2.0f * (s + s * (q * p));
}

MPT_ALWAYS_INLINE float mpt_softplusf(float x) {
    return (x < 0.0f ? 0.0f : x) + mpt_log1pf_unit(mpt_expf(x < 0.0f ? x : -x));
}

/* The largest of `most` and n numbers; NaN are passed over. By lanes, since a reduction with
 * such a comparison is one that clang does not vectorise. */
MPT_ALWAYS_INLINE float mpt_largest(const float *x, int64_t n, float most) {
    float lane[16];
    int64_t i = 0;
    for (int l = 0; l < 16; l++)
        lane[l] = most;
    for (; i + 16 <= n; i += 16) {
#pragma omp simd
        for (int l = 0; l < 16; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    }
    for (int l = 0; l < 16; l++)
        most = lane[l] > most ? lane[l] : most;
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

#endif
