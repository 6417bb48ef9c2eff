/* What a host reads of one counted step: how quantizing treated each operand. */
#include "mpt_test.h"

#include <math.h>

#include "models.h"
#include "train_rig.h"

enum { TOKENS = 64 };

/* FP8 for what the head reads and its weight. */
static void choose_fprop(const void *ud, const mpt_graph *graph, int phase,
                         mpt_policy *policies) {
    mpt_quantizer *slot = policies[rig_layer(graph, "lm_head")].slot;
    (void)phase;
    slot[MPT_SLOT_FPROP_X] = slot[MPT_SLOT_FPROP_W] = *(const mpt_quantizer *)ud;
}

static const mpt_quantizer fixed_scale = {.name = "e4m3",
                                          .format = MPT_DTYPE_E4M3,
                                          .scale = {.kind = MPT_SCALING_STATIC, .value = 256}};

static void init(rig *r, int n_threads, bool ref) {
    static const float row[LOOKUP_WIDTH] = {2, -4, 1, 0.5f, 0, 0x1p-20f, -0x1p-21f, 0.25f};
    rig_options o = rig_defaults();
    int64_t n;
    o.draw = draw_lookup;
    o.choose = choose_fprop;
    o.choose_ud = &fixed_scale;
    o.micro_batch = 2;
    o.n_threads = n_threads;
    o.ref = ref;
    rig_init(r, &o);
    float *table = rig_weights(r, "wte.weight", &n);
    for (int64_t i = 0; i < n; i++)
        table[i] = row[i % LOOKUP_WIDTH];
}

/* The operand of a name at the last counted step. */
static mpt_operand_view operand(const rig *r, const char *name) {
    mpt_operand_view view = {0};
    for (int i = 0; mpt_trainer_operand(r->trainer, i, &view); i++)
        if (strcmp(view.name, name) == 0)
            return view;
    fail_msg("no operand %s", name);
    return view;
}

/* At 256 times, 2 and 4 are beyond 448, and what is below 2^-18 becomes 0. */
static void test_operand_when_counted_then_both_micro_batches_are_in_it(void **s) {
    (void)s;
    rig r;
    init(&r, 1, false);
    mpt_trainer_count_next(r.trainer);
    (void)rig_step(&r);
    mpt_operand_view x = operand(&r, "lm_head.fprop.x"), w = operand(&r, "lm_head.fprop.w");
    assert_int_equal(x.elements, TOKENS * LOOKUP_WIDTH);
    assert_int_equal(x.overflow, TOKENS * 2);
    assert_int_equal(x.underflow, TOKENS * 2);
    assert_int_equal(x.zeros, TOKENS * 3);
    assert_int_equal(x.nonfinite, 0);
    assert_int_equal(x.capped, 0);
    assert_true(x.amax == 4);
    /* Lost are 0.25 of the 2 and 2.25 of the 4. */
    double signal = 4 + 16 + 1 + 0.25 + 0.0625, noise = 0.25 * 0.25 + 2.25 * 2.25;
    assert_true(fabs(x.sqnr - 10 * log10(signal / noise)) < 1e-6);
    assert_int_equal(w.elements, RIG_VOCAB * LOOKUP_WIDTH); /* once a step */
    assert_int_equal(w.overflow, 0);
    rig_deinit(&r);
}

static void test_operand_when_a_value_is_nan_then_it_is_counted(void **s) {
    (void)s;
    rig r;
    int64_t n;
    init(&r, 1, false);
    rig_weights(&r, "lm_head.weight", &n)[5] = NAN;
    mpt_trainer_count_next(r.trainer);
    assert_true(rig_step(&r).skipped);
    assert_int_equal(operand(&r, "lm_head.fprop.w").nonfinite, 1);
    rig_deinit(&r);
}

static void test_operand_when_not_asked_for_then_nothing_is_counted(void **s) {
    (void)s;
    rig r;
    mpt_operand_view view;
    init(&r, 1, false);
    (void)rig_step(&r);
    assert_false(mpt_trainer_operand(r.trainer, 0, &view));
    mpt_trainer_count_next(r.trainer);
    (void)rig_step(&r);
    uint64_t elements = operand(&r, "lm_head.fprop.x").elements;
    (void)rig_step(&r); /* that one step only */
    assert_int_equal(operand(&r, "lm_head.fprop.x").elements, elements);
    rig_deinit(&r);
}

static void test_step_when_counted_then_same_bits_and_nothing_is_allocated(void **s) {
    (void)s;
    rig counted, plain;
    init(&counted, 1, false);
    init(&plain, 1, false);
    uint64_t before = mpt_ctx_memory(counted.ctx).n_allocs;
    for (int i = 0; i < 3; i++) {
        mpt_trainer_count_next(counted.trainer);
        (void)rig_step(&counted);
        (void)rig_step(&plain);
    }
    assert_true(mpt_ctx_memory(counted.ctx).n_allocs == before);
    assert_true(rig_state_hash(&counted) == rig_state_hash(&plain));
    rig_deinit(&counted);
    rig_deinit(&plain);
}

static void test_operand_when_backends_and_threads_differ_then_counts_are_equal(void **s) {
    (void)s;
    mpt_operand_view views[3];
    for (int i = 0; i < 3; i++) {
        rig r;
        init(&r, i == 1 ? 2 : 1, i == 2);
        mpt_trainer_count_next(r.trainer);
        (void)rig_step(&r);
        views[i] = operand(&r, "lm_head.fprop.x");
        views[i].name = NULL;
        rig_deinit(&r);
    }
    assert_memory_equal(&views[0], &views[1], sizeof views[0]);
    assert_memory_equal(&views[0], &views[2], sizeof views[0]);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_operand_when_counted_then_both_micro_batches_are_in_it),
    cmocka_unit_test(test_operand_when_a_value_is_nan_then_it_is_counted),
    cmocka_unit_test(test_operand_when_not_asked_for_then_nothing_is_counted),
    cmocka_unit_test(test_step_when_counted_then_same_bits_and_nothing_is_allocated),
    cmocka_unit_test(test_operand_when_backends_and_threads_differ_then_counts_are_equal),
};

MPT_TEST_MAIN(cases)
