/* The first steps of a quantized copy: rotation, the tensor's largest magnitudes, its scale.
 *
 * Magnitudes are found by atomic maxima over the bits of floats, which do not depend on the
 * order of threads. Rotation is done tile by tile in shared memory, each butterfly one addition
 * and one subtraction as in numerics_scale.h. All are bound by memory. */
#include "kernels/cuda/quantize_group.h"

/* ---- the beginning ---- */

static __global__ void begin_kernel(const __grid_constant__ quantize_copy c, int64_t n_words,
                                    int64_t scale_words) {
    uint32_t *scales = (uint32_t *)(c.codes + c.packed.scales);
    GPU_EACH(i, n_words)((uint32_t *)c.blocks)[i] = 0;
    GPU_EACH(i, scale_words) scales[i] = 0;
    if (c.row_amax)
        GPU_EACH(i, c.shape.rows) c.row_amax[i] = 0;
    if (blockIdx.x != 0 || threadIdx.x != 0)
        return;
    quantize_found *f = c.found;
    f->finite = f->inf = f->nan = f->capped = 0;
    uint64_t micro_batch = c.once ? 0 : c.env->micro_batch;
    f->key = mpt_quantize_key(c.env->seed, c.env->step, c.operand, micro_batch,
                              c.shape.rows * c.shape.groups);
    mpt_hadamard_signs(&c.q.hadamard, &f->key, c.scope, f->signs);
}

void quantize_begin(const quantize_copy &c, mpt_gpu *gpu) {
    int64_t words = c.blocks ? quantize_rows_of_blocks(c) * c.shape.blocks_k *
                                   (int64_t)(sizeof(quantize_block) / sizeof(uint32_t))
                             : 0;
    int64_t scale_words =
        c.codes && c.packed.scales ? (int64_t)(c.packed.bytes - c.packed.scales) / 4 : 0;
    int64_t most = words > scale_words ? words : scale_words;
    GPU_LAUNCH(begin_kernel, gpu_blocks(most), GPU_THREADS, 0, gpu, c, words, scale_words);
}

/* ---- the largest magnitudes ---- */

/* The 16 bytes of x from element i on: 8 values of BF16, or 4 floats. */
static __device__ __forceinline__ void see_vector(const gpu_tensor &x, int64_t i,
                                                  mpt_quantize_amax *seen) {
    uint4 v = *(const uint4 *)((const uint8_t *)x.data + i * 16);
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
    for (int j = 0; j < 4; j++)
        if (x.storage == MPT_STORAGE_HOST) {
            mpt_quantize_amax_see(seen, mpt_bits_float(word[j]));
        } else {
            mpt_quantize_amax_see(seen, mpt_bits_float(word[j] << 16));
            mpt_quantize_amax_see(seen, mpt_bits_float(word[j] & 0xFFFF0000u));
        }
}

static __global__ void amax_kernel(const __grid_constant__ quantize_copy c,
                                   quantize_found *also, int64_t n_vectors, int per_vector) {
    mpt_quantize_amax seen = {0, false, false};
    if (quantize_is_late(c))
        return;
    GPU_EACH(i, n_vectors) see_vector(c.x, i, &seen);
    GPU_EACH(i, c.x.n - n_vectors * per_vector)
    mpt_quantize_amax_see(&seen, gpu_get(c.x, n_vectors * per_vector + i));
    quantize_publish(c.found, seen);
    if (also)
        quantize_publish(also, seen);
}

void quantize_amax(const quantize_copy &c, quantize_found *also, mpt_gpu *gpu) {
    bool wide = c.x.storage == MPT_STORAGE_HOST, half = c.x.storage == MPT_STORAGE_FP16;
    int per_vector = wide ? 4 : 8;
    int64_t n = half || (uintptr_t)c.x.data % 16 != 0 ? 0 : c.x.n / per_vector;
    int64_t most = n > c.x.n - n * per_vector ? n : c.x.n - n * per_vector;
    unsigned blocks = quantize_grid(most), enough = 8u * (unsigned)gpu->n_multiprocessors;
    GPU_LAUNCH(amax_kernel, blocks < enough ? blocks : enough, GPU_THREADS, 0, gpu, c, also, n,
               per_vector);
}

/* ---- the rotation ---- */

