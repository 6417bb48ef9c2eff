/* Faults by request: where they go, what they do to a step, and what a wrong text is told. */
#include "mpt_test.h"

#include <math.h>

#include "train_rig.h"

/* What the context's log said last. */
typedef struct heard {
    char line[512];
    int n;
} heard;

static void hear(void *ud, mpt_log_level level, const char *line) {
    heard *h = ud;
    assert_int_equal(level, MPT_LOG_WARNING);
    snprintf(h->line + strlen(h->line), sizeof h->line - strlen(h->line), "%s\n", line);
    h->n++;
}

static mpt_ctx *listening(heard *h) {
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    mpt_ctx *ctx;
    options.log = hear;
    options.log_ud = h;
    *h = (heard){.n = 0};
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    return ctx;
}

static mpt_status create(rig *r, const char *const *texts, int n) {
    r->inject = texts;
    r->n_inject = n;
    return rig_create_trainer(r);
}

static void begin(rig *r, const rig_options *o, heard *h, const char *text) {
    rig_compile(r, listening(h), o);
    assert_mpt_ok(r->ctx, create(r, &text, 1));
}

/* ---- gradients ---- */

static void test_inject_when_in_a_gradient_then_that_step_is_skipped(void **s) {
    (void)s;
    static const char *const values[] = {"inf", "-inf", "nan"};
    for (int v = 0; v < 3; v++) {
        rig r;
        rig_options o = rig_defaults();
        heard h;
        char text[64], want[256];
        const char *fault = v == 2 ? "NaN" : "Inf";
        o.micro_batch = 2;
        snprintf(text, sizeof text, "grad:layers.0.up.weight=%s@1", values[v]);
        begin(&r, &o, &h, text);
        assert_false(rig_step(&r).skipped);
        assert_int_equal(h.n, 0);
        uint64_t before = rig_state_hash(&r);
        mpt_step_result bad = rig_step(&r);
        assert_true(bad.skipped && isfinite(bad.loss) && rig_state_hash(&r) == before);
        assert_string_equal(bad.bad_tensor, "layers.0.up.weight");
        snprintf(want, sizeof want,
                 "step 1: a fault is injected: grad:layers.0.up.weight=%s\n"
                 "step 1 skipped: %s in the gradient of layers.0.up.weight\n",
                 values[v], fault);
        assert_string_equal(h.line, want);
        assert_false(rig_step(&r).skipped);
        snprintf(want, sizeof want,
                 "{\"event\":\"inject\",\"step\":1,\"fault\":\"grad:layers.0.up.weight=%s\"}\n"
                 "{\"event\":\"step\",\"step\":1,",
                 values[v]);
        assert_non_null(strstr(r.lines, want));
        rig_deinit(&r);
    }
}

/* A number is the gradient itself, whatever the loss scale. */
static void test_inject_when_a_number_then_the_norm_is_that_of_it(void **s) {
    (void)s;
    double norm[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_options o = rig_defaults();
        heard h;
        o.loss_scale = scaled ? 4096 : 0;
        begin(&r, &o, &h, "grad:layers.0.up.weight=1e4@0");
        mpt_step_result result = rig_step(&r);
        assert_false(result.skipped);
        assert_true(fabs(result.grad_norm - 1e4) < 1);
        norm[scaled] = result.grad_norm;
        rig_deinit(&r);
    }
    assert_true(norm[0] == norm[1]);
}

/* ---- weights ---- */

