/* rope: a table of cosines and sines by position, then every head of every token turned by it.
 *
 * Angles, cosines and sines are made in double and rounded once, as in ref; a table of float32
 * makes them once for all heads. Bound by memory. */
#include "kernels/cuda/teams.h"
#include "kernels/rope.h"

enum { ROPE_POSITIONS = 16 }; /* of a thread that fills the table: one power for all of them */

struct rope_job {
    gpu_tensor x, y, cosine, sine; /* the tables: [sequence][half] */
    mpt_rope rope;
    int64_t n_tokens, sequence, heads, head_dim, half;
    float sign; /* -1: the way back */
};

static __global__ void rope_table_kernel(rope_job k) {
    int64_t pieces = (k.sequence + ROPE_POSITIONS - 1) / ROPE_POSITIONS;
    GPU_EACH(i, pieces * k.half) {
        int64_t pair = i % k.half, first = i / k.half * ROPE_POSITIONS;
        double f = mpt_rope_frequency(&k.rope, pair);
        for (int64_t t = first; t < first + ROPE_POSITIONS && t < k.sequence; t++) {
            ((float *)k.cosine.data)[t * k.half + pair] = (float)cos((double)t * f);
            ((float *)k.sine.data)[t * k.half + pair] = (float)sin((double)t * f);
        }
    }
}

/* Eight pairs of a head that starts at `at`. */
static __device__ __forceinline__ void rope_pairs(const rope_job &k, int64_t position,
                                                  int64_t at, int64_t i) {
    int64_t left = k.half - i;
    gpu_vector a = gpu_load(k.x, at + i, left), b = gpu_load(k.x, at + k.half + i, left);
    gpu_vector c = gpu_load(k.cosine, position * k.half + i, left);
    gpu_vector s = gpu_load(k.sine, position * k.half + i, left);
    GPU_UNROLL
    for (int j = 0; j < GPU_VECTOR; j++) {
        float turn = k.sign * s.v[j], first = a.v[j];
        a.v[j] = first * c.v[j] - b.v[j] * turn;
        b.v[j] = b.v[j] * c.v[j] + first * turn;
    }
    gpu_store(k.y, at + i, left, a);
    gpu_store(k.y, at + k.half + i, left, b);
}

/* A warp a token; its vectors are the turning pairs of each head, and then what stays. */
static __global__ void rope_kernel(rope_job k) {
    int64_t t = gpu_row(), stays = 2 * k.half, pairs = gpu_vectors(k.half);
    int64_t each = pairs + gpu_vectors(k.head_dim - stays);
    if (t >= k.n_tokens)
        return;
    for (int64_t v = gpu_lane(); v < k.heads * each; v += GPU_WARP) {
        int64_t head = (int32_t)v / (int32_t)each, part = v - head * each;
        int64_t at = (t * k.heads + head) * k.head_dim;
        if (part < pairs) {
            rope_pairs(k, t % k.sequence, at, part * GPU_VECTOR);
        } else {
            int64_t i = stays + (part - pairs) * GPU_VECTOR, left = k.head_dim - i;
            gpu_store(k.y, at + i, left, gpu_load(k.x, at + i, left));
        }
    }
}

static size_t rope_table_floats(const mpt_attrs *a) {
    return (size_t)(gpu_vectors(a->rope.dims / 2 * a->sequence) * GPU_VECTOR);
}

static void rope_run(const mpt_kernel_args *args, float sign) {
    const mpt_attrs *a = &args->node->attrs;
    rope_job k = {};
    k.x = gpu_in(args, 0);
    k.y = gpu_out(args, 0);
    k.cosine = gpu_scratch(args->scratch);
    k.sine = gpu_scratch((float *)args->scratch + rope_table_floats(a));
    k.rope = a->rope;
    k.n_tokens = gpu_rows(&args->in[0]);
    k.sequence = a->sequence;
    k.heads = a->heads;
    k.head_dim = a->head_dim;
    k.half = a->rope.dims / 2;
    k.sign = sign;
    int64_t pieces = (k.sequence + ROPE_POSITIONS - 1) / ROPE_POSITIONS;
    GPU_LAUNCH(rope_table_kernel, gpu_blocks(pieces * k.half), GPU_THREADS, 0, args->gpu, k);
    GPU_LAUNCH(rope_kernel, gpu_row_blocks(k.n_tokens), GPU_THREADS, 0, args->gpu, k);
}

extern "C" size_t mpt_cuda_rope_scratch(const mpt_graph *graph, const mpt_node *node,
                                        int n_threads) {
    (void)graph, (void)n_threads;
    return 2 * rope_table_floats(&node->attrs) * sizeof(float);
}

extern "C" size_t mpt_cuda_rope_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                             int n_threads) {
    (void)graph, (void)n_threads;
    return 2 * rope_table_floats(&node->attrs) * sizeof(float);
}

extern "C" void mpt_cuda_rope(const mpt_kernel_args *args) {
    rope_run(args, 1);
}

extern "C" void mpt_cuda_rope_grad(const mpt_kernel_args *args) {
    rope_run(args, -1);
}
