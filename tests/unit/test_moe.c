/* The choice of experts against an oracle, rows and offsets, ties, NaN, and the bias that evens
 * the load: kernels by themselves. test_moe_train.c trains with them. */
#include "op_case.h"

#include "kernels/kernel.h"

enum { TOKENS = 40, EXPERTS = 6 };

/* ---- running the choice ---- */

/* A route of `tokens` tokens over `experts`, whose logits the caller fills in. */
static op_case route_case(int64_t tokens, int32_t experts, const mpt_attrs *attrs) {
    op_case c = {.op = MPT_OP_moe_route, .attrs = *attrs};
    int64_t choices = tokens * attrs->top_k;
    int64_t rows = choices + experts * (attrs->align - 1);
    c.attrs.experts = experts;
    op_in(&c, OP_REAL, tokens, experts, -3, 3);
    op_in(&c, OP_CONSTANT, experts, 0, 0, 0);
    op_out(&c, OP_REAL, tokens, attrs->top_k);
    op_out(&c, OP_IDS, choices, 0);
    op_out(&c, OP_IDS, choices, 0);
    op_out(&c, OP_IDS, rows / attrs->align * attrs->align, 0);
    op_out(&c, OP_IDS, experts + 1, 0);
    op_out(&c, OP_SUM, experts, 0);
    op_fill(&c, 3);
    return c;
}

static void run(op_case *c) {
    op_run(c, op_kernel(mpt_kernels_ref, MPT_OP_moe_route), false, 1);
}

/* ---- the oracle: everything sorted ---- */

typedef struct entry {
    float value;
    int number;
} entry;

static int by_value(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->number - y->number;
}

/* Scores as the model has them, in float32. */
static void oracle_scores(const op_case *c, int64_t t, float *score) {
    int n = c->attrs.experts;
    float most = -INFINITY, sum = 0;
    for (int e = 0; e < n; e++)
        most = fmaxf(most, (float)c->in[0].data[t * n + e]);
    for (int e = 0; e < n; e++)
        sum += expf((float)c->in[0].data[t * n + e] - most);
    for (int e = 0; e < n; e++) {
        float x = (float)c->in[0].data[t * n + e];
        score[e] = c->attrs.by_softmax ? expf(x - most) / sum : 1 / (1 + expf(-x));
    }
}

/* Which experts a token may choose from: those of the best groups. */
static void oracle_groups(const op_case *c, const float *choice, bool *may) {
    int n = c->attrs.experts, groups = c->attrs.groups, size = n / groups;
    entry best[EXPERTS], group[EXPERTS];
    for (int g = 0; g < groups; g++) {
        for (int i = 0; i < size; i++)
            best[i] = (entry){choice[g * size + i], i};
        qsort(best, (size_t)size, sizeof *best, by_value);
        group[g] = (entry){best[0].value + (size > 1 ? best[1].value : 0), g};
    }
    qsort(group, (size_t)groups, sizeof *group, by_value);
    for (int e = 0; e < n; e++)
        may[e] = false;
    for (int i = 0; i < c->attrs.top_groups; i++)
        for (int k = 0; k < size; k++)
            may[group[i].number * size + k] = true;
}

static void check_token(const op_case *c, int64_t t) {
    float score[EXPERTS], choice[EXPERTS];
    bool may[EXPERTS];
    entry order[EXPERTS];
    int n = c->attrs.experts, k = c->attrs.top_k, n_order = 0;
    double sum = 0;
    oracle_scores(c, t, score);
    for (int e = 0; e < n; e++)
        choice[e] = score[e] + (float)c->in[1].data[e];
    oracle_groups(c, choice, may);
    for (int e = 0; e < n; e++)
        if (may[e])
            order[n_order++] = (entry){choice[e], e};
    qsort(order, (size_t)n_order, sizeof *order, by_value);
    for (int j = 0; j < k; j++)
        sum += (double)score[order[j].number];
    for (int j = 0; j < k; j++) {
        double expected = (double)score[order[j].number] * (double)c->attrs.scale;
        expected /= c->attrs.normalize ? sum : 1;
        assert_int_equal(c->out[1].data[t * k + j], order[j].number);
        if (fabs(c->out[0].data[t * k + j] - expected) > 1e-6 * (1 + fabs(expected)))
            fail_msg("token %d, choice %d: %g, not %g", (int)t, j, c->out[0].data[t * k + j],
                     expected);
    }
}

