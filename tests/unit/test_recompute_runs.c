/* Recomputation changes no bit: metrics, gradients, weights, scales, histories and counts of
 * runs, and the bytes of each value that is made twice. */
#include "mpt_test.h"

#include "recompute_case.h"

enum { STEPS = 3 };

/* ---- the same bits ---- */

/* All that a run leaves behind. */
typedef struct outcome {
    uint64_t metrics, weights, gradients, scales, counts;
} outcome;

static uint64_t mix(uint64_t hash, const void *data, size_t n) {
    return hash * 31 + mpt_hash(data, n);
}

static uint64_t hash_gradients(const rig *r) {
    const mpt_graph *graph = r->phases[0]->graph;
    uint64_t hash = 0;
    for (int p = 0; p < graph->n_params; p++) {
        size_t n = (size_t)mpt_value_elements(&graph->values[graph->params[p].value]);
        hash = mix(hash, r->trainer->state->grad[p], n * sizeof(float));
    }
    return hash;
}

static uint64_t hash_scales(const rig *r) {
    mpt_scale_view view;
    uint64_t hash = 0;
    for (int i = 0; mpt_trainer_scale(r->trainer, i, &view); i++) {
        hash = mix(hash, view.name, strlen(view.name));
        hash = mix(hash, &view.scale, sizeof view.scale);
        hash = mix(hash, view.amax_history, (size_t)view.n_history * sizeof(float));
    }
    return hash;
}

/* Without the noise, a sum whose order the two paths through a kernel may differ in. */
static uint64_t hash_counts(const rig *r) {
    mpt_operand_view view;
    uint64_t hash = 0;
    for (int i = 0; mpt_trainer_operand(r->trainer, i, &view); i++) {
        const uint64_t counts[] = {view.elements, view.overflow,  view.underflow,
                                   view.zeros,    view.nonfinite, view.capped};
        hash = mix(hash, view.name, strlen(view.name));
        hash = mix(hash, counts, sizeof counts);
        hash = mix(hash, &view.amax, sizeof view.amax);
    }
    return hash;
}

static outcome run(const rig_options *o) {
    rig r;
    double loss;
    outcome result = {0};
    rig_init(&r, o);
    for (int i = 0; i < STEPS; i++) {
        if (i == STEPS - 1)
            mpt_trainer_count_next(r.trainer);
        assert_false(rig_step(&r).skipped);
        if (i == 0) /* an evaluation in between leaves no trace */
            assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 2, &loss));
    }
    result.metrics = mpt_hash(r.lines, r.n_lines_bytes);
    result.weights = rig_state_hash(&r);
    result.gradients = hash_gradients(&r);
    result.scales = hash_scales(&r);
    result.counts = hash_counts(&r);
    rig_deinit(&r);
    return result;
}

static void assert_same(const outcome *a, const outcome *b, const char *variant, int every) {
    const char *what = a->metrics != b->metrics       ? "metrics"
                       : a->gradients != b->gradients ? "gradients"
                       : a->weights != b->weights     ? "weights"
                       : a->scales != b->scales       ? "scales"
                       : a->counts != b->counts       ? "counts"
                                                      : NULL;
    if (what)
        fail_msg("%s: %s differ when %d blocks at a time are recomputed", variant, what, every);
}

static void check_variant(draw_fn model, const char *variant, bool ref) {
    rig_options o = options_for(model, variant);
    o.ref = ref;
    outcome kept = run(&o);
    for (o.recompute = 1; o.recompute <= 3; o.recompute++) {
        outcome again = run(&o);
        assert_same(&kept, &again, variant, o.recompute);
    }
}

static void check_model(draw_fn model, bool ref) {
    for (size_t i = 0; i < MPT_COUNT(variants); i++)
        check_variant(model, variants[i], ref);
}

static void test_run_when_gpt2_on_ref_then_recomputed_to_the_bit(void **s) {
    (void)s;
    check_model(draw_three_gpt2, true);
}

static void test_run_when_gpt2_on_cpu_then_recomputed_to_the_bit(void **s) {
    (void)s;
    check_model(draw_three_gpt2, false);
}

static void test_run_when_hybrid_on_ref_then_recomputed_to_the_bit(void **s) {
    (void)s;
    check_model(draw_hybrid, true);
}

