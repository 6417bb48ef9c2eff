/* One pass on a host's tokens: what it gives, and that training does not feel it. */
#include "mpt_test.h"

#include <math.h>

#include "train_rig.h"

enum { ROWS = 4, LENGTH = 16, TOKENS = ROWS * LENGTH };

typedef struct pass {
    int32_t tokens[TOKENS], targets[TOKENS];
    float logits[TOKENS * RIG_VOCAB];
    double loss;
} pass;

/* Tokens in no order, and the next ones as targets, some of them masked. */
static void fill(pass *p) {
    for (int i = 0; i < TOKENS; i++)
        p->tokens[i] = (i * 7 + i / 5) % RIG_VOCAB;
    for (int i = 0; i < TOKENS; i++)
        p->targets[i] = i % 6 == 5 ? -1 : p->tokens[(i + 1) % TOKENS];
}

static mpt_status forward(rig *r, pass *p, bool gradients) {
    mpt_forward_options o = MPT_FORWARD_OPTIONS_INIT;
    o.tokens = p->tokens;
    o.targets = p->targets;
    o.gradients = gradients;
    return mpt_trainer_forward(r->trainer, &o, p->logits, &p->loss);
}

static double loss_of_logits(const pass *p) {
    double total = 0;
    int n = 0;
    for (int t = 0; t < TOKENS; t++) {
        const float *x = p->logits + t * RIG_VOCAB;
        double sum = 0;
        if (p->targets[t] < 0)
            continue;
        for (int i = 0; i < RIG_VOCAB; i++)
            sum += exp((double)x[i]);
        total += log(sum) - (double)x[p->targets[t]];
        n++;
    }
    return total / n;
}

static void test_forward_when_logits_are_asked_for_then_the_loss_is_theirs(void **s) {
    (void)s;
    for (int gradients = 0; gradients < 2; gradients++) {
        rig r;
        rig_options o = rig_defaults();
        pass p;
        fill(&p);
        rig_init(&r, &o);
        for (int i = 0; i < 3; i++)
            (void)rig_step(&r);
        assert_mpt_ok(r.ctx, forward(&r, &p, gradients));
        assert_true(fabs(p.loss - loss_of_logits(&p)) < 1e-6);
        rig_deinit(&r);
    }
}

static void test_forward_when_there_are_no_targets_then_the_loss_is_nan(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    pass p, q;
    mpt_forward_options f = MPT_FORWARD_OPTIONS_INIT;
    fill(&p);
    rig_init(&r, &o);
    assert_mpt_ok(r.ctx, forward(&r, &p, false));
    f.tokens = p.tokens;
    assert_mpt_ok(r.ctx, mpt_trainer_forward(r.trainer, &f, q.logits, &q.loss));
    assert_true(isnan(q.loss));
    assert_memory_equal(p.logits, q.logits, sizeof p.logits);
    assert_mpt_ok(r.ctx, mpt_trainer_forward(r.trainer, &f, NULL, NULL));
    for (int i = 0; i < TOKENS; i++)
        q.targets[i] = -1;
    f.targets = q.targets;
    assert_mpt_ok(r.ctx, mpt_trainer_forward(r.trainer, &f, NULL, &q.loss));
    assert_true(isnan(q.loss));
    rig_deinit(&r);
}

static void choose_narrow(const void *ud, const mpt_graph *graph, int phase,
                          mpt_policy *policies) {
    (void)ud;
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++)
        for (int slot = 0; slot <= MPT_SLOT_FPROP_W; slot++)
            assert_true(mpt_quantizer_by_name("mxfp4", &policies[i].slot[slot]));
}

static void choose_wide(const void *ud, const mpt_graph *graph, int phase,
                        mpt_policy *policies) {
    (void)ud, (void)graph, (void)phase, (void)policies; /* BF16 as they are */
}

