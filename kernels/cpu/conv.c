/* conv1d: depthwise causal convolution with the channels along the vector.
 *
 * The taps are first turned to [taps][channels]; a row of output is then a sum of at most
 * attrs.kernel scaled rows of input. The gradient of the taps goes by pieces of tokens. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

typedef struct conv_rows {
    const float *x, *dy, *taps; /* taps: [n_taps][stride] */
    float *y, *dx;
    float *dtaps; /* the piece's partial sums: [n_taps + 1][stride], the bias last */
    const float *bias;
    int64_t n, stride, n_taps, sequence;
} conv_rows;

static void turn_taps(const float *w, int64_t n, int64_t n_taps, int64_t stride, float *taps) {
    for (int64_t c = 0; c < n; c++)
        for (int64_t k = 0; k < n_taps; k++)
            taps[k * stride + c] = w[c * n_taps + k];
}

MPT_ALWAYS_INLINE void multiply_add(const float *a, const float *b, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += a[i] * b[i];
}

MPT_CLONES static void conv_run(const conv_rows *k, mpt_piece rows) {
    int64_t n = k->n;
    for (int64_t token = rows.first; token < rows.end; token++) {
        int64_t t = token % k->sequence;
        float *y = k->y + token * n;
        if (k->bias)
            memcpy(y, k->bias, mpt_cpu_floats(n));
        else
            memset(y, 0, mpt_cpu_floats(n));
        for (int64_t tap = 0; tap < k->n_taps; tap++) {
            int64_t back = k->n_taps - 1 - tap;
            if (back <= t)
                multiply_add(k->taps + tap * k->stride, k->x + (token - back) * n, y, n);
        }
    }
}

/* dx of a token gathers dy of the tokens after it; the taps' gradient looks back. */
MPT_CLONES static void conv_grad_run(const conv_rows *k, mpt_piece rows) {
    int64_t n = k->n;
    for (int64_t token = rows.first; token < rows.end; token++) {
        int64_t t = token % k->sequence;
        const float *dy = k->dy + token * n;
        float *dx = k->dx + token * n, *db = k->dtaps + k->n_taps * k->stride;
        memset(dx, 0, mpt_cpu_floats(n));
        for (int64_t tap = 0; tap < k->n_taps; tap++) {
            int64_t back = k->n_taps - 1 - tap;
            if (t + back < k->sequence)
                multiply_add(k->taps + tap * k->stride, dy + back * n, dx, n);
            if (back <= t)
                multiply_add(dy, k->x + (token - back) * n, k->dtaps + tap * k->stride, n);
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            db[i] += dy[i];
    }
}

static conv_rows conv_rows_of(const mpt_kernel_args *args, float *taps) {
    conv_rows k = {.x = args->in[0].data,
                   .taps = taps,
                   .n = mpt_tensor_cols(&args->in[0]),
                   .n_taps = args->node->attrs.kernel,
                   .sequence = args->node->attrs.sequence};
    k.stride = mpt_cpu_round_up(k.n);
    turn_taps(args->in[1].data, k.n, k.n_taps, k.stride, taps);
    return k;
}

static int64_t stride_of(const mpt_graph *graph, const mpt_node *node) {
    const mpt_value *x = &graph->values[node->in[0]];
    return mpt_cpu_round_up(x->dims[x->rank - 1]);
}

size_t mpt_cpu_conv1d_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    return mpt_cpu_floats(node->attrs.kernel * stride_of(graph, node));
}

void mpt_cpu_conv1d(const mpt_kernel_args *args) {
    conv_rows k = conv_rows_of(args, args->scratch);
    k.bias = mpt_arg_in(args, 2);
    k.y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]);
#pragma omp parallel for schedule(static)
    for (int p = 0; p < MPT_CPU_PIECES; p++)
        conv_run(&k, mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p));
}

size_t mpt_cpu_conv1d_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                   int n_threads) {
    (void)n_threads;
    int64_t n_taps = node->attrs.kernel;
    return mpt_cpu_floats((n_taps + MPT_CPU_PIECES * (n_taps + 1)) * stride_of(graph, node));
}

void mpt_cpu_conv1d_grad(const mpt_kernel_args *args) {
    conv_rows all = conv_rows_of(args, args->scratch);
    float *partial = (float *)args->scratch + all.n_taps * all.stride;
    float *dw = args->out[1].data, *db = mpt_arg_out(args, 2);
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), size = (all.n_taps + 1) * all.stride;
#pragma omp parallel for schedule(static)
    for (int p = 0; p < MPT_CPU_PIECES; p++) {
        conv_rows k = all;
        k.dy = args->in[2].data;
        k.dx = args->out[0].data;
        k.dtaps = partial + p * size;
        memset(k.dtaps, 0, mpt_cpu_floats(size));
        conv_grad_run(&k, mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p));
    }
    for (int p = 0; p < MPT_CPU_PIECES; p++)
        for (int64_t c = 0; c < all.n; c++)
            for (int64_t tap = 0; tap < all.n_taps; tap++)
                dw[c * all.n_taps + tap] += partial[p * size + tap * all.stride + c];
    if (db)
        mpt_cpu_fold(partial + all.n_taps * all.stride, size, all.n, db);
}