/* A tile is 32 rows of 128 elements along k: whole vectors of every size. */
enum { TILE_ROWS = 32, TILE_K = MPT_HADAMARD_MAX, TILE_LD = TILE_K + 1 };

static __device__ void butterflies(float (*tile)[TILE_LD], int n) {
    for (int h = 1; h < n; h *= 2) {
        __syncthreads();
        for (int p = (int)threadIdx.x; p < TILE_ROWS * TILE_K / 2; p += GPU_THREADS) {
            int pair = p % (TILE_K / 2), i = pair / h * 2 * h + pair % h;
            float *v = &tile[p / (TILE_K / 2)][i], a = v[0], b = v[h];
            v[0] = a + b;
            v[h] = a - b;
        }
    }
    __syncthreads();
}

static __device__ __forceinline__ bool negated(const uint32_t signs[4], int64_t k, int n) {
    int i = (int)(k % n);
    return signs[i / 32] >> (i % 32) & 1u;
}

/* Element j of a tile's load: along k in memory, or along the rows. */
static __device__ __forceinline__ void tile_place(bool along_k, int j, int *r, int *k) {
    *r = along_k ? j / TILE_K : j % TILE_ROWS;
    *k = along_k ? j % TILE_K : j / TILE_ROWS;
}

static __global__ void rotate_kernel(const __grid_constant__ quantize_copy c) {
    __shared__ float tile[TILE_ROWS][TILE_LD];
    const mpt_quantize_shape &s = c.shape;
    int64_t r0 = (int64_t)blockIdx.y * TILE_ROWS, k0 = (int64_t)blockIdx.x * TILE_K;
    int n = c.q.hadamard.size, r, k;
    float factor = mpt_hadamard_factor(n);
    mpt_quantize_amax seen = {0, false, false};
    for (int j = (int)threadIdx.x; j < TILE_ROWS * TILE_K; j += GPU_THREADS) {
        tile_place(s.k_stride == 1, j, &r, &k);
        bool there = r0 + r < s.rows && k0 + k < s.k_in;
        float x = there ? gpu_get(c.x, (r0 + r) * s.row_stride + (k0 + k) * s.k_stride) : 0.0f;
        tile[r][k] = negated(c.found->signs, k0 + k, n) ? -x : x;
    }
    butterflies(tile, n);
    for (int j = (int)threadIdx.x; j < TILE_ROWS * TILE_K; j += GPU_THREADS) {
        tile_place(true, j, &r, &k);
        if (r0 + r >= s.rows || k0 + k >= s.k)
            continue;
        float y = tile[r][k] * factor;
        y = c.bf16 ? mpt_round(MPT_DTYPE_BF16, y) : y;
        mpt_quantize_amax_see(&seen, y);
        if (c.rotated)
            c.rotated[(r0 + r) * s.k + k0 + k] = y;
    }
    quantize_publish(c.found, seen);
}

static dim3 tiles_of(const quantize_copy &c) {
    return dim3((unsigned)((c.shape.k + TILE_K - 1) / TILE_K),
                (unsigned)((c.shape.rows + TILE_ROWS - 1) / TILE_ROWS));
}

void quantize_rotate(const quantize_copy &c, mpt_gpu *gpu) {
    GPU_LAUNCH(rotate_kernel, tiles_of(c), GPU_THREADS, 0, gpu, c);
}

static __global__ void unrotate_kernel(const __grid_constant__ quantize_copy c, float *y) {
    __shared__ float tile[TILE_ROWS][TILE_LD];
    const mpt_quantize_shape &s = c.shape;
    int64_t r0 = (int64_t)blockIdx.y * TILE_ROWS, k0 = (int64_t)blockIdx.x * TILE_K;
    int n = c.q.hadamard.size, r, k;
    float factor = n ? mpt_hadamard_factor(n) : 1.0f;
    for (int j = (int)threadIdx.x; j < TILE_ROWS * TILE_K; j += GPU_THREADS) {
        tile_place(true, j, &r, &k);
        bool there = r0 + r < s.rows && k0 + k < s.k;
        tile[r][k] = there ? c.stands_for[(r0 + r) * s.k + k0 + k] : 0.0f;
    }
    butterflies(tile, n);
    for (int j = (int)threadIdx.x; j < TILE_ROWS * TILE_K; j += GPU_THREADS) {
        tile_place(true, j, &r, &k);
        if (r0 + r >= s.rows || k0 + k >= s.k_in)
            continue;
        float v = tile[r][k];
        if (n)
            v = negated(c.found->signs, k0 + k, n) ? -(v * factor) : v * factor;
        y[(r0 + r) * s.k_in + k0 + k] = c.bf16 ? mpt_round(MPT_DTYPE_BF16, v) : v;
    }
}