static void test_forward_when_evaluation_has_a_precision_then_it_is_used(void **s) {
    (void)s;
    double loss[2][2];
    for (int own = 0; own < 2; own++)
        for (int gradients = 0; gradients < 2; gradients++) {
            rig r;
            rig_options o = rig_defaults();
            pass p;
            o.choose = choose_wide;
            o.choose_eval = own ? choose_narrow : NULL;
            fill(&p);
            rig_init(&r, &o);
            assert_mpt_ok(r.ctx, forward(&r, &p, gradients));
            loss[own][gradients] = p.loss;
            rig_deinit(&r);
        }
    assert_true(loss[0][0] == loss[0][1] && loss[0][1] == loss[1][1]);
    assert_true(loss[1][0] != loss[0][0]);
}

/* ---- gradients ---- */

/* Hash of all gradients; the trainer must have some. */
static uint64_t gradient_hash(const rig *r) {
    mpt_param_view view;
    uint64_t hash = 0;
    int n = 0;
    for (; mpt_trainer_gradient(r->trainer, n, &view); n++) {
        size_t elements = 1;
        for (int d = 0; d < view.rank; d++)
            elements *= (size_t)view.dims[d];
        hash = hash * 31 + mpt_hash(view.data, elements * sizeof(float));
    }
    assert_int_equal(n, r->phases[0]->graph->n_params);
    return hash;
}

/* A power of two leaves the digits of FP32 gradients alone. */
static void test_gradients_when_the_loss_is_scaled_then_they_are_the_same_bits(void **s) {
    (void)s;
    uint64_t hash[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_options o = rig_defaults();
        pass p;
        o.loss_scale = scaled ? 1024 : 0;
        fill(&p);
        rig_init(&r, &o);
        assert_mpt_ok(r.ctx, forward(&r, &p, true));
        hash[scaled] = gradient_hash(&r);
        rig_deinit(&r);
    }
    assert_true(hash[0] == hash[1]);
}

/* Along each of some elements of a weight the loss changes as its gradient says. */
static void test_gradients_when_a_weight_moves_then_the_loss_follows(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    pass p;
    mpt_param_view view;
    const float step = 1e-2f;
    fill(&p);
    rig_init(&r, &o);
    for (int param = 0; mpt_trainer_param(r.trainer, param, &view); param++) {
        float *weights = r.trainer->state->master[param], before = weights[3];
        assert_mpt_ok(r.ctx, forward(&r, &p, true));
        assert_true(mpt_trainer_gradient(r.trainer, param, &view));
        double gradient = (double)view.data[3], loss[2];
        for (int side = 0; side < 2; side++) {
            weights[3] = before + (side ? step : -step);
            assert_mpt_ok(r.ctx, forward(&r, &p, false));
            loss[side] = p.loss;
        }
        weights[3] = before;
        assert_true(fabs((loss[1] - loss[0]) / (2 * (double)step) - gradient) <
                    1e-4 + 0.02 * fabs(gradient));
    }
    rig_deinit(&r);
}

static void test_gradients_when_a_step_or_an_evaluation_follows_then_they_are_gone(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    pass p;
    double loss;
    mpt_param_view view;
    fill(&p);
    rig_init(&r, &o);
    assert_false(mpt_trainer_gradient(r.trainer, 0, &view));
    for (int by = 0; by < 3; by++) {
        assert_mpt_ok(r.ctx, forward(&r, &p, true));
        assert_true(mpt_trainer_gradient(r.trainer, 0, &view));
        assert_false(mpt_trainer_gradient(r.trainer, 1000, &view));
        assert_false(mpt_trainer_gradient(r.trainer, -1, &view));
        if (by == 0)
            (void)rig_step(&r);
        else if (by == 1)
            assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 1, &loss));
        else
            assert_mpt_ok(r.ctx, forward(&r, &p, false));
        assert_false(mpt_trainer_gradient(r.trainer, 0, &view));
    }
    assert_false(mpt_trainer_gradient(NULL, 0, &view));
    assert_false(mpt_trainer_gradient(r.trainer, 0, NULL));
    rig_deinit(&r);
}

/* ---- training does not feel it ---- */

static void choose_delayed(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    (void)ud;
    for (int i = 0; i < graph->n_layers; i++)
        for (int slot = 0; slot < MPT_SLOT_COUNT; slot++)
            policies[i].slot[slot] =
                (mpt_quantizer){.name = "e4m3",
                                .format = MPT_DTYPE_E4M3,
                                .scale = {.kind = MPT_SCALING_DELAYED, .history = 4 + phase}};
}

