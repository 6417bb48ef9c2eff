/* The optimizer's tail: zero, grad_reduce, unscale, grad_norm, finite_check, global_norm,
 * clip_factor, adamw, sgd (contract 11 of the numerics), moe_balance.
 *
 * In a step they run in this order: every gradient was summed over the micro-batches;
 * grad_reduce rounds what a rank sends and adds it up over ranks; unscale is the loss scale's
 * reciprocal; grad_norm measures each gradient times it; finite_check finds the first that is
 * not finite, on any rank; global_norm joins the norms; clip_factor gives one factor, unscale *
 * clip; adamw or sgd applies it. No pass over a gradient writes it unscaled: it is multiplied
 * as it is read, once where it is measured and once where it is applied. Where a gradient is
 * not finite the factor is NaN, and the optimizer then leaves weights and moments as they are:
 * the whole step is skipped, on all parameters and ranks.
 *
 * adamw and sgd compute in FP32 from what is stored, as Transformer Engine's FusedAdam does:
 * the weight moves by the new moments as computed, and only then weight and moments are rounded
 * to the formats that they are kept in: to nearest even here, or by quantize_state behind them,
 * with a scale or by chance. */
#include "kernels/ref/optim.h"

#include <string.h>

#include "comm/comm.h"
#include "kernels/optim.h"
#include "kernels/quantize.h"

void mpt_ref_zero(const mpt_kernel_args *args) {
    memset(args->out[0].data, 0, (size_t)mpt_optim_elements(&args->out[0]) * sizeof(float));
}

void mpt_ref_grad_reduce(const mpt_kernel_args *args) {
    mpt_ref_round_to(args->node->attrs.reduce, args->out[0].data,
                     (size_t)mpt_optim_elements(&args->out[0]));
    mpt_comm_sum_floats(args->env->comm, args->out[0].data, mpt_optim_elements(&args->out[0]));
}

void mpt_ref_unscale(const mpt_kernel_args *args) {
    *(float *)args->out[0].data = args->env->grad_unscale;
}

/* Brings a tensor to the format that it is kept in. */
static void keep(const mpt_tensor *t) {
    if (t->data)
        mpt_ref_round_to(t->dtype, t->data, (size_t)mpt_optim_elements(t));
}

static void keep_weights(const mpt_kernel_args *args) {
    if (!args->node->attrs.kept_later)
        keep(&args->out[0]);
}

void mpt_ref_grad_norm(const mpt_kernel_args *args) {
    const float *g = args->in[0].data;
    float *rows = args->out[0].data, unscale = *(const float *)args->in[1].data;
    int64_t n = mpt_optim_elements(&args->in[0]);
    double sum = 0;
    for (int64_t p = 0; p < mpt_piece_count(n); p++)
        sum += mpt_norm_piece(g + p * MPT_PIECE, mpt_piece_length(n, p), unscale);
    mpt_norm_row(rows + 2 * args->node->attrs.row_index, sum);
}

/* Ranks agree on the largest count of rows from the bad one on, which is the earliest row. */
void mpt_ref_finite_check(const mpt_kernel_args *args) {
    const float *rows = args->in[0].data;
    int32_t n = (int32_t)args->in[0].dims[0], from = n;
    for (int32_t i = 0; i < n && from == n; i++)
        if (rows[2 * i + 1] == 0.0f)
            from = i;
    int32_t left = mpt_comm_max_int(args->env->comm, n - from);
    *(int32_t *)args->out[0].data = left > 0 ? n - left : -1;
}

/* Every rank has the same gradients once they are reduced; the largest norm of all says so. */
void mpt_ref_global_norm(const mpt_kernel_args *args) {
    const float *rows = args->in[0].data;
    double sum = 0;
    for (int64_t i = 0; i < args->in[0].dims[0]; i++)
        sum += (double)rows[2 * i] * (double)rows[2 * i];
    float norm = (float)sqrt(sum);
    mpt_comm_max_floats(args->env->comm, &norm, 1);
    *(float *)args->out[0].data = norm;
}

void mpt_ref_clip_factor(const mpt_kernel_args *args) {
    float norm = *(const float *)args->in[0].data, unscale = *(const float *)args->in[1].data;
    bool bad = *(const int32_t *)args->in[2].data >= 0;
    *(float *)args->out[0].data = mpt_step_factor(args->node->attrs.clip, norm, unscale, bad);
}

void mpt_ref_adamw(const mpt_kernel_args *args) {
    float factor = *(const float *)args->in[4].data;
    if (isnan(factor))
        return;
    mpt_adamw_attrs attrs = mpt_adamw_attrs_of(&args->node->attrs);
    mpt_adamw s = mpt_adamw_of(&attrs, args->env, factor);
    mpt_adamw_piece(&s, mpt_optim_elements(&args->out[0]), args->out[0].data, args->in[1].data,
                    args->in[2].data, args->in[3].data);
    keep_weights(args);
    keep(&args->in[2]);
    keep(&args->in[3]);
}

void mpt_ref_sgd(const mpt_kernel_args *args) {
    float factor = *(const float *)args->in[3].data;
    if (isnan(factor))
        return;
    mpt_sgd s = mpt_sgd_of(&args->node->attrs, args->env->lr, factor);
    mpt_sgd_piece(&s, mpt_optim_elements(&args->out[0]), args->out[0].data, args->in[1].data,
                  args->in[2].data);
    keep_weights(args);
    keep(&args->in[2]);
}

/* A step that is skipped leaves the state as it is: rounding it again could move it. */
void mpt_ref_quantize_state(const mpt_kernel_args *args) {
    mpt_random_key key = mpt_state_key(args);
    if (!isnan(*(const float *)args->in[1].data))
        mpt_ref_quantize_state_values(&args->node->attrs.row, &args->out[0], &key);
}

/* Up by `rate` for experts with fewer tokens than the mean, down for those with more
 * (DeepSeek-V3, auxiliary-loss-free). Counts are whole, so the comparison is exact. */
void mpt_ref_moe_balance(const mpt_kernel_args *args) {
    const float *load = args->in[1].data;
    float *bias = args->out[0].data, rate = args->node->attrs.rate;
    int64_t n = mpt_optim_elements(&args->out[0]);
    double all = 0;
    if (isnan(*(const float *)args->in[2].data))
        return;
    for (int64_t e = 0; e < n; e++)
        all += (double)load[e];
    for (int64_t e = 0; e < n; e++) {
        double own = (double)load[e] * (double)n;
        bias[e] += own < all ? rate : own > all ? -rate : 0.0f;
    }
}
