/* Norms, splits and rope on the simulator where the conformance table does not reach: rows too
 * long for a warp, for one vector a thread and for registers; odd widths; every storage. */
#include "rows_case.h"

static const mpt_storage storages[] = {MPT_STORAGE_HOST, MPT_STORAGE_BF16, MPT_STORAGE_FP16};

/* One unit in the last place of what is stored: a sum may fall on the other side of a tie. */
static double tolerance_of(mpt_storage storage) {
    return storage == MPT_STORAGE_BF16 ? 0x1p-7 : storage == MPT_STORAGE_FP16 ? 0x1p-10 : 1e-5;
}

static void check_and_free(op_case *c) {
    for (size_t s = 0; s < MPT_COUNT(storages); s++) {
        op_fill(c, 11 + s);
        rows_check(c, storages[s], tolerance_of(storages[s]));
        op_free(c);
    }
}

/* gate: a gated norm of three slices. */
static op_case norm_case(mpt_op op, bool gate, int64_t n_rows, int64_t n) {
    op_case c = {.op = op};
    int64_t width = gate ? 3 * n : n;
    c.attrs.eps = 1e-5f;
    c.attrs.groups = gate ? 3 : 1;
    op_in(&c, OP_REAL, n_rows, width, -2, 3);
    if (gate)
        op_in(&c, OP_REAL, n_rows, width, -3, 3);
    op_in(&c, OP_REAL, width, 0, 0.5, 1.5);
    return c;
}

static void check_norms(int64_t n_rows, int64_t n) {
    static const mpt_op forward[] = {MPT_OP_rmsnorm, MPT_OP_layernorm, MPT_OP_gated_rmsnorm};
    static const mpt_op backward[] = {MPT_OP_rmsnorm_grad, MPT_OP_layernorm_grad,
                                      MPT_OP_gated_rmsnorm_grad};
    for (int k = 0; k < 3; k++) {
        int64_t width = k == 2 ? 3 * n : n;
        op_case c = norm_case(forward[k], k == 2, n_rows, n);
        if (k == 1)
            op_in(&c, OP_REAL, width, 0, -1, 1);
        op_out(&c, OP_REAL, n_rows, width);
        check_and_free(&c);
        c = norm_case(backward[k], k == 2, n_rows, n);
        op_in(&c, OP_REAL, n_rows, width, -1, 1);
        op_out(&c, OP_REAL, n_rows, width);
        if (k == 2)
            op_out(&c, OP_REAL, n_rows, width);
        op_out(&c, OP_SUM, width, 0);
        if (k == 1)
            op_out(&c, OP_SUM, width, 0);
        check_and_free(&c);
    }
}

static void test_norm_when_rows_are_short_or_odd_then_within_bound(void **state) {
    (void)state;
    check_norms(5, 8);
    check_norms(70, 41);
    check_norms(3, 1024);
}

/* A block a row: whole vectors, a row that ends within one, and one beyond what is kept. */
static void test_norm_when_rows_are_long_then_within_bound(void **state) {
    (void)state;
    check_norms(3, 1032);
    check_norms(2, 1031);
    check_norms(2, 4104);
    check_norms(1, 8200);
}

/* More rows than pieces: each piece sums several rows. */
static void test_norm_when_rows_outnumber_pieces_then_sums_are_within_bound(void **state) {
    (void)state;
    op_case c = norm_case(MPT_OP_layernorm_grad, false, 4100, 8);
    op_in(&c, OP_REAL, 4100, 8, -1, 1);
    op_out(&c, OP_REAL, 4100, 8);
    op_out(&c, OP_SUM, 8, 0);
    op_out(&c, OP_ABSENT, 8, 0); /* without a bias */
    op_fill(&c, 5);
    rows_check(&c, MPT_STORAGE_HOST, 1e-5);
    op_free(&c);
}