static uint64_t state_after_six(int passes, bool gradients) {
    rig r;
    rig_options o = rig_defaults();
    pass p;
    mpt_scale_view view;
    o.choose = choose_delayed;
    o.switch_at = 3;
    o.loss_scale = 256;
    fill(&p);
    rig_init(&r, &o);
    for (int i = 0; i < 6; i++) {
        (void)rig_step(&r);
        for (int k = 0; k < passes; k++)
            assert_mpt_ok(r.ctx, forward(&r, &p, gradients));
    }
    uint64_t state = rig_state_hash(&r);
    for (int i = 0; mpt_trainer_scale(r.trainer, i, &view); i++)
        state = state * 31 + mpt_hash(&view.scale, sizeof view.scale) +
                mpt_hash(view.amax_history, (size_t)view.n_history * sizeof(float));
    state = state * 31 + mpt_hash(r.lines, r.n_lines_bytes);
    rig_deinit(&r);
    return state;
}

static void test_forward_when_between_steps_then_training_is_the_same_bits(void **s) {
    (void)s;
    uint64_t alone = state_after_six(0, false);
    assert_true(state_after_six(1, false) == alone);
    assert_true(state_after_six(2, true) == alone);
}

static void test_forward_when_running_then_nothing_is_allocated(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    pass p;
    fill(&p);
    rig_init(&r, &o);
    uint64_t before = mpt_ctx_memory(r.ctx).n_allocs;
    assert_mpt_ok(r.ctx, forward(&r, &p, false));
    assert_mpt_ok(r.ctx, forward(&r, &p, true));
    assert_true(mpt_ctx_memory(r.ctx).n_allocs == before);
    rig_deinit(&r);
}

/* ---- wrong input ---- */

static void assert_refused(rig *r, const pass *p, bool gradients, const char *text) {
    pass copy = *p;
    assert_int_equal(forward(r, &copy, gradients), gradients ? MPT_INVALID : MPT_DATA);
    assert_string_equal(mpt_ctx_error(r->ctx)->message, text);
}

static void test_forward_when_ids_are_wrong_then_place_and_id_are_named(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    pass good, bad;
    fill(&good);
    rig_init(&r, &o);
    bad = good;
    bad.tokens[2 * LENGTH + 3] = RIG_VOCAB;
    assert_refused(&r, &bad, false,
                   "tokens[2][3]: 32 is no token of this model; ids run from 0 to 31");
    bad.tokens[1] = -1;
    assert_refused(&r, &bad, false,
                   "tokens[0][1]: -1 is no token of this model; ids run from 0 to 31");
    bad = good;
    bad.targets[TOKENS - 1] = -2;
    assert_refused(&r, &bad, false,
                   "targets[3][15]: -2 is no token of this model; ids run from 0 to 31, and -1 "
                   "masks a target");
    bad.targets[TOKENS - 1] = INT32_MAX;
    assert_int_equal(forward(&r, &bad, true), MPT_DATA);
    for (int i = 0; i < TOKENS; i++)
        bad.targets[i] = -1;
    assert_refused(&r, &bad, true,
                   "mpt_trainer_forward: gradients without a target; the loss needs a target "
                   "that is not masked");
    assert_mpt_ok(r.ctx, forward(&r, &good, true));
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_forward_when_logits_are_asked_for_then_the_loss_is_theirs),
    cmocka_unit_test(test_forward_when_there_are_no_targets_then_the_loss_is_nan),
    cmocka_unit_test(test_forward_when_evaluation_has_a_precision_then_it_is_used),
    cmocka_unit_test(test_gradients_when_the_loss_is_scaled_then_they_are_the_same_bits),
    cmocka_unit_test(test_gradients_when_a_weight_moves_then_the_loss_follows),
    cmocka_unit_test(test_gradients_when_a_step_or_an_evaluation_follows_then_they_are_gone),
    cmocka_unit_test(test_forward_when_between_steps_then_training_is_the_same_bits),
    cmocka_unit_test(test_forward_when_running_then_nothing_is_allocated),
    cmocka_unit_test(test_forward_when_ids_are_wrong_then_place_and_id_are_named),
};

MPT_TEST_MAIN(cases)
