/* Products on the plain cores, in the order of sums that kernels/ref/ref_linear.c defines:
 * everything that a linear node can ask for, for the nodes that the tensor cores cannot take.
 *
 * A block makes a tile of TILE x TILE results, each thread RESULTS x RESULTS of them; elements
 * are decoded as they are brought into shared memory, DEPTH of each dot product at a time. Each
 * result is summed by one thread from its first product to its last, so nothing depends on the
 * tile. Bound by issue: two instructions a product. */
#include "kernels/cuda/operand.h"
#include "kernels/cuda/values.h"

enum { TILE = 64, DEPTH = 16, RESULTS = 4, ACROSS = TILE / RESULTS };

struct plain_product {
    gpu_operand a, b; /* of rows and of columns of the result */
    gpu_tensor y, bias, a_factor, b_factor;
    const int32_t *offsets; /* [experts + 1] on the device; NULL: one product */
    int64_t experts, rows, cols;
    int64_t b_rows; /* rows of results' columns, of an expert: its first column is e * b_rows */
    int64_t
        b_first; /* dgrad: an expert's first element of each of b's dot products is e * it */
    bool along_tokens; /* wgrad: offsets cut the dot products */
    bool add;
    float alpha;
    mpt_dtype accumulate;
    int64_t group, promote; /* products of a part; of a run that is promoted */
};

/* One tile's place: rows and columns of the result that are there, and the dot products'
 * elements of either operand. */
struct plain_tile {
    int64_t row, end_row, col; /* in the operands' own counting */
    int64_t expert, k, end_k, b_k;
    int64_t out_row; /* what is added to a row for its place in the result */
};

static __device__ bool tile_of_rows(const plain_product &p, plain_tile *t) {
    int64_t tiles = blockIdx.y;
    t->k = 0;
    t->end_k = p.a.k;
    for (int64_t e = 0; e < p.experts; e++) {
        int64_t first = p.offsets ? p.offsets[e] : 0;
        int64_t end = p.offsets ? p.offsets[e + 1] : p.rows,
                n = (end - first + TILE - 1) / TILE;
        if (tiles < n) {
            t->expert = e;
            t->row = first + tiles * TILE;
            t->end_row = end;
            t->b_k = e * p.b_first;
            return true;
        }
        tiles -= n;
    }
    return false;
}

static __device__ bool tile_of(const plain_product &p, plain_tile *t) {
    *t = {};
    t->col = (int64_t)blockIdx.x * TILE;
    if (!p.along_tokens)
        return tile_of_rows(p, t);
    int64_t e = blockIdx.z;
    t->expert = e;
    t->row = (int64_t)blockIdx.y * TILE;
    t->end_row = p.rows;
    t->k = t->b_k = p.offsets ? p.offsets[e] : 0;
    t->end_k = p.offsets ? p.offsets[e + 1] : p.a.k;
    t->out_row = e * p.rows;
    return true;
}

/* DEPTH elements of TILE dot products, [DEPTH][TILE + 1]. Neighbours in memory are read by
 * neighbouring threads, whichever way the operand lies. */
static __device__ void load(float (*to)[TILE + 1], const gpu_operand &o, int64_t first,
                            int64_t end, int64_t k, int64_t end_k) {
    for (int at = threadIdx.x; at < TILE * DEPTH; at += GPU_THREADS) {
        int i = o.across ? at % TILE : at / DEPTH, d = o.across ? at / TILE : at % DEPTH;
        bool there = first + i < end && k + d < end_k;
        to[d][i] = there ? gpu_operand_get(o, first + i, k + d) : 0.0f;
    }
}

/* The three levels of a sum: the part within a group, the run that is rounded to a format after
 * each group, the total to which runs are promoted. */
struct plain_sums {
    float part[RESULTS][RESULTS], run[RESULTS][RESULTS], total[RESULTS][RESULTS];
};

template <bool grouped>
static __device__ void flush(const plain_product &p, plain_sums &s, bool of_group,
                             bool of_run) {
    for (int i = 0; i < RESULTS; i++)
        for (int j = 0; j < RESULTS; j++) {
            if (grouped && of_group) {
                float run = s.run[i][j] + s.part[i][j];
                s.run[i][j] =
                    p.accumulate == MPT_DTYPE_FP32 ? run : mpt_round(p.accumulate, run);
                s.part[i][j] = 0;
            }
            if (grouped && of_run) {
                s.total[i][j] += s.run[i][j];
                s.run[i][j] = 0;
            }
        }
}

/* Products k ... of both tiles in shared memory; `done` counts those before them. */
template <bool grouped>
static __device__ void multiply(const plain_product &p, float (*a)[TILE + 1],
                                float (*b)[TILE + 1], int n, int64_t *in_group, int64_t *in_run,
                                plain_sums &s) {
    int ty = threadIdx.x / ACROSS * RESULTS, tx = threadIdx.x % ACROSS;
    for (int d = 0; d < n; d++) {
        float x[RESULTS], w[RESULTS];
        for (int i = 0; i < RESULTS; i++) {
            x[i] = a[d][ty + i];
            w[i] = b[d][tx + i * ACROSS];
        }
        for (int i = 0; i < RESULTS; i++)
            for (int j = 0; j < RESULTS; j++)
                s.part[i][j] = __fadd_rn(s.part[i][j], __fmul_rn(x[i], w[j]));
        if (!grouped)
            continue;
        bool of_run = ++*in_run == p.promote, of_group = ++*in_group == p.group || of_run;
        if (of_group)
            flush<grouped>(p, s, of_group, of_run);
        *in_group = of_group ? 0 : *in_group;
        *in_run = of_run ? 0 : *in_run;
    }
}

