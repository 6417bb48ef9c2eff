/* The CPU's quantizer in AVX2, sixteen rows at a time: 16x16 blocks, and blocks of 16 down the
 * columns with or without the rotation. A tile is copied to the stack first: rows of a power of
 * two apart would throw each other out of the cache, and edges become zeros. Columns need no
 * transposition: a vector is eight columns of one row, so rotation, maximum, scale and random
 * bytes stay in their lanes. */
#include "kernels/cpu/quantize.h"

#include "kernels/cpu/nvfp4_simd.h"

#ifdef MPT_HAS_X86

typedef __m256 vf;
typedef __m256i vi;

/* ---- sixteen by sixteen ---- */

typedef struct tile {
    _Alignas(64) float v[16][16];
} tile;

/* Values beyond the matrix are zero. */
MPT_LANE void tile_load(tile *t, const float *x, int64_t ld, int64_t rows, int64_t cols) {
    if (rows >= 16 && cols >= 16) {
        for (int i = 0; i < 16; i++) {
            _mm256_store_ps(t->v[i], _mm256_loadu_ps(x + i * ld));
            _mm256_store_ps(t->v[i] + 8, _mm256_loadu_ps(x + i * ld + 8));
        }
        return;
    }
    memset(t, 0, sizeof *t);
    for (int64_t i = 0; i < 16 && i < rows; i++)
        memcpy(t->v[i], x + i * ld, (size_t)(cols < 16 ? cols : 16) * sizeof *x);
}

MPT_LANE void tile_store(const tile *t, float *y, int64_t ld, int64_t rows, int64_t cols) {
    if (rows >= 16 && cols >= 16) {
        for (int i = 0; i < 16; i++) {
            _mm256_storeu_ps(y + i * ld, _mm256_load_ps(t->v[i]));
            _mm256_storeu_ps(y + i * ld + 8, _mm256_load_ps(t->v[i] + 8));
        }
        return;
    }
    for (int64_t i = 0; i < 16 && i < rows; i++)
        memcpy(y + i * ld, t->v[i], (size_t)(cols < 16 ? cols : 16) * sizeof *y);
}

MPT_LANE void tile_square(tile *t, const mpt_outer_scale *outer) {
    vi most = _mm256_setzero_si256();
    for (int i = 0; i < 16; i++) {
        MPT_UNROLL
        for (int j = 0; j < 16; j += 8)
            most = _mm256_max_epi32(most, mpt_v_abs(_mm256_load_ps(t->v[i] + j)));
    }
    most = _mm256_max_epi32(most, _mm256_permute2x128_si256(most, most, 1));
    most = _mm256_max_epi32(most, _mm256_shuffle_epi32(most, 0x4E));
    most = _mm256_max_epi32(most, _mm256_shuffle_epi32(most, 0xB1));
    vf decode, encode = mpt_v_block_scales(most, outer, &decode);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j += 8) {
            vf y = _mm256_mul_ps(_mm256_load_ps(t->v[i] + j), encode);
            _mm256_store_ps(t->v[i] + j, mpt_v_e2m1(y, false, _mm256_setzero_si256(), decode));
        }
}

MPT_AVX2 void mpt_avx2_square(const mpt_quantize_job *job, const mpt_outer_scale *outer,
                              int64_t r) {
    tile t;
    for (int64_t c = 0; c < job->cols; c += 16) {
        int64_t at = r * job->cols + c;
        tile_load(&t, job->x + at, job->cols, job->rows - r, job->cols - c);
        tile_square(&t, outer);
        tile_store(&t, job->decoded + at, job->cols, job->rows - r, job->cols - c);
    }
}

/* ---- columns ---- */

/* Butterflies of width 1 ... last over the rows of eight columns; signs first. */
MPT_LANE void rotate(const tile *t, int j, vf v[16], uint32_t signs, int last) {
    MPT_UNROLL
    for (int i = 0; i < 16; i++) {
        vf x = _mm256_load_ps(t->v[i] + j);
        v[i] = signs >> i & 1u ? _mm256_xor_ps(x, mpt_v_all(-0.0f)) : x;
    }
    MPT_UNROLL
    for (int h = 1; h <= last; h *= 2) {
        MPT_UNROLL
        for (int i = 0; i < 16; i++)
            if (!(i & h)) {
                vf a = v[i], b = v[i + h];
                v[i] = _mm256_add_ps(a, b);
                v[i + h] = _mm256_sub_ps(a, b);
            }
    }
}

/* The values that are quantized. */
MPT_LANE void rotated(const tile *t, int j, vf v[16], uint32_t signs, bool bf16) {
    rotate(t, j, v, signs, 8);
    MPT_UNROLL
    for (int i = 0; i < 16; i++) {
        v[i] = _mm256_mul_ps(v[i], mpt_v_all(0.25f));
        if (bf16)
            v[i] = mpt_v_round_bf16(v[i]);
    }
}

/* The largest finite value one by one: where sums come near the end of float32's range. */
MPT_LANE vi amax_careful(const tile *t, int j, uint32_t signs, bool bf16) {
    vi most = _mm256_setzero_si256(), inf = mpt_v_set(MPT_INF_BITS);
    vf v[16];
    rotated(t, j, v, signs, bf16);
    for (int i = 0; i < 16; i++) {
        vi a = mpt_v_abs(v[i]);
        most = _mm256_max_epi32(most, _mm256_and_si256(a, _mm256_cmpgt_epi32(inf, a)));
    }
    return most;
}

/* The last butterfly's larger result is |a| + |b|, and the factor and the rounding keep order,
 * so both wait until the maximum is known. */
