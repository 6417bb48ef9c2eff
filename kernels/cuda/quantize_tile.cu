/* The common quantizers of BF16 operands, both copies in one read: FP8 with one scale, with
 * blocks of 1x128 and 128x128, MXFP8, and NVFP4 of 1x16 (the column copy rotated or not, by
 * chance or not) and 16x16.
 *
 * A block of 256 threads has a tile of 128 x 128 values in shared memory, in rows of 68 words,
 * so that neither rows nor columns meet in a bank. Each copy takes three steps: the magnitudes
 * of its groups of 16, joined into blocks by atomic maxima; the scales of the blocks; the
 * codes. A thread has whole groups in registers: four of one row, or two of two columns each.
 * The column copy's rotation is written back into the tile, which is why that copy comes last;
 * its codes go through the tile once more, to be stored as long rows.
 *
 * FP8 is bound by memory; E2M1 has no instruction before SM100 and is bound by the issue of
 * about 40 (66 by chance) instructions a value. */
#include "kernels/cuda/quantize_tile.h"

/* ---- scales ---- */

/* The amax of a group becomes part of its block's. */
static __device__ __forceinline__ void join(tile_memory *m, const quantize_copy &c, int at,
                                            const float v[GROUP]) {
    mpt_quantize_amax seen = group_seen(v, group_most(v));
    float amax = mpt_quantize_block_amax(c.constants.propagate, seen);
    atomicMax(&m->block[at], mpt_float_bits(amax));
}

static __device__ void clear_blocks(tile_memory *m) {
    for (int i = (int)threadIdx.x; i < TILE * GROUPS; i += GPU_THREADS)
        m->block[i] = 0;
}

/* Bytes: one for each row of a block. */
template <class K>
static __device__ void put_scales(const tile_memory *m, const quantize_copy &c,
                                  const tile_side &s) {
    uint8_t *bytes = c.codes + c.packed.scales;
    for (int i = (int)threadIdx.x; i < TILE * K::KS; i += GPU_THREADS) {
        int row = i % TILE, b = i / TILE;
        if (row < s.rows && b * K::BLOCK_K < s.groups * GROUP)
            bytes[mpt_packed_scale(&c.packed, s.r0 + row, s.k0 / K::BLOCK_K + b)] =
                m->code[b * K::ROWS + row / K::BLOCK_ROWS];
    }
}

/* mpt_quantize_block_scale, of which a kind has one branch. */
template <class K>
static __device__ __forceinline__ mpt_block_factors factors_of(const quantize_copy &c,
                                                               float amax) {
    const mpt_tensor_scale *t = &c.found->tensor;
    if (K::FORMAT == MPT_DTYPE_E2M1)
        return mpt_quantize_block_of_code(&c.q, t, mpt_block_scale(amax, &t->outer));
    return K::BLOCK_K == 32 ? mpt_quantize_e8m0_block(&c.q, t, amax)
                            : mpt_quantize_fp32_block(&c.q, t, amax);
}

template <class K>
static __device__ void make_scales(tile_memory *m, const quantize_copy &c, const tile_side &s) {
    float *out = (float *)(c.codes + c.packed.scales);
    bool bytes = mpt_packed_byte_scales(&c.packed);
    for (int i = (int)threadIdx.x; i < K::ROWS * K::KS; i += GPU_THREADS) {
        int row = i % K::ROWS * K::BLOCK_ROWS, b = i / K::ROWS;
        float amax = mpt_bits_float(m->block[i]);
        mpt_block_factors f = factors_of<K>(c, amax);
        m->block[i] = mpt_float_bits(f.encode);
        m->code[i] = (uint8_t)f.code;
        if (!bytes && row < s.rows && b * K::BLOCK_K < s.groups * GROUP)
            out[mpt_packed_scale(&c.packed, s.r0 + row, s.k0 / K::BLOCK_K + b)] = f.decode;
    }
    __syncthreads();
    if (bytes)
        put_scales<K>(m, c, s);
}

