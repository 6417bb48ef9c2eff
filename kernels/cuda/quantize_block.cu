/* Scales and codes of any quantizer: what the kernels made for one format do not take.
 *
 * The values are read twice: for the amax of blocks and rows, by atomic maxima over bits, and
 * for their codes. A thread has one group of 16 elements, which lies in one block and shares
 * one call of the random generator. Bound by the instructions of the general casts, which look
 * up their format element by element. */
#include "kernels/cuda/quantize_copy.h"

/* ---- the amax of blocks ---- */

static __global__ void block_amax_kernel(const __grid_constant__ quantize_copy c, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x, r, g;
    if (i >= n)
        return;
    quantize_place(c, i, c.shape.groups, &r, &g);
    mpt_quantize_amax seen = {0, false, false};
    int64_t k0 = g * MPT_RANDOM_GROUP, k1 = k0 + MPT_RANDOM_GROUP;
    for (int64_t k = k0; k < k1 && k < c.shape.k; k++)
        mpt_quantize_amax_see(&seen, quantize_value(c, r, k));
    float block = mpt_quantize_block_amax(c.constants.propagate, seen);
    atomicMax(&c.blocks[quantize_block_at(c, r, k0)].amax, mpt_float_bits(block));
    if (c.row_amax)
        atomicMax(&c.row_amax[r],
                  mpt_float_bits(mpt_quantize_own_amax(c.constants.propagate, seen)));
}

/* The scale above a row's blocks. */
static __device__ mpt_tensor_scale scale_above(const quantize_copy &c, int64_t r) {
    if (!c.row_amax)
        return c.found->tensor;
    return mpt_quantize_row_scale(&c.found->tensor, mpt_bits_float(c.row_amax[r]));
}

/* ---- Four Over Six ---- */

/* One row of one block: the errors under both scales, summed up along k in order. */
static __global__ void error_kernel(const __grid_constant__ quantize_copy c, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x, r, b;
    if (i >= n)
        return;
    quantize_place(c, i, c.shape.blocks_k, &r, &b);
    mpt_tensor_scale t = scale_above(c, r);
    int64_t k0 = b * c.shape.block_k, k1 = k0 + c.shape.block_k;
    float amax = mpt_bits_float(c.blocks[quantize_block_at(c, r, k0)].amax);
    uint32_t six, four;
    mpt_four_over_six(amax, &t.outer, &six, &four);
    mpt_block_factors f = mpt_quantize_block_of_code(&c.q, &t, six);
    mpt_block_factors g = mpt_quantize_block_of_code(&c.q, &t, four);
    float error_six = 0.0f, error_four = 0.0f;
    for (int64_t k = k0; k < k1 && k < c.shape.k; k++) {
        float x = quantize_value(c, r, k);
        error_six += mpt_quantize_choice_error(&c.q, &t, &f, x);
        error_four += mpt_quantize_choice_error(&c.q, &t, &g, x);
    }
    c.errors[2 * (r * c.shape.blocks_k + b)] = error_six;
    c.errors[2 * (r * c.shape.blocks_k + b) + 1] = error_four;
}

/* The sum over the rows of a block, in place, its halves folded onto each other. */
static __device__ float fold_errors(const quantize_copy &c, int64_t r0, int64_t b, int which) {
    float *e = c.errors + 2 * (r0 * c.shape.blocks_k + b) + which;
    int64_t ld = 2 * c.shape.blocks_k, rows = c.shape.rows - r0;
    for (int64_t h = c.shape.block_rows / 2; h > 0; h /= 2)
        for (int64_t i = 0; i < h && i + h < rows; i++)
            e[i * ld] += e[(i + h) * ld];
    return e[0];
}

static __device__ mpt_block_factors choose(const quantize_copy &c, const mpt_tensor_scale *t,
                                           int64_t r0, int64_t b, float amax) {
    uint32_t six, four;
    mpt_four_over_six(amax, &t->outer, &six, &four);
    bool better = fold_errors(c, r0, b, 1) < fold_errors(c, r0, b, 0);
    return mpt_quantize_block_of_code(&c.q, t, better ? four : six);
}

/* ---- scales ---- */

