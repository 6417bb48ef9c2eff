/* comm/: what ranks decide together. A channel of two ranks is played by one that knows what
 * the other sends. NaN must survive every reduction in either order (case P14), and a fault of
 * one rank must stop the step on both (P13). */
#include "mpt_test.h"

#include <math.h>

#include "comm/comm.h"
#include "kernels/ref/optim.h"
#include "train_rig.h"

/* ---- a channel of two ranks ---- */

/* What the other rank brings to each reduction. */
typedef struct other {
    float number;
    int32_t integer;
    bool same;     /* it has the same data and does the same: sums double */
    float bad;     /* added to the first element of the next sum of floats; 0: nothing */
    int n_sums;    /* sums of floats so far */
    int64_t n_all; /* their elements */
} other;

static void sum_floats(const mpt_comm *comm, float *x, int64_t n) {
    other *o = comm->ud;
    for (int64_t i = 0; i < n; i++)
        x[i] += o->same ? x[i] : o->number;
    x[0] += o->bad;
    o->bad = 0;
    o->n_sums++;
    o->n_all += n;
}

static void sum_doubles(const mpt_comm *comm, double *x, int64_t n) {
    const other *o = comm->ud;
    for (int64_t i = 0; i < n; i++)
        x[i] += o->same ? x[i] : (double)o->number;
}

static void sum_ints(const mpt_comm *comm, int64_t *x, int64_t n) {
    const other *o = comm->ud;
    for (int64_t i = 0; i < n; i++)
        x[i] += o->same ? x[i] : o->integer;
}

/* A maximum as libraries of messages have it, which knows integers only. */
static void max_ints(const mpt_comm *comm, int32_t *x, int64_t n) {
    const other *o = comm->ud;
    for (int64_t i = 0; i < n && !o->same; i++)
        x[i] = o->integer > x[i] ? o->integer : x[i];
}

static mpt_comm two_ranks(other *o) {
    static const mpt_comm_api api = {"two", sum_floats, sum_doubles, sum_ints, max_ints};
    return (mpt_comm){&api, 0, 2, o};
}

/* The integer that a rank sends for a float: found by a channel that only looks. */
static void look_at_ints(const mpt_comm *comm, int32_t *x, int64_t n) {
    other *o = comm->ud;
    (void)n;
    o->integer = *x;
}

static int32_t sent_for(float x) {
    static const mpt_comm_api api = {"look", sum_floats, sum_doubles, sum_ints, look_at_ints};
    other o = {0};
    mpt_comm look = {&api, 0, 2, &o};
    mpt_comm_max_floats(&look, &x, 1);
    return o.integer;
}

static float largest(float mine, float others) {
    other o = {.integer = sent_for(others)};
    mpt_comm comm = two_ranks(&o);
    mpt_comm_max_floats(&comm, &mine, 1);
    return mine;
}

/* ---- reductions ---- */

static void test_max_when_p14_one_rank_has_nan_then_nan_in_both_orders(void **s) {
    (void)s;
    assert_true(isnan(largest(NAN, 3.0f)) && isnan(largest(3.0f, NAN)));
    assert_true(isnan(largest(-NAN, INFINITY)) && isnan(largest(INFINITY, -NAN)));
    assert_true(isnan(largest(NAN, NAN)));
}

static void test_max_when_numbers_then_the_larger_and_its_bits(void **s) {
    (void)s;
    static const float order[] = {-INFINITY, -3e38f, -1,    -1e-45f, 0,
                                  1e-45f,    1,      3e38f, INFINITY};
    for (size_t i = 0; i < MPT_COUNT(order); i++)
        for (size_t k = 0; k < MPT_COUNT(order); k++) {
            float want = order[i > k ? i : k], got = largest(order[i], order[k]);
            assert_memory_equal(&got, &want, sizeof got);
        }
    assert_false(signbit(largest(-0.0f, 0.0f)));
    assert_true(signbit(largest(-0.0f, -1.0f)));
}

static void test_sum_when_one_rank_has_nan_or_inf_then_it_shows(void **s) {
    (void)s;
    float x[] = {1, 2};
    other o = {.number = NAN};
    mpt_comm comm = two_ranks(&o);
    mpt_comm_sum_floats(&comm, x, 2);
    assert_true(isnan(x[0]) && isnan(x[1]));
    o.number = INFINITY;
    assert_true(isinf(mpt_comm_sum_double(&comm, 1)));
    o.integer = 5;
    assert_int_equal(mpt_comm_sum_int(&comm, 7), 12);
}

static void test_self_when_reduced_then_everything_stays(void **s) {
    (void)s;
    const mpt_comm *channels[] = {mpt_comm_self(), NULL};
    for (size_t i = 0; i < MPT_COUNT(channels); i++) {
        float x[] = {NAN, 2};
        mpt_comm_sum_floats(channels[i], x, 2);
        mpt_comm_max_floats(channels[i], x, 2);
        assert_true(isnan(x[0]) && x[1] == 2);
        assert_true(mpt_comm_sum_double(channels[i], 0.1) == 0.1);
        assert_int_equal(mpt_comm_sum_int(channels[i], -3), -3);
        assert_int_equal(mpt_comm_max_int(channels[i], -3), -3);
    }
    assert_int_equal(mpt_comm_self()->rank, 0);
    assert_int_equal(mpt_comm_self()->count, 1);
}

/* ---- the kernels of the step ---- */

