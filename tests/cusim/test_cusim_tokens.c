/* What goes by tokens, on the simulator: embedding and loss with ids as they come, and experts:
 * the same choice as ref's, and rows of experts that have none or all. */
#include "rows_case.h"

/* ---- embedding ---- */

static op_case embedding_grad_case(int64_t n_tokens, int64_t n_rows, int64_t width) {
    op_case c = {.op = MPT_OP_embedding_grad};
    op_in(&c, OP_IDS, n_tokens, 0, 0, (double)n_rows);
    op_in(&c, OP_REAL, n_tokens, width, -1, 1);
    op_out(&c, OP_SUM, n_rows, width);
    op_fill(&c, 9);
    return c;
}

/* One writer a row, in the tokens' order: the bits of ref's loop. */
static void test_embedding_grad_when_ids_repeat_then_bit_for_bit(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},      {33, 7, 9},     {2000, 5, 24},
                                        {1100, 255, 8}, {1100, 256, 8}, {700, 70000, 3}};
    for (size_t k = 0; k < MPT_COUNT(shapes); k++) {
        op_case c = embedding_grad_case(shapes[k][0], shapes[k][1], shapes[k][2]);
        rows_check(&c, k % 2 ? MPT_STORAGE_BF16 : MPT_STORAGE_HOST, 0);
        op_free(&c);
    }
}

static void test_embedding_grad_when_all_ids_are_one_then_bit_for_bit(void **state) {
    (void)state;
    op_case c = embedding_grad_case(3000, 40, 16);
    for (int t = 0; t < 3000; t++)
        c.in[0].data[t] = 39;
    rows_check(&c, MPT_STORAGE_HOST, 0);
    op_free(&c);
}

static void test_embedding_when_ids_are_unknown_then_nan_and_no_gradient(void **state) {
    (void)state;
    op_case c = embedding_grad_case(64, 10, 8), y = {.op = MPT_OP_embedding};
    op_in(&y, OP_IDS, 4, 0, 0, 10);
    op_in(&y, OP_REAL, 10, 21, -1, 1);
    op_out(&y, OP_REAL, 4, 21);
    op_fill(&y, 2);
    for (int t = 0; t < 64; t += 3)
        c.in[0].data[t] = t % 2 ? -1 : 10 + t;
    y.in[0].data[1] = -5;
    y.in[0].data[2] = 10;
    rows_check(&c, MPT_STORAGE_HOST, 0);
    rows_check(&y, MPT_STORAGE_BF16, 0);
    assert_true(isnan(y.out[0].data[21]) && isnan(y.out[0].data[42]) && y.out[0].data[0] < 2);
    op_free(&c);
    op_free(&y);
}

/* ---- loss ---- */

static op_case loss_case(mpt_op op, int64_t n_tokens, int64_t n) {
    op_case c = {.op = op};
    c.env.loss_seed = 0.25f;
    op_in(&c, OP_REAL, n_tokens, n, -6, 6);
    op_in(&c, OP_IDS, n_tokens, 0, -1, (double)n);
    if (op == MPT_OP_cross_entropy)
        op_out(&c, OP_REAL, 1, 0);
    else
        op_out(&c, OP_REAL, n_tokens, n);
    op_fill(&c, 4);
    return c;
}

static void check_loss(op_case *c, mpt_storage storage) {
    rows_check(c, storage, storage == MPT_STORAGE_HOST ? 2e-6 : 0x1p-7);
    op_free(c);
}

/* Vocabularies for a warp, and for a block, whole and with a rest. */
static void test_loss_when_words_are_few_or_many_then_within_bound(void **state) {
    (void)state;
    static const int64_t words[] = {1, 50, 1024, 1025, 5003};
    for (size_t k = 0; k < MPT_COUNT(words); k++)
        for (int s = 0; s < 2; s++) {
            mpt_storage storage = s ? MPT_STORAGE_BF16 : MPT_STORAGE_HOST;
            op_case c = loss_case(MPT_OP_cross_entropy, 5, words[k]);
            op_case d = loss_case(MPT_OP_cross_entropy_grad, 5, words[k]);
            check_loss(&c, storage);
            check_loss(&d, storage);
        }
}

