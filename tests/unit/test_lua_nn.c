/* nn.*: numbers and texts of its fields that mean nothing are refused with what was given. */
#include "lua_test.h"

#include "graph/nn.h"

static mpt_status draw_text(mpt_ctx *ctx, const char *text) {
    mpt_recipe *recipe = mpt_lua_load(ctx, text);
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 4, 8, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    mpt_status status = recipe->source.build(recipe->source.ud, &nn, false);
    mpt_graph_destroy(graph);
    mpt_recipe_destroy(recipe);
    return status;
}

/* The graph of one word over x, [tokens, 8]; its first line is line 3. */
static mpt_status draw(mpt_ctx *ctx, const char *line) {
    char text[1024];
    snprintf(text, sizeof text,
             "local m = model { name = 'm', sizes = { s = {} }, graph = function(nn)\n"
             "local x = nn.embedding { 'e', nn.tokens(), out = 8 }\n%s\n"
             "nn.cross_entropy(nn.linear { 'h', x, out = nn.vocab(), head = true }) end }\n"
             "return recipe { model = m 's' }",
             line);
    return draw_text(ctx, text);
}

/* The line, with FIELD written at its %s, must be refused with the message. */
static void refuse(const char *word, const char *fields, const char *message) {
    char line[512], whole[512];
    mpt_ctx *ctx = mpt_test_ctx();
    snprintf(line, sizeof line, "x = nn.%s, %s }", word, fields);
    snprintf(whole, sizeof whole, "r.lua:3: nn.%s", message);
    assert_int_equal(draw(ctx, line), MPT_INVALID);
    if (strncmp(mpt_ctx_error(ctx)->message, whole, strlen(whole)) != 0)
        fail_msg("%s: expected '%s', got '%s'", line, whole, mpt_ctx_error(ctx)->message);
    mpt_lua_finish(ctx, NULL);
}

static void take(const char *word, const char *fields) {
    char line[512];
    mpt_ctx *ctx = mpt_test_ctx();
    snprintf(line, sizeof line, "x = nn.%s, %s }", word, fields);
    assert_mpt_ok(ctx, draw(ctx, line));
    mpt_lua_finish(ctx, NULL);
}

#define LINEAR "linear { 'l', x, out = 8"
#define MOE    "moe { 'o', x, experts = 4, top_k = 2, hidden = 8, bias = true"

/* Every number of every word, each with what else its word needs: 0 would mean the default. */
static const char *const numbers[][3] = {
    {"linear { 'l', x", "linear", "out"},
    {"embedding { 'b', nn.tokens()", "embedding", "out"},
    {"embedding { 'b', nn.tokens(), out = 8", "embedding", "rows"},
    {"rmsnorm { 'n', x", "rmsnorm", "eps"},
    {"layernorm { 'n', x", "layernorm", "eps"},
    {"gated_rmsnorm { 'n', x, x", "gated_rmsnorm", "eps"},
    {"gated_rmsnorm { 'n', x, x", "gated_rmsnorm", "groups"},
    {"attention { 'a', x, x, x", "attention", "heads"},
    {"attention { 'a', x, x, x, heads = 1", "attention", "kv_heads"},
    {"attention { 'a', x, x, x, heads = 1", "attention", "head_dim"},
    {"attention { 'a', x, x, x, heads = 1", "attention", "scale"},
    {"conv1d { 'c', x", "conv1d", "kernel"},
    {"ssm_scan { 's', x, x, x, x", "ssm_scan", "state"},
    {"scale { x", "scale", "factor"},
    {"rope { x, heads = 1", "rope", "theta"},
    {"rope { x, heads = 1", "rope", "rotary_dim"},
    {"moe { 'o', x, top_k = 2, hidden = 8", "moe", "experts"},
    {"moe { 'o', x, experts = 4, hidden = 8", "moe", "top_k"},
    {"moe { 'o', x, experts = 4, top_k = 2", "moe", "hidden"},
    {MOE, "moe", "groups"},
    {MOE, "moe", "top_groups"},
    {MOE, "moe", "scale"},
    {MOE, "moe", "align"},
};