static __global__ void scale_kernel(const __grid_constant__ quantize_copy c, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t r0 = i / c.shape.blocks_k * c.shape.block_rows, b = i % c.shape.blocks_k;
    mpt_tensor_scale t = scale_above(c, r0);
    float amax = mpt_bits_float(c.blocks[i].amax);
    mpt_block_factors f = c.q.scale_rule.kind == MPT_RULE_FOUR_OVER_SIX
                              ? choose(c, &t, r0, b, amax)
                              : mpt_quantize_block_scale(&c.q, &t, amax);
    c.blocks[i].code = f.code;
    c.blocks[i].encode = f.encode;
    c.blocks[i].restore = f.restore;
    if (c.codes && !mpt_packed_byte_scales(&c.packed))
        ((float *)(c.codes + c.packed.scales))[mpt_packed_scale(&c.packed, r0, b)] = f.decode;
    unsigned capped = f.capped ? 1u : 0u;
    if (c.row_amax && b == 0) {
        capped += t.capped ? 1u : 0u;
        if (c.factor)
            c.factor[r0] = t.amax;
    }
    if (capped)
        atomicAdd(&c.found->capped, capped);
}

/* Bytes of scales, one a row and block. */
static __global__ void put_scales_kernel(const __grid_constant__ quantize_copy c, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t r = i / c.shape.blocks_k, b = i % c.shape.blocks_k;
    uint32_t code = c.blocks[r / c.shape.block_rows * c.shape.blocks_k + b].code;
    c.codes[c.packed.scales + (size_t)mpt_packed_scale(&c.packed, r, b)] = (uint8_t)code;
}

static void make_scales(const quantize_copy &c, mpt_gpu *gpu) {
    int64_t groups = quantize_groups(c), rows = c.shape.rows * c.shape.blocks_k;
    int64_t blocks = quantize_rows_of_blocks(c) * c.shape.blocks_k;
    GPU_LAUNCH(block_amax_kernel, quantize_grid(groups), GPU_THREADS, 0, gpu, c, groups);
    if (c.errors)
        GPU_LAUNCH(error_kernel, quantize_grid(rows), GPU_THREADS, 0, gpu, c, rows);
    GPU_LAUNCH(scale_kernel, quantize_grid(blocks), GPU_THREADS, 0, gpu, c, blocks);
    if (c.codes && mpt_packed_byte_scales(&c.packed))
        GPU_LAUNCH(put_scales_kernel, quantize_grid(rows), GPU_THREADS, 0, gpu, c, rows);
}

/* ---- codes ---- */

/* Code k of a row, a byte or more; pairs of 4 bits are put together by put_pair. */
static __device__ __forceinline__ void put_code(uint8_t *row, int bytes, int64_t k,
                                                uint32_t code) {
    if (bytes == 1)
        row[k] = (uint8_t)code;
    else if (bytes == 2)
        ((uint16_t *)row)[k] = (uint16_t)code;
    else
        ((uint32_t *)row)[k] = code;
}

static __device__ __forceinline__ void put_pair(uint8_t *row, int64_t k, bool last,
                                                uint32_t code, uint32_t *even) {
    if (k % 2 == 0)
        *even = code;
    if (k % 2 != 0 || last)
        row[k / 2] = (uint8_t)(k % 2 != 0 ? *even | code << 4 : code);
}

/* One group; what is counted of it is added to `counts`, or nothing where that is NULL. */
static __device__ void encode_group(const quantize_copy &c, int64_t r, int64_t g,
                                    mpt_quantize_counts *counts) {
    const mpt_quantize_shape &s = c.shape;
    const mpt_tensor_scale &t = c.found->tensor;
    int64_t k0 = g * MPT_RANDOM_GROUP, k1 = k0 + MPT_RANDOM_GROUP;
    float encode = t.scale, restore = t.decode;
    if (!s.one_scale) {
        const quantize_block *b = &c.blocks[quantize_block_at(c, r, k0)];
        encode = b->encode;
        restore = b->restore;
    }
    uint32_t bits[MPT_RANDOM_GROUP] = {0}, even = 0;
    if (c.q.rounding == MPT_ROUNDING_STOCHASTIC)
        mpt_quantize_draw(&c.found->key, c.q.format, (uint64_t)(r * s.groups + g), bits);
    int wide = mpt_code_bits(c.q.format);
    bool visible = s.one_scale && c.constants.propagate;
    uint8_t *row = c.codes ? c.codes + r * c.packed.code_row : NULL;
    for (int64_t k = k0; k < k1 && k < s.k; k++) {
        float x = quantize_value(c, r, k), y = x * encode;
        uint32_t code = mpt_quantize_code_of(&c.q, &c.constants.format, visible, x, y,
                                             bits[k % MPT_RANDOM_GROUP]);
        if (row && wide == 4)
            put_pair(row, k, k + 1 == s.k, code, &even);
        else if (row)
            put_code(row, wide / 8, k, code);
        if (!c.stands_for && !counts)
            continue;
        float value = mpt_decode(c.q.format, code);
        if (c.stands_for)
            c.stands_for[r * s.k + k] = value * restore;
        if (counts)
            mpt_quantize_count(counts, &c.constants.format, x, y, value, restore);
    }
}

