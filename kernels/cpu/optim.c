/* The optimizer's tail on all cores: the same pieces as ref, one thread a piece, the same bits.
 *
 * Sums of a piece go to scratch and are added in the order of the pieces. Small tensors, which
 * are most of a model's, stay on one thread: waking the others costs more than the work. */
#include "kernels/cpu/optim.h"

#include <string.h>

#include "comm/comm.h"
#include "kernels/cpu/vector.h"
#include "kernels/optim.h"
#include "kernels/quantize.h"

void mpt_cpu_zero(const mpt_kernel_args *args) {
    float *data = args->out[0].data;
    int64_t n = mpt_optim_elements(&args->out[0]), pieces = mpt_piece_count(n);
#pragma omp parallel for schedule(static) num_threads(args->env->n_threads) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++)
        memset(data + p * MPT_PIECE, 0, (size_t)mpt_piece_length(n, p) * sizeof *data);
}

void mpt_cpu_grad_reduce(const mpt_kernel_args *args) {
    mpt_round_to(args->node->attrs.reduce, args->out[0].data,
                 (size_t)mpt_optim_elements(&args->out[0]));
    mpt_comm_sum_floats(args->env->comm, args->out[0].data, mpt_optim_elements(&args->out[0]));
}

/* Brings n numbers of a tensor to the format that it is kept in. */
static void keep(const mpt_tensor *t, int64_t at, int64_t n) {
    if (t->data && t->dtype != MPT_DTYPE_FP32)
        mpt_round_to(t->dtype, (float *)t->data + at, (size_t)n);
}

size_t mpt_cpu_grad_norm_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    int64_t n = mpt_value_elements(&graph->values[node->in[0]]);
    return (size_t)mpt_piece_count(n) * sizeof(double);
}

/* The shared arithmetic in wider vectors: the same bits, since nothing is contracted. */
MPT_CLONES static double norm_piece(const float *g, int64_t n, float unscale) {
    return mpt_norm_piece(g, n, unscale);
}

MPT_CLONES static void adamw_piece(const mpt_adamw *s, int64_t n, float *w, const float *g,
                                   float *m, float *v) {
    mpt_adamw_piece(s, n, w, g, m, v);
}

void mpt_cpu_grad_norm(const mpt_kernel_args *args) {
    const float *g = args->in[0].data;
    float *rows = args->out[0].data, unscale = *(const float *)args->in[1].data;
    int64_t n = mpt_optim_elements(&args->in[0]), pieces = mpt_piece_count(n);
    double *part = args->scratch, sum = 0;
#pragma omp parallel for schedule(static) num_threads(args->env->n_threads) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++)
        part[p] = norm_piece(g + p * MPT_PIECE, mpt_piece_length(n, p), unscale);
    for (int64_t p = 0; p < pieces; p++)
        sum += part[p];
    mpt_norm_row(rows + 2 * args->node->attrs.row_index, sum);
}

void mpt_cpu_adamw(const mpt_kernel_args *args) {
    float *w = args->out[0].data, *m = args->in[2].data, *v = args->in[3].data;
    const float *g = args->in[1].data;
    float factor = *(const float *)args->in[4].data;
    bool later = args->node->attrs.kept_later;
    if (isnan(factor))
        return;
    mpt_adamw_attrs attrs = mpt_adamw_attrs_of(&args->node->attrs);
    mpt_adamw s = mpt_adamw_of(&attrs, args->env, factor);
    int64_t n = mpt_optim_elements(&args->out[0]), pieces = mpt_piece_count(n);
#pragma omp parallel for schedule(static) num_threads(args->env->n_threads) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t at = p * MPT_PIECE, length = mpt_piece_length(n, p);
        adamw_piece(&s, length, w + at, g + at, m + at, v + at);
        if (!later)
            keep(&args->out[0], at, length);
        keep(&args->in[2], at, length);
        keep(&args->in[3], at, length);
    }
}

void mpt_cpu_sgd(const mpt_kernel_args *args) {
    float *w = args->out[0].data, *velocity = args->in[2].data;
    const float *g = args->in[1].data;
    float factor = *(const float *)args->in[3].data;
    bool later = args->node->attrs.kept_later;
    if (isnan(factor))
        return;
    mpt_sgd s = mpt_sgd_of(&args->node->attrs, args->env->lr, factor);
    int64_t n = mpt_optim_elements(&args->out[0]), pieces = mpt_piece_count(n);
#pragma omp parallel for schedule(static) num_threads(args->env->n_threads) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t at = p * MPT_PIECE, length = mpt_piece_length(n, p);
        mpt_sgd_piece(&s, length, w + at, g + at, velocity ? velocity + at : NULL);
        if (!later)
            keep(&args->out[0], at, length);
        keep(&args->in[2], at, length);
    }
}

/* A step that is skipped leaves the state as it is: rounding it again could move it. */
void mpt_cpu_quantize_state(const mpt_kernel_args *args) {
    mpt_random_key key = mpt_state_key(args);
    if (!isnan(*(const float *)args->in[1].data))
        mpt_quantize_state_values(&args->node->attrs.row, &args->out[0], &key);
}
