/* Delayed scaling in the compiled schedule: what enters the histories, what scales come out,
 * and which state outlives a step, an evaluation and a phase.
 *
 * The network is a table and a head, so that a test chooses the head's input by writing rows of
 * the table. */
#include "mpt_test.h"

#include <math.h>

#include "models.h"
#include "train_rig.h"

enum { WINDOW = 3 };

/* tokens -> table -> norm -> head */
static mpt_status draw_normed(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .head = true};
    head.in[0] =
        draw1(&d, MPT_OP_rmsnorm, "norm", draw_embedding(&d, "wte", ids, 0, LOOKUP_WIDTH));
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

/* The precision of x in the head's fprop, one a phase; format BF16 is a cast. */
typedef struct plan {
    mpt_quantizer x[RIG_PHASES];
} plan;

static void choose_x(const void *ud, const mpt_graph *graph, int phase, mpt_policy *policies) {
    const plan *p = ud;
    policies[rig_layer(graph, "lm_head")].slot[MPT_SLOT_FPROP_X] = p->x[phase];
}

static mpt_quantizer delayed(int32_t history) {
    return (mpt_quantizer){.name = "e4m3",
                           .format = MPT_DTYPE_E4M3,
                           .scale = {.kind = MPT_SCALING_DELAYED, .history = history}};
}

static const mpt_quantizer wide = {.name = "bf16", .format = MPT_DTYPE_BF16};

static rig_options options_for(const plan *p) {
    rig_options o = rig_defaults();
    o.draw = draw_lookup;
    o.choose = choose_x;
    o.choose_ud = p;
    o.lr = 0; /* the table stays as it is written */
    return o;
}

/* One step whose tokens are all `first` in the first half and `second` in the second, after the
 * table's rows 0 and 1 were filled with the two magnitudes. */
static mpt_step_result step_with(rig *r, float first, float second) {
    mpt_step_result result;
    int64_t n;
    float *table = rig_weights(r, "wte.weight", &n);
    for (int i = 0; i < LOOKUP_WIDTH; i++) {
        table[i] = i == 3 ? -first : first / 4;
        table[LOOKUP_WIDTH + i] = i == 3 ? -second : second / 4;
    }
    for (int i = 0; i < 64; i++) {
        r->trainer->tokens[i] = i < 32 ? 0 : 1;
        r->trainer->targets[i] = i % RIG_VOCAB;
    }
    assert_mpt_ok(r->ctx, mpt_trainer_step_batch(r->trainer, &result));
    return result;
}

static mpt_scale_view x_scale(const rig *r) {
    return rig_scale(r, "lm_head.fprop.x");
}

/* ---- what enters the history ---- */

static void test_step_when_p20_micro_batches_differ_then_the_largest_counts(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(4)}};
    rig_options o = options_for(&p);
    o.micro_batch = 2;
    rig_init(&r, &o);
    step_with(&r, 100, 1);
    mpt_scale_view view = x_scale(&r);
    assert_int_equal(view.n_history, 4);
    assert_true(view.amax_history[0] == 0); /* ready for the next step */
    assert_true(view.amax_history[3] == 100);
    assert_true(view.scale == 448.0f / 100.0f);
    rig_deinit(&r);
}

/* 255.9 becomes 256 in BF16, and that is what is quantized. */
static void test_step_when_p35_a_norm_puts_out_bf16_then_amax_is_of_the_rounded(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(1)}};
    rig_options o = options_for(&p);
    int64_t n;
    o.draw = draw_normed;
    rig_init(&r, &o);
    float *weight = rig_weights(&r, "norm.weight", &n);
    float *table = rig_weights(&r, "wte.weight", &n);
    weight[3] = 255.9f;
    for (int64_t i = 0; i < n; i++)
        table[i] = 1;
    (void)rig_step(&r);
    assert_true(x_scale(&r).scale == 448.0f / 256.0f);
    rig_deinit(&r);
}