void quantize_unrotate(const quantize_copy &c, float *y, mpt_gpu *gpu) {
    GPU_LAUNCH(unrotate_kernel, tiles_of(c), GPU_THREADS, 0, gpu, c, y);
}

/* ---- the amax of rotated columns, without keeping them ---- */

/* Rounding keeps the order of magnitudes, so that of the largest is the largest, where it is
 * not past the end of BF16's range. */
static __device__ __forceinline__ void see_rotated(float v[GROUP], uint32_t signs,
                                                   mpt_quantize_amax *seen) {
    float kept[GROUP];
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++)
        kept[i] = v[i];
    rotate_sums(v, signs);
    uint32_t most = mpt_float_bits(mpt_bits_float(group_most(v)) * 0.25f);
    if (most < 0x7F7F0000u) {
        mpt_quantize_amax one = {gpu_encode_bf16(mpt_bits_float(most)) << 16, false, false};
        mpt_quantize_amax_merge(seen, one);
        return;
    }
    rotate(kept, signs);
    mpt_quantize_amax_merge(seen, group_seen(kept, group_most(kept)));
}

/* A thread has a group of two neighbouring columns, from memory. */
static __global__ void tile_amax_kernel(const __grid_constant__ quantize_copy c,
                                        quantize_found *plain, int64_t n) {
    mpt_quantize_amax seen = {0, false, false}, raw = {0, false, false};
    const uint32_t *x = (const uint32_t *)c.x.data;
    int64_t pairs = c.shape.rows / 2;
    uint32_t signs = c.found->signs[0];
    float v[2][GROUP];
    GPU_EACH(i, n) {
        const uint32_t *at = x + i / pairs * GROUP * pairs + i % pairs;
        GPU_UNROLL
        for (int k = 0; k < GROUP; k++)
            pair_values(at[k * pairs], k, v);
        GPU_UNROLL
        for (int j = 0; j < 2; j++) {
            if (plain)
                mpt_quantize_amax_merge(&raw, group_seen(v[j], group_most(v[j])));
            see_rotated(v[j], signs, &seen);
        }
    }
    quantize_publish(c.found, seen);
    if (plain)
        quantize_publish(plain, raw);
}

void quantize_tile_amax(const quantize_copy &col, quantize_found *plain, mpt_gpu *gpu) {
    int64_t n = col.shape.rows / 2 * col.shape.groups;
    unsigned blocks = quantize_grid(n), enough = 8u * (unsigned)gpu->n_multiprocessors;
    GPU_LAUNCH(tile_amax_kernel, blocks < enough ? blocks : enough, GPU_THREADS, 0, gpu, col,
               plain, n);
}

/* ---- the scale of the tensor ---- */

static __device__ mpt_quantize_amax seen_in(const quantize_found *f) {
    mpt_quantize_amax seen = {f->finite, f->inf != 0, f->nan != 0};
    return seen;
}

static __global__ void settle_kernel(const __grid_constant__ quantize_copy c) {
    mpt_tensor_scale t = c.constants;
    mpt_quantize_settle(&c.q, c.delayed ? *c.delayed : 0.0f, seen_in(c.found), &t);
    c.found->tensor = t;
    if (c.history && c.records)
        *c.history = mpt_quantize_raised(*c.history, &t);
    if (c.factor && c.q.outer != MPT_OUTER_ROW)
        *c.factor = mpt_quantize_factor(&c.q, &t);
}

void quantize_settle(const quantize_copy &c, mpt_gpu *gpu) {
    GPU_LAUNCH(settle_kernel, 1, 1, 0, gpu, c);
}

/* Where the scale was there before the values were seen: they still raise the history. */
static __global__ void raise_kernel(const __grid_constant__ quantize_copy c) {
    mpt_tensor_scale t = c.constants;
    t.seen = seen_in(c.found);
    *c.history = mpt_quantize_raised(*c.history, &t);
}

void quantize_raise(const quantize_copy &c, mpt_gpu *gpu) {
    GPU_LAUNCH(raise_kernel, 1, 1, 0, gpu, c);
}