/* Every choice has a row of its own between its expert's offsets, in the order of the tokens;
 * every other row is padding; loads are counts. */
static void check_rows(const op_case *c) {
    const double *offsets = c->out[4].data;
    int64_t choices = op_elements(&c->out[1]), rows = op_elements(&c->out[3]), held = 0;
    int n = c->attrs.experts;
    for (int e = 0; e < n; e++) {
        int64_t count = 0, last = -1;
        for (int64_t i = 0; i < choices; i++) {
            int64_t row = (int64_t)c->out[2].data[i];
            if ((int)c->out[1].data[i] != e)
                continue;
            assert_true((double)row >= offsets[e] && (double)row < offsets[e + 1]);
            assert_true(row > last);
            assert_int_equal(c->out[3].data[row], i);
            assert_int_equal(row, offsets[e] + (double)count);
            last = row;
            count++;
        }
        assert_int_equal((int64_t)offsets[e] % c->attrs.align, 0);
        assert_true(offsets[e + 1] - offsets[e] < (double)(count + c->attrs.align));
        assert_true(c->out[5].data[e] == op_sum_start + (double)count);
    }
    for (int64_t r = 0; r < rows; r++)
        held += c->out[3].data[r] >= 0;
    assert_int_equal(held, choices);
    assert_true(offsets[0] == 0 && offsets[n] <= (double)rows);
}

/* Halves, so that many logits and scores are equal. */
static void make_ties(op_case *c) {
    for (int64_t i = 0; i < op_elements(&c->in[0]); i++)
        c->in[0].data[i] = floor(c->in[0].data[i]) / 2;
}

static void test_route_when_sigmoid_or_softmax_then_as_sorting_all_scores_says(void **state) {
    (void)state;
    for (int variant = 0; variant < 32; variant++) {
        mpt_attrs attrs = {.top_k = 2, .align = 4, .scale = 2.5f, .groups = 1, .top_groups = 1};
        attrs.by_softmax = variant & 1;
        attrs.normalize = variant & 2;
        attrs.groups = variant & 4 ? 3 : 1;
        attrs.top_groups = variant & 4 ? 2 : 1;
        op_case c = route_case(TOKENS, EXPERTS, &attrs);
        for (int e = 0; variant & 8 && e < EXPERTS; e++)
            c.in[1].data[e] = (e % 3 - 1) * 0.125;
        if (variant & 16)
            make_ties(&c);
        run(&c);
        for (int64_t t = 0; t < TOKENS; t++)
            check_token(&c, t);
        check_rows(&c);
        op_free(&c);
    }
}

/* ---- edges ---- */

static void test_route_when_all_choose_one_expert_then_the_others_have_no_rows(void **state) {
    (void)state;
    mpt_attrs attrs = {.top_k = 1, .align = 8, .scale = 1, .groups = 1, .top_groups = 1};
    op_case c = route_case(TOKENS, EXPERTS, &attrs);
    c.in[1].data[4] = 100;
    run(&c);
    check_rows(&c);
    for (int e = 0; e <= EXPERTS; e++)
        assert_int_equal(c.out[4].data[e], e < 5 ? 0 : TOKENS);
    op_free(&c);
}

static void test_route_when_top_k_is_all_experts_then_each_gets_every_token(void **state) {
    (void)state;
    mpt_attrs attrs = {.top_k = EXPERTS, .align = 1, .scale = 1, .groups = 1, .top_groups = 1};
    attrs.normalize = attrs.by_softmax = true;
    op_case c = route_case(TOKENS, EXPERTS, &attrs);
    run(&c);
    check_rows(&c);
    for (int64_t t = 0; t < TOKENS; t++) {
        double sum = 0;
        for (int j = 0; j < EXPERTS; j++)
            sum += c.out[0].data[t * EXPERTS + j];
        assert_true(fabs(sum - 1) < 1e-6);
    }
    op_free(&c);
}

