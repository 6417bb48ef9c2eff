/* lua/bind/sandbox.c and library.c against recipes that mean harm. Each must end, with the
 * right status, and leave no memory behind. */
#include "mpt_test.h"

#include <stdlib.h>

#include "recipe/recipe.h"

/* Runs a chunk that is no recipe: it must be refused with a text that holds `part`. */
static void refuse(const char *text, const char *part) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    assert_int_equal(mpt_recipe_load_string(ctx, "evil.lua", text, strlen(text), NULL, &recipe),
                     MPT_INVALID);
    assert_null(recipe);
    if (!strstr(mpt_ctx_error(ctx)->message, part))
        fail_msg("'%s' is not in: %s", part, mpt_ctx_error(ctx)->message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* Runs a chunk of assertions to its end: all it can do wrong then is not to be a recipe. */
static void run(const char *text) {
    refuse(text, "the file returned nothing, not a recipe");
}

#define ENDLESS   "did not end within 20 million steps"
#define ONE_CALL  "this call alone would take more than the 20 million steps"
#define TOO_LARGE "uses more than 64 MiB"
#define TOO_LONG  "a string of more than 64 KiB"

/* ---- time ---- */

static void test_loop_when_endless_then_it_is_stopped(void **state) {
    (void)state;
    refuse("while true do end", "evil.lua:1: the recipe " ENDLESS);
    refuse("\n\nlocal function f() return f() end f()", "evil.lua:3: the recipe " ENDLESS);
    refuse("goto a ::a:: ::b:: goto b", ENDLESS);
}

static void test_loop_when_inside_pcall_then_it_is_stopped(void **state) {
    (void)state;
    refuse("pcall(function() while true do end end) while true do end", ENDLESS);
    refuse("while true do pcall(function() while true do end end) end", ENDLESS);
    refuse("local function f() pcall(f) while true do pcall(f) end end f()", ENDLESS);
    refuse("local ok, e = pcall(function() while true do end end) return recipe {}", ENDLESS);
}

static void test_loop_when_in_a_message_handler_then_it_is_stopped(void **state) {
    (void)state;
    refuse("xpcall(function() while true do end end, function() while true do end end)",
           ENDLESS);
    refuse("xpcall(error, function() while true do end end)", ENDLESS);
    refuse("local function h() xpcall(error, h) while true do end end xpcall(error, h)", "");
}

static void test_loop_when_in_metamethods_then_it_is_stopped(void **state) {
    (void)state;
    refuse("local t = setmetatable({}, { __index = function() while true do end end }) "
           "pcall(function() return t.x end) return t.y",
           ENDLESS);
    refuse("local c <close> = setmetatable({}, { __close = function() while true do end end })",
           ENDLESS);
    refuse("local c <close> = setmetatable({}, { __close = function() while true do end end }) "
           "while true do end",
           ENDLESS);
    refuse("print(setmetatable({}, { __tostring = function() while true do end end }))",
           ENDLESS);
    refuse("local t = setmetatable({}, { __lt = function() while true do end end }) "
           "table.sort({ t, t, t })",
           ENDLESS);
}

static void test_c_loops_when_long_then_they_are_charged(void **state) {
    (void)state;
    refuse("string.rep('', 1e12)", ONE_CALL);
    refuse("string.rep('x', 1e15)", ONE_CALL);
    refuse("local s = ('a'):rep(3000) s:find('.-.-.-.-b')", ONE_CALL);
    refuse("local s = ('a'):rep(3000) s:gsub('a*a*a*b', '')", ONE_CALL);
    refuse("local s = ('a'):rep(3000) for _ in s:gmatch('a*a*a*b') do end", ONE_CALL);
    refuse("while true do ('x'):rep(60000):upper() end", ENDLESS);
    refuse(
        "table.concat(setmetatable({}, { __index = getmetatable, __metatable = '' }), '', 1, "
        "1e15)",
        ONE_CALL);
    refuse("table.insert(setmetatable({}, { __len = function() return 1 << 60 end }), 1, 1)",
           ONE_CALL);
    refuse("table.remove(setmetatable({}, { __len = function() return 1 << 60 end }), 1)",
           ONE_CALL);
    refuse("table.move({}, 1, 1 << 60, 2)", ONE_CALL);
    refuse("table.sort(setmetatable({}, { __len = function() return 1 << 30 end, "
           "__index = function() return 1 end }))",
           ONE_CALL);
    refuse("while true do table.unpack({}, 1, 200000) end", ENDLESS);
    refuse("while true do print('x') end", ENDLESS);
}

/* ---- memory ---- */

static void test_memory_when_a_table_grows_then_it_is_stopped(void **state) {
    (void)state;
    refuse("local t = {} for i = 1, 1e9 do t[i] = { i } end", TOO_LARGE);
    refuse(
        "local t = {} while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = { i } end "
        "end) end",
        TOO_LARGE);
    refuse("local function f() return 1 + f() end f()", TOO_LARGE);
    refuse("local function f(...) return f(1, ...) end f()", "");
}

static void test_memory_when_a_string_grows_then_it_is_stopped(void **state) {
    (void)state;
    refuse("local s = 'x' while true do s = s .. s end", TOO_LONG);
    refuse("local s = ('x'):rep(70000)", TOO_LONG);
    refuse("local s = ('x'):rep(60000) s = s:gsub('x', '%0%0')", "");
    refuse("local s = ('x'):rep(60000) s = string.format('%s%s', s, s)", TOO_LONG);
    refuse("local t = {} for i = 1, 70000 do t[i] = 'x' end local s = table.concat(t)",
           TOO_LONG);
    refuse("local s = 'x' while true do pcall(function() s = s .. s end) end", TOO_LONG);
}

static void test_recursion_when_deep_then_it_is_an_error(void **state) {
    (void)state;
    char text[4096] = "local x = ";
    for (int i = 0; i < 1500; i++)
        strcat(text, "(");
    refuse(text, "evil.lua:1: brackets, blocks or operators nest too deep");
    run("local t = {} for _ = 1, 100 do t = { t } end "
        "local ok, e = pcall(hadamard, t) assert(not ok and e:find('nest too deep'), e)");
    run("local t = {} t.t = t local ok, e = pcall(gemm, t) assert(not ok)");
}

/* ---- what is not there ---- */

static void test_globals_when_dangerous_then_they_are_absent(void **state) {
    (void)state;
    static const char *const names[] = {"load",           "loadstring", "loadfile", "dofile",
                                        "collectgarbage", "os",         "io",       "debug",
                                        "package",        "coroutine",  "warn",     "_G"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        char text[64], part[64];
        snprintf(text, sizeof text, "local x = %s", names[i]);
        snprintf(part, sizeof part, "evil.lua:1: unknown name '%s'", names[i]);
        refuse(text, part);
    }
    refuse("local x = string.dump", "unknown name 'string.dump'");
}

static void test_bytecode_when_given_then_it_is_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    static const char bytes[] = "\x1bLua\x54\x00\x19\x93\r\n\x1a\n";
    assert_int_equal(
        mpt_recipe_load_string(ctx, "evil.lua", bytes, sizeof bytes - 1, NULL, &recipe),
        MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "binary chunk"));
    assert_int_equal(mpt_recipe_load_string(ctx, "evil.lua", NULL, 0, NULL, &recipe),
                     MPT_INVALID);
    mpt_ctx_destroy(ctx);
}

