/* Cases from the field on the step: loss scaling, accumulation, optimizer arithmetic. Each is
 * named by its number. What else belongs to them: P13 and P14 in test_comm.c, P20 in
 * test_delayed.c, P22 in test_state.c, P47 and P49 in test_recompute*.c, P73 in
 * test_state_kept.c. */
#include "mpt_test.h"

#include <math.h>

#include "kernels/cpu/optim.h"
#include "kernels/numerics.h"
#include "kernels/optim.h"
#include "kernels/ref/optim.h"
#include "train_rig.h"

/* ---- P02: the loss scale comes out once ---- */

static uint64_t run20(double scale, int64_t micro_batch) {
    rig r;
    rig_options o = rig_defaults();
    o.loss_scale = scale;
    o.micro_batch = micro_batch;
    rig_init(&r, &o);
    for (int i = 0; i < 20; i++)
        assert_false(rig_step(&r).skipped);
    uint64_t hash = rig_state_hash(&r);
    rig_deinit(&r);
    return hash;
}

static void
test_p02_when_the_scale_is_1_1024_or_65536_then_weights_are_the_same_bits(void **s) {
    (void)s;
    for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch += 3) {
        uint64_t one = run20(1, micro_batch);
        assert_true(run20(1024, micro_batch) == one);
        assert_true(run20(65536, micro_batch) == one);
    }
}

/* ---- P17, P23: targets ---- */

/* Fills the step's rows, of which the first `n[row]` targets are not masked. */
static void fill_rows(rig *r, const int *n, int rows) {
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < 16; i++) {
            r->trainer->tokens[row * 16 + i] = (row * 5 + i) % RIG_VOCAB;
            r->trainer->targets[row * 16 + i] = i < n[row] ? (3 * i + row) % RIG_VOCAB : -1;
        }
}

static mpt_step_result step_rows(rig *r, const int *n, int rows) {
    mpt_step_result result;
    fill_rows(r, n, rows);
    assert_mpt_ok(r->ctx, mpt_trainer_step_batch(r->trainer, &result));
    return result;
}

static void rig_of(rig *r, int64_t batch, int64_t micro_batch) {
    rig_options o = rig_defaults();
    o.batch = batch;
    o.micro_batch = micro_batch;
    o.ref = true;
    rig_init(r, &o);
}

/* A has 4 targets and B has 1: the loss of both is (4 a + b) / 5, not (a + b) / 2, and the
 * gradient that of one batch of five. */
static void test_p17_when_micro_batches_have_4_and_1_targets_then_they_weigh_so(void **s) {
    (void)s;
    static const int a[] = {4, 0}, b[] = {0, 1}, both[] = {4, 1};
    rig r;
    double loss[2], norm[2];
    rig_of(&r, 2, 1);
    double of_a = step_rows(&r, a, 2).loss;
    rig_deinit(&r);
    rig_of(&r, 2, 1);
    double of_b = step_rows(&r, b, 2).loss;
    rig_deinit(&r);
    for (int whole = 0; whole < 2; whole++) {
        rig_of(&r, 2, whole ? 2 : 1);
        mpt_step_result result = step_rows(&r, both, 2);
        loss[whole] = result.loss;
        norm[whole] = result.grad_norm;
        rig_deinit(&r);
    }
    assert_true(fabs(of_a - of_b) > 0.01);
    assert_true(fabs(loss[0] - (4 * of_a + of_b) / 5) < 1e-6);
    assert_true(fabs(loss[0] - loss[1]) < 1e-6);
    assert_true(fabs(norm[0] / norm[1] - 1) < 1e-5);
}

static void
test_p23_when_a_micro_batch_is_masked_then_it_adds_nothing_and_is_counted(void **s) {
    (void)s;
    static const int with[] = {16, 0, 16, 0};
    rig r, few;
    rig_of(&r, 4, 1);
    mpt_step_result a = step_rows(&r, with, 4);
    assert_int_equal(a.empty_microbatches, 2);
    assert_true(isfinite(a.loss) && !a.skipped);
    assert_non_null(strstr(r.lines, ",\"empty_microbatches\":2,"));
    rig_of(&few, 2, 1);
    for (int i = 0; i < 32; i++) { /* rows 0 and 2 of the other */
        int row = i / 16 * 2;
        few.trainer->tokens[i] = (row * 5 + i % 16) % RIG_VOCAB;
        few.trainer->targets[i] = (3 * (i % 16) + row) % RIG_VOCAB;
    }
    mpt_step_result b;
    assert_mpt_ok(few.ctx, mpt_trainer_step_batch(few.trainer, &b));
    assert_true(a.loss == b.loss && a.grad_norm == b.grad_norm);
    assert_true(rig_state_hash(&r) == rig_state_hash(&few));
    assert_int_equal(b.empty_microbatches, 0);
    assert_null(strstr(few.lines, "empty_microbatches"));
    rig_deinit(&r);
    rig_deinit(&few);
}

/* The line of the step says null for a loss, the counters of applied steps and of skips that
 * mean trouble stand still, and the next step is as if it had been the first. */
