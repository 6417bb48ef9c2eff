/* graph/nn.c and nn_params.c: layers, parameters, names, and refusals word for word.
 */
#include "models.h"

static mpt_graph *new_graph(mpt_ctx *ctx) {
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 6, 32, &graph));
    return graph;
}

static const mpt_layer *find_layer(const mpt_graph *graph, const char *path) {
    for (int i = 0; i < graph->n_layers; i++)
        if (strcmp(graph->layers[i].path, path) == 0)
            return &graph->layers[i];
    fail_msg("no layer '%s'", path);
    return NULL;
}

static const mpt_param *find_param(const mpt_graph *graph, const char *name) {
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, name) == 0)
            return &graph->params[p];
    fail_msg("no parameter '%s'", name);
    return NULL;
}

/* ---- what the models are made of ---- */

static void test_nn_when_gpt2_then_layers_have_checkpoint_names_and_kinds(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    assert_mpt_ok(ctx, draw_gpt2(graph, 2));
    assert_int_equal(graph->n_blocks, 2);
    const mpt_layer *qkv = find_layer(graph, "h.1.attn.c_attn");
    assert_int_equal(qkv->kind, MPT_LAYER_LINEAR);
    assert_int_equal(qkv->block, 1);
    assert_int_equal(qkv->in_features, 16);
    assert_int_equal(qkv->out_features, 48);
    assert_int_equal(qkv->n_parts, 3);
    assert_string_equal(qkv->parts[2], "v_proj");
    assert_string_equal(qkv->where.file, "model.lua");
    assert_true(find_param(graph, "h.1.attn.c_attn.weight")->transposed);
    assert_false(find_param(graph, "h.1.mlp.c_fc.weight")->transposed);
    assert_int_equal(find_layer(graph, "h.0.attn")->kind, MPT_LAYER_ATTENTION);
    assert_int_equal(find_layer(graph, "ln_f")->kind, MPT_LAYER_NORM);
    assert_int_equal(find_layer(graph, "ln_f")->block, -1);
    assert_int_equal(find_layer(graph, "wte")->kind, MPT_LAYER_EMBEDDING);
    const mpt_layer *head = find_layer(graph, "lm_head");
    assert_int_equal(head->kind, MPT_LAYER_HEAD);
    assert_int_equal(head->out_features, 32);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_nemotron_then_parameters_have_shapes_and_starts(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    assert_mpt_ok(ctx, draw_nemotron(graph, &small_hybrid));
    const struct {
        const char *name;
        int rank;
        int64_t dims[3];
        mpt_init init;
    } rows[] = {
        {"embeddings.weight", 2, {32, 16}, {MPT_INIT_NORMAL, 0.02f, 0}},
        {"layers.0.norm.weight", 1, {16}, {MPT_INIT_ONE, 0, 0}},
        {"layers.0.mixer.in_proj.weight", 2, {100, 16}, {MPT_INIT_NORMAL, 0.02f, 0}},
        {"layers.0.mixer.conv1d.weight", 3, {64, 1, 4}, {MPT_INIT_UNIFORM, 0.5f, 0}},
        {"layers.0.mixer.conv1d.bias", 1, {64}, {MPT_INIT_UNIFORM, 0.5f, 0}},
        {"layers.0.mixer.A_log", 1, {4}, {MPT_INIT_A_LOG, 0, 0}},
        {"layers.0.mixer.D", 1, {4}, {MPT_INIT_ONE, 0, 0}},
        {"layers.0.mixer.dt_bias", 1, {4}, {MPT_INIT_DT_BIAS, 0.001f, 0.1f}},
        {"layers.0.mixer.norm.weight", 1, {32}, {MPT_INIT_ONE, 0, 0}},
        {"layers.0.mixer.out_proj.weight", 2, {16, 32}, {MPT_INIT_NORMAL, 0.02f, 0}},
        {"layers.2.mixer.k_proj.weight", 2, {8, 16}, {MPT_INIT_NORMAL, 0.02f, 0}},
        {"lm_head.weight", 2, {32, 16}, {MPT_INIT_NORMAL, 0.02f, 0}},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        const mpt_param *param = find_param(graph, rows[i].name);
        const mpt_value *value = &graph->values[param->value];
        assert_int_equal(value->kind, MPT_VALUE_PARAM);
        assert_int_equal(value->dtype, MPT_DTYPE_FP32);
        assert_int_equal(value->rank, rows[i].rank);
        for (int d = 0; d < rows[i].rank; d++)
            assert_int_equal(value->dims[d], rows[i].dims[d]);
        assert_int_equal(param->init.kind, rows[i].init.kind);
        assert_true(param->init.a == rows[i].init.a && param->init.b == rows[i].init.b);
        assert_int_equal(param->grad, -1);
        assert_int_equal(param->moment[0], -1);
    }
    assert_int_equal(find_layer(graph, "layers.0.mixer")->kind, MPT_LAYER_SCAN);
    assert_int_equal(find_layer(graph, "layers.0.mixer.conv1d")->kind, MPT_LAYER_CONV);
    assert_int_equal(find_layer(graph, "layers.2.mixer")->kind, MPT_LAYER_ATTENTION);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_head_is_tied_then_the_table_is_its_weight(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    assert_mpt_ok(ctx, draw_gpt2(graph, 1));
    const mpt_param *table = find_param(graph, "wte.weight");
    bool found = false;
    for (int i = 0; i < graph->n_nodes; i++)
        found |= graph->nodes[i].op == MPT_OP_linear && graph->nodes[i].in[1] == table->value;
    assert_true(found);
    for (int p = 0; p < graph->n_params; p++)
        assert_string_not_equal(graph->params[p].name, "lm_head.weight");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_model_says_init_then_it_counts(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 8);
    draw(&d, MPT_OP_linear,
         (mpt_nn_args){.name = "fc",
                       .n_in = 1,
                       .in = {x},
                       .out_features = 4,
                       .bias = true,
                       .has_init = true,
                       .init = {MPT_INIT_NORMAL, 0.5f, 0},
                       .has_bias_init = true,
                       .bias_init = {MPT_INIT_ONE, 0, 0}});
    assert_mpt_ok(ctx, d.status);
    assert_true(find_param(graph, "fc.weight")->init.a == 0.5f);
    assert_int_equal(find_param(graph, "fc.bias")->init.kind, MPT_INIT_ONE);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_inputs_are_asked_for_twice_then_they_are_the_same(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    test_draw d = draw_begin(graph);
    mpt_value_id a = -1, b = -2, c = -1;
    assert_mpt_ok(ctx, mpt_nn_tokens(&d.nn, &a));
    assert_mpt_ok(ctx, mpt_nn_tokens(&d.nn, &b));
    assert_mpt_ok(ctx, mpt_nn_positions(&d.nn, &c));
    assert_int_equal(a, b);
    assert_int_not_equal(a, c);
    assert_int_equal(graph->values[a].dims[0], 12);
    assert_int_equal(graph->values[a].dtype, MPT_DTYPE_I32);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* ---- refusals ---- */

/* Draws something wrong after an embedding `x` of width 8 in a graph of 2 x 6 tokens, 32 words.
 */
typedef struct refusal {
    mpt_op op;
    mpt_nn_args args; /* input 0 is replaced by x where it is 0 */
    const char *message;
} refusal;

static const refusal refusals[] = {
    {MPT_OP_linear_dgrad, {0}, "model.lua:9: linear_dgrad: no op that a model can use"},
    {MPT_OP_linear, {.n_in = 1, .out_features = 4}, "model.lua:9: linear: needs a name"},
    {MPT_OP_linear,
     {.name = "fc", .n_in = 1},
     "model.lua:9: fc: linear: out is 0, expected at least 1"},
    {MPT_OP_linear,
     {.name = "fc", .n_in = 1, .in = {77}, .out_features = 4},
     "model.lua:9: linear: input 1 is no value of this model"},
    {MPT_OP_linear,
     {.name = "fc", .n_in = 2, .out_features = 4},
     "model.lua:9: linear: 2 inputs, expected 1"},
    {MPT_OP_linear,
     {.name = "fc", .n_in = 1, .out_features = 4, .n_parts = 1, .parts = {"a"}},
     "model.lua:9: linear: 1 parts, expected 2 to 8"},
    {MPT_OP_linear,
     {.name = "embed", .n_in = 1, .out_features = 4},
     "model.lua:9: embed: the model has a layer of this name already"},
    {MPT_OP_linear,
     {.name = "head", .n_in = 1, .head = true, .tied = "embed.wieght"},
     "model.lua:9: head: linear: tied: no parameter 'embed.wieght'; did you mean "
     "'embed.weight'?"},
    {MPT_OP_linear,
     {.name = "head", .n_in = 1, .out_features = 33, .tied = "embed.weight"},
     "model.lua:9: head: linear: input 'w' (embed.weight) is [32, 8], expected [33, 8]"},
    {MPT_OP_concat, {.n_in = 0}, "model.lua:9: concat: 0 inputs, expected 1 to 8"},
    {MPT_OP_conv1d,
     {.name = "conv", .n_in = 1},
     "model.lua:9: conv: conv1d: kernel is 0, expected at least 1"},
    {MPT_OP_gated_rmsnorm,
     {.name = "norm", .n_in = 2, .attrs = {.groups = 3}},
     "model.lua:9: norm: gated_rmsnorm: width 8 does not divide into 3 groups"},
    {MPT_OP_ssm_scan,
     {.name = "mixer", .n_in = 4},
     "model.lua:9: mixer: ssm_scan: heads is 0, expected at least 1"},
    {MPT_OP_rmsnorm,
     {.name = "norm", .n_in = 1, .attrs = {.eps = 2}},
     "model.lua:9: norm: rmsnorm: eps is 2, expected a number between 0 and 1"},
    {MPT_OP_cross_entropy,
     {.n_in = 1},
     "model.lua:9: cross_entropy: logits (embed) of 8 columns, but the data's vocabulary has "
     "32 tokens"},
};

static void
test_nn_when_a_call_is_wrong_then_the_message_says_layer_op_and_fault(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(refusals); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_graph *graph = new_graph(ctx);
        test_draw d = draw_begin(graph);
        mpt_value_id ids = -1;
        mpt_nn_args args = refusals[i].args;
        draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
        mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 8);
        assert_mpt_ok(ctx, d.status);
        for (int k = 0; k < args.n_in; k++)
            args.in[k] = args.in[k] ? args.in[k] : x;
        d.nn.where.line = 8;
        assert_int_equal(draw(&d, refusals[i].op, args), -1);
        assert_int_equal(d.status, MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, refusals[i].message);
        mpt_graph_destroy(graph);
        mpt_ctx_destroy(ctx);
    }
}

static void test_nn_when_a_table_is_too_short_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    mpt_value_id ids = -1, positions = -1;
    test_draw d = draw_begin(graph);
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    draw_embedding(&d, "wte", ids, 31, 8);
    assert_int_equal(d.status, MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:1: wte: embedding: 31 rows, but the data's vocabulary has "
                        "32 tokens");
    mpt_graph_destroy(graph);
    graph = new_graph(ctx);
    d = draw_begin(graph);
    draw_note(&d, mpt_nn_positions(&d.nn, &positions));
    draw_embedding(&d, "wpe", positions, 5, 8);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:1: wpe: embedding: 5 rows, but sequences have 6 positions");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_a_call_failed_then_later_ones_keep_the_first_error(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    test_draw d = draw_begin(graph);
    mpt_value_id id = -1;
    assert_int_equal(mpt_nn_block_end(&d.nn), MPT_INVALID);
    assert_int_equal(mpt_nn_block_begin(&d.nn, "layers", 0), MPT_INVALID);
    assert_int_equal(mpt_nn_tokens(&d.nn, &id), MPT_INVALID);
    assert_int_equal(draw_linear(&d, "fc", 0, 4, false), -1);
    assert_int_equal(d.status, MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, "model.lua: no block is open");
    assert_int_equal(graph->n_values, 0);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_blocks_are_out_of_order_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    test_draw d = draw_begin(graph);
    d.nn.where.line = 3;
    assert_mpt_ok(ctx, mpt_nn_block_begin(&d.nn, "layers", 0));
    assert_int_equal(mpt_nn_block_begin(&d.nn, "layers", 1), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:3: block 1 begins inside block 0");
    d.nn.failed = false;
    assert_mpt_ok(ctx, mpt_nn_block_end(&d.nn));
    assert_int_equal(mpt_nn_block_begin(&d.nn, "layers", 2), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:3: block 2 begins, expected block 1: blocks are numbered "
                        "from 0, in order");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_the_model_has_ended_or_a_block_is_open_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    assert_mpt_ok(ctx, draw_mlp(graph, 1));
    test_draw d = draw_begin(graph);
    draw1(&d, MPT_OP_gelu, NULL, 2);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:1: gelu: the model has ended with cross_entropy");
    mpt_graph_destroy(graph);
    graph = new_graph(ctx);
    d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", 0));
    draw1(&d, MPT_OP_cross_entropy, NULL, draw_embedding(&d, "embed", ids, 0, 32));
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:2: cross_entropy: block 0 is still open");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_nn_when_gpt2_then_layers_have_checkpoint_names_and_kinds),
    cmocka_unit_test(test_nn_when_nemotron_then_parameters_have_shapes_and_starts),
    cmocka_unit_test(test_nn_when_head_is_tied_then_the_table_is_its_weight),
    cmocka_unit_test(test_nn_when_model_says_init_then_it_counts),
    cmocka_unit_test(test_nn_when_inputs_are_asked_for_twice_then_they_are_the_same),
    cmocka_unit_test(test_nn_when_a_call_is_wrong_then_the_message_says_layer_op_and_fault),
    cmocka_unit_test(test_nn_when_a_table_is_too_short_then_refused),
    cmocka_unit_test(test_nn_when_a_call_failed_then_later_ones_keep_the_first_error),
    cmocka_unit_test(test_nn_when_blocks_are_out_of_order_then_refused),
    cmocka_unit_test(test_nn_when_the_model_has_ended_or_a_block_is_open_then_refused),
};

MPT_TEST_MAIN(cases)
