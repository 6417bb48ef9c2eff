/* split and concat: columns of a matrix into parts, and parts into columns; one launch, a warp
 * a row of a part. And bias_grad, the sum of all rows. Bound by memory. */
#include "kernels/cuda/fold.h"

enum { SPLIT_PARTS = MPT_MAX_IN > MPT_MAX_OUT ? MPT_MAX_IN : MPT_MAX_OUT };

struct split_job {
    gpu_tensor whole, part[SPLIT_PARTS];
    int64_t first[SPLIT_PARTS], width[SPLIT_PARTS]; /* columns */
    int64_t n_rows, n;
};

template <bool JOIN> static __global__ void split_kernel(const __grid_constant__ split_job k) {
    const gpu_tensor &part = k.part[blockIdx.y];
    int64_t t = gpu_row(), width = k.width[blockIdx.y], at = t * k.n + k.first[blockIdx.y];
    if (t >= k.n_rows || !part.data)
        return;
    GPU_ROW_EACH(i, width) {
        if (JOIN)
            gpu_store(k.whole, at + i, width - i, gpu_load(part, t * width + i, width - i));
        else
            gpu_store(part, t * width + i, width - i, gpu_load(k.whole, at + i, width - i));
    }
}

static void split_add(split_job *k, int i, gpu_tensor part, int64_t width) {
    k->part[i] = part;
    k->width[i] = width;
    k->first[i] = i > 0 ? k->first[i - 1] + k->width[i - 1] : 0;
}

extern "C" void mpt_cuda_split(const mpt_kernel_args *args) {
    split_job k = {};
    k.whole = gpu_in(args, 0);
    k.n_rows = gpu_rows(&args->in[0]);
    k.n = gpu_cols(&args->in[0]);
    for (int i = 0; i < args->node->n_out; i++)
        split_add(&k, i, gpu_out(args, i), args->node->attrs.sizes[i]);
    dim3 grid(gpu_row_blocks(k.n_rows), (unsigned)args->node->n_out);
    GPU_LAUNCH(split_kernel<false>, grid, GPU_THREADS, 0, args->gpu, k);
}

extern "C" void mpt_cuda_concat(const mpt_kernel_args *args) {
    split_job k = {};
    k.whole = gpu_out(args, 0);
    k.n_rows = gpu_rows(&args->out[0]);
    k.n = gpu_cols(&args->out[0]);
    for (int i = 0; i < args->node->n_in; i++)
        split_add(&k, i, gpu_in(args, i), gpu_cols(&args->in[i]));
    dim3 grid(gpu_row_blocks(k.n_rows), (unsigned)args->node->n_in);
    GPU_LAUNCH(split_kernel<true>, grid, GPU_THREADS, 0, args->gpu, k);
}

/* ---- bias_grad ---- */

enum { BIAS_ROWS = 32, BIAS_PIECES = 256, BIAS_COLUMNS = GPU_WARP * GPU_VECTOR };

static int64_t bias_pieces(int64_t n_rows) {
    int64_t pieces = (n_rows + BIAS_ROWS - 1) / BIAS_ROWS;
    return pieces < BIAS_PIECES ? pieces : (int64_t)BIAS_PIECES;
}

/* A warp sums one piece of the rows for eight columns a lane. */
static __global__ void bias_kernel(gpu_tensor dy, float *partial, int64_t n_rows,
                                   int64_t pieces, int64_t stride, int64_t n) {
    int64_t piece = gpu_row(), i = (int64_t)blockIdx.y * BIAS_COLUMNS + gpu_lane() * GPU_VECTOR;
    if (piece >= pieces || i >= n)
        return;
    int64_t end = gpu_piece(n_rows, pieces, piece + 1);
    gpu_vector sum = {};
    for (int64_t t = gpu_piece(n_rows, pieces, piece); t < end; t++) {
        gpu_vector x = gpu_load(dy, t * n + i, n - i);
        GPU_UNROLL
        for (int k = 0; k < GPU_VECTOR; k++)
            sum.v[k] += x.v[k];
    }
    gpu_store(gpu_scratch(partial), piece * stride + i, n - i, sum);
}

extern "C" size_t mpt_cuda_bias_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                             int n_threads) {
    (void)n_threads;
    const mpt_value *dy = &graph->values[node->in[0]];
    int64_t n_rows = 1;
    for (int i = 0; i + 1 < dy->rank; i++)
        n_rows *= dy->dims[i];
    return (size_t)(bias_pieces(n_rows) * gpu_vectors(dy->dims[dy->rank - 1]) * GPU_VECTOR) *
           sizeof(float);
}

extern "C" void mpt_cuda_bias_grad(const mpt_kernel_args *args) {
    int64_t n_rows = gpu_rows(&args->in[0]), n = gpu_cols(&args->in[0]);
    int64_t pieces = bias_pieces(n_rows), stride = gpu_vectors(n) * GPU_VECTOR;
    float *partial = (float *)args->scratch;
    dim3 grid(gpu_row_blocks(pieces), (unsigned)((n + BIAS_COLUMNS - 1) / BIAS_COLUMNS));
    GPU_LAUNCH(bias_kernel, grid, GPU_THREADS, 0, args->gpu, gpu_in(args, 0), partial, n_rows,
               pieces, stride, n);
    gpu_fold(args->gpu, partial, pieces, stride, gpu_out(args, 0));
}