static __global__ void encode_kernel(const __grid_constant__ quantize_copy c, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x, r, g;
    if (i >= n || (c.skip && *c.skip != *c.skip))
        return;
    quantize_place(c, i, c.shape.groups, &r, &g);
    encode_group(c, r, g, NULL);
}

/* The same and counts: those of a block of threads are added up as a tree. */
static __global__ void encode_counted_kernel(const __grid_constant__ quantize_copy c,
                                             int64_t n) {
    __shared__ mpt_quantize_counts sum[GPU_THREADS];
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x, r, g;
    mpt_quantize_counts own = {0, 0, 0, 0, 0, 0, 0.0f, 0.0, 0.0, 0.0f};
    if (i < n) {
        quantize_place(c, i, c.shape.groups, &r, &g);
        encode_group(c, r, g, &own);
    }
    sum[threadIdx.x] = own;
    for (unsigned half = GPU_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            mpt_quantize_counts_add(&sum[threadIdx.x], &sum[threadIdx.x + half]);
    }
    if (threadIdx.x == 0)
        c.part[blockIdx.x] = sum[0];
}

/* The parts of all blocks, each thread every 256th, then a tree. */
static __global__ void sum_counts_kernel(const __grid_constant__ quantize_copy c, int64_t n) {
    __shared__ mpt_quantize_counts sum[GPU_THREADS];
    mpt_quantize_counts own = {0, 0, 0, 0, 0, 0, 0.0f, 0.0, 0.0, 0.0f};
    for (int64_t i = threadIdx.x; i < n; i += GPU_THREADS)
        mpt_quantize_counts_add(&own, &c.part[i]);
    sum[threadIdx.x] = own;
    for (unsigned half = GPU_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            mpt_quantize_counts_add(&sum[threadIdx.x], &sum[threadIdx.x + half]);
    }
    if (threadIdx.x != 0)
        return;
    const mpt_tensor_scale &t = c.found->tensor;
    sum[0].capped = c.found->capped + (t.capped ? 1u : 0u);
    mpt_quantize_counts_add(c.counts, &sum[0]);
    c.counts->scale = mpt_quantize_counted_scale(
        &c.q, t.one, t.constant, c.delayed ? *c.delayed : 0.0f, mpt_quantize_factor(&c.q, &t));
}

/* ---- turned codes ---- */

static __device__ __forceinline__ uint32_t code_at(const quantize_copy &c, int bits, int64_t r,
                                                   int64_t k) {
    const uint8_t *row = c.codes + r * c.packed.code_row;
    return bits == 4    ? row[k / 2] >> (k % 2 * 4) & 15u
           : bits == 8  ? row[k]
           : bits == 16 ? ((const uint16_t *)row)[k]
                        : ((const uint32_t *)row)[k];
}

/* The same codes as [k, rows]: a thread has one, or a byte of two. */
static __global__ void turn_kernel(const __grid_constant__ quantize_copy c, int bits,
                                   int64_t row_bytes, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t units = bits == 4 ? row_bytes : c.shape.rows, k = i / units, r = i % units;
    uint8_t *row = c.codes + c.packed.turned + k * row_bytes;
    if (bits != 4) {
        put_code(row, bits / 8, r, code_at(c, bits, r, k));
        return;
    }
    uint32_t odd = 2 * r + 1 < c.shape.rows ? code_at(c, 4, 2 * r + 1, k) : 0;
    row[r] = (uint8_t)(code_at(c, 4, 2 * r, k) | odd << 4);
}

static void turn(const quantize_copy &c, mpt_gpu *gpu) {
    int bits = mpt_code_bits(c.q.format);
    int64_t row_bytes = (c.shape.rows * bits + 7) / 8;
    int64_t n = c.shape.k * (bits == 4 ? row_bytes : c.shape.rows);
    GPU_LAUNCH(turn_kernel, quantize_grid(n), GPU_THREADS, 0, gpu, c, bits, row_bytes, n);
}

void quantize_blocks(const quantize_copy &c, mpt_gpu *gpu) {
    int64_t n = quantize_groups(c);
    if (!c.shape.one_scale)
        make_scales(c, gpu);
    if (c.counts) {
        GPU_LAUNCH(encode_counted_kernel, quantize_grid(n), GPU_THREADS, 0, gpu, c, n);
        GPU_LAUNCH(sum_counts_kernel, 1, GPU_THREADS, 0, gpu, c, (int64_t)quantize_grid(n));
    } else {
        GPU_LAUNCH(encode_kernel, quantize_grid(n), GPU_THREADS, 0, gpu, c, n);
    }
    if (c.codes && c.packed.turned)
        turn(c, gpu);
}