static int32_t first_bad(float *rows, int64_t n, int32_t others) {
    int32_t bad = 7;
    other o = {.integer = others};
    mpt_comm comm = two_ranks(&o);
    mpt_run_env env = {.n_threads = 1, .comm = &comm};
    mpt_node node = {.op = MPT_OP_finite_check, .n_in = 1, .n_out = 1};
    mpt_tensor in = {.data = rows, .rank = 2, .dims = {n, 2}};
    mpt_tensor out = {.data = &bad, .rank = 1, .dims = {1}};
    mpt_ref_finite_check(&(mpt_kernel_args){&node, &in, &out, NULL, &env, NULL});
    return bad;
}

/* Rows of three gradients; the other rank's flag is its count of rows from the bad one on. */
static void test_check_when_another_rank_found_a_fault_then_the_earlier_row_of_both(void **s) {
    (void)s;
    float rows[6] = {1, 1, 1, 1, 1, 1};
    assert_int_equal(first_bad(rows, 3, 0), -1);
    assert_int_equal(first_bad(rows, 3, 3), 0);
    assert_int_equal(first_bad(rows, 3, 1), 2);
    rows[3] = 0;
    assert_int_equal(first_bad(rows, 3, 0), 1);
    assert_int_equal(first_bad(rows, 3, 1), 1);
    assert_int_equal(first_bad(rows, 3, 3), 0);
}

static float reduced_history(bool reduces, float others) {
    float scale = 1, history[4] = {2, 0, 0, 0};
    other o = {.integer = sent_for(others)};
    mpt_comm comm = two_ranks(&o);
    mpt_run_env env = {.n_threads = 1, .comm = &comm};
    mpt_node node = {.op = MPT_OP_scale_update, .n_in = 2, .n_out = 1};
    (void)mpt_quantizer_by_name("e4m3", &node.attrs.row);
    node.attrs.row.scale =
        (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 4, .reduce_amax = reduces};
    mpt_tensor in[2] = {{.data = &scale, .rank = 1, .dims = {1}},
                        {.data = history, .rank = 1, .dims = {4}}};
    mpt_ref_scale_update(&(mpt_kernel_args){&node, in, in, NULL, &env, NULL});
    return history[3];
}

static void
test_history_when_ranks_differ_then_the_largest_enters_where_it_is_reduced(void **s) {
    (void)s;
    assert_true(reduced_history(true, 5) == 5);
    assert_true(reduced_history(true, 1) == 2);
    assert_true(isnan(reduced_history(true, NAN)));
    assert_true(reduced_history(false, 5) == 2);
}

/* ---- whole steps ---- */

/* The other rank has the same rows, so that both together have twice the targets and the same
 * mean: powers of two, so that no bit differs from a run alone. */
static void test_step_when_two_ranks_have_the_same_rows_then_as_one_alone(void **s) {
    (void)s;
    rig alone, both;
    rig_options o = rig_defaults();
    other same = {.same = true};
    mpt_comm comm = two_ranks(&same);
    o.micro_batch = 2;
    rig_init(&alone, &o);
    rig_init(&both, &o);
    both.trainer->comm = &comm;
    int64_t n = 0;
    for (int i = 0; i < both.phases[0]->graph->n_params; i++)
        n += mpt_value_elements(
            &both.phases[0]->graph->values[both.phases[0]->graph->params[i].value]);
    for (int i = 0; i < 3; i++) {
        mpt_step_result a = rig_step(&alone), b = rig_step(&both);
        assert_true(a.loss == b.loss && a.grad_norm == b.grad_norm);
    }
    assert_true(rig_state_hash(&alone) == rig_state_hash(&both));
    assert_int_equal(same.n_sums,
                     3 * both.phases[0]->graph->n_params); /* each gradient once a step */
    assert_int_equal(same.n_all, 3 * n);
    rig_deinit(&alone);
    rig_deinit(&both);
}

static void test_p13_when_another_rank_overflows_then_this_one_skips_too(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    other same = {.same = true};
    mpt_comm comm = two_ranks(&same);
    static const mpt_loss_scale dynamic = {.kind = MPT_LOSS_SCALE_DYNAMIC,
                                           .init = 1024,
                                           .growth = 2,
                                           .backoff = 0.5,
                                           .interval = 2000,
                                           .min = 1,
                                           .max = 65536,
                                           .hysteresis = 1};
    o.dynamic = &dynamic;
    rig_init(&r, &o);
    r.trainer->comm = &comm;
    for (int i = 0; i < 5; i++) {
        uint64_t before = rig_state_hash(&r);
        same.bad = i == 3 ? INFINITY : 0;
        mpt_step_result result = rig_step(&r);
        assert_true(result.skipped == (i == 3));
        assert_true((rig_state_hash(&r) == before) == (i == 3));
        assert_true(result.loss_scale == (i == 4 ? 512 : 1024));
    }
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_max_when_p14_one_rank_has_nan_then_nan_in_both_orders),
    cmocka_unit_test(test_max_when_numbers_then_the_larger_and_its_bits),
    cmocka_unit_test(test_sum_when_one_rank_has_nan_or_inf_then_it_shows),
    cmocka_unit_test(test_self_when_reduced_then_everything_stays),
    cmocka_unit_test(test_check_when_another_rank_found_a_fault_then_the_earlier_row_of_both),
    cmocka_unit_test(
        test_history_when_ranks_differ_then_the_largest_enters_where_it_is_reduced),
    cmocka_unit_test(test_step_when_two_ranks_have_the_same_rows_then_as_one_alone),
    cmocka_unit_test(test_p13_when_another_rank_overflows_then_this_one_skips_too),
};

MPT_TEST_MAIN(cases)