static void test_step_when_skipped_then_the_history_moves_on_all_the_same(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(2)}};
    rig_options o = options_for(&p);
    int64_t n;
    rig_init(&r, &o);
    rig_weights(&r, "lm_head.weight", &n)[0] = INFINITY;
    assert_true(step_with(&r, 14, 7).skipped);
    assert_true(x_scale(&r).scale == 448.0f / 14.0f);
    rig_deinit(&r);
}

/* ---- the scales that come out ---- */

/* Amaxes of six steps and what the last three of them say. */
static const float amaxes[] = {8, 2, 32, 1, 0.5f, 4};

static void test_steps_when_the_window_is_three_then_scales_follow_its_largest(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(WINDOW)}};
    rig_options o = options_for(&p);
    rig_init(&r, &o);
    assert_true(x_scale(&r).scale == 0); /* none yet */
    for (int i = 0; i < (int)MPT_COUNT(amaxes); i++) {
        float most = 0;
        step_with(&r, amaxes[i], amaxes[i]);
        for (int k = i - WINDOW + 1; k <= i; k++)
            most = k >= 0 && amaxes[k] > most ? amaxes[k] : most;
        assert_true(x_scale(&r).scale == 448.0f / most);
    }
    rig_deinit(&r);
}

static void test_steps_when_most_recent_then_the_window_does_not_matter(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(WINDOW)}};
    p.x[0].scale.algo = MPT_AMAX_MOST_RECENT;
    rig_options o = options_for(&p);
    rig_init(&r, &o);
    for (size_t i = 0; i < MPT_COUNT(amaxes); i++) {
        step_with(&r, amaxes[i], amaxes[i]);
        assert_true(x_scale(&r).scale == 448.0f / amaxes[i]);
    }
    rig_deinit(&r);
}

static void test_step_when_margin_and_headroom_then_the_scale_is_smaller_by_them(void **s) {
    (void)s;
    static const struct {
        int32_t margin;
        double source_headroom, headroom;
        float aim;
    } rows[] = {{1, 0, 0, 224}, {0, 2, 0, 224}, {0, 0, 0.75, 336}, {3, 1, 0.5, 28}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        rig r;
        plan p = {{delayed(1)}};
        p.x[0].scale.margin = rows[i].margin;
        p.x[0].scale.headroom = rows[i].source_headroom;
        p.x[0].headroom = rows[i].headroom;
        rig_options o = options_for(&p);
        rig_init(&r, &o);
        step_with(&r, 5, 5);
        assert_true(x_scale(&r).scale == rows[i].aim / 5.0f);
        rig_deinit(&r);
    }
}

/* At the second step the values are ten times as large as the scale was made for. */
static void test_step_when_values_grow_then_the_old_scale_saturates_them(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(2)}};
    rig_options o = options_for(&p);
    mpt_operand_view view;
    rig_init(&r, &o);
    for (int step = 0; step < 3; step++) {
        mpt_trainer_count_next(r.trainer);
        step_with(&r, step ? 10 : 1, step ? 10 : 1);
        assert_true(mpt_trainer_operand(r.trainer, 0, &view));
        assert_string_equal(view.name, "lm_head.fprop.x");
        assert_int_equal(view.overflow, step == 1 ? 64 * LOOKUP_WIDTH : 0);
    }
    rig_deinit(&r);
}

/* ---- evaluation ---- */

static uint64_t hash_with_scales(const rig *r) {
    uint64_t hash = rig_state_hash(r);
    mpt_scale_view view;
    for (int i = 0; mpt_trainer_scale(r->trainer, i, &view); i++)
        hash = hash * 31 + mpt_hash(&view.scale, sizeof view.scale) +
               mpt_hash(view.amax_history, (size_t)view.n_history * sizeof(float));
    return hash;
}

static void choose_all(const void *ud, const mpt_graph *graph, int phase,
                       mpt_policy *policies) {
    const plan *p = ud;
    for (int i = 0; i < graph->n_layers; i++)
        for (int slot = 0; slot < MPT_SLOT_COUNT; slot++)
            policies[i].slot[slot] = p->x[phase];
}

