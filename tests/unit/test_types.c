/* The annotations for editors: the committed file, and that every name in it is defined. */
#include "mpt_test.h"

#include <ctype.h>
#include <lauxlib.h>

#include "golden_text.h"
#include "lua/bind/value.h"
#include "recipe/schema.h"
#include "writers.h"

static mpt_str annotations(mpt_ctx *ctx) {
    mpt_str out;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_recipe_annotations(ctx, keep, &out));
    return out;
}

static void test_types_when_made_then_they_are_the_committed_file(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out = annotations(ctx);
    assert_golden_file(&out, MPT_SOURCE_DIR "/lua/types/mpt.lua");
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static size_t name_length(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '.')
        n++;
    return n;
}

/* Whether "---@class NAME" or "---@alias NAME" stands in the text. */
static bool is_defined(const char *text, const char *name, size_t n) {
    static const char *const kinds[] = {"---@class ", "---@alias "};
    for (int i = 0; i < 2; i++)
        for (const char *at = strstr(text, kinds[i]); at; at = strstr(at + 1, kinds[i])) {
            const char *defined = at + strlen(kinds[i]);
            if (name_length(defined) == n && memcmp(defined, name, n) == 0)
                return true;
        }
    return false;
}

static void test_types_when_a_class_is_named_then_it_is_defined(void **state) {
    (void)state;
    int n_names = 0;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out = annotations(ctx);
    for (const char *at = strstr(out.data, " mpt."); at; at = strstr(at + 1, "mpt.")) {
        at += *at == ' ';
        size_t n = name_length(at);
        while (at[n - 1] == '.')
            n--;
        if (strncmp(at, "mpt.lua", n) != 0 && !is_defined(out.data, at, n))
            fail_msg("%.*s is not defined", (int)n, at);
        n_names++;
    }
    assert_true(n_names > 100);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

/* Every word and every field has a line, and no field has an unknown type. */
static void test_types_when_compared_with_the_tables_then_nothing_is_missing(void **state) {
    (void)state;
    int n;
    char line[128];
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out = annotations(ctx);
    const mpt_lua_word *words = mpt_words_all(&n);
    for (int i = 0; i < n; i++) {
        bool plain = words[i].kind != MPT_LUA_MODEL; /* that one has a field */
        snprintf(line, sizeof line, plain ? "\nfunction %s(" : "\n%s = nil\n", words[i].name);
        assert_non_null(strstr(out.data, line));
    }
    const mpt_record *const *records = mpt_record_all(&n);
    for (int i = 0; i < n; i++)
        for (int f = 0; f < records[i]->n_fields; f++) {
            snprintf(line, sizeof line, "\n---@class mpt.%s_fields\n", records[i]->name);
            const char *class = strstr(out.data, line);
            if (strcmp(records[i]->name, "static") == 0 ||
                strcmp(records[i]->name, "text") == 0)
                continue; /* words with one plain argument */
            assert_non_null(class);
            snprintf(line, sizeof line, "---@field %s", records[i]->fields[f].name);
            const char *field = strstr(class, line), *next = strstr(class, "\n\n");
            if (!field || field > next)
                fail_msg("%s has no %s", records[i]->name, records[i]->fields[f].name);
        }
    for (const char *at = out.data; (at = strstr(at, "---@field ")); at++)
        if (strncmp(strchr(at + 10, ' '), " any ", 5) == 0)
            fail_msg("a field of any type: %.60s", at);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static void test_types_when_read_by_lua_then_they_compile(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out = annotations(ctx);
    lua_State *L = luaL_newstate();
    assert_non_null(L);
    if (luaL_loadbufferx(L, out.data, out.len, "types", "t") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    lua_close(L);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static void test_types_when_the_writer_refuses_then_io(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_int_equal(mpt_recipe_annotations(ctx, refuse, NULL), MPT_IO);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_types_when_made_then_they_are_the_committed_file),
    cmocka_unit_test(test_types_when_a_class_is_named_then_it_is_defined),
    cmocka_unit_test(test_types_when_compared_with_the_tables_then_nothing_is_missing),
    cmocka_unit_test(test_types_when_read_by_lua_then_they_compile),
    cmocka_unit_test(test_types_when_the_writer_refuses_then_io),
};
MPT_TEST_MAIN(cases)