MPT_LANE vi amax8(const tile *t, int j, uint32_t signs, bool bf16) {
    vf v[16];
    rotate(t, j, v, signs, 4);
    vi most = _mm256_setzero_si256();
    MPT_UNROLL
    for (int i = 0; i < 8; i++) {
        vf sum = _mm256_add_ps(mpt_v_float(mpt_v_abs(v[i])), mpt_v_float(mpt_v_abs(v[i + 8])));
        most = _mm256_max_epi32(most, mpt_v_bits(sum));
    }
    vi large = _mm256_cmpgt_epi32(most, mpt_v_set(mpt_float_bits(0x1p126f)));
    if (_mm256_movemask_epi8(large))
        return amax_careful(t, j, signs, bf16);
    vf m = _mm256_mul_ps(mpt_v_float(most), mpt_v_all(0.25f));
    return mpt_v_bits(bf16 ? mpt_v_round_bf16(m) : m);
}

MPT_LANE uint32_t columns_amax(const mpt_quantize_job *job, int64_t r, uint32_t signs) {
    tile t;
    vi most = _mm256_setzero_si256();
    uint32_t lane[8], m = 0;
    for (int64_t c = 0; c < job->cols; c += 16) {
        tile_load(&t, job->x + r * job->cols + c, job->cols, job->rows - r, job->cols - c);
        for (int j = 0; j < 16; j += 8)
            most = _mm256_max_epi32(most, amax8(&t, j, signs, job->bf16));
    }
    _mm256_storeu_si256((vi *)lane, most);
    for (int j = 0; j < 8; j++)
        m = lane[j] > m ? lane[j] : m;
    return m;
}

MPT_AVX2 uint32_t mpt_avx2_columns_amax(const mpt_quantize_job *job, int64_t r) {
    if (job->q->hadamard.signs == MPT_SIGNS_FIXED)
        return columns_amax(job, r, MPT_HADAMARD_SIGNS); /* as a constant it costs nothing */
    return columns_amax(job, r, 0);
}

/* The random bytes of eight columns: word w's lane is a column, its byte i the row 4 w + i. */
MPT_LANE void column_words(const mpt_random_key *key, uint64_t group, uint64_t groups,
                           vi w[4]) {
    vi even[4], odd[4], step = _mm256_set1_epi64x((int64_t)groups);
    int64_t g = (int64_t)(key->first_group + group), n = (int64_t)groups;
    vi first = _mm256_setr_epi64x(g, g + 2 * n, g + 4 * n, g + 6 * n);
    mpt_v_philox(key, first, even);
    mpt_v_philox(key, _mm256_add_epi64(first, step), odd);
    for (int i = 0; i < 4; i++)
        w[i] = mpt_v_halves(even[i], odd[i]);
}

/* What columns() is compiled for, one copy each. */
typedef struct columns_kind {
    bool rotate, stochastic;
    uint32_t signs;
} columns_kind;

/* Eight columns from j of a tile, in place. */
MPT_LANE void columns8(tile *t, int j, columns_kind kind, bool bf16,
                       const mpt_outer_scale *outer, const vi w[4]) {
    vf v[16];
    if (kind.rotate) {
        rotated(t, j, v, kind.signs, bf16);
    } else {
        MPT_UNROLL
        for (int i = 0; i < 16; i++)
            v[i] = _mm256_load_ps(t->v[i] + j);
    }
    vi most = _mm256_setzero_si256();
    MPT_UNROLL
    for (int i = 0; i < 16; i++)
        most = _mm256_max_epi32(most, mpt_v_abs(v[i]));
    vf decode, encode = mpt_v_block_scales(most, outer, &decode);
    MPT_UNROLL
    for (int i = 0; i < 16; i++) {
        vi bytes = _mm256_setzero_si256();
        if (kind.stochastic)
            bytes = _mm256_and_si256(_mm256_srli_epi32(w[i / 4], 8 * (i % 4)), mpt_v_set(255));
        vf y = mpt_v_e2m1(_mm256_mul_ps(v[i], encode), kind.stochastic, bytes, decode);
        _mm256_store_ps(t->v[i] + j, y);
    }
}

MPT_LANE void columns(const mpt_quantize_job *job, const mpt_outer_scale *outer, int64_t r,
                      columns_kind kind) {
    tile t;
    uint64_t groups = (uint64_t)((job->rows + 15) / 16);
    for (int64_t c = 0; c < job->cols; c += 16) {
        int64_t at = r * job->cols + c;
        tile_load(&t, job->x + at, job->cols, job->rows - r, job->cols - c);
        for (int j = 0; j < 16; j += 8) {
            vi w[4] = {0};
            uint64_t group = (uint64_t)(c + j) * groups + (uint64_t)r / 16;
            if (kind.stochastic)
                column_words(&job->key, group, groups, w);
            columns8(&t, j, kind, job->bf16, outer, w);
        }
        /* With a rotation the rows of the padding are part of the result. */
        tile_store(&t, job->decoded + at, job->cols, job->decoded_k - r, job->cols - c);
    }
}

/* Of the two sorts of signs only the fixed ones are worth copies of their own. */
MPT_AVX2 void mpt_avx2_columns(const mpt_quantize_job *job, const mpt_outer_scale *outer,
                               int64_t r) {
    bool stochastic = job->q->rounding == MPT_ROUNDING_STOCHASTIC;
    bool rotate = job->q->hadamard.size != 0;
    bool fixed = rotate && job->q->hadamard.signs == MPT_SIGNS_FIXED;
    if (fixed && stochastic)
        columns(job, outer, r, (columns_kind){true, true, MPT_HADAMARD_SIGNS});
    else if (fixed)
        columns(job, outer, r, (columns_kind){true, false, MPT_HADAMARD_SIGNS});
    else
        columns(job, outer, r, (columns_kind){rotate, stochastic, 0});
}

#endif
