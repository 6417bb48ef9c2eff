/* What is done to operands before a product of the tensor cores, and to sums after one.
 *
 * All of it is bound by memory: codes are read once, in words where rows allow, and written
 * once; only `repack` goes through shared memory, to read and write along rows both. */
#include "kernels/cuda/linear.h"
#include "kernels/cuda/values.h"

/* ---- decode ---- */

enum { AT_ONCE = 8 }; /* elements of a thread: 16 bytes of BF16 */

static __device__ __forceinline__ void put_wide(void *to, mpt_dtype format, int64_t at,
                                                float x) {
    if (format == MPT_DTYPE_BF16)
        ((uint16_t *)to)[at] = (uint16_t)mpt_encode(MPT_DTYPE_BF16, x);
    else if (format == MPT_DTYPE_FP16)
        ((uint16_t *)to)[at] = (uint16_t)mpt_encode(MPT_DTYPE_FP16, x);
    else
        ((float *)to)[at] = x;
}

/* Rows as they are stored, blockIdx.y by blockIdx.y, AT_ONCE elements a thread. */
static __global__ void decode_kernel(gpu_operand o, int64_t rows, int64_t cols,
                                     mpt_dtype format, void *to) {
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y)
        for (int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; c < cols;
             c += (int64_t)gridDim.x * blockDim.x)
            put_wide(to, format, r * cols + c,
                     o.across ? gpu_operand_get(o, c, r) : gpu_operand_get(o, r, c));
}

/* One stored code of a format that the compiler knows. */
template <int format> static __device__ __forceinline__ float value_of(uint64_t codes, int i) {
    if (format == MPT_DTYPE_E2M1)
        return mpt_decode(MPT_DTYPE_E2M1, (uint32_t)(codes >> 4 * i) & 15u);
    return mpt_decode((mpt_dtype)format, (uint32_t)(codes >> 8 * i) & 255u);
}

/* The same to BF16 for codes of 4 or 8 bits, in words: rows of whole words, blocks of a
 * multiple of AT_ONCE. */
template <int format>
static __global__ void decode_words(gpu_operand o, int64_t rows, int64_t words, uint4 *to) {
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y)
        for (int64_t w = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; w < words;
             w += (int64_t)gridDim.x * blockDim.x) {
            const uint8_t *row = (const uint8_t *)o.data + r * o.row;
            uint64_t codes = format == MPT_DTYPE_E2M1 ? ((const uint32_t *)row)[w]
                                                      : ((const uint64_t *)row)[w];
            float scale = gpu_scale(o, r, w * AT_ONCE);
            uint32_t pair[AT_ONCE / 2];
            for (int i = 0; i < AT_ONCE / 2; i++) {
                float x = value_of<format>(codes, 2 * i) * scale;
                float y = value_of<format>(codes, 2 * i + 1) * scale;
                pair[i] = mpt_encode(MPT_DTYPE_BF16, x) | mpt_encode(MPT_DTYPE_BF16, y) << 16;
            }
            to[r * words + w] = {pair[0], pair[1], pair[2], pair[3]};
        }
}

static dim3 grid_of(int64_t rows, int64_t threads) {
    return dim3(gpu_blocks(threads), (unsigned)(rows < 1 ? 1 : rows > 65535 ? 65535 : rows));
}

static bool in_words(const gpu_operand *o, int64_t cols, mpt_dtype format) {
    int bits = mpt_code_bits(o->format);
    return o->storage == MPT_STORAGE_PACKED && format == MPT_DTYPE_BF16 && bits <= 8 &&
           cols % AT_ONCE == 0 && o->row % bits == 0 &&
           (!o->scales || o->block_cols % AT_ONCE == 0);
}

