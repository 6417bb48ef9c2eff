/* NVFP4 in AVX2 lanes: eight block scales, eight E2M1 values, or four random groups a vector.
 *
 * E2M1 costs one addition: a power of two whose last place is the grid's step rounds |y| to it,
 * ties to even, as the format wants. Block scales are made eight at a time, so the two true
 * divisions of each cost little. Bad values need no branch: a maximum over the bits sees them
 * and the block's scale becomes NaN. Used by quantize_rows.c and quantize_tiles.c. */
#ifndef MPT_KERNELS_CPU_NVFP4_SIMD_H
#define MPT_KERNELS_CPU_NVFP4_SIMD_H

#include "kernels/cpu/simd.h"

#ifdef MPT_HAS_X86

/* Scales of eight blocks from their maxima (bits): what values are multiplied by, and decoded
 * by. */
MPT_LANE __m256 mpt_v_block_scales(__m256i amax, const mpt_outer_scale *outer, __m256 *decode) {
    mpt_v_format e4m3 = MPT_V_E4M3;
    __m256 s = _mm256_mul_ps(mpt_v_float(amax), mpt_v_all(outer->multiplier));
    __m256 bad = mpt_v_float(_mm256_cmpgt_epi32(amax, mpt_v_set(MPT_INF_BITS - 1)));
    s = _mm256_blendv_ps(mpt_v_round_narrow(s, e4m3), mpt_v_float(mpt_v_set(MPT_NAN_BITS)),
                         bad);
    *decode = s;
    __m256 e = _mm256_div_ps(mpt_v_all(1.0f), _mm256_mul_ps(s, mpt_v_all(outer->decode)));
    return _mm256_min_ps(e, mpt_v_all(MPT_FLT_MAX));
}

/* E2M1 of y times the block's scale. `bytes` are the random bytes as integers. */
MPT_LANE __m256 mpt_v_e2m1(__m256 y, bool stochastic, __m256i bytes, __m256 decode) {
    __m256 a = _mm256_min_ps(mpt_v_float(mpt_v_abs(y)), mpt_v_all(6.0f));
    /* The exponent of the grid: |y| below 2 has steps of 1/2, below 4 of 1, else of 2. */
    __m256i e = _mm256_max_epi32(_mm256_and_si256(mpt_v_bits(a), mpt_v_set(MPT_INF_BITS)),
                                 mpt_v_set(127u << 23));
    __m256 v;
    if (stochastic) {
        __m256 step = mpt_v_float(_mm256_sub_epi32(e, mpt_v_set(1u << 23)));
        __m256 inverse = mpt_v_float(_mm256_sub_epi32(mpt_v_set(255u << 23), e));
        __m256 part = mpt_v_float(_mm256_sub_epi32(e, mpt_v_set(9u << 23)));
        __m256 t = _mm256_add_ps(a, _mm256_mul_ps(_mm256_cvtepi32_ps(bytes), part));
        __m256 n =
            _mm256_round_ps(_mm256_mul_ps(t, inverse), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
        v = _mm256_mul_ps(n, step);
    } else {
        __m256 magic = mpt_v_float(_mm256_add_epi32(e, mpt_v_set(22u << 23)));
        v = _mm256_sub_ps(_mm256_add_ps(a, magic), magic);
    }
    __m256 sign = _mm256_andnot_ps(mpt_v_float(mpt_v_set(MPT_ABS_BITS)), y);
    return _mm256_mul_ps(_mm256_or_ps(v, sign), decode);
}

/* Philox4x32-10 of four groups, one a 64-bit lane; the high halves of the words are junk. */
MPT_LANE void mpt_v_philox(const mpt_random_key *key, __m256i group, __m256i word[4]) {
    __m256i c0 = group, c1 = _mm256_srli_epi64(group, 32);
    __m256i c2 = _mm256_set1_epi64x((int64_t)key->operand),
            c3 = _mm256_set1_epi64x((int64_t)key->step);
    __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    uint32_t k0 = (uint32_t)key->seed, k1 = (uint32_t)(key->seed >> 32);
    for (int i = 0; i < 10; i++) {
        __m256i p0 = _mm256_mul_epu32(m0, c0), p1 = _mm256_mul_epu32(m1, c2);
        c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1, mpt_v_set(k0)));
        c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3, mpt_v_set(k1)));
        c1 = p1;
        c3 = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* The low halves of a's lanes, with those of b above them. */
MPT_LANE __m256i mpt_v_halves(__m256i a, __m256i b) {
    return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xAA);
}

#endif

#endif