static void test_metatables_when_tampered_with_then_it_is_refused(void **state) {
    (void)state;
    refuse("setmetatable({}, { __gc = function() end })", "__gc is not available");
    run("assert(getmetatable('') == 'read-only')");
    run("assert(getmetatable(_ENV) == 'read-only')");
    run("assert(getmetatable(string) == 'read-only' and getmetatable(nvfp4) == 'read-only')");
    run("assert(not pcall(setmetatable, _ENV, {}))");
    run("assert(not pcall(rawset, _ENV, 'nvfp4', 1))");
    run("assert(not pcall(rawset, string, 'rep', 1))");
    run("assert(not pcall(function() string.rep = 1 end))");
    run("assert(not pcall(function() nvfp4.block = 1 end))");
    run("assert(not pcall(table.insert, table, 1))");
    refuse("nvfp4 = bf16", "cannot set 'nvfp4'");
    refuse("_ENV.x = 1", "cannot set 'x'");
    run("local _ENV <const> = { assert = assert } assert(true)");
}

static void test_require_when_it_leaves_its_folders_then_it_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {
        "../x",       "/etc/passwd", "models/gpt2",    "..models",
        "models..x",  "models.",     ".models",        "",
        "models.a b", "models.\\n",  "models.gpt2\\0x"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        char text[64];
        snprintf(text, sizeof text, "require \"%s\"", names[i]);
        refuse(text, "evil.lua:1: require: no module can have the name");
    }
    refuse("require 'models.none'", "evil.lua:1: require: there is no module 'models.none'");
    refuse("require 'tests.x'", "there is no module 'tests.x'");
    refuse("require(4)", "takes one name");
    run("assert(require 'models.gpt2' == require 'models.gpt2')");
}

