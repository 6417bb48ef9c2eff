/* models/llama.lua and models/transformer.lua: the counts of the published sizes, what
 * config.json may say, plans of every size, and that a small one learns. */
#include "mpt_test.h"

#include "graph/nn.h"
#include "runtime/pipeline.h"
#include "train/trainer.h"

/* The least that a size of one's own says; more fields follow it. */
#define SMALL                                                                                  \
    "require 'models.llama' { hidden_size = 16, intermediate_size = 24, "                      \
    "num_hidden_layers = 1, num_attention_heads = 4, num_key_value_heads = 2"

typedef struct drawn {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_graph *graph;
} drawn;

/* Draws a model: `expression` is what a recipe would write after `model =`. */
static mpt_status draw(drawn *d, const char *expression, int64_t sequence) {
    char text[1024];
    *d = (drawn){.ctx = mpt_test_ctx()};
    snprintf(text, sizeof text, "return recipe { model = %s }", expression);
    MPT_TRY(mpt_recipe_load_string(d->ctx, "m.lua", text, strlen(text), NULL, &d->recipe));
    MPT_TRY(mpt_graph_create(d->ctx, 1, sequence, 96, &d->graph));
    mpt_nn nn = {.graph = d->graph, .prefix = "", .block = -1};
    return d->recipe->source.build(d->recipe->source.ud, &nn, false);
}

static void finish(drawn *d) {
    mpt_graph_destroy(d->graph);
    mpt_recipe_destroy(d->recipe);
    assert_int_equal(mpt_ctx_memory(d->ctx).live_bytes, 0);
    mpt_ctx_destroy(d->ctx);
}

static drawn draw_ok(const char *expression) {
    drawn d;
    mpt_status status = draw(&d, expression, 32);
    assert_mpt_ok(d.ctx, status);
    return d;
}

static bool has_param(const drawn *d, const char *name) {
    return mpt_name_index_find(&d->graph->param_names, name) >= 0;
}

static const mpt_node *first_of(const drawn *d, mpt_op op) {
    for (int i = 0; i < d->graph->n_nodes; i++)
        if (d->graph->nodes[i].op == op)
            return &d->graph->nodes[i];
    fail_msg("no such node");
    return NULL;
}

/* ---- sizes ---- */

static void test_size_when_published_then_the_counts_are_its_own(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t parameters;
        int blocks, linears; /* with the head */
    } rows[] = {{"require 'models.llama' '1b'", 1235814400, 16, 5 * 16 + 1},
                {"require 'models.llama' '8b'", 8030261248, 32, 5 * 32 + 1},
                {"require 'models.transformer' '1.2b'", 1291929600, 20, 4 * 20 + 1}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        drawn d = draw_ok(rows[i].model);
        int64_t n = 0;
        int linears = 0;
        for (int p = 0; p < d.graph->n_params; p++)
            n += mpt_value_elements(&d.graph->values[d.graph->params[p].value]);
        for (int l = 0; l < d.graph->n_layers; l++)
            linears += mpt_layer_has_gemms(d.graph->layers[l].kind);
        assert_true(n == rows[i].parameters);
        assert_int_equal(d.graph->n_blocks, rows[i].blocks);
        assert_int_equal(linears, rows[i].linears);
        finish(&d);
    }
}

static void test_size_when_1b_then_its_turns_and_its_head_are_the_release_s(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.llama' '1b'");
    const mpt_rope *rope = &first_of(&d, MPT_OP_rope)->attrs.rope;
    assert_true(rope->theta == 500000.0f && rope->factor == 32.0f);
    assert_int_equal(rope->scaling, MPT_ROPE_LLAMA3);
    assert_int_equal(rope->dims, 64);
    assert_int_equal(rope->original_positions, 8192);
    assert_false(has_param(&d, "lm_head.weight"));
    finish(&d);
    d = draw_ok("require 'models.llama' '8b'");
    rope = &first_of(&d, MPT_OP_rope)->attrs.rope;
    assert_true(rope->theta == 500000.0f);
    assert_int_equal(rope->scaling, MPT_ROPE_DEFAULT);
    assert_true(has_param(&d, "lm_head.weight"));
    finish(&d);
}

/* ---- what config.json may say ---- */

static void test_config_when_biases_then_each_projection_has_its_own(void **state) {
    (void)state;
    static const char *const attention[] = {"layers.0.self_attn.qkv_proj.bias",
                                            "layers.0.self_attn.o_proj.bias"};
    static const char *const mlp[] = {"layers.0.mlp.gate_proj.bias",
                                      "layers.0.mlp.up_proj.bias",
                                      "layers.0.mlp.down_proj.bias"};
    for (int k = 0; k < 4; k++) {
        char text[512];
        snprintf(text, sizeof text, SMALL ", attention_bias = %s, mlp_bias = %s }",
                 k & 1 ? "true" : "false", k & 2 ? "true" : "false");
        drawn d = draw_ok(text);
        for (size_t i = 0; i < MPT_COUNT(attention); i++)
            assert_int_equal(has_param(&d, attention[i]), k & 1);
        for (size_t i = 0; i < MPT_COUNT(mlp); i++)
            assert_int_equal(has_param(&d, mlp[i]), k >> 1);
        finish(&d);
    }
}

