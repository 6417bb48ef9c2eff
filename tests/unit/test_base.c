/* base/: sizes, memory, errors, text, names, globs. */
#include "mpt_test.h"

static void test_size_when_it_would_wrap_then_it_saturates(void **state) {
    (void)state;
    assert_int_equal(mpt_size_mul(3, 4), 12);
    assert_true(mpt_size_mul(SIZE_MAX / 2, 3) == SIZE_MAX);
    assert_true(mpt_size_add(SIZE_MAX - 1, 2) == SIZE_MAX);
}

static void test_alloc_when_freed_then_nothing_is_live(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    void *p = mpt_alloc(ctx, 1000);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_true(mpt_ctx_memory(ctx).live_bytes >= 1000);
    mpt_free(ctx, p);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    assert_null(mpt_alloc(ctx, SIZE_MAX - 8));
    mpt_ctx_destroy(ctx);
}

static void test_arena_when_grown_then_elements_stay(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    int *list = NULL, cap = 0;
    for (int i = 0; i < 1000; i++) {
        list = mpt_arena_grow(&arena, list, sizeof *list, i, &cap);
        assert_non_null(list);
        list[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(list[i], i);
    assert_string_equal(mpt_arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
    mpt_arena_deinit(&arena);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_error_when_it_holds_control_characters_then_they_are_escaped(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_where where = {"a\nb.lua", 3};
    (void)MPT_FAIL(ctx, MPT_INVALID, where, "%s", "\x1b[31mred\r\n\x7f \xc3\xa9");
    mpt_hint(ctx, "not '%s'", "\t");
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "a\\x0ab.lua:3: \\x1b[31mred\\x0d\\x0a\\x7f \xc3\xa9; not '\\x09'");
    char longest[2 * MPT_ERROR_TEXT];
    for (int c = '\n'; c <= 'x'; c += 'x' - '\n') { /* neither kind leaves the buffer */
        memset(longest, c, sizeof longest);
        longest[sizeof longest - 1] = 0;
        (void)MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s", longest);
        assert_true(strlen(mpt_ctx_error(ctx)->text) < MPT_ERROR_TEXT);
        assert_true(strlen(mpt_ctx_error(ctx)->text) > MPT_ERROR_TEXT - 8);
    }
    mpt_ctx_destroy(ctx);
}

static void test_error_when_set_then_message_has_place_fault_and_way_out(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_where where = {"a.lua", 14};
    assert_int_equal(MPT_FAIL(ctx, MPT_INVALID, where, "x.y: no rounding '%s'", "stochastc"),
                     MPT_INVALID);
    mpt_hint(ctx, "did you mean '%s'?", "stochastic");
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "a.lua:14: x.y: no rounding 'stochastc'; did you mean 'stochastic'?");
    assert_int_equal(mpt_ctx_error(ctx)->line, 14);
    mpt_ctx_destroy(ctx);
}

static void test_str_when_appended_then_it_grows(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str s;
    mpt_str_init(&s, ctx);
    for (int i = 0; i < 1000; i++)
        mpt_str_printf(&s, "%04d", i);
    assert_int_equal(s.len, 4000);
    assert_memory_equal(s.data + 3996, "0999", 5);
    mpt_str_deinit(&s);
    mpt_ctx_destroy(ctx);
}

static void test_nearest_when_one_slip_then_found_and_when_far_then_null(void **state) {
    (void)state;
    static const char *const names[] = {"rounding", "block", "hadamard", "scale"};
    assert_string_equal(mpt_nearest("roundng", names, 4), "rounding");
    assert_string_equal(mpt_nearest("hadmaard", names, 4), "hadamard");
    assert_string_equal(mpt_nearest("blok", names, 4), "block");
    assert_null(mpt_nearest("temperature", names, 4));
    for (int i = 0; i < 4; i++) { /* never the word itself */
        const char *near = mpt_nearest(names[i], names, 4);
        assert_true(!near || strcmp(near, names[i]) != 0);
    }
}

static void test_glob_when_patterns_vary_then_matches_as_documented(void **state) {
    (void)state;
    assert_true(mpt_glob_match("*.o_proj", "layers.3.mixer.o_proj"));
    assert_false(mpt_glob_match("*.o_proj", "layers.3.mixer.o_proj2"));
    assert_true(mpt_glob_match("layers.{0,1}.mixer.*", "layers.1.mixer.up_proj"));
    assert_false(mpt_glob_match("layers.{0,1}.mixer.*", "layers.2.mixer.up_proj"));
    assert_true(mpt_glob_match("h.[0-3].attn.?_attn", "h.2.attn.c_attn"));
    assert_false(mpt_glob_match("h.[0-3].*", "h.7.mlp"));
    assert_true(mpt_glob_match("*", ""));
    assert_false(mpt_glob_match("", "x"));
    assert_true(mpt_glob_match("a{b,c{d,e}}f", "acef"));
}

static void test_dtype_when_named_then_found_again(void **state) {
    (void)state;
    for (int i = 0; i < MPT_DTYPE_COUNT; i++)
        assert_int_equal(mpt_dtype_by_name(mpt_dtype_name((mpt_dtype)i)), i);
    assert_int_equal(mpt_dtype_by_name("fp3"), MPT_DTYPE_COUNT);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_size_when_it_would_wrap_then_it_saturates),
    cmocka_unit_test(test_alloc_when_freed_then_nothing_is_live),
    cmocka_unit_test(test_arena_when_grown_then_elements_stay),
    cmocka_unit_test(test_error_when_it_holds_control_characters_then_they_are_escaped),
    cmocka_unit_test(test_error_when_set_then_message_has_place_fault_and_way_out),
    cmocka_unit_test(test_str_when_appended_then_it_grows),
    cmocka_unit_test(test_nearest_when_one_slip_then_found_and_when_far_then_null),
    cmocka_unit_test(test_glob_when_patterns_vary_then_matches_as_documented),
    cmocka_unit_test(test_dtype_when_named_then_found_again),
};

MPT_TEST_MAIN(cases)