static void test_inject_when_in_a_weight_then_it_is_whole_again_after_the_step(void **s) {
    (void)s;
    for (int number = 0; number < 2; number++) {
        rig r, clean;
        rig_options o = rig_defaults();
        heard h;
        begin(&r, &o, &h,
              number ? "weight:layers.0.up.weight=3@1" : "weight:layers.0.up.weight=inf@1");
        rig_init(&clean, &o);
        mpt_step_result first = rig_step(&r), same = rig_step(&clean);
        assert_true(first.loss == same.loss);
        uint64_t before = rig_state_hash(&r);
        int64_t n;
        const float *weight = rig_weights(&r, "layers.0.up.weight", &n);
        float was = weight[0];
        mpt_step_result bad = rig_step(&r), good = rig_step(&clean);
        assert_true(bad.skipped == !number);
        assert_true(bad.loss != good.loss);
        assert_true(number || rig_state_hash(&r) == before);
        assert_true(fabs((double)weight[0] - (double)was) < 0.05); /* one step of AdamW */
        assert_true(number || weight[0] == was);
        assert_false(rig_step(&r).skipped);
        rig_deinit(&clean);
        rig_deinit(&r);
    }
}

/* ---- activations ---- */

static void test_inject_when_in_an_activation_then_the_loss_feels_it_once(void **s) {
    (void)s;
    for (int ref = 0; ref < 2; ref++) {
        rig r;
        rig_options o = rig_defaults();
        heard h;
        o.ref = ref;
        o.micro_batch = 2;
        begin(&r, &o, &h, "act:layers.0.up=nan@1");
        assert_false(rig_step(&r).skipped);
        uint64_t before = rig_state_hash(&r);
        mpt_step_result bad = rig_step(&r);
        assert_true(bad.skipped && isnan(bad.loss) && rig_state_hash(&r) == before);
        assert_false(rig_step(&r).skipped);
        rig_deinit(&r);
    }
}

/* What backward computes again has the fault again: the same step as without recomputation. */
static void test_inject_when_blocks_are_recomputed_then_the_same_bits(void **s) {
    (void)s;
    uint64_t hash[2];
    double loss[2];
    for (int every = 0; every < 2; every++) {
        rig r;
        rig_options o = rig_defaults();
        heard h;
        o.recompute = every;
        begin(&r, &o, &h, "act:layers.0.up=5@0");
        loss[every] = rig_step(&r).loss;
        hash[every] = rig_state_hash(&r);
        rig_deinit(&r);
    }
    assert_true(loss[0] == loss[1] && hash[0] == hash[1]);
}

/* ---- several, and no cost ---- */

static void test_inject_when_several_then_each_has_its_step_and_nothing_is_allocated(void **s) {
    (void)s;
    static const char *const texts[] = {
        "grad:layers.0.up.weight=inf@1", "act:layers.0.up=inf@3",
        "weight:layers.0.up.weight=nan@2", "weight:layers.0.up.weight=7@2"};
    rig r;
    rig_options o = rig_defaults();
    heard h;
    rig_compile(&r, listening(&h), &o);
    assert_mpt_ok(r.ctx, create(&r, texts, 4));
    int64_t n;
    const float *weight = rig_weights(&r, "layers.0.up.weight", &n);
    uint64_t allocs = mpt_ctx_memory(r.ctx).n_allocs;
    for (int i = 0; i < 5; i++) {
        float was = weight[0];
        bool skipped = rig_step(&r).skipped;
        assert_true(skipped == (i == 1 || i == 3)); /* of two in one weight the last stands */
        assert_true(fabs((double)weight[0] - (double)was) < 0.05);
    }
    assert_int_equal(h.n, 4 + 2);
    assert_true(mpt_ctx_memory(r.ctx).n_allocs == allocs);
    rig_deinit(&r);
}

/* ---- wrong texts ---- */

