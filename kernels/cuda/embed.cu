/* embedding, and the sum of gradients into its table.
 *
 * The sum sorts the tokens by id first, stably (order.h); then one warp takes eight columns a
 * lane of all tokens of one id, in the tokens' order. So each element has one writer and one
 * order, as in ref. An id outside the table gives NaN and adds nothing. Both are bound by
 * memory, unless one id stands for nearly all tokens: then by the latency of its one warp. */
#include "kernels/cuda/order.h"
#include "kernels/cuda/teams.h"

/* ---- embedding ---- */

static __global__ void embedding_kernel(const int32_t *ids, gpu_tensor table, gpu_tensor y,
                                        int64_t n_rows, int64_t width) {
    int64_t t = gpu_row();
    if (t * width >= y.n)
        return;
    int64_t id = ids[t];
    bool known = id >= 0 && id < n_rows;
    GPU_ROW_EACH(i, width) {
        gpu_vector x;
        if (known)
            x = gpu_load(table, id * width + i, width - i);
        else
            for (int k = 0; k < GPU_VECTOR; k++)
                x.v[k] = mpt_bits_float(MPT_NAN_BITS);
        gpu_store(y, t * width + i, width - i, x);
    }
}

extern "C" void mpt_cuda_embedding(const mpt_kernel_args *args) {
    int64_t n_tokens = gpu_in(args, 0).n;
    GPU_LAUNCH(embedding_kernel, gpu_row_blocks(n_tokens), GPU_THREADS, 0, args->gpu,
               (const int32_t *)args->in[0].data, gpu_in(args, 1), gpu_out(args, 0),
               gpu_rows(&args->in[1]), gpu_cols(&args->in[1]));
}

/* ---- its gradient ---- */

enum { EMBED_AHEAD = 4 }; /* rows that are on their way while one is added */

struct embed_job {
    const int32_t *ids, *order;
    gpu_tensor dy, dtable;
    int64_t n_tokens, n_rows, width;
};

/* Tokens order[first ...] with the same id as the first of them; at most EMBED_AHEAD. */
static __device__ __forceinline__ int embed_run(const embed_job &k, int64_t first, int32_t id) {
    int n = 0;
    while (n < EMBED_AHEAD && first + n < k.n_tokens && k.ids[k.order[first + n]] == id)
        n++;
    return n;
}

static __global__ void embedding_grad_kernel(embed_job k) {
    int64_t first = gpu_row(), i = ((int64_t)blockIdx.y * GPU_WARP + gpu_lane()) * GPU_VECTOR;
    if (first >= k.n_tokens || i >= k.width)
        return;
    int32_t id = k.ids[k.order[first]];
    if (id < 0 || id >= k.n_rows || (first > 0 && k.ids[k.order[first - 1]] == id))
        return;
    gpu_vector sum = gpu_load(k.dtable, id * k.width + i, k.width - i);
    for (int n; (n = embed_run(k, first, id)) > 0; first += n) {
        gpu_vector dy[EMBED_AHEAD];
        GPU_UNROLL
        for (int j = 0; j < EMBED_AHEAD; j++)
            if (j < n)
                dy[j] = gpu_load(k.dy, k.order[first + j] * k.width + i, k.width - i);
        GPU_UNROLL
        for (int j = 0; j < EMBED_AHEAD; j++)
            for (int v = 0; j < n && v < GPU_VECTOR; v++)
                sum.v[v] += dy[j].v[v];
    }
    gpu_store(k.dtable, id * k.width + i, k.width - i, sum);
}

extern "C" size_t mpt_cuda_embedding_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                                  int n_threads) {
    (void)n_threads;
    const mpt_value *ids = &graph->values[node->in[0]];
    int64_t n = 1;
    for (int i = 0; i < ids->rank; i++)
        n *= ids->dims[i];
    return gpu_order_bytes(n);
}

extern "C" void mpt_cuda_embedding_grad(const mpt_kernel_args *args) {
    embed_job k = {};
    k.ids = (const int32_t *)args->in[0].data;
    k.dy = gpu_in(args, 1);
    k.dtable = gpu_out(args, 0);
    k.n_tokens = gpu_in(args, 0).n;
    k.n_rows = gpu_rows(&args->out[0]);
    k.width = gpu_cols(&args->out[0]);
    k.order = gpu_order(args->gpu, k.ids, k.n_tokens, k.n_rows, args->scratch);
    dim3 grid(gpu_row_blocks(k.n_tokens),
              (unsigned)((k.width + GPU_WARP * GPU_VECTOR - 1) / (GPU_WARP * GPU_VECTOR)));
    GPU_LAUNCH(embedding_grad_kernel, grid, GPU_THREADS, 0, args->gpu, k);
}