/* Ignored, all ignored, past the vocabulary; logits of -inf, of -inf alone, of inf and NaN. */
static void test_loss_when_targets_and_logits_are_odd_then_as_ref(void **state) {
    (void)state;
    static const mpt_op ops[] = {MPT_OP_cross_entropy, MPT_OP_cross_entropy_grad};
    for (int odd = 0; odd < 7; odd++)
        for (int k = 0; k < 2; k++) {
            op_case c = loss_case(ops[k], 3, 1100);
            double *x = c.in[0].data, *target = c.in[1].data;
            for (int t = 0; t < 3; t++)
                target[t] = odd == 0 || (odd == 1 && t == 1) ? -1 : 1000 + t;
            target[2] = odd == 2 ? 1100 : target[2];
            for (int i = 0; i < 1100; i++)
                x[i] = odd == 4 || (odd == 3 && i < 600) ? -INFINITY : x[i];
            x[17] = odd == 5 ? INFINITY : odd == 6 ? NAN : x[17];
            check_loss(&c, MPT_STORAGE_HOST);
        }
}

/* ---- experts ---- */

static op_case route_case(int64_t tokens, const mpt_attrs *attrs) {
    op_case c = {.op = MPT_OP_moe_route, .attrs = *attrs};
    int64_t n = attrs->experts, choices = tokens * attrs->top_k;
    int64_t used = n < choices ? n : choices;
    op_in(&c, OP_REAL, tokens, n, -4, 4);
    op_in(&c, OP_CONSTANT, n, 0, -0.2, 0.2);
    op_out(&c, OP_REAL, tokens, attrs->top_k);
    op_out(&c, OP_IDS, choices, 0);
    op_out(&c, OP_IDS, choices, 0);
    op_out(&c, OP_IDS, (choices + used * (attrs->align - 1)) / attrs->align * attrs->align, 0);
    op_out(&c, OP_IDS, n + 1, 0);
    op_out(&c, OP_SUM, n, 0);
    op_fill(&c, 21);
    return c;
}

static const mpt_attrs route_attrs[] = {
    {.experts = 8, .top_k = 2, .groups = 1, .top_groups = 1, .align = 32, .scale = 1},
    {.experts = 64,
     .top_k = 6,
     .groups = 8,
     .top_groups = 3,
     .align = 4,
     .scale = 2.5f,
     .normalize = true},
    {.experts = 40,
     .top_k = 3,
     .groups = 40,
     .top_groups = 7,
     .align = 1,
     .scale = 1,
     .by_softmax = true},
    {.experts = 300,
     .top_k = 40,
     .groups = 2,
     .top_groups = 1,
     .align = 16,
     .scale = 1,
     .by_softmax = true,
     .normalize = true},
    {.experts = 1, .top_k = 1, .groups = 1, .top_groups = 1, .align = 8, .scale = 1}};

/* Experts, rows and weights, bit for bit. */
static void test_route_when_any_attrs_then_as_ref_bit_for_bit(void **state) {
    (void)state;
    for (size_t k = 0; k < MPT_COUNT(route_attrs); k++)
        for (int s = 0; s < 2; s++) {
            op_case c = route_case(97, &route_attrs[k]);
            rows_check(&c, s ? MPT_STORAGE_BF16 : MPT_STORAGE_HOST, 0);
            op_free(&c);
        }
}

/* Few different logits, both zeros among them, make ties everywhere, between groups too. */
static void test_route_when_logits_are_equal_then_the_same_experts_as_ref(void **state) {
    (void)state;
    for (size_t k = 0; k < MPT_COUNT(route_attrs); k++)
        for (int levels = 1; levels < 4; levels++) {
            op_case c = route_case(60, &route_attrs[k]);
            for (int64_t i = 0; i < op_elements(&c.in[0]); i++)
                c.in[0].data[i] = (double)(i * 7 % 11 % levels) * (i % 2 ? 1 : -1);
            for (int e = 0; e < c.attrs.experts; e++)
                c.in[1].data[e] = levels == 3 ? -0.0 : 0;
            rows_check(&c, MPT_STORAGE_HOST, 0);
            op_free(&c);
        }
}