static void test_inject_when_a_text_is_wrong_then_it_is_named(void **s) {
    (void)s;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "inject: '' is no fault; write grad:NAME=inf@STEP, act:LAYER=nan@STEP or "
             "weight:NAME=1e30@STEP"},
        {"grad", "inject: 'grad' is no fault"},
        {"grad:a=1", "inject: 'grad:a=1' is no fault"},
        {"grad:=1@2", "inject: 'grad:=1@2' is no fault"},
        {"grad:a=@2", "inject: 'grad:a=@2' is no fault"},
        {"grad:a=1@", "inject: 'grad:a=1@' is no fault"},
        {"grad:a@2=1", "inject: 'grad:a@2=1' is no fault"},
        {"grad:layers.0.up.weight=inf@-1", "inject: 'grad:layers.0.up.weight=inf@-1' is no"},
        {"grad:layers.0.up.weight=inf@1.5", "inject: 'grad:layers.0.up.weight=inf@1.5' is no"},
        {"grads:layers.0.up.weight=inf@1",
         "inject: 'grads:layers.0.up.weight=inf@1': no place 'grads'; did you mean 'grad'?"},
        {"moment:x=inf@1", "no place 'moment'; the places are grad, act and weight"},
        {"grad:layers.0.up.weight=1e39@1",
         "'1e39' is no value; a value is inf, -inf, nan or a number that FP32 holds"},
        {"grad:layers.0.up.weight=infinite@1", "'infinite' is no value"},
        {"grad:layers.0.up.weight=0x10@1", "'0x10' is no value"},
        {"grad:layers.0.up.weight=1.2.3@1", "'1.2.3' is no value"},
        {"grad:layers.0.up.weight=e@1", "'e' is no value"},
        {"grad:layers.0.up.weight=inf@30",
         "inject: 'grad:layers.0.up.weight=inf@30': there is no step 30 in a run of 30; steps "
         "are numbered from 0 to 29"},
        {"grad:layers.0.up.weight=inf@99999999999999999999", "is no fault"},
        {"grad:layers.0.upp.weight=inf@1",
         "no parameter 'layers.0.upp.weight'; did you mean 'layers.0.up.weight'?"},
        {"weight:model.layers.0.upp.weight=inf@1", "did you mean 'layers.0.up.weight'?"},
        {"act:layers.0.upp=inf@1", "no layer 'layers.0.upp'; did you mean 'layers.0.up'?"},
        {"act:nothing_like_this=inf@1", "no layer 'nothing_like_this'; there are "
                                        "embeddings, layers.0.norm, layers.0.up; mptrun plan"},
    };
    rig r;
    rig_options o = rig_defaults();
    rig_compile(&r, mpt_test_ctx(), &o);
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        assert_int_equal(create(&r, &rows[i].text, 1), MPT_INVALID);
        assert_null(r.trainer);
        if (!strstr(mpt_ctx_error(r.ctx)->message, rows[i].message))
            fail_msg("%s: %s", rows[i].text, mpt_ctx_error(r.ctx)->message);
    }
    const char *none = NULL;
    assert_int_equal(create(&r, &none, 1), MPT_INVALID);
    assert_int_equal(create(&r, NULL, 1), MPT_INVALID);
    assert_int_equal(create(&r, NULL, -1), MPT_INVALID);
    rig_deinit(&r);
}

static void test_inject_when_the_name_is_a_checkpoints_then_it_is_found(void **s) {
    (void)s;
    static const char *const texts[] = {"grad:model.layers.0.up.weight=inf@0",
                                        "weight:backbone.layers.0.up.weight=1@0",
                                        "act:transformer.layers.0.up=1@0"};
    rig r;
    rig_options o = rig_defaults();
    heard h;
    rig_compile(&r, listening(&h), &o);
    assert_mpt_ok(r.ctx, create(&r, texts, 3));
    assert_string_equal(rig_step(&r).bad_tensor, "layers.0.up.weight");
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_inject_when_in_a_gradient_then_that_step_is_skipped),
    cmocka_unit_test(test_inject_when_a_number_then_the_norm_is_that_of_it),
    cmocka_unit_test(test_inject_when_in_a_weight_then_it_is_whole_again_after_the_step),
    cmocka_unit_test(test_inject_when_in_an_activation_then_the_loss_feels_it_once),
    cmocka_unit_test(test_inject_when_blocks_are_recomputed_then_the_same_bits),
    cmocka_unit_test(test_inject_when_several_then_each_has_its_step_and_nothing_is_allocated),
    cmocka_unit_test(test_inject_when_a_text_is_wrong_then_it_is_named),
    cmocka_unit_test(test_inject_when_the_name_is_a_checkpoints_then_it_is_found),
};

MPT_TEST_MAIN(cases)
