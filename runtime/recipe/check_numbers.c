/* Stage 3: sums and states that 16 bits are too few for, as far as a recipe tells.
 *
 * A number of p significant bits swallows what is under half an ulp of it: less than 2^-(p + 1)
 * of it is always lost, 2^-9 in BF16 and 2^-12 in FP16. Updates are that small late in a run,
 * and so is a term of a long sum. */
#include <math.h>
#include <stdio.h>

#include "kernels/numerics_cast.h"
#include "recipe/check.h"
#include "recipe/use.h"

/* The share of a number that it always swallows, as a power of two. */
static int lost_exponent(mpt_dtype dtype) {
    return -(mpt_format_of(dtype).mantissa_bits + 2);
}

static double lost_share(mpt_dtype dtype) {
    return ldexp(1, lost_exponent(dtype));
}

static bool has_adam(const mpt_train *train) {
    return train->optimizer.kind == MPT_OPTIMIZER_ADAMW;
}

/* ---- states ---- */

/* What is rounded by chance loses nothing on average, however small. */
static bool is_stochastic(const mpt_quantizer *q) {
    return q->rounding == MPT_ROUNDING_STOCHASTIC;
}

/* AdamW moves a weight by about the learning rate, whatever its gradient. */
static void check_master(mpt_checker *c, const mpt_train *train) {
    mpt_dtype master = c->recipe->state.master.format;
    double share = lost_share(master), peak = train->lr.peak;
    double decay = peak * train->optimizer.weight_decay;
    char detail[200] = "";
    if (master == MPT_DTYPE_FP32 || is_stochastic(&c->recipe->state.master))
        return;
    if (has_adam(train))
        snprintf(detail, sizeof detail,
                 "; at the peak learning rate of %g weights above %.3g stand still%s", peak,
                 peak / share, decay > 0 && decay < share ? ", and none decays" : "");
    mpt_checker_warn(c, MPT_WARNING_LOST_UPDATE, c->recipe->where,
                     "precision.state.master is %s, which loses updates under 2^%d of a "
                     "weight%s; rounding = \"stochastic\" keeps them on average",
                     mpt_dtype_name(master), lost_exponent(master), detail);
}

/* What a step takes away of a moment must show in it. Under a scale it falls with the largest
 * of its block, but not alone. */
static void check_decay(mpt_checker *c, const char *name, const mpt_quantizer *q, double beta) {
    mpt_dtype dtype = q->format;
    bool scaled = q->scale.kind != MPT_SCALING_NONE;
    if (dtype != MPT_DTYPE_FP32 && !is_stochastic(q) && 1 - beta < lost_share(dtype))
        mpt_checker_warn(c, MPT_WARNING_LOST_UPDATE, c->recipe->where,
                         "precision.state.%s is %s: a step takes %.2g of it away, which is "
                         "under 2^%d, so it %s",
                         name, mpt_dtype_name(dtype), 1 - beta, lost_exponent(dtype),
                         scaled ? "falls only with the scale of its block" : "never falls");
}

/* Squares that are small beside the largest under one scale are 0 in so few exponents. */
static void check_squares(mpt_checker *c, const mpt_quantizer *q) {
    mpt_format f = mpt_format_of(q->format);
    if (q->scale.kind == MPT_SCALING_NONE && q->format == MPT_DTYPE_FP16)
        mpt_checker_warn(c, MPT_WARNING_LOST_UPDATE, c->recipe->where,
                         "precision.state.adam_v is fp16, in which squares under 3e-08 are "
                         "0: their steps are divided by eps alone; scale = current {} keeps "
                         "them");
    /* Half of the smallest number is 0; gradients of a tensor lie some 2^12 apart. */
    int lost = (int)floor(log2((double)f.max)) + f.bias + f.mantissa_bits;
    if (q->scale.kind != MPT_SCALING_NONE && lost < 24)
        mpt_checker_warn(
            c, MPT_WARNING_LOST_UPDATE, c->recipe->where,
            "precision.state.adam_v is %s, in which squares under 2^-%d of the "
            "largest under their scale are 0: their steps are divided by eps alone",
            mpt_dtype_name(q->format), lost);
}

static void check_moments(mpt_checker *c, const mpt_train *train, bool any_adam) {
    const mpt_state_formats *state = &c->recipe->state;
    if (has_adam(train)) {
        check_decay(c, "adam_m", &state->adam_m, train->optimizer.beta1);
        check_decay(c, "adam_v", &state->adam_v, train->optimizer.beta2);
        check_squares(c, &state->adam_v);
    }
    bool m = state->adam_m.format != MPT_DTYPE_FP32, v = state->adam_v.format != MPT_DTYPE_FP32;
    if (!any_adam && (m || v))
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, c->recipe->where,
                         "precision.state.%s is of AdamW's moments, but the optimizer is sgd",
                         m ? "adam_m" : "adam_v");
}

