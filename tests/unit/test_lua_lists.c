/* lua/bind: a list takes no names, a table of named fields takes no positions; each kind of
 * both. */
#include "lua_test.h"

#include "graph/nn.h"

#define RULE "rule { 'linear', use = bf16 }"

static void test_list_when_an_entry_has_a_name_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields("precision = { rules = { " RULE ",\n last = " RULE " } }",
                          "r.lua:6: precision.rules.last: a list has no field 'last'; give the "
                          "entries without names");
    mpt_lua_refuse_fields(
        "phases = {\n\n a = phase { 'a' } }",
        "r.lua:7: phases.a: a list has no field 'a'; give the entries without "
        "names");
    mpt_lua_refuse_fields(
        "phases = { phase { 'a', rules = {\n x = " RULE " } } }",
        "r.lua:6: phases[1].rules.x: a list has no field 'x'; give the entries "
        "without names");
    mpt_lua_refuse_fields("allow = { 'sr-forward',\n x = 'y' }",
                          "r.lua:6: allow.x: a list has no field 'x'; give the entries without "
                          "names");
    mpt_lua_refuse_fields("train = { optimizer = adamw { betas = { 0.9,\n x = 1, 0.95 } } }",
                          "r.lua:6: train.optimizer.betas.x: a list has no field 'x'; give the "
                          "entries without names");
}

static void test_list_when_a_rule_names_an_entry_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { { 'linear',\n x = 'head' }, use = bf16 "
        "} } }",
        "r.lua:6: precision.rules[1].x: a list has no field 'x'; give the "
        "entries without names");
    mpt_lua_refuse_fields("precision = { rules = { rule { 'linear', use = bf16, gemms = {\n"
                          " 'fprop', x = 'dgrad' } } } }",
                          "r.lua:6: precision.rules[1].gemms.x: a list has no field 'x'; give "
                          "the entries without names");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = bf16, blocks = only {\n"
        " 0, x = 1 } } } }",
        "r.lua:6: precision.rules[1].blocks.x: a list has no field 'x'; give "
        "the entries without names");
    mpt_lua_refuse_fields("precision = { rules = { rule { 'linear', use = nvfp4 { block = {\n"
                          " 16, y = 16 } } } } }",
                          "r.lua:6: precision.rules[1].use.block.y: a list has no field 'y'; "
                          "give the entries without names");
}

/* Rules are appended to those of the base: a name must not get lost on the way. */
static void test_list_when_derived_with_a_name_then_it_is_refused(void **state) {
    (void)state;
    static const char *const bases[] = {"", "precision = { rules = { " RULE " } }"};
    static const char *const lists[] = {"rules = {\n first = " RULE " }",
                                        "rules = replace {\n first = " RULE " }"};
    for (size_t i = 0; i < MPT_COUNT(bases); i++)
        for (size_t j = 0; j < MPT_COUNT(lists); j++) {
            char text[1024];
            snprintf(text, sizeof text,
                     MPT_LUA_MODEL "local base = recipe { model = m 's', %s }\n"
                                   "return derive(base, { precision = { %s } })",
                     bases[i], lists[j]);
            if (i == 0 && j == 1)
                continue; /* nothing to replace */
            mpt_lua_refuse(text, "r.lua:6: precision.rules.first: a list has no field 'first'; "
                                 "give the entries without names");
        }
}

static void test_fields_when_an_entry_has_no_name_then_it_is_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"train = {\n 5 }", "train: a number"},
        {"train = { proxy = {\n 5 } }", "train.proxy: a number"},
        {"train = { optimizer = adamw {\n 0.9 } }", "train.optimizer: a number"},
        {"data = synthetic {\n 7 }", "data: a number"},
        {"precision = {\n 'x' }", "precision: a text"},
        {"precision = { state = {\n fp32 } }", "precision.state: a number format"},
        {"phases = { phase { 'a',\n 'b' } }", "phases[1]: a text"},
        {"precision = { rules = { rule { 'linear', use = gemm {\n bf16 } } } }",
         "precision.rules[1].use: a number format"},
        {"precision = { rules = { rule { 'linear', use = gemm { fprop = {\n bf16 } } } } }",
         "precision.rules[1].use.fprop: a number format"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char message[256];
        snprintf(message, sizeof message,
                 "r.lua:6: %s stands here without a name; give it a name: name = value",
                 cases[i][1]);
        mpt_lua_refuse_fields(cases[i][0], message);
    }
}