static void test_config_when_numbers_are_said_then_they_are_obeyed(void **state) {
    (void)state;
    drawn d = draw_ok(SMALL ", rms_norm_eps = 1e-3, head_dim = 6, initializer_range = 0.5, "
                            "rope_theta = 77, tie_word_embeddings = true }");
    assert_true(first_of(&d, MPT_OP_rmsnorm)->attrs.eps == 1e-3f);
    assert_int_equal(first_of(&d, MPT_OP_attention)->attrs.head_dim, 6);
    assert_true(first_of(&d, MPT_OP_rope)->attrs.rope.theta == 77.0f);
    for (int p = 0; p < d.graph->n_params; p++)
        assert_true(d.graph->params[p].init.kind == MPT_INIT_ONE ||
                    d.graph->params[p].init.a == 0.5f);
    assert_false(has_param(&d, "lm_head.weight"));
    finish(&d);
}

static void test_config_when_it_cannot_be_then_it_is_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {SMALL ", rope_parameters = { rope_type = 'default' }, rope_scaling = { rope_type = "
               "'default' } }",
         "rope_parameters and rope_scaling say the same: give one of them"},
        {SMALL ", max_position_embeddings = 31 }",
         "sequences of 32 tokens, but max_position_embeddings is 31"},
        {SMALL ", rope_scaling = { rope_type = 'dynamic', factor = 2 } }",
         "nn.rope.scaling.rope_type: cannot be dynamic"},
        {SMALL ", head_dim = 5 }", "rope: 5 numbers of a head turn in pairs"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        drawn d;
        assert_int_equal(draw(&d, rows[i][0], 32), MPT_INVALID);
        if (!strstr(mpt_ctx_error(d.ctx)->message, rows[i][1]))
            fail_msg("expected '%s', got '%s'", rows[i][1], mpt_ctx_error(d.ctx)->message);
        finish(&d);
    }
}

/* ---- compiled ---- */

static mpt_recipe *load(mpt_ctx *ctx, const char *model, const char *precision) {
    char text[1024];
    mpt_recipe *recipe = NULL;
    snprintf(text, sizeof text,
             "return recipe { version = 1, name = 'l', model = require 'models.%s,\n"
             "precision = presets.%s, data = synthetic { seed = 1, vocab = 64 },\n"
             "train = { steps = 40, batch = 4, micro_batch = 2, sequence = 32,\n"
             "optimizer = adamw { betas = {0.9, 0.95} }, lr = constant { peak = 1e-2 } } }",
             model, precision);
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "l.lua", text, strlen(text), NULL, &recipe));
    return recipe;
}

static void test_plan_when_any_size_then_it_compiles(void **state) {
    (void)state;
    static const char *const models[] = {"llama' 'tiny'", "llama' '1b'", "llama' '8b'",
                                         "transformer' '1.2b'", "transformer' '1.2b_proxy'"};
    static const char *const presets[] = {"fp8_current", "nvfp4"};
    for (size_t i = 0; i < MPT_COUNT(models) * MPT_COUNT(presets); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = load(ctx, models[i / 2], presets[i % 2]);
        mpt_program *program = NULL;
        mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
        options.model = MPT_MODEL_FULL;
        assert_mpt_ok(ctx, mpt_compile(recipe, &options, &program));
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
}

/* From the logarithm of 64 words to well below it. */
static void test_run_when_tiny_then_the_loss_falls(void **state) {
    (void)state;
    static const char *const presets[] = {"fp32", "bf16", "fp8_current"};
    for (size_t k = 0; k < MPT_COUNT(presets); k++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = load(ctx, "llama' 'tiny'", presets[k]);
        mpt_program *program = NULL;
        mpt_trainer *trainer = NULL;
        mpt_step_result r;
        assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
        assert_mpt_ok(ctx, mpt_trainer_create(program, NULL, &trainer));
        assert_mpt_ok(ctx, mpt_trainer_step(trainer, NULL, &r));
        assert_true(r.loss > 4 && r.loss < 4.4);
        while (!mpt_trainer_done(trainer))
            assert_mpt_ok(ctx, mpt_trainer_step(trainer, NULL, &r));
        assert_true(r.loss < 3.2);
        mpt_trainer_destroy(trainer);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        mpt_ctx_destroy(ctx);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_size_when_published_then_the_counts_are_its_own),
    cmocka_unit_test(test_size_when_1b_then_its_turns_and_its_head_are_the_release_s),
    cmocka_unit_test(test_config_when_biases_then_each_projection_has_its_own),
    cmocka_unit_test(test_config_when_numbers_are_said_then_they_are_obeyed),
    cmocka_unit_test(test_config_when_it_cannot_be_then_it_is_refused),
    cmocka_unit_test(test_plan_when_any_size_then_it_compiles),
    cmocka_unit_test(test_run_when_tiny_then_the_loss_falls),
};

MPT_TEST_MAIN(cases)
