/* lua/bind: what is wrong with a recipe, in words and with the line of the key; verbatim. */
#include "lua_test.h"

#include "writers.h"

static void test_key_when_misspelt_on_line_7_then_that_line_is_named(void **state) {
    (void)state;
    /* The enclosing call starts on line 5, 6 or 7: the key is always on line 7. */
    mpt_lua_refuse(
        MPT_LUA_MODEL
        "return recipe { model = m 's', precision = { rules = { rule { 'linear',\n"
        "  use = nvfp4 { -- }\n"
        "    block = {16, 16},\n"
        "    roundng = \"nearest\" } } } } }",
        "r.lua:7: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
    mpt_lua_refuse(
        MPT_LUA_MODEL
        "return recipe { model = m 's', precision = { rules = { rule { 'linear',\n"
        "  -- nvfp4 { roundng = 1 }\n"
        "  use = nvfp4 {\n"
        "    roundng = \"nearest\" } } } } }",
        "r.lua:7: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
    mpt_lua_refuse(
        MPT_LUA_MODEL
        "local q = [[\n"
        "nvfp4 { ]]\n"
        "return recipe { model = m 's', precision = { rules = { rule { 'linear',\n"
        "  use = nvfp4 { block = {16, 16}, roundng = \"nearest\" } } } } }",
        "r.lua:7: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
}

/* Draws a model by a body that may count its drawings; gives the error of compiling and then
 * planning it, "" for none. */
static mpt_status draw_and_plan(const char *body, char out[512]) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_program *program = NULL;
    mpt_str text;
    char source[2048];
    mpt_str_init(&text, ctx);
    snprintf(source, sizeof source,
             "local n = 0\n"
             "local function graph(nn, size)\n"
             "  n = n + 1\n"
             "  local x = nn.embedding { 'e', nn.tokens(), rows = 256, out = 32 }\n"
             "  %s\n"
             "  x = nn.block(0, function() return nn.linear { 'a', x, out = 32 } end)\n"
             "  nn.cross_entropy(nn.linear { 'h', x, out = 256, head = true })\n"
             "end\n"
             "local m = model { name = 'm', sizes = { s = {} }, graph = graph }\n"
             "return recipe { version = 1, name = 'r', model = m 's', precision = {},\n"
             "  train = { steps = 2, batch = 2, sequence = 16, lr = constant { peak = 1 } } }",
             body);
    assert_mpt_ok(ctx,
                  mpt_recipe_load_string(ctx, "r.lua", source, strlen(source), NULL, &recipe));
    mpt_status status = mpt_compile(recipe, NULL, &program);
    if (status == MPT_OK)
        status = mpt_program_print(program, MPT_PRINT_PLAN, NULL, keep, &text);
    snprintf(out, 512, "%s", status == MPT_OK ? "" : mpt_ctx_error(ctx)->message);
    mpt_str_deinit(&text);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    return status;
}

static void test_graph_when_a_later_drawing_fails_then_its_own_error_is_given(void **state) {
    (void)state;
    char text[512], body[64];
    assert_int_equal(draw_and_plan("", text), MPT_OK);
    for (int n = 1; n <= 4; n++) {
        snprintf(body, sizeof body, "if n == %d then error('drawing %d') end", n, n);
        mpt_status status = draw_and_plan(body, text);
        if (status == MPT_OK)
            break; /* so often it is not drawn */
        assert_int_equal(status, MPT_INVALID);
        assert_non_null(strstr(text, "drawing "));
    }
}

static void test_graph_when_a_name_is_no_name_then_refused(void **state) {
    (void)state;
    static const char *const names[] = {"ab{x}", "a*", "a?", "[a]", "a b",       "a..b",
                                        ".a",    "a.", "a/", "a}",  "\\195\\164"};
    char text[512], body[128];
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        snprintf(body, sizeof body, "x = nn.linear { '%s', x, out = 32 }", names[i]);
        assert_int_equal(draw_and_plan(body, text), MPT_INVALID);
        if (!strstr(text, "r.lua:5: ") || !strstr(text, "the name of a layer") ||
            !strstr(text, "names are letters, digits"))
            fail_msg("'%s': %s", names[i], text);
    }
    assert_int_equal(draw_and_plan("x = nn.linear { 'a_b-c.d0', x, out = 32 }", text), MPT_OK);
}

static void test_graph_when_drawings_differ_then_refused(void **state) {
    (void)state;
    char text[512];
    static const char *const bodies[] = {
        "x = nn.linear { 'b', x, out = 31 + n } x = nn.linear { 'c', x, out = 32 }",
        "x = nn.linear { 'b' .. n, x, out = 32 }",
        "x = nn.linear { 'b', x, out = 32, init = { normal = n } }",
        "x = nn.rmsnorm { 'b', x, eps = n * 1e-3 }",
    };
    for (size_t i = 0; i < MPT_COUNT(bodies); i++) {
        assert_int_equal(draw_and_plan(bodies[i], text), MPT_INVALID);
        assert_non_null(strstr(text, "the model m draws another graph each time"));
    }
}

static void test_key_when_unknown_then_path_and_suggestion_are_given(void **state) {
    (void)state;
    mpt_lua_refuse_fields("train = { steps = 1,\n\n  btch = 4 }",
                          "r.lua:7: train: no field 'btch'; did you mean 'batch'?");
    mpt_lua_refuse_fields("trian = {}", "r.lua:5: no field 'trian'; did you mean 'train'?");
    mpt_lua_refuse_fields("train = {\n  lr = wsd {\n    peek = 1 } }",
                          "r.lua:7: train.lr: no field 'peek'; did you mean 'peak'?");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear',\n  us = bf16, use = bf16 } } }",
        "r.lua:6: precision.rules[1]: no field 'us'; did you mean 'use'?");
}

