/* moe_route, moe_dispatch, moe_combine and their gradients; moe_balance.
 *
 * Scores are sigmoids of the logits, or their softmax. A choice goes by score + bias: where
 * there are groups, first the best groups by the sum of their two best, then the best experts
 * in them; equal ones by the lower number, and a NaN before all else, with a NaN for a weight,
 * so that it is seen. Scores are made in double and rounded once (kernels/moe.h). Other weights
 * are the bare scores of the chosen, best first; normalized they are divided by their sum +
 * 1e-20, as in DeepSeek-V3; then times scale. The rows of an expert are in the order of their
 * tokens. */
#include "kernels/moe.h"
#include "kernels/ref/real.h"

/* Whether a is to be chosen before b; equal ones are not. */
static int moe_precedes(mpt_real a, mpt_real b) {
    return isnan(a) ? !isnan(b) : a > b;
}

/* ---- scores ---- */

/* One token's logits as the largest and the sum that a softmax needs. */
static void moe_softmax_of(const mpt_real *logits, int64_t n, mpt_real *most, double *sum) {
    *most = logits[0];
    for (int64_t e = 1; e < n; e++)
        *most = moe_precedes(logits[e], *most) ? logits[e] : *most;
    *sum = 0;
    for (int64_t e = 0; e < n; e++)
        *sum += exp((double)logits[e] - (double)*most);
}

static void moe_scores(const mpt_attrs *a, const mpt_real *logits, int64_t n, mpt_real *out) {
    mpt_real most = 0;
    double sum = 1;
    if (a->by_softmax)
        moe_softmax_of(logits, n, &most, &sum);
    for (int64_t e = 0; e < n; e++)
        out[e] =
            (mpt_real)(a->by_softmax ? mpt_moe_softmax((double)logits[e], (double)most, sum)
                                     : mpt_moe_sigmoid((double)logits[e]));
}

/* ---- the choice ---- */

/* What a token chooses from: scores, scores with the bias, and which experts are out, because
 * they are chosen already or in a group that is not. */
typedef struct moe_token {
    mpt_real *score, *choice, *group;
    unsigned char *out, *group_out;
} moe_token;

/* The first of those that none precedes. */
static int64_t moe_best(const mpt_real *x, const unsigned char *out, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!out[i] && (best < 0 || moe_precedes(x[i], x[best])))
            best = i;
    return best;
}

/* The sum of the two best of a group; of the one where it has no more. */
static mpt_real moe_group_score(const mpt_real *choice, int64_t n) {
    mpt_real first = choice[0], second = 0;
    for (int64_t i = 1; i < n; i++) {
        if (moe_precedes(choice[i], first)) {
            second = first;
            first = choice[i];
        } else if (i == 1 || moe_precedes(choice[i], second)) {
            second = choice[i];
        }
    }
    return first + second;
}

/* Leaves the experts of the best groups to choose from. */
static void moe_limit_groups(const mpt_attrs *a, int64_t n, moe_token *t) {
    int64_t size = n / a->groups;
    for (int64_t g = 0; g < a->groups; g++) {
        t->group[g] = moe_group_score(t->choice + g * size, size);
        t->group_out[g] = 0;
    }
    for (int64_t i = 0; i < a->top_groups; i++)
        t->group_out[moe_best(t->group, t->group_out, a->groups)] = 1;
    for (int64_t e = 0; e < n; e++)
        t->out[e] = !t->group_out[e / size];
}

static void moe_choose(const mpt_kernel_args *args, int64_t token, moe_token *t) {
    const mpt_attrs *a = &args->node->attrs;
    const mpt_real *logits = args->in[0].data, *bias = mpt_arg_in(args, 1);
    mpt_real *weights = args->out[0].data, sum = (mpt_real)1e-20;
    int32_t *experts = args->out[1].data;
    int64_t n = a->experts, k = a->top_k;
    moe_scores(a, logits + token * n, n, t->score);
    for (int64_t e = 0; e < n; e++) {
        t->choice[e] = t->score[e] + (bias ? bias[e] : 0);
        t->out[e] = 0;
    }
    if (a->top_groups < a->groups)
        moe_limit_groups(a, n, t);
    for (int64_t j = 0; j < k; j++) {
        int64_t e = moe_best(t->choice, t->out, n);
        t->out[e] = 1;
        experts[token * k + j] = (int32_t)e;
        mpt_real weight = isnan(t->choice[e]) ? t->choice[e] : t->score[e];
        weights[token * k + j] = weight;
        sum += weight;
    }
    for (int64_t j = 0; j < k; j++)
        weights[token * k + j] *= a->normalize ? (mpt_real)a->scale / sum : (mpt_real)a->scale;
}

/* ---- rows ---- */

/* offsets[e + 1] counts the rows of expert e first, then says where they end. Evaluation leaves
 * the load alone, and so does a choice that is made a second time: it has none. */
static void moe_count(const mpt_kernel_args *args, int64_t choices) {
    const int32_t *experts = args->out[1].data;
    int32_t *offsets = args->out[4].data, align = args->node->attrs.align;
    int64_t n = args->node->attrs.experts;
    mpt_real *load = mpt_arg_out(args, 5);
    for (int64_t e = 0; e <= n; e++)
        offsets[e] = 0;
    for (int64_t i = 0; i < choices; i++)
        offsets[experts[i] + 1]++;
    for (int64_t e = 0; e < n; e++) {
        if (load && !args->env->evaluating)
            load[e] += (mpt_real)offsets[e + 1];
        offsets[e + 1] = offsets[e] + (offsets[e + 1] + align - 1) / align * align;
    }
}