extern "C" void mpt_cuda_decode(const mpt_gpu *gpu, const gpu_operand *from, mpt_dtype format,
                                void *to) {
    gpu_operand o = *from;
    int64_t rows = o.across ? o.k : o.outer, cols = o.across ? o.outer : o.k;
    int64_t words = cols / AT_ONCE;
    dim3 grid = grid_of(rows, words);
    uint4 *out = (uint4 *)to;
    bool fast = in_words(from, cols, format);
    if (fast && o.format == MPT_DTYPE_E4M3)
        GPU_LAUNCH(decode_words<MPT_DTYPE_E4M3>, grid, GPU_THREADS, 0, gpu, o, rows, words,
                   out);
    else if (fast && o.format == MPT_DTYPE_E5M2)
        GPU_LAUNCH(decode_words<MPT_DTYPE_E5M2>, grid, GPU_THREADS, 0, gpu, o, rows, words,
                   out);
    else if (fast && o.format == MPT_DTYPE_E2M1)
        GPU_LAUNCH(decode_words<MPT_DTYPE_E2M1>, grid, GPU_THREADS, 0, gpu, o, rows, words,
                   out);
    else
        GPU_LAUNCH(decode_kernel, grid_of(rows, cols), GPU_THREADS, 0, gpu, o, rows, cols,
                   format, to);
}

/* ---- repack ---- */

enum { TILE = 64 };

/* Where the new copy has its codes and scales. */
struct repacked {
    uint8_t *codes, *scales;
    mpt_dtype format;
    int64_t code_row, scale_ld;
    int64_t block_rows, block_k; /* elements of a scale */
    int64_t rows, blocks_k;
    bool bytes; /* of scales, in tiles */
};

static __device__ __forceinline__ uint32_t rewritten(const gpu_operand &o, mpt_dtype format,
                                                     int64_t i, int64_t k) {
    uint32_t code = gpu_code(o, gpu_stored_row(o, i, k), gpu_stored_col(o, i, k));
    return o.format == format ? code : mpt_encode(format, mpt_decode(o.format, code));
}

/* A tile of TILE dot products by TILE elements, read along stored rows, written along new
 * ones. */
static __global__ void repack_codes(gpu_operand o, repacked to) {
    __shared__ uint8_t tile[TILE][TILE + 4];
    int64_t first = (int64_t)blockIdx.y * TILE, k0 = (int64_t)blockIdx.x * TILE;
    for (int at = threadIdx.x; at < TILE * TILE; at += GPU_THREADS) {
        int i = o.across ? at % TILE : at / TILE, k = o.across ? at / TILE : at % TILE;
        bool there = first + i < o.outer && k0 + k < o.k;
        tile[i][k] = there ? (uint8_t)rewritten(o, to.format, first + i, k0 + k) : 0;
    }
    __syncthreads();
    int per_byte = mpt_code_bits(to.format) == 4 ? 2 : 1, row = TILE / per_byte;
    for (int at = threadIdx.x; at < TILE * row; at += GPU_THREADS) {
        int i = at / row, k = at % row * per_byte;
        if (first + i < o.outer && k0 + k < o.k)
            to.codes[(first + i) * to.code_row + (k0 + k) / per_byte] =
                per_byte == 2 ? (uint8_t)(tile[i][k] | tile[i][k + 1] << 4) : tile[i][k];
    }
}

/* Scales, padding included: of row r (or row of blocks) and block b along the dot product. */
static __global__ void repack_scales(gpu_operand o, repacked to, int64_t rows, int64_t blocks) {
    GPU_EACH(at, rows * blocks) {
        int64_t r = at / blocks, b = at % blocks;
        int64_t i = r * (to.bytes ? 1 : to.block_rows), k = b * to.block_k;
        bool there = i < o.outer && k < o.k;
        int64_t index =
            there ? gpu_scale_index(o, gpu_stored_row(o, i, k), gpu_stored_col(o, i, k)) : 0;
        if (to.bytes)
            to.scales[mpt_swizzled(r, b, to.scale_ld)] =
                there ? ((const uint8_t *)o.scales)[index] : 0;
        else
            ((float *)
                 to.scales)[to.block_rows == 1 ? b * to.scale_ld + r : r * to.scale_ld + b] =
                there ? ((const float *)o.scales)[index] : 0.0f;
    }
}