/* ---- errors and order ---- */

static void test_error_when_it_is_no_text_then_it_is_named(void **state) {
    (void)state;
    refuse("error({})", "evil.lua: the recipe raised an error that is a table");
    refuse("error(nil)", "evil.lua: the recipe raised an error that is a nil");
    refuse("error(setmetatable({}, { __tostring = function() while true do end end }))",
           "an error that is a table");
    run("local ok, e = pcall(error, { 1 }) assert(not ok and e[1] == 1)");
    run("local ok, e = xpcall(error, function(m) return m .. '!' end, 'x') assert(e == 'x!')");
    run("assert(select('#', xpcall(function(...) return ... end, print, 1, nil, 3)) == 4)");
    run("assert(select('#', pcall(function(...) return ... end, 1, nil)) == 3)");
}

static void test_error_when_caught_then_the_recipe_goes_on(void **state) {
    (void)state;
    run("local ok, e = pcall(first, 'x') assert(not ok and e:find('first%(2%)'), e)");
    run("local ok, e = pcall(function() return nvpf4 end) assert(e:find('nvfp4'), e)");
    refuse("pcall(first, 'x') error 'other'", "evil.lua:1: other");
}

static void test_pairs_when_called_then_the_order_is_sorted(void **state) {
    (void)state;
    run("local t, keys = { b = 1, a = 2, [10] = 3, [2] = 4, c = 5 }, {}\n"
        "for k, v in pairs(t) do keys[#keys + 1] = k; t[k] = nil end\n"
        "assert(table.concat(keys, ' ') == '2 10 a b c')");
    run("local n = 0 for k, v in pairs(string) do n = n + 1 end assert(n > 10)");
    run("for k, v in pairs({}) do error 'none' end");
}

static void test_next_when_called_then_the_order_is_that_of_pairs(void **state) {
    (void)state;
    run("local t, keys = { b = 1, a = 2, [10] = 3, [2] = 4, [2.5] = 6, c = 5 }, {}\n"
        "for k, v in next, t do keys[#keys + 1] = k; assert(t[k] == v) end\n"
        "assert(table.concat(keys, ' ') == '2 2.5 10 a b c')");
    run("local t = { b = 1, a = 2, c = 3 }\n"
        "for k in next, t do t[k] = nil end assert(next(t) == nil)");
    run("local one, two, n = {}, print, 0\n"
        "for k, v in next, { [one] = 1, x = 2, [two] = 3, [true] = 4, 5 } do n = n + v end\n"
        "assert(n == 15)");
    run("local k, v = next({ 7 }) assert(k == 1 and v == 7)");
    run("local k, v = next({ 7 }, 1) assert(k == nil and v == nil)");
    run("assert(next({}) == nil)");
    refuse("next(3)", "table expected");
    refuse("next({}, {})", "invalid key to 'next'");
    refuse("local t = {} for i = 1, 1e5 do t[i] = i end\n"
           "for k in next, t do end",
           ENDLESS);
}

static void test_random_when_run_twice_then_numbers_are_the_same(void **state) {
    (void)state;
    char first[64] = "";
    for (int i = 0; i < 2; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe;
        static const char text[] = "error('n ' .. math.random(1 << 40), 0)";
        assert_int_equal(
            mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe),
            MPT_INVALID);
        if (i == 0)
            snprintf(first, sizeof first, "%s", mpt_ctx_error(ctx)->text);
        assert_string_equal(mpt_ctx_error(ctx)->text, first);
        mpt_ctx_destroy(ctx);
    }
    refuse("math.randomseed()", "value expected");
}

typedef struct lines {
    int n;
    char last[128];
} lines;

static void keep_line(void *ud, mpt_log_level level, const char *line) {
    lines *kept = ud;
    assert_int_equal(level, MPT_LOG_INFO);
    kept->n++;
    snprintf(kept->last, sizeof kept->last, "%s", line);
}