/* ---- codes ---- */

/* What a tile finds of a tensor whose delayed scale it already has. */
struct tile_found {
    bool wanted;
    mpt_quantize_amax seen;
};

template <class K>
static __device__ __forceinline__ group_codes<K::FORMAT>
codes_of(const tile_memory *m, const quantize_copy &c, const float v[GROUP], int at,
         uint64_t group, tile_found *found) {
    float encode = K::ONE ? c.found->tensor.scale : mpt_bits_float(m->block[at]);
    group_codes<K::FORMAT> codes =
        group_encode<K::FORMAT, K::STOCHASTIC>(v, encode, &c.found->key, group);
    if (K::ONE) {
        uint32_t most = group_most(v);
        if (found->wanted)
            mpt_quantize_amax_merge(&found->seen, group_seen(v, most));
        if (most >= MPT_INF_BITS && c.constants.propagate)
            group_show<K::FORMAT>(v, &codes);
    }
    return codes;
}

template <class K>
static __device__ void run_rows(tile_memory *m, const quantize_copy &c, tile_found *found) {
    tile_side s = side_of(c, false);
    int row = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE * (GROUPS / 2);
    int last = row >= s.rows                   ? 0
               : first + GROUPS / 2 < s.groups ? first + GROUPS / 2
                                               : s.groups;
    float v[GROUP];
    if (!K::ONE) {
        for (int g = first; g < last; g++) {
            read_row(m, row, g, v);
            join(m, c, K::block_at(row, g), v);
        }
        __syncthreads();
        make_scales<K>(m, c, s);
    }
    uint8_t *to = c.codes + (s.r0 + row) * c.packed.code_row + s.k0 / GROUP * K::BYTES;
    for (int g = first; g < last; g++) {
        read_row(m, row, g, v);
        uint64_t group = (uint64_t)((s.r0 + row) * c.shape.groups + s.k0 / GROUP + g);
        group_put(to + g * K::BYTES,
                  codes_of<K>(m, c, v, K::block_at(row, g), group, found).word);
    }
}

/* The magnitudes of the columns' groups, after their rotation. */
template <class K>
static __device__ void join_columns(tile_memory *m, const quantize_copy &c,
                                    const tile_side &s) {
    int pair = (int)threadIdx.x % PAIRS;
    float v[2][GROUP];
    for (int g = (int)threadIdx.x / PAIRS; g < s.groups; g += GPU_THREADS / PAIRS) {
        if (2 * pair >= s.rows)
            continue;
        read_pair(m, pair, g, v);
        if (c.q.hadamard.size) {
            rotate(v[0], c.found->signs[0]);
            rotate(v[1], c.found->signs[0]);
            write_pair(m, pair, g, v);
        }
        join(m, c, K::block_at(2 * pair, g), v[0]);
        join(m, c, K::block_at(2 * pair + 1, g), v[1]);
    }
}

/* Codes of the columns, [128][groups] over the tile's memory, to rows of the copy. */
template <class K>
static __device__ void store_columns(const tile_memory *m, const quantize_copy &c,
                                     const tile_side &s) {
    const int ld = GROUPS * K::BYTES + 16;
    const uint8_t *stage = (const uint8_t *)m->x;
    uint8_t *out = c.codes + s.k0 / GROUP * K::BYTES;
    for (int i = (int)threadIdx.x; i < TILE * GROUPS; i += GPU_THREADS) {
        int row = i / GROUPS, g = i % GROUPS;
        if (row >= s.rows || g >= s.groups)
            continue;
        const uint8_t *from = stage + row * ld + g * K::BYTES;
        uint8_t *to = out + (s.r0 + row) * c.packed.code_row + g * K::BYTES;
        if (K::BYTES == 8)
            *(uint2 *)to = *(const uint2 *)from;
        else
            *(uint4 *)to = *(const uint4 *)from;
    }
}