static uint64_t run_steps(const plan *p, bool eval, int n_threads, bool ref) {
    rig r;
    double loss;
    rig_options o = rig_defaults();
    o.choose = choose_all;
    o.choose_ud = p;
    o.n_threads = n_threads;
    o.ref = ref;
    o.micro_batch = 2;
    rig_init(&r, &o);
    for (int i = 0; i < 6; i++) {
        (void)rig_step(&r);
        if (eval)
            assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 3, &loss));
    }
    uint64_t hash = hash_with_scales(&r);
    rig_deinit(&r);
    return hash;
}

static void test_run_when_evaluated_in_between_then_histories_are_the_same_bits(void **s) {
    (void)s;
    plan p = {{delayed(4)}};
    assert_true(run_steps(&p, false, 1, false) == run_steps(&p, true, 1, false));
}

static void test_run_when_threads_differ_then_scales_are_the_same_bits(void **s) {
    (void)s;
    plan p = {{delayed(4)}};
    assert_true(run_steps(&p, false, 1, false) == run_steps(&p, false, 2, false));
    assert_true(run_steps(&p, false, 1, true) == run_steps(&p, false, 2, true));
}

/* ---- who has a state ---- */

static mpt_status draw_two_readers(mpt_graph *graph) {
    static const small_net net = {
        .width = 16, .hidden = 32, .vocab = RIG_VOCAB, .n_blocks = 1, .n_readers = 2};
    small_net copy = net;
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    return small_build(&copy, &nn, false);
}

/* One scale a tensor: x serves fprop and wgrad, w fprop and dgrad, dy both; and the two layers
 * that read one norm share its copy. */
static void test_state_when_copies_are_shared_then_there_is_one_under_the_owner(void **s) {
    (void)s;
    static const char *const names[] = {"layers.0.up.fprop.w",    "layers.0.gate.fprop.w",
                                        "layers.0.down.fprop.w",  "lm_head.fprop.w",
                                        "layers.0.up.fprop.x",    "layers.0.down.fprop.x",
                                        "lm_head.fprop.x",        "lm_head.dgrad.dy",
                                        "layers.0.down.dgrad.dy", "layers.0.gate.dgrad.dy"};
    rig r;
    plan p = {{delayed(4)}};
    rig_options o = rig_defaults();
    mpt_scale_view view;
    int n = 0;
    o.draw = draw_two_readers;
    o.choose = choose_all;
    o.choose_ud = &p;
    rig_init(&r, &o);
    while (mpt_trainer_scale(r.trainer, n, &view))
        n++;
    assert_int_equal(n, MPT_COUNT(names));
    (void)rig_step(&r);
    for (size_t i = 0; i < MPT_COUNT(names); i++)
        assert_true(rig_scale(&r, names[i]).scale > 0);
    rig_deinit(&r);
}

static void test_state_when_nothing_is_delayed_then_there_is_none(void **s) {
    (void)s;
    rig r;
    plan p = {{wide}};
    rig_options o = options_for(&p);
    mpt_scale_view view;
    rig_init(&r, &o);
    assert_false(mpt_trainer_scale(r.trainer, 0, &view));
    rig_deinit(&r);
}

/* ---- phases ---- */

/* P43: the first step of delayed scaling takes the current scale, so nothing saturates. */
static void test_phase_when_p43_it_enters_delayed_scaling_then_nothing_saturates(void **s) {
    (void)s;
    rig r;
    plan p = {{wide, delayed(4)}};
    rig_options o = options_for(&p);
    mpt_operand_view view;
    o.switch_at = 2;
    rig_init(&r, &o);
    for (int step = 0; step < 3; step++) {
        mpt_trainer_count_next(r.trainer);
        step_with(&r, 1000, 1);
    }
    assert_true(mpt_trainer_operand(r.trainer, 0, &view));
    assert_int_equal(view.elements, 64 * LOOKUP_WIDTH);
    assert_int_equal(view.overflow, 0);
    assert_true(view.amax == 1000);
    assert_true(x_scale(&r).scale == 448.0f / 1000.0f);
    rig_deinit(&r);
}