/* Addresses differ at every run: a text made of one would too. */
static void test_address_when_asked_for_then_only_the_type_is_told(void **state) {
    (void)state;
    run("assert(tostring({}) == 'table' and tostring(print) == 'function')");
    run("assert(string.format('%s %q', {}, 'a') == 'table \\\"a\\\"')");
    run("assert(('%s'):format(recipe) == 'function')");
    run("assert(tostring(setmetatable({}, { __tostring = function() return 'own' end })) == "
        "'own')");
    run("assert(tostring(nil) == 'nil' and tostring(1.5) == '1.5' and tostring('a') == 'a')");
    refuse("string.format('%d %-20p', 1, {})", "'%p' shows an address");
    refuse("tostring()", "bad argument #1 to 'tostring'");
}

static void test_print_when_called_then_the_log_has_it(void **state) {
    (void)state;
    lines kept = {0};
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    options.log = keep_line;
    options.log_ud = &kept;
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    static const char text[] = "print(1, 'a%s', nil, nvfp4)";
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    (void)!mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe);
    assert_int_equal(kept.n, 1);
    assert_string_equal(kept.last, "1\ta%s\tnil\tnvfp4");
    mpt_ctx_destroy(ctx);
}

/* ---- after loading ---- */

static void test_predicate_when_endless_then_it_is_stopped(void **state) {
    (void)state;
    static const char text[] =
        "local m = model { name = 'm', sizes = { s = {} }, graph = function() while true do "
        "end "
        "end }\n"
        "return recipe { model = m 's', precision = { rules = { rule { 'linear', use = bf16,\n"
        "  where = function() while true do end end } } } }";
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_layer layer = {.path = "x"};
    bool yes;
    assert_mpt_ok(ctx,
                  mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe));
    assert_int_equal(recipe->source.where(recipe->source.ud, 0, &layer, &yes), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "r.lua:3: the recipe " ENDLESS));
    assert_int_equal(recipe->source.where(recipe->source.ud, 0, &layer, &yes), MPT_INVALID);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void *cap_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    size_t *left = ud;
    if (new_size == 0) {
        *left += old_size;
        free(ptr);
        return NULL;
    }
    size_t more = new_size > old_size ? new_size - old_size : 0;
    if (more > *left)
        return NULL;
    void *fresh = realloc(ptr, new_size);
    *left = *left + old_size - new_size;
    return fresh;
}

static void test_host_memory_when_it_ends_then_pcall_cannot_hide_it(void **state) {
    (void)state;
    static const char text[] =
        "local t = {}\n"
        "local ok = pcall(function() for i = 1, 1e6 do t[i] = { i } end end)\n"
        "t = nil\n"
        "return recipe {}";
    size_t left = 4 << 20;
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    options.alloc = cap_alloc;
    options.alloc_ud = &left;
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    assert_int_equal(mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe),
                     MPT_OUT_OF_MEMORY);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
    assert_int_equal(left, 4 << 20);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_loop_when_endless_then_it_is_stopped),
    cmocka_unit_test(test_loop_when_inside_pcall_then_it_is_stopped),
    cmocka_unit_test(test_loop_when_in_a_message_handler_then_it_is_stopped),
    cmocka_unit_test(test_loop_when_in_metamethods_then_it_is_stopped),
    cmocka_unit_test(test_c_loops_when_long_then_they_are_charged),
    cmocka_unit_test(test_memory_when_a_table_grows_then_it_is_stopped),
    cmocka_unit_test(test_memory_when_a_string_grows_then_it_is_stopped),
    cmocka_unit_test(test_recursion_when_deep_then_it_is_an_error),
    cmocka_unit_test(test_globals_when_dangerous_then_they_are_absent),
    cmocka_unit_test(test_bytecode_when_given_then_it_is_refused),
    cmocka_unit_test(test_metatables_when_tampered_with_then_it_is_refused),
    cmocka_unit_test(test_require_when_it_leaves_its_folders_then_it_is_refused),
    cmocka_unit_test(test_error_when_it_is_no_text_then_it_is_named),
    cmocka_unit_test(test_error_when_caught_then_the_recipe_goes_on),
    cmocka_unit_test(test_pairs_when_called_then_the_order_is_sorted),
    cmocka_unit_test(test_next_when_called_then_the_order_is_that_of_pairs),
    cmocka_unit_test(test_random_when_run_twice_then_numbers_are_the_same),
    cmocka_unit_test(test_address_when_asked_for_then_only_the_type_is_told),
    cmocka_unit_test(test_print_when_called_then_the_log_has_it),
    cmocka_unit_test(test_predicate_when_endless_then_it_is_stopped),
    cmocka_unit_test(test_host_memory_when_it_ends_then_pcall_cannot_hide_it),
};
MPT_TEST_MAIN(cases)