/* Gives each choice the next row of its expert; `next` has room for one number an expert. */
static void moe_place(const mpt_kernel_args *args, int64_t choices, int32_t *next) {
    const int32_t *experts = args->out[1].data, *offsets = args->out[4].data;
    int32_t *rows = args->out[2].data, *tokens = args->out[3].data;
    for (int64_t e = 0; e < args->node->attrs.experts; e++)
        next[e] = offsets[e];
    for (int64_t r = 0; r < mpt_tensor_elements(&args->out[3]); r++)
        tokens[r] = -1;
    for (int64_t i = 0; i < choices; i++) {
        rows[i] = next[experts[i]]++;
        tokens[rows[i]] = (int32_t)i;
    }
}

/* Three numbers and two flags an expert or group. */
size_t MPT_REF(moe_route_scratch)(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph;
    (void)n_threads;
    size_t n = (size_t)node->attrs.experts, groups = (size_t)node->attrs.groups;
    return (2 * n + groups) * sizeof(mpt_real) + n + groups + n * sizeof(int32_t);
}

void MPT_REF(moe_route)(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    int64_t n_tokens = mpt_tensor_rows(&args->in[0]), n = a->experts;
    moe_token t = {.score = args->scratch};
    t.choice = t.score + n;
    t.group = t.choice + n;
    int32_t *next = (int32_t *)(void *)(t.group + a->groups);
    t.out = (unsigned char *)(next + n);
    t.group_out = t.out + n;
    for (int64_t token = 0; token < n_tokens; token++)
        moe_choose(args, token, &t);
    moe_count(args, n_tokens * a->top_k);
    moe_place(args, n_tokens * a->top_k, next);
}

/* ---- the gradient of the weights ---- */

/* dscore of the chosen into dlogits, where all others are zero. */
static void moe_dscores(const mpt_attrs *a, const mpt_real *score, const int32_t *experts,
                        const mpt_real *dweights, mpt_real *out) {
    mpt_real sum = (mpt_real)1e-20, dot = 0, scale = (mpt_real)a->scale;
    for (int64_t j = 0; j < a->top_k; j++) {
        sum += score[experts[j]];
        dot += dweights[j] * score[experts[j]];
    }
    for (int64_t e = 0; e < a->experts; e++)
        out[e] = 0;
    for (int64_t j = 0; j < a->top_k; j++)
        out[experts[j]] =
            a->normalize ? scale * (dweights[j] - dot / sum) / sum : scale * dweights[j];
}

size_t MPT_REF(moe_route_grad_scratch)(const mpt_graph *graph, const mpt_node *node,
                                       int n_threads) {
    (void)graph;
    (void)n_threads;
    return (size_t)node->attrs.experts * sizeof(mpt_real);
}

void MPT_REF(moe_route_grad)(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    const mpt_real *logits = args->in[0].data, *dweights = args->in[2].data;
    const int32_t *experts = args->in[1].data;
    mpt_real *dlogits = args->out[0].data, *score = args->scratch;
    int64_t n_tokens = mpt_tensor_rows(&args->in[0]), n = a->experts, k = a->top_k;
    for (int64_t token = 0; token < n_tokens; token++) {
        mpt_real *d = dlogits + token * n, dot = 0;
        moe_scores(a, logits + token * n, n, score);
        moe_dscores(a, score, experts + token * k, dweights + token * k, d);
        for (int64_t e = 0; a->by_softmax && e < n; e++)
            dot += d[e] * score[e];
        for (int64_t e = 0; e < n; e++)
            d[e] = a->by_softmax ? score[e] * (d[e] - dot) : d[e] * score[e] * (1 - score[e]);
    }
}

/* ---- there and back ---- */

void MPT_REF(moe_dispatch)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    const int32_t *tokens = args->in[1].data;
    mpt_real *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]);
    int64_t k = args->node->attrs.top_k;
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = tokens[r] < 0 ? 0 : x[tokens[r] / k * n + i];
}

void MPT_REF(moe_dispatch_grad)(const mpt_kernel_args *args) {
    const mpt_real *dy = args->in[0].data;
    const int32_t *rows = args->in[1].data;
    mpt_real *dx = args->out[0].data;
    int64_t n_tokens = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]);
    int64_t k = args->node->attrs.top_k;
    for (int64_t t = 0; t < n_tokens; t++)
        for (int64_t i = 0; i < n; i++) {
            mpt_real sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += dy[rows[t * k + j] * n + i];
            dx[t * n + i] = sum;
        }
}

void MPT_REF(moe_combine)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *weights = args->in[1].data;
    const int32_t *rows = args->in[2].data;
    mpt_real *y = args->out[0].data;
    int64_t n_tokens = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]);
    int64_t k = args->node->attrs.top_k;
    for (int64_t t = 0; t < n_tokens; t++)
        for (int64_t i = 0; i < n; i++) {
            mpt_real sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += weights[t * k + j] * x[rows[t * k + j] * n + i];
            y[t * n + i] = sum;
        }
}

void MPT_REF(moe_combine_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *weights = args->in[1].data;
    const mpt_real *dy = args->in[4].data;
    const int32_t *rows = args->in[2].data, *tokens = args->in[3].data;
    mpt_real *dx = args->out[0].data, *dweights = args->out[1].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    int64_t k = args->node->attrs.top_k, choices = mpt_tensor_elements(&args->in[2]);
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++)
            dx[r * n + i] = tokens[r] < 0 ? 0 : weights[tokens[r]] * dy[tokens[r] / k * n + i];
    for (int64_t c = 0; c < choices; c++) {
        mpt_real sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += dy[c / k * n + i] * x[rows[c] * n + i];
        dweights[c] = sum;
    }
}