static void test_number_when_it_is_0_then_it_is_refused_with_its_value(void **state) {
    (void)state;
    char fields[64], message[128];
    for (size_t i = 0; i < MPT_COUNT(numbers); i++) {
        snprintf(fields, sizeof fields, "%s = 0", numbers[i][2]);
        snprintf(message, sizeof message, "%s.%s: cannot be 0; give a ", numbers[i][1],
                 numbers[i][2]);
        refuse(numbers[i][0], fields, message);
        snprintf(fields, sizeof fields, "%s = 1e-60", numbers[i][2]); /* 0 in FP32 */
        snprintf(message, sizeof message, "%s.%s: cannot be 1e-60; give a ", numbers[i][1],
                 numbers[i][2]);
        refuse(numbers[i][0], fields, message);
    }
    refuse("split { x", "sizes = { 0, 8 }", "split.sizes: cannot be 0; give widths above 0");
    refuse("split { x", "sizes = { 24, -16 }", "split.sizes: cannot be -16; give widths");
    refuse("rope { x, heads = 1", "scaling = { rope_type = 'linear', factor = -2 }",
           "rope.scaling.factor: cannot be -2; give a number above 0");
    refuse("rope { x, heads = 1", "scaling = { rope_theta = 1e-60 }",
           "rope.scaling.rope_theta: cannot be 1e-60; give a number above 0");
}

static void test_share_when_it_is_outside_0_to_1_then_it_is_refused(void **state) {
    (void)state;
    refuse(MOE, "balance = -0.5", "moe.balance: cannot be -0.5; give a number from 0 to 1");
    refuse(MOE, "balance = 2", "moe.balance: cannot be 2; give a number from 0 to 1");
    refuse(MOE, "balance = 0/0", "moe.balance: cannot be NaN; give a number from 0 to 1");
    refuse("dropout { 'd', x", "p = -0.5", "dropout.p: cannot be -0.5; give a number from 0");
    take(MOE, "balance = 0");
    take("dropout { 'd', x", "p = 0");
}

static void test_field_when_it_is_required_and_left_out_then_it_is_missing(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"linear { 'l', x", "bias = true", "linear: out is missing; write out = ..."},
        {"embedding { 'b', nn.tokens()", "rows = 8", "embedding: out is missing"},
        {"attention { 'a', x, x, x", "scale = 1", "attention: heads is missing"},
        {"conv1d { 'c', x", "bias = true", "conv1d: kernel is missing"},
        {"ssm_scan { 's', x, x, x, x", "heads = 1, head_dim = 8, groups = 1",
         "ssm_scan: state is missing"},
        {"ssm_scan { 's', x, x, x, x", "heads = 1, head_dim = 8, state = 8",
         "ssm_scan: groups is missing"},
        {"scale { x", "", "scale: factor is missing"},
        {"split { x", "", "split: sizes is missing"},
        {"moe { 'o', x", "top_k = 2, hidden = 8", "moe: experts is missing"},
        {"moe { 'o', x", "experts = 4, hidden = 8", "moe: top_k is missing"},
        {"moe { 'o', x", "experts = 4, top_k = 2", "moe: hidden is missing"},
        {"rope { x, heads = 1", "scaling = { rope_type = 'linear' }",
         "rope.scaling: factor is missing"},
        {"rope { x, heads = 1", "scaling = { rope_type = 'llama3', factor = 2 }",
         "rope.scaling: low_freq_factor is missing"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        refuse(rows[i][0], rows[i][1], rows[i][2]);
}

