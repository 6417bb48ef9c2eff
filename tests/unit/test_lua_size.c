/* lua/bind: the fields of a size of one's own have the kind that the named sizes have. */
#include "lua_test.h"

#include <time.h>

#include "graph/nn.h"

#define MODEL                                                                                  \
    "local m = model { name = 'm', graph = print, sizes = {\n"                                 \
    "  a = { layers = 2, window = 0, drop = 0.5, pattern = 'M-', tied = true, odd = 1,\n"      \
    "    ring = { 1 } },\n"                                                                    \
    "  b = { layers = 4, window = 8, drop = 1, pattern = 'M', tied = false, odd = 'x',\n"      \
    "    ring = { n = 2 } } } }\n"

/* The recipe begins on line 6; the field that a case is about stands on line 7. */
static void size_text(const char *use, const char *field, const char *value, char *out,
                      size_t size) {
    static const char *const fields[][2] = {
        {"layers", "3"},  {"window", "0"}, {"drop", "0.1"}, {"pattern", "'M'"},
        {"tied", "true"}, {"odd", "{}"},   {"ring", "{}"}};
    size_t used = (size_t)snprintf(out, size, MODEL "return recipe { %s = m {", use);
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        if (strcmp(fields[i][0], field) != 0)
            used += (size_t)snprintf(out + used, size - used, " %s = %s,", fields[i][0],
                                     fields[i][1]);
    snprintf(out + used, size - used, "\n %s = %s } }", field, value);
}

static void test_size_when_a_field_is_of_another_kind_then_it_is_refused(void **state) {
    (void)state;
    static const char *const cases[][4] = {
        {"layers", "2.5", "2.5", "an integer of at least 1"},
        {"layers", "'2'", "'2'", "an integer of at least 1"},
        {"layers", "-1", "-1", "an integer of at least 1"},
        {"layers", "0", "0", "an integer of at least 1"},
        {"layers", "0/0", "NaN", "an integer of at least 1"},
        {"layers", "-(0/0)", "NaN", "an integer of at least 1"},
        {"layers", "1e300", "1e+300", "an integer of at least 1"},
        {"layers", "math.huge", "inf", "an integer of at least 1"},
        {"layers", "true", "a boolean", "an integer of at least 1"},
        {"layers", "{}", "a table", "an integer of at least 1"},
        {"window", "-1", "-1", "an integer of at least 0"},
        {"drop", "'x'", "'x'", "a number"},
        {"drop", "math.huge", "inf", "a number"},
        {"pattern", "5", "5", "a text"},
        {"pattern", "''", "''", "a text"},
        {"tied", "1", "1", "true or false"},
        {"ring", "1", "1", "a table"},
        {"ring", "'x'", "'x'", "a table"},
    };
    static const char *const uses[] = {"model", "model = m 'a', proxy"};
    for (size_t i = 0; i < MPT_COUNT(cases) * MPT_COUNT(uses); i++) {
        const char *const *c = cases[i / 2];
        char text[1024], message[256];
        size_text(uses[i % 2], c[0], c[1], text, sizeof text);
        snprintf(message, sizeof message, "r.lua:7: %s.%s: cannot be %s; give %s",
                 i % 2 ? "proxy" : "model", c[0], c[2], c[3]);
        mpt_lua_refuse(text, message);
    }
}

static void test_size_when_its_fields_fit_then_it_is_taken(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"layers", "1"},   {"layers", "1e3"}, {"window", "0"},
        {"drop", "3"},     {"drop", "-0.25"}, {"pattern", "'*'"},
        {"tied", "false"}, {"odd", "2.5"},    {"ring", "{ a = { 1 } }"}};
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char text[1024];
        mpt_ctx *ctx = mpt_test_ctx();
        size_text("model", cases[i][0], cases[i][1], text, sizeof text);
        mpt_lua_finish(ctx, mpt_lua_load(ctx, text));
    }
}

static void test_size_when_a_field_is_misspelt_or_missing_then_it_is_refused(void **state) {
    (void)state;
    char text[1024];
    size_text("model", "layrs", "3, layers = 3", text, sizeof text);
    mpt_lua_refuse(text, "r.lua:7: m: no size field 'layrs'; did you mean 'layers'?");
    size_text("model", "layers", "nil", text, sizeof text);
    mpt_lua_refuse(text,
                   "r.lua:6: m: the size has no 'layers'; a size of your own says all that "
                   "the named ones say: layers = 2");
}

/* Draws gpt2 with so many blocks: the status, and the error in the context. */
static mpt_status draw(mpt_ctx *ctx, const char *n_layer, int *n_blocks) {
    char text[512];
    snprintf(text, sizeof text,
             "return recipe { model = require 'models.gpt2' { n_layer = %s, n_embd = 8,\n"
             "n_head = 1, n_positions = 8 } }",
             n_layer);
    mpt_recipe *recipe = mpt_lua_load(ctx, text);
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 8, 16, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    mpt_status status = recipe->source.build(recipe->source.ud, &nn, false);
    *n_blocks = graph->n_blocks;
    mpt_graph_destroy(graph);
    mpt_recipe_destroy(recipe);
    return status;
}

/* Processor time, with room for a build with sanitizers: without the charge it is 20 s. */
static void test_drawing_when_the_model_is_absurd_then_it_ends_soon(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    int n_blocks;
    clock_t start = clock();
    assert_int_equal(draw(ctx, "1e9", &n_blocks), MPT_INVALID);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 10);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "drawing the model did not end within 20 million steps, with "));
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "give the model fewer blocks"));
    assert_true(mpt_ctx_memory(ctx).peak_bytes < (size_t)128 << 20);
    mpt_lua_finish(ctx, NULL);
}

static void test_drawing_when_the_model_is_deep_then_it_is_drawn(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    int n_blocks;
    assert_mpt_ok(ctx, draw(ctx, "2000", &n_blocks));
    assert_int_equal(n_blocks, 2000);
    mpt_lua_finish(ctx, NULL);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_size_when_a_field_is_of_another_kind_then_it_is_refused),
    cmocka_unit_test(test_size_when_its_fields_fit_then_it_is_taken),
    cmocka_unit_test(test_size_when_a_field_is_misspelt_or_missing_then_it_is_refused),
    cmocka_unit_test(test_drawing_when_the_model_is_absurd_then_it_ends_soon),
    cmocka_unit_test(test_drawing_when_the_model_is_deep_then_it_is_drawn),
};
MPT_TEST_MAIN(cases)