static void test_value_when_wrong_then_the_way_out_is_given(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = gemm {\n"
        "  wgrad = { dy = nvfp4 {\n"
        "    rounding = 'stochastc' } } } } } }",
        "r.lua:7: precision.rules[1].use.wgrad.dy.rounding: no value 'stochastc'; "
        "did you mean 'stochastic'?");
    mpt_lua_refuse_fields(
        "train = {\n  batch = 'four' }",
        "r.lua:6: train.batch: cannot be 'four'; give a whole number of 1 or more and "
        "at most 16777216");
    mpt_lua_refuse_fields("train = { batch = 1,\n  optimizer = wsd { peak = 1 } }",
                          "r.lua:6: train.optimizer: cannot be wsd; give one of adamw or sgd");
    mpt_lua_refuse_fields(
        "train = { optimizer =\n adamw }",
        "r.lua:5: train.optimizer: cannot be a word without its { }; write adamw { betas = "
        "{0.9, 0.95} }");
    mpt_lua_refuse_fields("data = {}",
                          "r.lua:5: data: cannot be a table; give one of synthetic, text, "
                          "tokens or batches");
    mpt_lua_refuse_fields(
        "train = { batch = print }",
        "r.lua:5: train.batch: cannot be a word without its { }; give a whole "
        "number of 1 or more and at most 16777216");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = gemm { wgrad = {\n"
        "  hadamard = hadamard } } } } }",
        "r.lua:6: precision.rules[1].use.wgrad.hadamard: cannot be a word without "
        "its { }; write hadamard { size = 16 }");
    mpt_lua_refuse_fields("allow = {'sr-forwrd'}",
                          "r.lua:5: allow: no warning 'sr-forwrd'; did you mean 'sr-forward'?");
}

static void test_rule_when_incomplete_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { use = bf16 } } }",
        "r.lua:5: precision.rules[1]: says no layers; begin with a kind or a path: "
        "rule { \"linear\", use = bf16 }");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear' } } }",
        "r.lua:5: precision.rules[1].use: missing; give a format (bf16, nvfp4 { ... }) "
        "or gemm { ... }");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = 'bf16' } } }",
        "r.lua:5: precision.rules[1].use: cannot be a text; formats are values: write bf16 "
        "without quotes");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = 'four' } } }",
        "r.lua:5: precision.rules[1].use: cannot be a text; give a format (bf16, nvfp4 "
        "{ ... }) or gemm { ... }");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = bf16,\n gemms = {'frop'} } } }",
        "r.lua:6: precision.rules[1].gemms: no product 'frop'; it can be fprop, dgrad "
        "or wgrad");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = bf16, blocks = first(0) } } }",
        "r.lua:5: precision.rules[1].blocks: first(0) names no blocks; give how many "
        "blocks, 1 or more");
    mpt_lua_refuse_fields(
        "precision = { rules = { { 'linear', use = bf16 } } }",
        "r.lua:5: precision.rules[1]: cannot be a table; write rule { \"linear\", use "
        "= bf16 }");
}

