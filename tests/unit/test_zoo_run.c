/* recipes/: each method trains. Proxies run on `cpu`, two blocks of each on `ref`; losses stay
 * finite, and the operands that quantize nodes counted are those that the policies promise. */
#include "zoo.h"

#include <math.h>

#include "train/trainer.h"

enum { STEPS = 3 };

/* ---- what the policies promise, and what ran ---- */

/* Operands of linear layers that are more than a cast, over all six slots. */
static int promised_operands(const mpt_phase_program *phase) {
    int n = 0;
    for (int i = 0; i < phase->graph->n_layers; i++) {
        const mpt_layer *layer = &phase->graph->layers[i];
        if (layer->kind != MPT_LAYER_LINEAR && layer->kind != MPT_LAYER_HEAD)
            continue;
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            n += !mpt_quantizer_is_cast(&phase->policies[i].slot[s]);
    }
    return n;
}

static bool is_quantized(const mpt_graph *graph, mpt_value_id id) {
    int32_t producer = graph->values[id].producer;
    return producer >= 0 && graph->nodes[producer].op == MPT_OP_quantize;
}

/* Operands of the products in the schedule that a quantize node made. */
static int scheduled_operands(const mpt_phase_program *phase) {
    int n = 0;
    for (int i = 0; i < phase->graph->n_nodes; i++) {
        const mpt_node *node = &phase->graph->nodes[i];
        if (!(mpt_op_get(node->op)->flags & MPT_OP_MATMUL))
            continue;
        n += is_quantized(phase->graph, node->in[0]) + is_quantized(phase->graph, node->in[1]);
    }
    return n;
}

/* Every copy that the schedule makes was really made at the step before: all its elements were
 * counted. */
static void check_counts(const mpt_trainer *trainer, const char *name) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    mpt_operand_view view;
    int n = 0, n_copies = 0;
    for (; mpt_trainer_operand(trainer, n, &view); n++)
        if (view.elements == 0)
            fail_msg("%s: %s was never quantized", name, view.name);
    for (int i = 0; i < graph->n_operands; i++)
        n_copies += !graph->operands[i].recorded;
    assert_int_equal(n, n_copies);
}

/* ---- runs ---- */

/* Only the first phase starts within three steps where a start is a count; a fraction is of the
 * run as it is. */
static void train(mpt_ctx *ctx, mpt_recipe *recipe, const mpt_compile_options *options,
                  const char *name) {
    mpt_program *program = NULL;
    mpt_trainer *trainer = NULL;
    assert_mpt_ok(ctx, mpt_compile(recipe, options, &program));
    assert_mpt_ok(ctx, mpt_trainer_create(program, NULL, &trainer));
    for (int i = 0; i < STEPS; i++) {
        mpt_step_result r;
        mpt_trainer_count_next(trainer);
        assert_mpt_ok(ctx, mpt_trainer_step(trainer, NULL, &r));
        if (!isfinite(r.loss) || (!r.skipped && !isfinite(r.grad_norm)))
            fail_msg("%s: step %d ended with loss %g, norm %g", name, i, r.loss, r.grad_norm);
        const mpt_phase_program *phase = program->phases[trainer->phase];
        assert_int_equal(scheduled_operands(phase), promised_operands(phase));
        check_counts(trainer, name);
    }
    mpt_trainer_destroy(trainer);
    mpt_program_destroy(program);
}

static void train_proxy(const char *name) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = zoo_load(ctx, name);
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = recipe->proxy.present ? MPT_MODEL_PROXY : MPT_MODEL_FULL;
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    assert_mpt_ok(ctx, mpt_recipe_set(recipe, "train.batch", "2"));
    assert_mpt_ok(ctx, mpt_recipe_set(recipe, "train.micro_batch", "1"));
    assert_mpt_ok(ctx, mpt_recipe_set(recipe, "train.sequence", "64"));
    train(ctx, recipe, &options, name);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void train_small(const char *name, mpt_device device) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = zoo_load_small(ctx, name);
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = MPT_MODEL_FULL;
    options.device = device;
    options.n_threads = 1;
    train(ctx, recipe, &options, name);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_zoo_when_proxies_train_on_cpu_then_finite_and_as_promised(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    for (int i = 0; i < z.n; i++)
        train_proxy(z.names[i]);
}

static void test_zoo_when_two_blocks_train_on_ref_then_finite_and_as_promised(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    for (int i = 0; i < z.n; i++)
        train_small(z.names[i], MPT_DEVICE_REF);
}

/* A recipe of a method quantizes something somewhere, unless its formats are all wide. */
static void
test_zoo_when_low_precision_is_in_the_name_then_something_is_quantized(void **state) {
    (void)state;
    static const char *const low[] = {"fp8",      "fp4",      "fp6",      "nvfp4",
                                      "deepseek", "tetrajet", "composer", "nemotron3"};
    zoo z;
    zoo_list(&z);
    for (int i = 0; i < z.n; i++) {
        bool expected = false;
        for (size_t k = 0; k < MPT_COUNT(low); k++)
            expected = expected || strstr(z.names[i], low[k]);
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = zoo_load_small(ctx, z.names[i]);
        mpt_program *program = NULL;
        assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
        int n = 0;
        for (int p = 0; p < program->n_phases; p++)
            n += promised_operands(program->phases[p]);
        if (expected != (n > 0))
            fail_msg("%s quantizes %d operands", z.names[i], n);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        mpt_ctx_destroy(ctx);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_zoo_when_proxies_train_on_cpu_then_finite_and_as_promised),
    cmocka_unit_test(test_zoo_when_two_blocks_train_on_ref_then_finite_and_as_promised),
    cmocka_unit_test(test_zoo_when_low_precision_is_in_the_name_then_something_is_quantized),
};
MPT_TEST_MAIN(cases)