static void test_phase_when_one_between_has_no_history_then_it_starts_anew(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(4), wide, delayed(4)}};
    rig_options o = options_for(&p);
    o.switch_at = 1;
    o.switch_again = 2;
    rig_init(&r, &o);
    step_with(&r, 64, 64);
    assert_true(x_scale(&r).scale == 7.0f);
    step_with(&r, 2, 2);
    assert_true(x_scale(&r).scale == 7.0f); /* nobody looks at it */
    step_with(&r, 1, 1);
    assert_true(x_scale(&r).scale == 448.0f);
    rig_deinit(&r);
}

/* A scale for E5M2 would saturate E4M3, so the first step there takes the current one. */
static void test_phase_when_the_format_changes_then_the_history_stays_alone(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(4), delayed(4)}};
    p.x[0].format = MPT_DTYPE_E5M2;
    rig_options o = options_for(&p);
    mpt_operand_view view;
    o.switch_at = 1;
    rig_init(&r, &o);
    step_with(&r, 64, 64);
    assert_true(x_scale(&r).scale == 57344.0f / 64.0f);
    mpt_trainer_count_next(r.trainer);
    step_with(&r, 32, 32);
    assert_true(mpt_trainer_operand(r.trainer, 0, &view));
    assert_int_equal(view.overflow, 0);
    assert_true(x_scale(&r).scale == 448.0f / 64.0f);
    rig_deinit(&r);
}

/* A shorter window takes the first entries; what a longer one after it adds is empty. */
static void test_phase_when_windows_differ_then_only_the_shared_entries_are_kept(void **s) {
    (void)s;
    rig r;
    plan p = {{delayed(4), delayed(2), delayed(4)}};
    rig_options o = options_for(&p);
    o.switch_at = 2;
    o.switch_again = 3;
    rig_init(&r, &o);
    step_with(&r, 64, 64);
    step_with(&r, 32, 32); /* the window is 0, 0, 64, 32 */
    step_with(&r, 2, 2);   /* of which the second phase sees 0, 0 */
    assert_true(x_scale(&r).scale == 448.0f / 2.0f);
    step_with(&r, 1, 1); /* the third sees 0, 2 and two empty entries */
    assert_true(x_scale(&r).scale == 448.0f / 2.0f);
    assert_int_equal(x_scale(&r).n_history, 4);
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_step_when_p20_micro_batches_differ_then_the_largest_counts),
    cmocka_unit_test(test_step_when_p35_a_norm_puts_out_bf16_then_amax_is_of_the_rounded),
    cmocka_unit_test(test_step_when_skipped_then_the_history_moves_on_all_the_same),
    cmocka_unit_test(test_steps_when_the_window_is_three_then_scales_follow_its_largest),
    cmocka_unit_test(test_steps_when_most_recent_then_the_window_does_not_matter),
    cmocka_unit_test(test_step_when_margin_and_headroom_then_the_scale_is_smaller_by_them),
    cmocka_unit_test(test_step_when_values_grow_then_the_old_scale_saturates_them),
    cmocka_unit_test(test_run_when_evaluated_in_between_then_histories_are_the_same_bits),
    cmocka_unit_test(test_run_when_threads_differ_then_scales_are_the_same_bits),
    cmocka_unit_test(test_state_when_copies_are_shared_then_there_is_one_under_the_owner),
    cmocka_unit_test(test_state_when_nothing_is_delayed_then_there_is_none),
    cmocka_unit_test(test_phase_when_p43_it_enters_delayed_scaling_then_nothing_saturates),
    cmocka_unit_test(test_phase_when_one_between_has_no_history_then_it_starts_anew),
    cmocka_unit_test(test_phase_when_the_format_changes_then_the_history_stays_alone),
    cmocka_unit_test(test_phase_when_windows_differ_then_only_the_shared_entries_are_kept),
};

MPT_TEST_MAIN(cases)