static void test_run_when_hybrid_on_cpu_then_recomputed_to_the_bit(void **s) {
    (void)s;
    check_model(draw_hybrid, false);
}

/* Two steps and more of delayed layers, recomputed and not: outputs, input gradients (in the
 * gradients that are made of them) and the scales of gradients are the same bits. */
static void test_run_when_p46_delayed_then_gradient_scales_move_as_without(void **s) {
    (void)s;
    for (int ref = 0; ref < 2; ref++)
        check_variant(draw_three_gpt2, "e4m3 delayed, one copy", ref == 1);
}

/* A weight used twice with delayed scaling: both readers have the one scale of this step. */
static void test_run_when_p49_a_shared_weight_then_recomputed_to_the_bit(void **s) {
    (void)s;
    check_variant(draw_shared_weight, "e4m3 delayed, one copy", true);
    check_variant(draw_shared_weight, "e4m3 delayed, one copy", false);
    check_variant(draw_shared_weight, "nvfp4 sr rht", false);
}

/* ---- bytes ---- */

enum { MANY_FIRST = 512 };

typedef struct first_result {
    const char *name;
    uint64_t hash;
} first_result;

static uint64_t hash_value(const mpt_executor *executor, const mpt_graph *graph,
                           mpt_value_id v) {
    size_t n = (size_t)mpt_value_elements(&graph->values[v]);
    return mpt_hash(mpt_executor_tensor(executor, v)->data, n * sizeof(float));
}

/* Whether the first time gave these bytes under this name; nameless sums of a block share one.
 */
static bool was_made(const first_result *first, int n, const char *name, uint64_t hash) {
    for (int i = 0; i < n; i++)
        if (strcmp(first[i].name, name) == 0 && first[i].hash == hash)
            return true;
    return false;
}

/* Runs a micro-batch step by step and compares each value with what FORWARD made of its name.
 */
static void compare_bytes(const rig *r) {
    const mpt_phase_program *phase = r->phases[0];
    const mpt_graph *graph = phase->graph;
    mpt_executor *executor = r->trainer->executors[0];
    mpt_run_env env = mpt_trainer_env(r->trainer);
    first_result first[MANY_FIRST];
    int n_first = 0, n_again = 0;
    for (int i = 0; i < phase->segment[MPT_PASS_UPDATE]; i++) {
        const mpt_node *node = &graph->nodes[phase->steps[i].node];
        mpt_executor_run_step(executor, i, &env);
        for (int k = 0; k < node->n_out; k++) {
            mpt_value_id v = node->out[k];
            if (v < 0)
                continue;
            const char *name = graph->values[v].name;
            if (node->pass == MPT_PASS_FORWARD) {
                assert_true(n_first < MANY_FIRST);
                first[n_first++] = (first_result){name, hash_value(executor, graph, v)};
            } else if (node->recomputed) {
                n_again++;
                if (!was_made(first, n_first, name + 3, hash_value(executor, graph, v)))
                    fail_msg("step %d: %s differs from the first time", i, name);
            }
        }
    }
    assert_true(n_again > BLOCKS);
}

static void test_twins_when_p47_run_then_bytes_are_those_of_the_first_time(void **s) {
    (void)s;
    for (size_t v = 0; v < MPT_COUNT(variants); v++) {
        rig r;
        rig_options o = options_for(draw_hybrid, variants[v]);
        o.recompute = 2;
        rig_init(&r, &o);
        (void)rig_step(&r); /* so that delayed scales are there */
        compare_bytes(&r);
        rig_deinit(&r);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_run_when_gpt2_on_ref_then_recomputed_to_the_bit),
    cmocka_unit_test(test_run_when_gpt2_on_cpu_then_recomputed_to_the_bit),
    cmocka_unit_test(test_run_when_hybrid_on_ref_then_recomputed_to_the_bit),
    cmocka_unit_test(test_run_when_hybrid_on_cpu_then_recomputed_to_the_bit),
    cmocka_unit_test(test_run_when_p46_delayed_then_gradient_scales_move_as_without),
    cmocka_unit_test(test_run_when_p49_a_shared_weight_then_recomputed_to_the_bit),
    cmocka_unit_test(test_twins_when_p47_run_then_bytes_are_those_of_the_first_time),
};

MPT_TEST_MAIN(cases)
