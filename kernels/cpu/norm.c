/* rmsnorm and layernorm, a row at a time; sums over tokens go by pieces of rows.
 *
 * Formulas as in kernels/ref/ref_norm.c. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

/* One call's tensors. dw and db are the piece's own partial sums. */
typedef struct norm_rows {
    const float *x, *w, *bias, *dy;
    float *y, *dx, *dw, *db;
    int64_t n;
    float eps;
} norm_rows;

MPT_CLONES static void rmsnorm_rows(const norm_rows *k, mpt_piece rows) {
    int64_t n = k->n;
    const float *w = k->w;
    for (int64_t t = rows.first; t < rows.end; t++) {
        const float *x = k->x + t * n;
        float *y = k->y + t * n, sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += x[i] * x[i];
        float r = 1.0f / sqrtf(sum / (float)n + k->eps);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = w[i] * (x[i] * r);
    }
}

MPT_CLONES static void rmsnorm_grad_rows(const norm_rows *k, mpt_piece rows) {
    int64_t n = k->n;
    const float *w = k->w;
    float *dw = k->dw;
    for (int64_t t = rows.first; t < rows.end; t++) {
        const float *x = k->x + t * n, *dy = k->dy + t * n;
        float *dx = k->dx + t * n, sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
        for (int64_t i = 0; i < n; i++) {
            sum += x[i] * x[i];
            dot += dy[i] * w[i] * x[i];
        }
        float r = 1.0f / sqrtf(sum / (float)n + k->eps);
        float c = dot * r * r / (float)n;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dx[i] = r * (dy[i] * w[i] - x[i] * c);
            dw[i] += dy[i] * (x[i] * r);
        }
    }
}

/* Mean, and 1/sqrt(variance + eps), of a row. */
MPT_ALWAYS_INLINE void moments(const float *x, int64_t n, float eps, float *mean, float *r) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    float m = sum / (float)n;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - m) * (x[i] - m);
    *mean = m;
    *r = 1.0f / sqrtf(squares / (float)n + eps);
}

MPT_CLONES static void layernorm_rows(const norm_rows *k, mpt_piece rows) {
    int64_t n = k->n;
    const float *w = k->w, *bias = k->bias;
    for (int64_t t = rows.first; t < rows.end; t++) {
        const float *x = k->x + t * n;
        float *y = k->y + t * n, mean, r;
        moments(x, n, k->eps, &mean, &r);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = w[i] * ((x[i] - mean) * r);
        if (!bias)
            continue;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] += bias[i];
    }
}

MPT_CLONES static void layernorm_grad_rows(const norm_rows *k, mpt_piece rows) {
    int64_t n = k->n;
    const float *w = k->w;
    float *dw = k->dw, *db = k->db;
    for (int64_t t = rows.first; t < rows.end; t++) {
        const float *x = k->x + t * n, *dy = k->dy + t * n;
        float *dx = k->dx + t * n, mean, r, sum = 0, dot = 0;
        moments(x, n, k->eps, &mean, &r);
#pragma omp simd reduction(+ : sum, dot)
        for (int64_t i = 0; i < n; i++) {
            sum += dy[i] * w[i];
            dot += dy[i] * w[i] * ((x[i] - mean) * r);
        }
        sum /= (float)n;
        dot /= (float)n;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float unit = (x[i] - mean) * r;
            dx[i] = r * (dy[i] * w[i] - sum - unit * dot);
            dw[i] += dy[i] * unit;
            db[i] += dy[i];
        }
    }
}

static void run_rows(const mpt_kernel_args *args, void (*fn)(const norm_rows *, mpt_piece)) {
    norm_rows k = {.x = args->in[0].data,
                   .w = args->in[1].data,
                   .bias = mpt_arg_in(args, 2),
                   .y = args->out[0].data,
                   .n = mpt_tensor_cols(&args->in[0]),
                   .eps = args->node->attrs.eps};
    int64_t n_rows = mpt_tensor_rows(&args->in[0]);
#pragma omp parallel for schedule(static) if (n_rows * k.n > 16384)
    for (int p = 0; p < MPT_CPU_PIECES; p++)
        fn(&k, mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p));
}

/* Two rows of partial sums a piece: dw and db. */
static void run_grad_rows(const mpt_kernel_args *args,
                          void (*fn)(const norm_rows *, mpt_piece)) {
    float *partial = args->scratch, *dw = mpt_arg_out(args, 1), *db = mpt_arg_out(args, 2);
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    int64_t width = mpt_cpu_round_up(n), stride = 2 * width;
#pragma omp parallel for schedule(static)
    for (int p = 0; p < MPT_CPU_PIECES; p++) {
        norm_rows k = {.x = args->in[0].data,
                       .w = args->in[1].data,
                       .dy = args->in[2].data,
                       .dx = args->out[0].data,
                       .dw = partial + p * stride,
                       .db = partial + p * stride + width,
                       .n = n,
                       .eps = args->node->attrs.eps};
        memset(k.dw, 0, mpt_cpu_floats(stride));
        fn(&k, mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p));
    }
    mpt_cpu_fold(partial, stride, n, dw);
    if (db)
        mpt_cpu_fold(partial + width, stride, n, db);
}

static size_t grad_scratch(const mpt_graph *graph, const mpt_node *node) {
    const mpt_value *x = &graph->values[node->in[0]];
    return mpt_cpu_floats(MPT_CPU_PIECES * 2 * mpt_cpu_round_up(x->dims[x->rank - 1]));
}

void mpt_cpu_rmsnorm(const mpt_kernel_args *args) {
    run_rows(args, rmsnorm_rows);
}

void mpt_cpu_layernorm(const mpt_kernel_args *args) {
    run_rows(args, layernorm_rows);
}

size_t mpt_cpu_rmsnorm_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                    int n_threads) {
    (void)n_threads;
    return grad_scratch(graph, node);
}

void mpt_cpu_rmsnorm_grad(const mpt_kernel_args *args) {
    run_grad_rows(args, rmsnorm_grad_rows);
}

size_t mpt_cpu_layernorm_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                      int n_threads) {
    (void)n_threads;
    return grad_scratch(graph, node);
}

void mpt_cpu_layernorm_grad(const mpt_kernel_args *args) {
    run_grad_rows(args, layernorm_grad_rows);
}