/* NaN before all else, infinities, and a bias without a number. */
static void test_route_when_logits_are_not_finite_then_as_ref(void **state) {
    (void)state;
    static const double odd[] = {NAN, INFINITY, -INFINITY, -1000, 1000, 0};
    for (size_t k = 0; k < MPT_COUNT(route_attrs); k++) {
        op_case c = route_case(60, &route_attrs[k]);
        for (int64_t i = 0; i < op_elements(&c.in[0]); i += 1 + i % 13)
            c.in[0].data[i] = odd[i % 6];
        c.in[1].data[0] = NAN;
        rows_check(&c, MPT_STORAGE_HOST, 0);
        op_free(&c);
    }
}

/* All to one expert: the others have no rows; and evaluation leaves the load alone. */
static void test_route_when_one_expert_takes_all_then_as_ref(void **state) {
    (void)state;
    for (int evaluating = 0; evaluating < 2; evaluating++) {
        op_case c = route_case(130, &route_attrs[0]);
        for (int64_t i = 0; i < op_elements(&c.in[0]); i++)
            c.in[0].data[i] = i % 8 == 5 ? 3 : i % 8 == 2 ? 2 : -3;
        c.env.evaluating = evaluating;
        rows_check(&c, MPT_STORAGE_HOST, 0);
        assert_true(c.out[5].data[5] == (evaluating ? op_sum_start : 130 + op_sum_start));
        op_free(&c);
    }
}

static void test_route_grad_when_any_attrs_then_within_bound(void **state) {
    (void)state;
    for (size_t k = 0; k < MPT_COUNT(route_attrs); k++) {
        op_case c = route_case(40, &route_attrs[k]), d = {.op = MPT_OP_moe_route_grad};
        op_run(&c, op_kernel(mpt_kernels_ref, c.op), false, 1);
        d.attrs = c.attrs;
        op_in(&d, OP_REAL, 40, c.attrs.experts, -4, 4);
        op_in(&d, OP_IDS, 40 * c.attrs.top_k, 0, 0, 0);
        op_in(&d, OP_REAL, 40, c.attrs.top_k, -1, 1);
        op_out(&d, OP_REAL, 40, c.attrs.experts);
        op_fill(&d, 21);
        memcpy(d.in[1].data, c.out[1].data, (size_t)op_elements(&d.in[1]) * sizeof(double));
        rows_check(&d, MPT_STORAGE_HOST, 2e-6);
        op_free(&c);
        op_free(&d);
    }
}

static void test_balance_when_applied_or_skipped_then_as_ref(void **state) {
    (void)state;
    for (int skipped = 0; skipped < 2; skipped++) {
        op_case c = {.op = MPT_OP_moe_balance, .attrs.rate = 0.25f};
        op_in(&c, OP_REAL, 300, 0, -1, 1);
        op_in(&c, OP_REAL, 300, 0, 0, 0);
        op_in(&c, OP_REAL, 1, 0, 1, 1);
        op_out(&c, OP_SUM, 300, 0);
        op_fill(&c, 8);
        for (int e = 0; e < 300; e++)
            c.in[1].data[e] = e * 37 % 5; /* mean 2: some are even with it */
        c.in[2].data[0] = skipped ? NAN : 1;
        rows_check(&c, MPT_STORAGE_HOST, 0);
        for (int e = 0; e < 300 && skipped; e++)
            assert_true(c.out[0].data[e] == op_sum_start);
        op_free(&c);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_embedding_grad_when_ids_repeat_then_bit_for_bit),
    cmocka_unit_test(test_embedding_grad_when_all_ids_are_one_then_bit_for_bit),
    cmocka_unit_test(test_embedding_when_ids_are_unknown_then_nan_and_no_gradient),
    cmocka_unit_test(test_loss_when_words_are_few_or_many_then_within_bound),
    cmocka_unit_test(test_loss_when_targets_and_logits_are_odd_then_as_ref),
    cmocka_unit_test(test_route_when_any_attrs_then_as_ref_bit_for_bit),
    cmocka_unit_test(test_route_when_logits_are_equal_then_the_same_experts_as_ref),
    cmocka_unit_test(test_route_when_logits_are_not_finite_then_as_ref),
    cmocka_unit_test(test_route_when_one_expert_takes_all_then_as_ref),
    cmocka_unit_test(test_route_grad_when_any_attrs_then_within_bound),
    cmocka_unit_test(test_balance_when_applied_or_skipped_then_as_ref),
};

MPT_TEST_MAIN(cases)