static int64_t up_to(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

extern "C" void mpt_cuda_repack(const mpt_gpu *gpu, const gpu_operand *from,
                                const mpt_packed *packed, void *data) {
    gpu_operand o = *from;
    repacked to = {(uint8_t *)data,      (uint8_t *)data + packed->scales,
                   packed->q.format,     packed->code_row,
                   packed->scale_ld,     packed->q.block_rows,
                   packed->q.block_cols, packed->rows,
                   packed->blocks_k,     packed->q.scale_format >= MPT_SCALE_E8M0};
    dim3 grid((unsigned)((o.k + TILE - 1) / TILE), (unsigned)((o.outer + TILE - 1) / TILE));
    GPU_LAUNCH(repack_codes, grid, GPU_THREADS, 0, gpu, o, to);
    if (!packed->scales)
        return;
    int64_t rows = to.bytes             ? up_to(to.rows, 128)
                   : to.block_rows == 1 ? to.scale_ld
                                        : packed->blocks_rows;
    int64_t blocks = to.bytes             ? up_to(to.blocks_k, 4)
                     : to.block_rows == 1 ? to.blocks_k
                                          : to.scale_ld;
    GPU_LAUNCH(repack_scales, gpu_blocks(rows * blocks), GPU_THREADS, 0, gpu, o, to, rows,
               blocks);
}

/* ---- factors ---- */

static __device__ __forceinline__ float factor_of(const gpu_tensor &t, int64_t i) {
    return t.data ? gpu_get(t, t.n > 1 ? i : 0) : 1.0f;
}

static __global__ void alpha_kernel(gpu_tensor first, gpu_tensor second, float alpha,
                                    float beta, float *scalars) {
    float a = factor_of(first, 0), b = factor_of(second, 0), f = a * b * alpha;
    bool beyond = !mpt_is_finite(f) && mpt_is_finite(a) && mpt_is_finite(b);
    scalars[0] = beyond ? copysignf(MPT_FLT_MAX, f) : f;
    scalars[1] = beta;
}

extern "C" void mpt_cuda_alpha(const mpt_kernel_args *args, float beta, float *scalars) {
    float alpha = args->node->attrs.alpha;
    GPU_LAUNCH(alpha_kernel, 1, 1, 0, args->gpu, gpu_in(args, 3), gpu_in(args, 4), alpha, beta,
               scalars);
}

/* ---- after the sums ---- */

struct finishing {
    linear_finish f;
    gpu_tensor y, bias, first, second;
    float alpha;
};

/* As kernels/ref/ref_linear.c orders it. */
static __global__ void finish_kernel(finishing p) {
    for (int64_t r = blockIdx.y; r < p.f.rows; r += gridDim.y)
        for (int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; c < p.f.cols;
             c += (int64_t)gridDim.x * blockDim.x) {
            int64_t at = r * p.f.cols + c;
            float sum = p.f.sums[at];
            if (p.f.row_scales)
                sum *= p.f.row_scales[r];
            if (p.f.col_scales)
                sum *= p.f.col_scales[c];
            float a = factor_of(p.first, r), b = factor_of(p.second, c), f = a * b * p.alpha;
            float y = mpt_is_finite(f) ? f * sum : sum * p.alpha * a * b;
            if (p.f.add)
                y = gpu_get(p.y, at) + y;
            else
                y += p.bias.data ? gpu_get(p.bias, c) : 0.0f;
            gpu_put(p.y, at, y);
        }
}

extern "C" void mpt_cuda_finish(const mpt_kernel_args *args, const linear_finish *finish) {
    bool has_bias = args->node->op == MPT_OP_linear;
    finishing p = {*finish,         gpu_out(args, 0), has_bias ? gpu_in(args, 2) : gpu_tensor{},
                   gpu_in(args, 3), gpu_in(args, 4),  args->node->attrs.alpha};
    GPU_LAUNCH(finish_kernel, grid_of(finish->rows, finish->cols), GPU_THREADS, 0, args->gpu,
               p);
}