static void test_p23_when_the_whole_window_is_masked_then_no_step_is_taken(void **s) {
    (void)s;
    static const int none[] = {0, 0, 0, 0}, all[] = {16, 16, 16, 16};
    rig r;
    rig_of(&r, 4, 2);
    uint64_t before = rig_state_hash(&r);
    mpt_step_result a = step_rows(&r, none, 4);
    assert_true(a.skipped && !a.bad_tensor && isnan(a.loss));
    assert_int_equal(a.empty_microbatches, 2);
    assert_true(rig_state_hash(&r) == before);
    assert_int_equal(r.trainer->attempted, 1);
    assert_int_equal(r.trainer->applied, 0);
    assert_int_equal(r.trainer->skips_in_a_row, 0);
    assert_non_null(strstr(r.lines, "\"loss\":null,"));
    assert_non_null(strstr(r.lines, "\"skipped\":true,\"empty_microbatches\":2,"));
    mpt_step_result b = step_rows(&r, all, 4);
    assert_true(!b.skipped && b.lr == (double)1e-2f);
    assert_int_equal(r.trainer->applied, 1);
    rig_deinit(&r);
}

/* ---- what stands in a bad gradient ---- */

static void test_step_when_a_gradient_is_bad_then_its_amax_and_fault_are_told(void **s) {
    (void)s;
    static const char *const faults[] = {"grad:layers.0.up.weight=inf@0",
                                         "grad:layers.0.up.weight=nan@1",
                                         "grad:layers.0.down.weight=-inf@1"};
    rig r;
    rig_options o = rig_defaults();
    rig_compile(&r, mpt_test_ctx(), &o);
    r.inject = faults;
    r.n_inject = 3;
    assert_mpt_ok(r.ctx, rig_create_trainer(&r));
    mpt_step_result a = rig_step(&r), b = rig_step(&r), c = rig_step(&r);
    assert_string_equal(a.bad_tensor, "layers.0.up.weight");
    assert_true(a.bad_inf && !a.bad_nan && a.bad_amax > 0 && a.bad_amax < 1);
    assert_string_equal(b.bad_tensor, "layers.0.down.weight"); /* backward ends it first */
    assert_true(b.bad_inf && !b.bad_nan && b.bad_amax > 0);
    assert_true(!c.skipped && !c.bad_tensor && c.bad_amax == 0 && !c.bad_nan);
    rig_deinit(&r);
}

/* ---- P71, P72: arithmetic beside narrow states ---- */

typedef void (*kernel_fn)(const mpt_kernel_args *);
static const kernel_fn adamws[] = {mpt_ref_adamw, mpt_cpu_adamw};

/* A step over one weight in states of a format. */
static void adam_once(kernel_fn kernel, mpt_dtype format, float beta2, float g, float x[3]) {
    float factor = 1;
    mpt_run_env env = {.lr = 1e-3f, .n_threads = 1, .bias_correction1 = 0.1f};
    env.bias_correction2 = (float)(1 - (double)beta2);
    mpt_node node = {.op = MPT_OP_adamw, .n_in = 5, .n_out = 1};
    node.attrs.beta1 = 0.9f;
    node.attrs.beta2 = beta2;
    node.attrs.eps = 1e-8f;
    mpt_tensor in[5];
    void *const data[5] = {&x[0], &g, &x[1], &x[2], &factor};
    for (int i = 0; i < 5; i++)
        in[i] = (mpt_tensor){.data = data[i],
                             .rank = 1,
                             .dims = {1},
                             .dtype = i == 2 || i == 3 ? format : MPT_DTYPE_FP32};
    kernel(&(mpt_kernel_args){&node, in, in, NULL, &env, NULL});
}

static void test_p71_when_moments_are_bf16_then_beta2_keeps_its_digits(void **s) {
    (void)s;
    for (size_t k = 0; k < MPT_COUNT(adamws); k++) {
        float x[3] = {0, 0, 0};
        adam_once(adamws[k], MPT_DTYPE_BF16, 0.999f, 1, x);
        assert_true(x[2] == mpt_round(MPT_DTYPE_BF16, 0.001f));
        assert_true(fabs((double)x[0] / -1e-3 - 1) < 0.01);
    }
}

static void test_p72_when_moments_are_fp16_and_gradients_zero_then_nothing_moves(void **s) {
    (void)s;
    for (size_t k = 0; k < MPT_COUNT(adamws); k++) {
        float x[3] = {0.75f, 0, 0};
        for (int i = 0; i < 10; i++)
            adam_once(adamws[k], MPT_DTYPE_FP16, 0.95f, 0, x);
        assert_true(x[0] == 0.75f && x[1] == 0 && x[2] == 0);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p02_when_the_scale_is_1_1024_or_65536_then_weights_are_the_same_bits),
    cmocka_unit_test(test_p17_when_micro_batches_have_4_and_1_targets_then_they_weigh_so),
    cmocka_unit_test(test_p23_when_a_micro_batch_is_masked_then_it_adds_nothing_and_is_counted),
    cmocka_unit_test(test_p23_when_the_whole_window_is_masked_then_no_step_is_taken),
    cmocka_unit_test(test_step_when_a_gradient_is_bad_then_its_amax_and_fault_are_told),
    cmocka_unit_test(test_p71_when_moments_are_bf16_then_beta2_keeps_its_digits),
    cmocka_unit_test(test_p72_when_moments_are_fp16_and_gradients_zero_then_nothing_moves),
};

MPT_TEST_MAIN(cases)