/* What a sum of codes stands for: f times it, or where f is beyond the largest number one
 * factor after the other, so that zeros stay 0. */
static __device__ float scaled(const plain_product &p, int64_t row, int64_t col, float sum) {
    float first = p.a_factor.data ? gpu_get(p.a_factor, p.a_factor.n > 1 ? row : 0) : 1.0f;
    float second = p.b_factor.data ? gpu_get(p.b_factor, p.b_factor.n > 1 ? col : 0) : 1.0f;
    float f = first * second * p.alpha;
    return mpt_is_finite(f) ? f * sum : sum * p.alpha * first * second;
}

static __device__ void store(const plain_product &p, const plain_tile &t,
                             float (*sum)[RESULTS]) {
    int64_t row = t.row + threadIdx.x / ACROSS * RESULTS, first = t.expert * p.b_rows;
    for (int i = 0; i < RESULTS; i++)
        for (int j = 0; j < RESULTS; j++) {
            int64_t r = row + i, c = t.col + threadIdx.x % ACROSS + j * ACROSS;
            if (r >= t.end_row || c >= p.cols)
                continue;
            float y = scaled(p, r, first + c, sum[i][j]);
            int64_t at = (t.out_row + r) * p.cols + c;
            if (p.add)
                y = gpu_get(p.y, at) + y;
            else
                y += p.bias.data ? gpu_get(p.bias, c) : 0.0f;
            gpu_put(p.y, at, y);
        }
}

template <bool grouped> static __global__ void plain_kernel(plain_product p) {
    __shared__ float a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
    plain_tile t;
    plain_sums s = {};
    int64_t in_group = 0, in_run = 0;
    if (!tile_of(p, &t))
        return;
    int64_t col = t.expert * p.b_rows;
    for (int64_t k = t.k; k < t.end_k; k += DEPTH) {
        int64_t left = t.end_k - k;
        load(a, p.a, t.row, t.end_row, k, t.end_k);
        load(b, p.b, col + t.col, col + p.cols, t.b_k + k - t.k, t.b_k + t.end_k - t.k);
        __syncthreads();
        multiply<grouped>(p, a, b, left < DEPTH ? (int)left : DEPTH, &in_group, &in_run, s);
        __syncthreads();
    }
    flush<grouped>(p, s, in_group > 0, in_run > 0);
    store(p, t, grouped ? s.total : s.part);
}

/* Rows that belong to no expert are zero. */
static __global__ void clear_kernel(gpu_tensor y, const int32_t *offsets, int64_t experts,
                                    int64_t cols) {
    int64_t first = offsets[experts] * cols;
    GPU_EACH(i, y.n - first)
    gpu_put(y, first + i, 0.0f);
}

/* ---- launches ---- */

static plain_product product_of(const mpt_kernel_args *args, bool a_by_rows, bool b_by_rows) {
    const mpt_attrs *at = &args->node->attrs;
    plain_product p = {};
    p.a = mpt_gpu_operand(&args->in[0], a_by_rows);
    p.b = mpt_gpu_operand(&args->in[1], b_by_rows);
    p.y = gpu_out(args, 0);
    p.a_factor = gpu_in(args, 3);
    p.b_factor = gpu_in(args, 4);
    p.experts = 1;
    if (args->node->n_in > 5 && args->in[5].data) {
        p.offsets = (const int32_t *)args->in[5].data;
        p.experts = args->in[5].dims[0] - 1;
    }
    p.alpha = at->alpha;
    p.accumulate = at->sum.accumulate;
    p.group = at->sum.accumulate == MPT_DTYPE_FP32 ? -1 : MPT_SUM_GROUP;
    p.promote = at->sum.promote > 0 ? at->sum.promote : -1;
    p.cols = gpu_cols(&args->out[0]);
    p.rows = gpu_rows(&args->out[0]);
    return p;
}

/* Tiles of rows: those of one expert may begin at any row, so each adds one at most. */
static void launch(const plain_product &p, const mpt_kernel_args *args) {
    int64_t tiles = (p.rows + TILE - 1) / TILE + (p.along_tokens ? 0 : p.experts - 1);
    dim3 grid((unsigned)((p.cols + TILE - 1) / TILE), (unsigned)tiles,
              (unsigned)(p.along_tokens ? p.experts : 1));
    if (p.group > 0 || p.promote > 0)
        GPU_LAUNCH(plain_kernel<true>, grid, GPU_THREADS, 0, args->gpu, p);
    else
        GPU_LAUNCH(plain_kernel<false>, grid, GPU_THREADS, 0, args->gpu, p);
    if (p.offsets && !p.along_tokens)
        GPU_LAUNCH(clear_kernel, gpu_blocks(p.y.n), GPU_THREADS, 0, args->gpu, p.y, p.offsets,
                   p.experts, p.cols);
}

extern "C" void mpt_cuda_linear_plain(const mpt_kernel_args *args) {
    plain_product p = product_of(args, false, false);
    p.bias = gpu_in(args, 2);
    p.b_rows = p.cols;
    launch(p, args);
}

extern "C" void mpt_cuda_linear_dgrad_plain(const mpt_kernel_args *args) {
    plain_product p = product_of(args, false, true);
    p.b_first = p.a.k;
    launch(p, args);
}

extern "C" void mpt_cuda_linear_wgrad_plain(const mpt_kernel_args *args) {
    plain_product p = product_of(args, true, true);
    p.rows /= p.experts;
    p.along_tokens = p.add = true;
    launch(p, args);
}