static void test_model_when_an_entry_has_no_name_then_it_is_refused(void **state) {
    (void)state;
    static const char way[] = "stands here without a name; give it a name: name = value";
    static const char *const cases[][2] = {
        {"local m = model { name = 'm',\n 5, sizes = { s = { w = 4 } }, graph = print }",
         "model: a number"},
        {"local m = model { name = 'm', sizes = {\n { w = 4 } }, graph = print }",
         "model.sizes: a table"},
        {"local m = model { name = 'm', sizes = { s = { w = 4 } }, graph = print }\n",
         "m: a number"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char text[512], message[256];
        snprintf(text, sizeof text, "%s return recipe { model = m { 5, w = 4 } }", cases[i][0]);
        snprintf(message, sizeof message, "r.lua:2: %s %s", cases[i][1], way);
        mpt_lua_refuse(text, message);
    }
}

/* ---- inside the model's function ---- */

/* Draws a graph of one line; the line is the second of the file. */
static void refuse_drawing(const char *line, const char *message) {
    char text[1024];
    snprintf(text, sizeof text,
             "local m = model { name = 'm', sizes = { s = { w = 4 } }, graph = function(nn)\n"
             "  %s end }\nreturn recipe { model = m 's' }",
             line);
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = mpt_lua_load(ctx, text);
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 8, 16, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    assert_int_equal(recipe->source.build(recipe->source.ud, &nn, false), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    mpt_graph_destroy(graph);
    mpt_lua_finish(ctx, recipe);
}

#define TABLE "local x = nn.embedding { 'e', nn.tokens(), out = 8 } "

static void test_list_of_a_layer_when_an_entry_has_a_name_then_it_is_refused(void **state) {
    (void)state;
    refuse_drawing(
        TABLE "nn.split { x, sizes = { 4,\n x = 2, 4 } }",
        "r.lua:3: nn.split.sizes.x: a list has no field 'x'; give the entries without "
        "names");
    refuse_drawing(
        TABLE "nn.linear { 'l', x, out = 8, parts = { 'a', x = 'b', 'c' } }",
        "r.lua:2: nn.linear.parts.x: a list has no field 'x'; give the entries without "
        "names");
}

static void test_layer_when_a_key_is_no_name_then_it_is_refused(void **state) {
    (void)state;
    refuse_drawing(TABLE "nn.gelu { x, [7] = x }", "r.lua:2: nn.gelu: no field '7'");
    refuse_drawing(TABLE "nn.gelu { x, [true] = x }", "r.lua:2: nn.gelu: no field 'true'");
}

static void test_layer_when_a_number_is_out_of_range_then_it_is_shown(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"-1", "-1"}, {"1e12", "1000000000000"}, {"2.5", "2.5"}, {"0/0", "NaN"}};
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char line[256], message[256];
        snprintf(line, sizeof line, TABLE "nn.linear { 'l', x, out = %s }", cases[i][0]);
        snprintf(
            message, sizeof message,
            "r.lua:2: nn.linear.out: cannot be %s; give a whole number from 1 to 2147483647",
            cases[i][1]);
        refuse_drawing(line, message);
    }
    refuse_drawing(TABLE "nn.rmsnorm { 'l', x, eps = -1 }",
                   "r.lua:2: nn.rmsnorm.eps: cannot be -1; give a number above 0, in the range "
                   "of FP32");
}

static void test_initial_values_when_more_than_one_is_said_then_they_are_refused(void **state) {
    (void)state;
    refuse_drawing(
        TABLE "nn.linear { 'l', x, out = 8, init = {\n 1, normal = 0.02 } }",
        "r.lua:2: nn.linear.init: a number stands here without a name; give { normal = "
        "0.02 }, { uniform = 0.5 }, \"zeros\" or \"ones\"");
    refuse_drawing(TABLE "nn.linear { 'l', x, out = 8, init = {\n std = 1, normal = 0.02 } }",
                   "r.lua:3: nn.linear.init.std: no initial values 'std'; give { normal = "
                   "0.02 }, { uniform = 0.5 }, \"zeros\" or \"ones\"");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_list_when_an_entry_has_a_name_then_it_is_refused),
    cmocka_unit_test(test_list_when_a_rule_names_an_entry_then_it_is_refused),
    cmocka_unit_test(test_list_when_derived_with_a_name_then_it_is_refused),
    cmocka_unit_test(test_fields_when_an_entry_has_no_name_then_it_is_refused),
    cmocka_unit_test(test_model_when_an_entry_has_no_name_then_it_is_refused),
    cmocka_unit_test(test_list_of_a_layer_when_an_entry_has_a_name_then_it_is_refused),
    cmocka_unit_test(test_layer_when_a_key_is_no_name_then_it_is_refused),
    cmocka_unit_test(test_layer_when_a_number_is_out_of_range_then_it_is_shown),
    cmocka_unit_test(test_initial_values_when_more_than_one_is_said_then_they_are_refused),
};
MPT_TEST_MAIN(cases)
