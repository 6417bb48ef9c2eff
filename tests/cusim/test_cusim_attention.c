/* attention on a device, beyond the conformance table: heads of every width, groups, and
 * probabilities that are rounded to a format. */
#include "tile_case.h"

/* batch, sequence, in, out, heads, kv_heads, dim */
static const shape widths[] = {
    {"a tile and a token", {.batch = 2, .sequence = 65, .heads = 2, .kv_heads = 1, .dim = 12}},
    {"a head of 80", {.batch = 1, .sequence = 34, .heads = 2, .kv_heads = 2, .dim = 80}},
    {"two slabs", {.batch = 1, .sequence = 9, .heads = 2, .kv_heads = 1, .dim = 136}},
};

static void test_attention_when_heads_are_wide_then_within_bound(void **state) {
    (void)state;
    tile_check(MPT_OP_attention, widths, MPT_COUNT(widths));
}

/* ---- rounded probabilities ---- */

static const op_sizes rounded_sizes = {
    .batch = 1, .sequence = 100, .heads = 4, .kv_heads = 2, .dim = 16};

/* Share of an output's numbers that are further from the definition than sums explain. */
static double share_apart(const op_tensor *a, const op_tensor *b, double tolerance) {
    int64_t n = 0;
    double bound = tolerance * (largest_of(b) + 1e-3);
    for (int64_t i = 0; i < op_elements(a); i++)
        n += !(fabs(a->data[i] - b->data[i]) <= bound);
    return (double)n / (double)op_elements(a);
}

/* A score on the edge between two values may go either way: then a row is apart, by no more
 * than one of its probabilities' last places. Without the rounding nearly all numbers are. */
static void same_but_for_edges(const op_case *got, const op_case *expected) {
    for (int o = 0; o < got->n_out; o++) {
        assert_true(share_apart(&got->out[o], &expected->out[o], 0x1p-17) < 0.03);
        assert_true(share_apart(&got->out[o], &expected->out[o], 0x1p-8) == 0);
    }
}

static void check_rounded(mpt_dtype softmax) {
    const op_row *row = tile_row_of(MPT_OP_attention);
    op_case forward = op_forward(row, &rounded_sizes, 5), exact = forward;
    op_tensor dy[MPT_MAX_OUT] = {0};
    forward.attrs.softmax = softmax;
    op_fill_dy(row, &forward, dy);
    op_run(&forward, op_kernel(ref64_kernels, forward.op), true, 1);
    op_case got = tile_run(&forward, MPT_STORAGE_HOST, 0);
    same_but_for_edges(&got, &forward);
    op_case unrounded = tile_run(&exact, MPT_STORAGE_HOST, 0);
    assert_true(share_apart(&unrounded.out[0], &forward.out[0], 0x1p-17) > 0.5);
    op_case grad = op_backward(row, &row->gradients[0], &forward, dy);
    op_run(&grad, op_kernel(ref64_kernels, grad.op), true, 1);
    op_case got_grad = tile_run(&grad, MPT_STORAGE_HOST, 0);
    same_but_for_edges(&got_grad, &grad);
    twin_free(&got), twin_free(&unrounded), twin_free(&got_grad);
    op_free(&grad);
    free(dy[0].data);
    op_free(&forward);
}

static void test_attention_when_softmax_is_bf16_then_probabilities_are(void **state) {
    (void)state;
    check_rounded(MPT_DTYPE_BF16);
}

static void test_attention_when_softmax_is_fp16_then_probabilities_are(void **state) {
    (void)state;
    check_rounded(MPT_DTYPE_FP16);
}

/* ---- what is not finite ---- */

static void test_attention_when_a_value_is_nan_then_later_tokens_show_it(void **state) {
    (void)state;
    const int64_t at = 90, dim = rounded_sizes.dim, width = rounded_sizes.heads * dim;
    op_case c = op_forward(tile_row_of(MPT_OP_attention), &rounded_sizes, 5);
    c.in[2].data[at * rounded_sizes.kv_heads * dim] = NAN; /* of key head 0: heads 0 and 1 */
    op_case got = tile_run(&c, MPT_STORAGE_HOST, 0);
    for (int64_t t = 0; t < rounded_sizes.sequence; t++) {
        if (t >= at)
            assert_true(isnan(got.out[0].data[t * width]) &&
                        isnan(got.out[0].data[t * width + dim]));
        if (t < 64)
            assert_true(!isnan(got.out[0].data[t * width]));
        assert_true(!isnan(got.out[0].data[t * width + 2 * dim]));
    }
    twin_free(&got);
    op_free(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_attention_when_heads_are_wide_then_within_bound),
    cmocka_unit_test(test_attention_when_softmax_is_bf16_then_probabilities_are),
    cmocka_unit_test(test_attention_when_softmax_is_fp16_then_probabilities_are),
    cmocka_unit_test(test_attention_when_a_value_is_nan_then_later_tokens_show_it),
};

MPT_TEST_MAIN(cases)
