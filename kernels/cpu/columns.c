/* Work on columns: split, concat, the sum over tokens, and the fold of partial sums. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

MPT_CLONES static void add_row(const float *x, float *sum, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

/* sum += all n_rows rows, four at a time, so that the sums are read and written less often. */
MPT_CLONES static void add_rows(const float *x, int64_t n_rows, float *sum, int64_t n) {
    int64_t t = 0;
    for (; t + 4 <= n_rows; t += 4, x += 4 * n) {
        const float *b = x + n, *c = b + n, *d = c + n;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (x[i] + b[i]) + (c[i] + d[i]);
    }
    for (; t < n_rows; t++, x += n) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i];
    }
}

void mpt_cpu_fold(const float *partial, int64_t stride, int64_t n, float *out) {
    for (int p = 0; p < MPT_CPU_PIECES; p++)
        add_row(partial + p * stride, out, n);
}

/* Copies columns between matrices of n_rows rows, `width` at a time. */
static void copy_columns(const float *from, int64_t from_stride, float *to, int64_t to_stride,
                         int64_t width, int64_t n_rows) {
#pragma omp parallel for schedule(static) if (width * n_rows > 16384)
    for (int64_t t = 0; t < n_rows; t++)
        memcpy(to + t * to_stride, from + t * from_stride, mpt_cpu_floats(width));
}

void mpt_cpu_split(const mpt_kernel_args *args) {
    const float *x = args->in[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]), at = 0;
    for (int part = 0; part < args->node->n_out; part++) {
        int64_t width = args->node->attrs.sizes[part];
        if (args->out[part].data)
            copy_columns(x + at, n, args->out[part].data, width, width, n_rows);
        at += width;
    }
}

void mpt_cpu_concat(const mpt_kernel_args *args) {
    float *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]), at = 0;
    for (int part = 0; part < args->node->n_in; part++) {
        int64_t width = mpt_tensor_cols(&args->in[part]);
        copy_columns(args->in[part].data, width, y + at, n, width, n_rows);
        at += width;
    }
}

size_t mpt_cpu_bias_grad_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    const mpt_value *dy = &graph->values[node->in[0]];
    return mpt_cpu_floats(MPT_CPU_PIECES * mpt_cpu_round_up(dy->dims[dy->rank - 1]));
}

void mpt_cpu_bias_grad(const mpt_kernel_args *args) {
    const float *dy = args->in[0].data;
    float *partial = args->scratch;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    int64_t stride = mpt_cpu_round_up(n);
#pragma omp parallel for schedule(static)
    for (int p = 0; p < MPT_CPU_PIECES; p++) {
        mpt_piece rows = mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p);
        memset(partial + p * stride, 0, mpt_cpu_floats(n));
        add_rows(dy + rows.first * n, rows.end - rows.first, partial + p * stride, n);
    }
    mpt_cpu_fold(partial, stride, n, args->out[0].data);
}