static void test_list_when_it_has_a_hole_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields("precision = { rules = { nil, rule { 'linear', use = bf16 } } }",
                          "r.lua:4: recipe: a list has holes: some of its values are nil");
    mpt_lua_refuse_fields("precision = { rules = { rule { 'linear', use = bf16 }, [3] = 1 } }",
                          "r.lua:4: recipe: a list has holes: some of its values are nil");
    mpt_lua_refuse_fields("[{}] = 1",
                          "r.lua:4: recipe: keys are names or positions, not a table");
    mpt_lua_refuse_fields("'stray'", "r.lua:5: recipe: a text stands here without a name; give "
                                     "it a name: name = value");
}

static void test_text_when_it_begins_with_a_byte_order_mark_then_it_is_skipped(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        mpt_lua_load(ctx, "\xef\xbb\xbf" MPT_LUA_MODEL "return recipe { model = m 's' }");
    mpt_lua_finish(ctx, r);
}

static void test_text_when_it_has_a_control_character_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        "phases = { phase {\n 'a\\nb' } }",
        "r.lua:6: phases[1]: the phase's name has a control character; write one "
        "line of plain text");
    mpt_lua_refuse_fields("name = 'a\\27[31m'",
                          "r.lua:5: name: the text has a control character; write one line of "
                          "plain text");
    mpt_lua_refuse_fields(
        "data = text 'a\\0b'",
        "r.lua:5: data.path: the text has a control character; write one line of "
        "plain text");
    mpt_lua_refuse(
        "local m = model { name = 'a\\r', sizes = { s = {} }, graph = print }\n"
        "return recipe { model = m 's' }",
        "r.lua:1: model.name: the text has a control character; write one line of plain "
        "text");
    mpt_lua_refuse("error('a\\27[31m\\n', 0)", "r.lua: a\\x1b[31m\\x0a");
}

static void test_text_when_it_nests_too_deep_then_its_line_is_named(void **state) {
    (void)state;
    char text[1024] = "local a = 1\nlocal x = ";
    size_t n = strlen(text);
    memset(text + n, '{', 300);
    memset(text + n + 300, '}', 300);
    text[n + 600] = 0;
    static const char message[] =
        "r.lua:2: brackets, blocks or operators nest too deep; give inner "
        "parts a name of their own: local part = ...";
    mpt_lua_refuse(text, message);
    memset(text + n, '(', 300);
    mpt_lua_refuse(text, message);
}

static void test_name_when_unknown_then_a_near_one_is_suggested(void **state) {
    (void)state;
    mpt_lua_refuse("\nreturn recipe { model = nvpf4 }",
                   "r.lua:2: unknown name 'nvpf4'; did you mean 'nvfp4'?");
    mpt_lua_refuse("\n\nlocal x = string.fromat('')",
                   "r.lua:3: unknown name 'string.fromat'; did you mean 'string.format'?");
    mpt_lua_refuse("x = 1", "r.lua:1: cannot set 'x': no globals here; write `local x = ...`");
}

static void test_word_when_misused_then_an_example_is_shown(void **state) {
    (void)state;
    mpt_lua_refuse("local x = first{2}",
                   "r.lua:1: first: takes plain arguments; write first(2)");
    mpt_lua_refuse("local x = gemm()",
                   "r.lua:1: gemm: takes one table; write gemm { weight = nvfp4, "
                   "activation = nvfp4 }");
    mpt_lua_refuse("local x = nvfp4(16)",
                   "r.lua:1: nvfp4: takes a table of fields, not a number");
    mpt_lua_refuse("local x = gemm { weight = nvfp4 }\nx.weight = bf16",
                   "r.lua:2: gemm: values of a recipe never change; make a changed copy with "
                   "derive(base, { ... })");
}

static void test_model_when_missing_or_wrong_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse(
        "\nreturn recipe { version = 1 }",
        "r.lua:2: model: missing; name one: model = require \"models.gpt2\" \"124m\"");
    mpt_lua_refuse(MPT_LUA_MODEL "return recipe {\nmodel = m }",
                   "r.lua:5: model: cannot be a model without a size; name its size, one of s");
    mpt_lua_refuse(
        MPT_LUA_MODEL "return recipe { model = 'm' }",
        "r.lua:4: model: cannot be a text; give a model with its size: gpt2 \"124m\"");
    mpt_lua_refuse(MPT_LUA_MODEL "return recipe { model = m 'big' }",
                   "r.lua:4: m: no size 'big'; it has s, or a table of its own");
    mpt_lua_refuse(MPT_LUA_MODEL "return recipe { model = m {\n w = 4, wd = 3 } }",
                   "r.lua:5: m: no size field 'wd'; did you mean 'w'?");
    mpt_lua_refuse(MPT_LUA_MODEL "return recipe { model = m {} }",
                   "r.lua:4: m: the size has no 'w'; a size of your own says all that the "
                   "named ones say: w = 4");
}