static void test_route_when_all_scores_are_equal_then_the_first_experts_are_taken(void **s) {
    (void)s;
    mpt_attrs attrs = {.top_k = 3, .align = 1, .scale = 1, .groups = 1, .top_groups = 1};
    op_case c = route_case(TOKENS, EXPERTS, &attrs);
    memset(c.in[0].data, 0, (size_t)op_elements(&c.in[0]) * sizeof(double));
    run(&c);
    for (int64_t i = 0; i < 3 * TOKENS; i++)
        assert_int_equal(c.out[1].data[i], i % 3);
    op_free(&c);
}

/* A fault must not hide behind experts that are well. */
static void test_route_when_a_logit_is_nan_then_it_is_seen_in_the_weights(void **state) {
    (void)state;
    for (int softmax = 0; softmax < 2; softmax++) {
        mpt_attrs attrs = {.top_k = 2, .align = 1, .scale = 1, .groups = 1, .top_groups = 1};
        attrs.by_softmax = softmax;
        op_case c = route_case(3, EXPERTS, &attrs);
        c.in[0].data[EXPERTS + 5] = NAN;
        run(&c);
        assert_true(!isnan(c.out[0].data[0]) && !isnan(c.out[0].data[4]));
        assert_true(isnan(c.out[0].data[2]));
        assert_int_equal(c.out[1].data[2], softmax ? 0 : 5);
        check_rows(&c);
        op_free(&c);
    }
}

static void test_route_when_evaluating_then_the_load_is_not_counted(void **state) {
    (void)state;
    mpt_attrs attrs = {.top_k = 2, .align = 1, .scale = 1, .groups = 1, .top_groups = 1};
    op_case c = route_case(TOKENS, EXPERTS, &attrs);
    c.env.evaluating = true;
    run(&c);
    for (int e = 0; e < EXPERTS; e++)
        assert_true(c.out[5].data[e] == op_sum_start);
    op_free(&c);
}

/* ---- the bias ---- */

static void balance(const float load[4], float factor, float bias[4]) {
    mpt_node node = {.op = MPT_OP_moe_balance, .n_in = 3, .n_out = 1, .attrs.rate = 0.25f};
    float loads[4];
    memcpy(loads, load, sizeof loads);
    mpt_tensor in[] = {{.data = bias, .dtype = MPT_DTYPE_FP32, .rank = 1, .dims = {4}},
                       {.data = loads, .dtype = MPT_DTYPE_FP32, .rank = 1, .dims = {4}},
                       {.data = &factor, .dtype = MPT_DTYPE_FP32, .rank = 1, .dims = {1}}};
    mpt_run_env env = {.n_threads = 1};
    op_kernel(mpt_kernels_ref, MPT_OP_moe_balance)
        ->run(&(mpt_kernel_args){&node, in, in, NULL, &env, NULL});
}

static void test_balance_when_applied_then_up_below_the_mean_and_down_above(void **state) {
    (void)state;
    float bias[4] = {0, 1, -1, 0.5f};
    balance((const float[4]){0, 7, 4, 5}, 1, bias);
    assert_true(bias[0] == 0.25f && bias[1] == 0.75f && bias[2] == -1 && bias[3] == 0.25f);
}

static void test_balance_when_the_step_is_skipped_then_nothing_moves(void **state) {
    (void)state;
    float bias[4] = {0, 1, -1, 0.5f};
    balance((const float[4]){0, 7, 4, 5}, NAN, bias);
    assert_true(bias[0] == 0 && bias[1] == 1 && bias[2] == -1 && bias[3] == 0.5f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_route_when_sigmoid_or_softmax_then_as_sorting_all_scores_says),
    cmocka_unit_test(test_route_when_all_choose_one_expert_then_the_others_have_no_rows),
    cmocka_unit_test(test_route_when_top_k_is_all_experts_then_each_gets_every_token),
    cmocka_unit_test(test_route_when_all_scores_are_equal_then_the_first_experts_are_taken),
    cmocka_unit_test(test_route_when_a_logit_is_nan_then_it_is_seen_in_the_weights),
    cmocka_unit_test(test_route_when_evaluating_then_the_load_is_not_counted),
    cmocka_unit_test(test_balance_when_applied_then_up_below_the_mean_and_down_above),
    cmocka_unit_test(test_balance_when_the_step_is_skipped_then_nothing_moves),
};

MPT_TEST_MAIN(cases)