static void test_init_when_it_is_no_width_then_it_is_refused(void **state) {
    (void)state;
    static const char *const values[][2] = {{"0/0", "NaN"},       {"1/0", "inf"},
                                            {"-1/0", "-inf"},     {"-0.02", "-0.02"},
                                            {"-1e-60", "-1e-60"}, {"1e300", "1e+300"}};
    static const char *const kinds[] = {"normal", "uniform"};
    static const char *const keys[][3] = {{LINEAR, "linear", "init"},
                                          {LINEAR ", bias = true", "linear", "bias_init"},
                                          {MOE, "moe", "down_init"}};
    char fields[64], message[160];
    for (size_t i = 0; i < MPT_COUNT(values) * 2 * MPT_COUNT(keys); i++) {
        const char *const *value = values[i / 2 / MPT_COUNT(keys)];
        const char *const *key = keys[i / 2 % MPT_COUNT(keys)];
        snprintf(fields, sizeof fields, "%s = { %s = %s }", key[2], kinds[i % 2], value[0]);
        snprintf(message, sizeof message,
                 "%s.%s.%s: cannot be %s; give a number that is not "
                 "negative",
                 key[1], key[2], kinds[i % 2], value[1]);
        refuse(key[0], fields, message);
    }
    take(LINEAR, "init = { normal = 0 }");
    refuse(LINEAR, "bias_init = 'ones'",
           "linear.bias_init: there is no bias to begin; say bias = true");
}

static void test_choice_when_it_is_a_text_then_the_text_is_shown(void **state) {
    (void)state;
    refuse(MOE, "activation = 'gelu'",
           "moe.activation: no activation 'gelu'; give \"relu2\" or \"swiglu\"");
    refuse(MOE, "score = 'tanh'", "moe.score: no score 'tanh'; give \"sigmoid\"");
    refuse(MOE, "score = 3", "moe.score: cannot be 3; give \"sigmoid\"");
    refuse(LINEAR, "layout = 'rows'", "linear.layout: cannot be 'rows'; it can only be");
}

/* Fields of the shipped models that end in numbers of words. */
static void test_models_when_a_number_means_nothing_then_it_is_refused(void **state) {
    (void)state;
    static const char *const rows[][4] = {
        {"gpt2", "tiny", "initializer_range = -4", "init.normal: cannot be -4"},
        {"gpt2", "tiny", "initializer_range = 1e300", "init.normal: cannot be 1e+300"},
        {"gpt2", "tiny", "resid_pdrop = -0.5", "nn.dropout.p: cannot be -0.5"},
        {"gpt2", "tiny", "embd_pdrop = -0.5", "nn.dropout.p: cannot be -0.5"},
        {"gpt2", "tiny", "layer_norm_epsilon = 0", "nn.layernorm.eps: cannot be 0"},
        {"llama", "tiny", "rope_theta = 0", "nn.rope.theta: cannot be 0"},
        {"llama", "tiny", "rope_parameters = { factor = -2 }",
         "nn.rope.scaling.factor: cannot be -2"},
        {"llama", "tiny", "initializer_range = -4", "init.normal: cannot be -4"},
        {"deepseek_moe", "tiny", "rope_theta = 0", "nn.rope.theta: cannot be 0"},
        {"deepseek_moe", "tiny", "routed_scaling_factor = 0", "nn.moe.scale: cannot be 0"},
        {"deepseek_moe", "tiny", "bias_update_speed = -1", "nn.moe.balance: cannot be -1"},
        {"nemotron_h", "8b_proxy", "initializer_range = -4", "init.normal: cannot be -4"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char text[256];
        mpt_ctx *ctx = mpt_test_ctx();
        snprintf(text, sizeof text,
                 "return recipe { model = derive(require 'models.%s' '%s', { %s }) }",
                 rows[i][0], rows[i][1], rows[i][2]);
        assert_int_equal(draw_text(ctx, text), MPT_INVALID);
        if (!strstr(mpt_ctx_error(ctx)->message, rows[i][3]))
            fail_msg("%s: got '%s'", text, mpt_ctx_error(ctx)->message);
        mpt_lua_finish(ctx, NULL);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_number_when_it_is_0_then_it_is_refused_with_its_value),
    cmocka_unit_test(test_share_when_it_is_outside_0_to_1_then_it_is_refused),
    cmocka_unit_test(test_field_when_it_is_required_and_left_out_then_it_is_missing),
    cmocka_unit_test(test_init_when_it_is_no_width_then_it_is_refused),
    cmocka_unit_test(test_models_when_a_number_means_nothing_then_it_is_refused),
    cmocka_unit_test(test_choice_when_it_is_a_text_then_the_text_is_shown),
};
MPT_TEST_MAIN(cases)