static void test_norm_when_a_number_is_nan_then_its_row_and_no_other(void **state) {
    (void)state;
    op_case c = norm_case(MPT_OP_rmsnorm, false, 6, 48);
    op_out(&c, OP_REAL, 6, 48);
    op_fill(&c, 5);
    c.in[0].data[2 * 48 + 7] = NAN;
    rows_run(&c, MPT_STORAGE_BF16);
    for (int i = 0; i < 6 * 48; i++)
        assert_int_equal(isnan(c.out[0].data[i]) != 0, i / 48 == 2);
    op_free(&c);
}

/* Eight parts, one of them not wanted, of which the second begins at an odd place. */
static void test_split_when_eight_parts_then_each_is_its_columns(void **state) {
    (void)state;
    static const int64_t widths[MPT_MAX_PARTS] = {16, 3, 8, 1, 300, 5, 24, 7};
    for (size_t s = 0; s < MPT_COUNT(storages); s++) {
        op_case c = {.op = MPT_OP_split};
        op_case back = {.op = MPT_OP_concat};
        op_in(&c, OP_REAL, 9, 364, -1, 1);
        c.attrs.n_sizes = MPT_MAX_PARTS;
        for (int i = 0; i < MPT_MAX_PARTS; i++) {
            c.attrs.sizes[i] = widths[i];
            op_out(&c, i == 4 ? OP_ABSENT : OP_REAL, 9, widths[i]);
            op_in(&back, OP_REAL, 9, widths[i], -1, 1);
        }
        op_out(&back, OP_REAL, 9, 364);
        op_fill(&c, s);
        op_fill(&back, s);
        rows_check(&c, storages[s], 0);
        rows_check(&back, storages[s], 0);
        op_free(&c);
        op_free(&back);
    }
}

/* Angles are those of ref to the last bit; so are rotations of float32. */
static void test_rope_when_heads_turn_in_part_then_bit_for_bit(void **state) {
    (void)state;
    static const int dims[] = {16, 12, 40};
    for (size_t k = 0; k < MPT_COUNT(dims); k++)
        for (size_t s = 0; s < MPT_COUNT(storages); s++) {
            op_case c = {.op = k % 2 ? MPT_OP_rope_grad : MPT_OP_rope};
            c.attrs = (mpt_attrs){.batch = 2, .sequence = 37, .heads = 3, .head_dim = 40};
            c.attrs.rope = (mpt_rope){.theta = 500.0f, .dims = dims[k]};
            op_in(&c, OP_REAL, 74, 120, -2, 2);
            op_out(&c, OP_REAL, 74, 120);
            op_fill(&c, 3);
            rows_check(&c, storages[s], 0);
            op_free(&c);
        }
}

static void test_bias_grad_when_rows_outnumber_pieces_then_within_bound(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 3}, {8300, 5}, {40, 264}};
    for (size_t k = 0; k < MPT_COUNT(shapes); k++) {
        op_case c = {.op = MPT_OP_bias_grad};
        op_in(&c, OP_REAL, shapes[k][0], shapes[k][1], -1, 1);
        op_out(&c, OP_SUM, shapes[k][1], 0);
        op_fill(&c, k);
        rows_check(&c, MPT_STORAGE_BF16, 2e-5);
        op_free(&c);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_norm_when_rows_are_short_or_odd_then_within_bound),
    cmocka_unit_test(test_norm_when_rows_are_long_then_within_bound),
    cmocka_unit_test(test_norm_when_rows_outnumber_pieces_then_sums_are_within_bound),
    cmocka_unit_test(test_norm_when_a_number_is_nan_then_its_row_and_no_other),
    cmocka_unit_test(test_split_when_eight_parts_then_each_is_its_columns),
    cmocka_unit_test(test_rope_when_heads_turn_in_part_then_bit_for_bit),
    cmocka_unit_test(test_bias_grad_when_rows_outnumber_pieces_then_within_bound),
};

MPT_TEST_MAIN(cases)