template <class K>
static __device__ void run_columns(tile_memory *m, const quantize_copy &c, tile_found *found) {
    enum { EACH = TILE * GROUPS / 2 / GPU_THREADS, LD = GROUPS * K::BYTES + 16 };
    tile_side s = side_of(c, true);
    int pair = (int)threadIdx.x % PAIRS, first = (int)threadIdx.x / PAIRS;
    group_codes<K::FORMAT> codes[EACH][2] = {};
    float v[2][GROUP];
    if (!K::ONE) {
        join_columns<K>(m, c, s);
        __syncthreads();
        make_scales<K>(m, c, s);
        __syncthreads();
    }
    GPU_UNROLL
    for (int i = 0; i < EACH; i++) {
        int g = first + i * (GPU_THREADS / PAIRS);
        if (g >= s.groups || 2 * pair >= s.rows)
            continue;
        read_pair(m, pair, g, v);
        GPU_UNROLL
        for (int j = 0; j < 2; j++) {
            uint64_t row = (uint64_t)(s.r0 + 2 * pair + j);
            codes[i][j] = codes_of<K>(
                m, c, v[j], K::block_at(2 * pair + j, g),
                row * (uint64_t)c.shape.groups + (uint64_t)(s.k0 / GROUP + g), found);
        }
    }
    __syncthreads();
    GPU_UNROLL
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < 2; j++)
            group_put((uint8_t *)m->x + (2 * pair + j) * LD +
                          (first + i * (GPU_THREADS / PAIRS)) * K::BYTES,
                      codes[i][j].word);
    __syncthreads();
    store_columns<K>(m, c, s);
}

/* ---- the kernel ---- */

struct tile_copies {
    quantize_copy row, col;
    bool has_row, has_col;
    const void *x;
    int64_t rows, cols;
};

template <class K>
static __global__ void __launch_bounds__(GPU_THREADS)
    tile_kernel(const __grid_constant__ tile_copies p) {
    __shared__ tile_memory m;
    load_tile(&m, p.x, p.rows, p.cols);
    clear_blocks(&m);
    __syncthreads();
    if (p.has_row) {
        tile_found found = {K::ONE && quantize_is_late(p.row), {0, false, false}};
        run_rows<K>(&m, p.row, &found);
        if (found.wanted)
            quantize_publish(p.row.found, found.seen);
    }
    if (!p.has_col)
        return;
    if (p.has_row) {
        __syncthreads();
        clear_blocks(&m);
        __syncthreads();
    }
    tile_found found = {K::ONE && quantize_is_late(p.col), {0, false, false}};
    run_columns<K>(&m, p.col, &found);
    if (found.wanted)
        quantize_publish(p.col.found, found.seen);
}

/* ---- the host's side ---- */

typedef void (*tile_launch)(const tile_copies &p, mpt_gpu *gpu);

template <class K> static void launch(const tile_copies &p, mpt_gpu *gpu) {
    dim3 tiles((unsigned)((p.cols + TILE - 1) / TILE), (unsigned)((p.rows + TILE - 1) / TILE));
    GPU_LAUNCH(tile_kernel<K>, tiles, GPU_THREADS, 0, gpu, p);
}

template <mpt_dtype FORMAT> static tile_launch launch_fp8(const quantize_copy &c) {
    const mpt_quantizer &q = c.q;
    if (c.constants.one)
        return launch<tile_kind<FORMAT, 0, 0, false>>;
    if (q.block_cols == 32 && q.block_rows == 1 && q.scale_format == MPT_SCALE_E8M0)
        return launch<tile_kind<FORMAT, 1, 32, false>>;
    if (q.block_cols != 128 || q.scale_format > MPT_SCALE_POW2)
        return NULL;
    return q.block_rows == 1 ? launch<tile_kind<FORMAT, 1, 128, false>>
                             : launch<tile_kind<FORMAT, 128, 128, false>>;
}