/* A sum of equal terms stops where one is half an ulp of it. */
static void check_gradient(mpt_checker *c, const mpt_train *train) {
    mpt_dtype gradient = c->recipe->state.gradient;
    double most = 0.5 / lost_share(gradient);
    double n = (double)train->batch / (double)train->micro_batch;
    if (gradient != MPT_DTYPE_FP32 && n > most)
        mpt_checker_warn(c, MPT_WARNING_LOW_PRECISION_ACCUMULATE, c->recipe->where,
                         "precision.state.gradient is %s: it sums up %.0f micro-batches, and a "
                         "sum of equal gradients stops at %.0f",
                         mpt_dtype_name(gradient), n, most);
}

/* ---- sums of products ---- */

/* The last deciding rule that speaks of how a product is summed up. */
static mpt_where blame(mpt_checker *c, int phase, const mpt_policy *policy, int gemm) {
    mpt_arena arena;
    mpt_arena_init(&arena, c->recipe->ctx);
    int n = 0;
    mpt_where where = c->recipe->where;
    mpt_cascade_rule *rules = mpt_cascade_list(c->recipe, phase, &arena, &n);
    c->failed = c->failed || !rules;
    for (int r = 0; rules && r < n; r++) {
        const mpt_use *use = &rules[r].rule->use;
        mpt_where said = rules[r].rule->where;
        for (int i = 0; i < policy->n_decided; i++)
            if ((use->has_accumulate[gemm] || use->has_promote[gemm]) &&
                said.line == policy->decided_by[i].line &&
                said.file == policy->decided_by[i].file)
                where = said;
    }
    mpt_arena_deinit(&arena);
    return where;
}

/* The first product of a policy whose running sum stays narrow to its end; -1: none. */
static int narrow_gemm(const mpt_policy *policy) {
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        if (policy->accumulate[g] != MPT_DTYPE_FP32 && policy->promote[g] == 0)
            return g;
    return -1;
}

static void check_accumulate(mpt_checker *c) {
    for (int p = 0; p < c->recipe->n_phases; p++) {
        const mpt_policy *first = NULL;
        int n = 0, first_layer = 0, gemm = -1;
        for (int i = 0; i < c->model.n; i++) {
            const mpt_policy *policy = &c->policies[p][i];
            if (!mpt_layer_has_gemms(c->model.layers[i].kind) || narrow_gemm(policy) < 0 ||
                n++ > 0)
                continue;
            first = policy;
            first_layer = i;
            gemm = narrow_gemm(policy);
        }
        if (!first)
            continue;
        mpt_checker_warn(c, MPT_WARNING_LOW_PRECISION_ACCUMULATE, blame(c, p, first, gemm),
                         "sums of products in %s, never moved to fp32, in %d layer%s, first %s "
                         "(%s); promote = 128 moves them",
                         mpt_dtype_name(first->accumulate[gemm]), n, n == 1 ? "" : "s",
                         c->model.layers[first_layer].path, mpt_gemm_name((mpt_gemm)gemm));
        return;
    }
}

/* Numbers that a dot product has, at most; of wgrad all tokens of a step, since how many are
 * taken at a time is not known here. 0: unknown. */
static int64_t dot_length(const mpt_checker *c, const mpt_layer *layer, int gemm) {
    mpt_train full = mpt_recipe_train(c->recipe, false), proxy = full;
    if (c->recipe->proxy.present)
        proxy = mpt_recipe_train(c->recipe, true);
    int64_t tokens = full.batch * full.sequence, others = proxy.batch * proxy.sequence;
    return gemm == MPT_GEMM_FPROP   ? layer->in_features
           : gemm == MPT_GEMM_DGRAD ? layer->out_features
                                    : (tokens > others ? tokens : others);
}

/* A promotion that no dot product of any phase is long enough for. */
static void check_promote(mpt_checker *c, int gemm) {
    const mpt_policy *first = NULL;
    int first_phase = 0, first_layer = 0;
    for (int p = 0; p < c->recipe->n_phases; p++)
        for (int i = 0; i < c->model.n; i++) {
            const mpt_policy *policy = &c->policies[p][i];
            if (!mpt_layer_has_gemms(c->model.layers[i].kind) || policy->promote[gemm] == 0)
                continue;
            int64_t length = dot_length(c, &c->model.layers[i], gemm);
            if (length == 0 || length > policy->promote[gemm])
                return;
            if (first)
                continue;
            first = policy;
            first_phase = p;
            first_layer = i;
        }
    if (first)
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, blame(c, first_phase, first, gemm),
                         "%s.%s.promote = %d: no dot product there has more products than that",
                         c->model.layers[first_layer].path, mpt_gemm_name((mpt_gemm)gemm),
                         (int)first->promote[gemm]);
}

void mpt_check_numbers(mpt_checker *c) {
    const mpt_recipe *recipe = c->recipe;
    mpt_train full = mpt_recipe_train(recipe, false), proxy = full;
    if (recipe->proxy.present)
        proxy = mpt_recipe_train(recipe, true);
    check_accumulate(c);
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        check_promote(c, g);
    check_gradient(c, &full);
    check_master(c, &full);
    check_moments(c, &full, has_adam(&full) || has_adam(&proxy));
}