static void test_file_when_it_returns_no_recipe_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse("return 7",
                   "r.lua: the file returned a number, not a recipe; end it with return recipe "
                   "{ version = 1, ... }");
    mpt_lua_refuse(
        "", "r.lua: the file returned nothing, not a recipe; end it with return recipe { "
            "version = 1, ... }");
    mpt_lua_refuse("return nvfp4",
                   "r.lua: the file returned a number format, not a recipe; end it with "
                   "return recipe { version = 1, ... }");
}

static void test_lua_errors_when_raised_then_file_and_line_stay(void **state) {
    (void)state;
    mpt_lua_refuse("\nlocal x = = 1", "r.lua:2: unexpected symbol near '='");
    mpt_lua_refuse("\n\nlocal x = nil + 1",
                   "r.lua:3: attempt to perform arithmetic on a nil value");
    mpt_lua_refuse("\nerror 'mine'", "r.lua:2: mine");
    mpt_lua_refuse("error {}", "r.lua: the recipe raised an error that is a table");
    mpt_lua_refuse("error()", "r.lua: the recipe raised an error that is a nil");
}

static void test_file_name_when_long_then_messages_are_not_cut(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    char name[201], message[300];
    memset(name, 'n', 200);
    name[200] = 0;
    snprintf(message, sizeof message, "%s:2: mine", name);
    const char *text = "\nerror 'mine'";
    assert_int_equal(mpt_recipe_load_string(ctx, name, text, strlen(text), NULL, &recipe),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    mpt_ctx_destroy(ctx);
}

static void test_derive_when_a_key_is_wrong_then_its_own_line_is_named(void **state) {
    (void)state;
    mpt_lua_refuse(MPT_LUA_MODEL "local base = recipe { model = m 's',\n"
                                 "  train = {\n"
                                 "    stepz = 4 } }\n"
                                 "return derive(base, { name = 'x', train = { batch = 2 } })",
                   "r.lua:6: train: no field 'stepz'; did you mean 'steps'?");
    mpt_lua_refuse(MPT_LUA_MODEL
                   "local base = recipe { model = m 's', train = { steps = 4 } }\n"
                   "return derive(base, {\n"
                   "  train = {\n"
                   "    bach = 2 } })",
                   "r.lua:7: train: no field 'bach'; did you mean 'batch'?");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_key_when_misspelt_on_line_7_then_that_line_is_named),
    cmocka_unit_test(test_graph_when_a_later_drawing_fails_then_its_own_error_is_given),
    cmocka_unit_test(test_graph_when_a_name_is_no_name_then_refused),
    cmocka_unit_test(test_graph_when_drawings_differ_then_refused),
    cmocka_unit_test(test_key_when_unknown_then_path_and_suggestion_are_given),
    cmocka_unit_test(test_value_when_wrong_then_the_way_out_is_given),
    cmocka_unit_test(test_rule_when_incomplete_then_it_is_refused),
    cmocka_unit_test(test_list_when_it_has_a_hole_then_it_is_refused),
    cmocka_unit_test(test_text_when_it_begins_with_a_byte_order_mark_then_it_is_skipped),
    cmocka_unit_test(test_text_when_it_has_a_control_character_then_it_is_refused),
    cmocka_unit_test(test_text_when_it_nests_too_deep_then_its_line_is_named),
    cmocka_unit_test(test_name_when_unknown_then_a_near_one_is_suggested),
    cmocka_unit_test(test_word_when_misused_then_an_example_is_shown),
    cmocka_unit_test(test_model_when_missing_or_wrong_then_it_is_refused),
    cmocka_unit_test(test_file_when_it_returns_no_recipe_then_it_is_refused),
    cmocka_unit_test(test_lua_errors_when_raised_then_file_and_line_stay),
    cmocka_unit_test(test_file_name_when_long_then_messages_are_not_cut),
    cmocka_unit_test(test_derive_when_a_key_is_wrong_then_its_own_line_is_named),
};
MPT_TEST_MAIN(cases)
