/* The optimizer's tail: zero, grad_reduce, grad_norm, clip_factor, adamw, sgd (contract 11 of
 * the numerics), moe_balance.
 *
 * In a step they run in this order: every gradient was summed over the micro-batches;
 * grad_reduce rounds what a rank would send; grad_norm unscales and measures each; clip_factor
 * joins the norms to one factor, unscale * clip; adamw or sgd applies it. Where a gradient is
 * not finite the factor is NaN, and the optimizer then leaves weights and moments as they are:
 * the whole step is skipped, on all parameters.
 *
 * adamw and sgd compute in FP32 from what is stored, as Transformer Engine's FusedAdam does:
 * the weight moves by the new moments as computed, and only then weight and moments are rounded
 * to the formats that they are kept in, to nearest even. */
#include "kernels/ref/optim.h"

#include <string.h>

#include "kernels/optim.h"
#include "kernels/quantize.h"

void mpt_ref_zero(const mpt_kernel_args *args) {
    memset(args->out[0].data, 0, (size_t)mpt_optim_elements(&args->out[0]) * sizeof(float));
}

void mpt_ref_grad_reduce(const mpt_kernel_args *args) {
    mpt_ref_round_to(args->node->attrs.reduce, args->out[0].data,
                     (size_t)mpt_optim_elements(&args->out[0]));
}

/* Brings a tensor to the format that it is kept in. */
static void keep(const mpt_tensor *t) {
    if (t->data)
        mpt_ref_round_to(t->dtype, t->data, (size_t)mpt_optim_elements(t));
}

void mpt_ref_grad_norm(const mpt_kernel_args *args) {
    const float *g = args->in[0].data;
    float *rows = args->out[0].data;
    int64_t n = mpt_optim_elements(&args->in[0]);
    double sum = 0;
    for (int64_t p = 0; p < mpt_piece_count(n); p++)
        sum +=
            mpt_norm_piece(g + p * MPT_PIECE, mpt_piece_length(n, p), args->env->grad_unscale);
    mpt_norm_row(rows + 2 * args->node->attrs.row_index, sum);
}

void mpt_ref_clip_factor(const mpt_kernel_args *args) {
    const float *rows = args->in[0].data;
    float *factor = args->out[0].data, *norm = args->out[1].data;
    int32_t *bad = args->out[2].data;
    double sum = 0, clip = (double)args->node->attrs.clip, shrink = 1;
    *bad = -1;
    for (int64_t i = 0; i < args->in[0].dims[0]; i++) {
        sum += (double)rows[2 * i] * (double)rows[2 * i];
        if (*bad < 0 && rows[2 * i + 1] == 0.0f)
            *bad = (int32_t)i;
    }
    double total = sqrt(sum);
    if (clip > 0 && clip / (total + 1e-6) < 1)
        shrink = clip / (total + 1e-6);
    *norm = (float)total;
    *factor = *bad >= 0 ? NAN : (float)((double)args->env->grad_unscale * shrink);
}

void mpt_ref_adamw(const mpt_kernel_args *args) {
    float factor = *(const float *)args->in[4].data;
    if (isnan(factor))
        return;
    mpt_adamw s = mpt_adamw_of(&args->node->attrs, args->env, factor);
    mpt_adamw_piece(&s, mpt_optim_elements(&args->out[0]), args->out[0].data, args->in[1].data,
                    args->in[2].data, args->in[3].data);
    keep(&args->out[0]);
    keep(&args->in[2]);
    keep(&args->in[3]);
}

void mpt_ref_sgd(const mpt_kernel_args *args) {
    float factor = *(const float *)args->in[3].data;
    if (isnan(factor))
        return;
    mpt_sgd_piece(&args->node->attrs, args->env->lr, factor, mpt_optim_elements(&args->out[0]),
                  args->out[0].data, args->in[1].data, args->in[2].data);
    keep(&args->out[0]);
    keep(&args->in[2]);
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