static tile_launch launch_fp4(const quantize_copy &c) {
    const mpt_quantizer &q = c.q;
    bool chance = q.rounding == MPT_ROUNDING_STOCHASTIC;
    if (q.scale_format != MPT_SCALE_E4M3 || q.block_cols != 16)
        return NULL;
    if (q.block_rows != 1)
        return chance ? NULL : launch<tile_kind<MPT_DTYPE_E2M1, 16, 16, false>>;
    return chance ? launch<tile_kind<MPT_DTYPE_E2M1, 1, 16, true>>
                  : launch<tile_kind<MPT_DTYPE_E2M1, 1, 16, false>>;
}

/* The kernel that takes a copy, or NULL. Counts and what a copy stands for are made by the
 * general kernels alone. */
static tile_launch launch_of(const quantize_copy &c, bool column) {
    const mpt_quantizer &q = c.q;
    bool fp4 = q.format == MPT_DTYPE_E2M1;
    bool aligned = c.shape.rows % GROUP == 0 && c.shape.k_in % GROUP == 0 &&
                   (uintptr_t)c.x.data % 16 == 0 && c.x.n > 0;
    bool rounding =
        q.rounding == MPT_ROUNDING_NEAREST || (fp4 && q.rounding == MPT_ROUNDING_STOCHASTIC);
    bool rotation = q.hadamard.size == 0 || (fp4 && column && q.hadamard.size == GROUP);
    if (c.x.storage != MPT_STORAGE_BF16 || !aligned || !rounding || !rotation || !c.codes ||
        c.counts || c.stands_for || q.outer == MPT_OUTER_ROW ||
        q.scale_rule.kind == MPT_RULE_FOUR_OVER_SIX)
        return NULL;
    return fp4                          ? launch_fp4(c)
           : q.format == MPT_DTYPE_E4M3 ? launch_fp8<MPT_DTYPE_E4M3>(c)
           : q.format == MPT_DTYPE_E5M2 ? launch_fp8<MPT_DTYPE_E5M2>(c)
                                        : NULL;
}

bool quantize_tile_takes(const quantize_copy &c, bool column) {
    return launch_of(c, column) != NULL;
}

/* Codes as [k, rows] are the other side's, of the same scale. */
static quantize_copy turned_copy(const quantize_copy &c) {
    quantize_copy t = c;
    t.shape.rows = c.shape.k;
    t.shape.k = t.shape.k_in = c.shape.rows;
    t.shape.groups = t.shape.k / GROUP;
    t.codes = c.codes + c.packed.turned;
    t.packed.code_row = c.shape.rows;
    t.late = false;
    return t;
}

static void run(const quantize_copy *row, const quantize_copy *col, tile_launch launch,
                mpt_gpu *gpu) {
    tile_copies p = {};
    p.has_row = row != NULL;
    p.has_col = col != NULL;
    p.row = row ? *row : p.row;
    p.col = col ? *col : p.col;
    p.x = row ? row->x.data : col->x.data;
    p.rows = row ? row->shape.rows : col->shape.k;
    p.cols = row ? row->shape.k : col->shape.rows;
    launch(p, gpu);
}

void quantize_tile(const quantize_copy &c, bool column, mpt_gpu *gpu) {
    tile_launch launch = launch_of(c, column);
    quantize_copy turned = {};
    const quantize_copy *other = NULL;
    if (c.packed.turned) {
        turned = turned_copy(c);
        other = &turned;
    }
    run(column ? other : &c, column ? &c : other, launch, gpu);
}

void quantize_tile_both(const quantize_copy &row, const quantize_copy &col, mpt_gpu *gpu) {
    tile_launch launch = launch_of(row, false);
    if (launch == launch_of(col, true) && !row.packed.turned && !col.packed.turned) {
        run(&row, &col, launch, gpu);
        return;
    }
    quantize_tile(row, false, gpu);
    quantize_tile(col, true, gpu);
}
