/* gated_rmsnorm: x silu(z), normalised in slices, with its gradient.
 *
 * Formulas as in kernels/ref/ref_gated_rmsnorm.c. A row holds attrs.groups slices; the gate is
 * computed once a pass and kept in the output row until the slice's root mean square is known.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

typedef struct gated_rows {
    const float *x, *z, *w, *dy;
    float *y, *dx, *dz, *dw;
    int64_t n_groups, n;
    float eps;
} gated_rows;

MPT_ALWAYS_INLINE void gated_slice(const gated_rows *k, int64_t at, const float *w) {
    const float *x = k->x + at, *z = k->z + at;
    float *y = k->y + at, sum = 0;
    int64_t n = k->n;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * (z[i] * mpt_sigmoidf(z[i]));
        y[i] = v;
        sum += v * v;
    }
    float r = 1.0f / sqrtf(sum / (float)n + k->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = w[i] * (y[i] * r);
}

/* dx holds the sigmoid between the two loops. */
MPT_ALWAYS_INLINE void gated_grad_slice(const gated_rows *k, int64_t at, const float *w,
                                        float *dw) {
    const float *x = k->x + at, *z = k->z + at, *dy = k->dy + at;
    float *dx = k->dx + at, *dz = k->dz + at, sum = 0, dot = 0;
    int64_t n = k->n;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t i = 0; i < n; i++) {
        float s = mpt_sigmoidf(z[i]), v = x[i] * (z[i] * s);
        dx[i] = s;
        sum += v * v;
        dot += dy[i] * w[i] * v;
    }
    float r = 1.0f / sqrtf(sum / (float)n + k->eps);
    float c = dot * r * r / (float)n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = dx[i], gate = z[i] * s, v = x[i] * gate;
        float dv = r * (dy[i] * w[i] - v * c);
        dw[i] += dy[i] * (v * r);
        dx[i] = dv * gate;
        dz[i] = dv * x[i] * (s * (1.0f + z[i] * (1.0f - s)));
    }
}

MPT_CLONES static void gated_rows_run(const gated_rows *k, mpt_piece rows) {
    for (int64_t slice = rows.first * k->n_groups; slice < rows.end * k->n_groups; slice++)
        gated_slice(k, slice * k->n, k->w + slice % k->n_groups * k->n);
}

MPT_CLONES static void gated_grad_rows_run(const gated_rows *k, mpt_piece rows) {
    for (int64_t slice = rows.first * k->n_groups; slice < rows.end * k->n_groups; slice++) {
        int64_t feature = slice % k->n_groups * k->n;
        gated_grad_slice(k, slice * k->n, k->w + feature, k->dw + feature);
    }
}

void mpt_cpu_gated_rmsnorm(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    gated_rows k = {.x = args->in[0].data,
                    .z = args->in[1].data,
                    .w = args->in[2].data,
                    .y = args->out[0].data,
                    .n_groups = a->groups,
                    .n = mpt_tensor_cols(&args->in[0]) / a->groups,
                    .eps = a->eps};
    int64_t n_rows = mpt_tensor_rows(&args->in[0]);
#pragma omp parallel for schedule(static)
    for (int p = 0; p < MPT_CPU_PIECES; p++)
        gated_rows_run(&k, mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p));
}

size_t mpt_cpu_gated_rmsnorm_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                          int n_threads) {
    (void)n_threads;
    const mpt_value *x = &graph->values[node->in[0]];
    return mpt_cpu_floats(MPT_CPU_PIECES * mpt_cpu_round_up(x->dims[x->rank - 1]));
}

void mpt_cpu_gated_rmsnorm_grad(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    float *partial = args->scratch;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), width = mpt_tensor_cols(&args->in[0]);
    int64_t stride = mpt_cpu_round_up(width);
#pragma omp parallel for schedule(static)
    for (int p = 0; p < MPT_CPU_PIECES; p++) {
        gated_rows k = {.x = args->in[0].data,
                        .z = args->in[1].data,
                        .w = args->in[2].data,
                        .dy = args->in[3].data,
                        .dx = args->out[0].data,
                        .dz = args->out[1].data,
                        .dw = partial + p * stride,
                        .n_groups = a->groups,
                        .n = width / a->groups,
                        .eps = a->eps};
        memset(k.dw, 0, mpt_cpu_floats(width));
        gated_grad_rows_run(&k, mpt_cpu_piece(n_rows, MPT_CPU_PIECES, p));
    }
    mpt_cpu_fold(partial, stride, width, args->out[2].data);
}
