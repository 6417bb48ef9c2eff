/* The CPU's quantizer in AVX2, in the order of memory: amax, FP8 with one scale a tensor, and
 * NVFP4 with blocks along the rows, 128 values at a time. The lanes are in nvfp4_simd.h. */
#include "kernels/cpu/quantize.h"

#include "kernels/cpu/nvfp4_simd.h"

#ifdef MPT_HAS_X86

typedef __m256 vf;
typedef __m256i vi;

/* ---- one scale a tensor ---- */

MPT_AVX2 uint32_t mpt_avx2_amax(const float *x, size_t n) {
    vi most = _mm256_setzero_si256(), inf = mpt_v_set(MPT_INF_BITS);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        vi a = mpt_v_abs(_mm256_loadu_ps(x + i));
        most = _mm256_max_epi32(most, _mm256_and_si256(a, _mm256_cmpgt_epi32(inf, a)));
    }
    uint32_t lane[8], m = 0;
    _mm256_storeu_si256((vi *)lane, most);
    for (int j = 0; j < 8; j++)
        m = lane[j] > m ? lane[j] : m;
    for (; i < n; i++) {
        uint32_t a = mpt_abs_bits(x[i]);
        m = a > m && a < MPT_INF_BITS ? a : m;
    }
    return m;
}

#define E4M3                                                                                   \
    { 20, 0x1p-6f, 0x1p14f, 448.0f, 448.0f }
#define E5M2                                                                                   \
    { 21, 0x1p-14f, 0x1p7f, 57344.0f, 57344.0f }

MPT_LANE vf scaled_lane(mpt_dtype format, vf x, vf scale) {
    mpt_v_format e4m3 = MPT_V_E4M3, e5m2 = MPT_V_E5M2;
    vi inf = mpt_v_set(MPT_INF_BITS), a = mpt_v_abs(x);
    vf y = mpt_v_round_narrow(_mm256_mul_ps(x, scale), format == MPT_DTYPE_E4M3 ? e4m3 : e5m2);
    if (format == MPT_DTYPE_E5M2)
        return mpt_v_keep_nan(x,
                              _mm256_blendv_ps(y, x, mpt_v_float(_mm256_cmpeq_epi32(a, inf))));
    vi finite = _mm256_cmpgt_epi32(inf, a);
    return _mm256_blendv_ps(mpt_v_float(mpt_v_set(MPT_NAN_BITS)), y, mpt_v_float(finite));
}

MPT_LANE void scaled_lanes(mpt_dtype format, const float *x, float *y, size_t n, float scale) {
    vf s = mpt_v_all(scale);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, scaled_lane(format, _mm256_loadu_ps(x + i), s));
    if (i == n)
        return;
    float tail[8] = {0};
    for (size_t j = i; j < n; j++)
        tail[j - i] = x[j];
    _mm256_storeu_ps(tail, scaled_lane(format, _mm256_loadu_ps(tail), s));
    for (size_t j = i; j < n; j++)
        y[j] = tail[j - i];
}

MPT_AVX2 void mpt_avx2_scaled(mpt_dtype format, const float *x, float *y, size_t n,
                              float scale) {
    if (format == MPT_DTYPE_E4M3)
        scaled_lanes(MPT_DTYPE_E4M3, x, y, n, scale);
    else
        scaled_lanes(MPT_DTYPE_E5M2, x, y, n, scale);
}

/* ---- NVFP4 rows ---- */

/* The bytes of eight consecutive groups in the order of their elements. */
MPT_LANE void row_bytes(const mpt_random_key *key, uint64_t group, uint8_t out[128]) {
    for (int h = 0; h < 2; h++) { /* lanes in the order that the unpacks undo */
        vi g = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)(key->first_group + group) + 4 * h),
                                _mm256_setr_epi64x(0, 2, 1, 3));
        vi w[4];
        mpt_v_philox(key, g, w);
        vi low = mpt_v_halves(w[0], w[1]), high = mpt_v_halves(w[2], w[3]);
        _mm256_storeu_si256((vi *)(out + 64 * h), _mm256_unpacklo_epi64(low, high));
        _mm256_storeu_si256((vi *)(out + 64 * h + 32), _mm256_unpackhi_epi64(low, high));
    }
}

/* Lane i of the result is the maximum of m[i]. */
MPT_LANE vi max_of_each(const vi m[8]) {
    vi a[4], b[2];
    MPT_UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_max_epi32(_mm256_unpacklo_epi32(m[2 * i], m[2 * i + 1]),
                                _mm256_unpackhi_epi32(m[2 * i], m[2 * i + 1]));
    MPT_UNROLL
    for (int i = 0; i < 2; i++)
        b[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                                _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    return _mm256_max_epi32(_mm256_permute2x128_si256(b[0], b[1], 0x20),
                            _mm256_permute2x128_si256(b[0], b[1], 0x31));
}

MPT_LANE vi load_bytes(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* 128 values of a row: eight blocks. `group` is the first one's. */
MPT_LANE void row128(const float *x, float *y, const mpt_outer_scale *outer,
                     const mpt_random_key *key, uint64_t group) {
    vi m[8];
    vf decode;
    float encode_of[8], decode_of[8];
    uint8_t bytes[128];
    MPT_UNROLL
    for (int b = 0; b < 8; b++)
        m[b] = _mm256_max_epi32(mpt_v_abs(_mm256_loadu_ps(x + 16 * b)),
                                mpt_v_abs(_mm256_loadu_ps(x + 16 * b + 8)));
    vf encode = mpt_v_block_scales(max_of_each(m), outer, &decode);
    _mm256_storeu_ps(encode_of, encode);
    _mm256_storeu_ps(decode_of, decode);
    if (key)
        row_bytes(key, group, bytes);
    for (int i = 0; i < 16; i++) {
        vf v = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), mpt_v_all(encode_of[i / 2]));
        vi r = key ? load_bytes(bytes + 8 * i) : _mm256_setzero_si256();
        _mm256_storeu_ps(y + 8 * i, mpt_v_e2m1(v, key != NULL, r, mpt_v_all(decode_of[i / 2])));
    }
}

MPT_LANE void row(const float *x, float *y, int64_t n, const mpt_outer_scale *outer,
                  const mpt_random_key *key, uint64_t group) {
    int64_t i = 0;
    for (; i + 128 <= n; i += 128)
        row128(x + i, y + i, outer, key, group + (uint64_t)i / 16);
    if (i == n)
        return;
    float in[128] = {0}, out[128];
    memcpy(in, x + i, (size_t)(n - i) * sizeof *in);
    row128(in, out, outer, key, group + (uint64_t)i / 16);
    memcpy(y + i, out, (size_t)(n - i) * sizeof *out);
}

MPT_AVX2 void mpt_avx2_row(const mpt_quantize_job *job, const mpt_outer_scale *outer,
                           int64_t r) {
    const float *x = job->x + r * job->cols;
    float *y = job->decoded + r * job->cols;
    uint64_t group = (uint64_t)(r * ((job->cols + 15) / 16));
    if (job->q->rounding == MPT_ROUNDING_STOCHASTIC)
        row(x, y, job->cols, outer, &job->key, group);
    else
        row(x, y, job->cols, outer, NULL, 0);
}

#endif
