/* lua/bind/source.c: the line of a key in a chunk's text. */
#include "mpt_test.h"

#include "lua/bind/source.h"

/* The line of `a.b.3`, numbers being positions, inside the call of `word` on `line`. */
static int find(const char *text, int line, const char *word, const char *dotted) {
    mpt_source_key path[8];
    char copy[64];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", dotted);
    for (char *part = strtok(copy, "."); part; part = strtok(NULL, ".")) {
        path[n] = (mpt_source_key){.name = part};
        if (*part >= '0' && *part <= '9')
            path[n] = (mpt_source_key){.index = *part - '0'};
        n++;
    }
    return mpt_source_line(text, strlen(text), line, word, path, n);
}

static void test_line_when_the_key_is_below_the_call_then_it_is_found(void **state) {
    (void)state;
    assert_int_equal(find("f {\n a = 1,\n b = 2,\n}", 1, "f", "b"), 3);
    assert_int_equal(find("f { a = 1, b = 2 }", 1, "f", "b"), 1);
    assert_int_equal(find("f {\n a = 1;\n ['b'] = 2 }", 1, "f", "b"), 3);
    assert_int_equal(find("f {\n a = 1,\n [\n'b'] = 2 }", 1, "f", "b"), 4);
    assert_int_equal(find("f\n{\n b = 2 }", 1, "f", "b"), 3);
    assert_int_equal(find("f({\n b = 2 })", 1, "f", "b"), 2);
    assert_int_equal(find("\nreturn f {\n\n b = 2 }", 2, "f", "b"), 4);
}

static void test_line_when_the_path_is_deep_then_each_step_is_followed(void **state) {
    (void)state;
    static const char text[] = "recipe {\n"
                               "  x = { lr = 0 },\n"
                               "  train = {\n"
                               "    eval = {\n"
                               "      every = 1 },\n"
                               "    lr = 2,\n"
                               "  },\n"
                               "  lr = 3 }\n";
    assert_int_equal(find(text, 1, "recipe", "train.lr"), 6);
    assert_int_equal(find(text, 1, "recipe", "train.eval.every"), 5);
    assert_int_equal(find(text, 1, "recipe", "lr"), 8);
    assert_int_equal(find(text, 1, "recipe", "x.lr"), 2);
}

static void test_line_when_keys_are_positions_then_they_are_counted(void **state) {
    (void)state;
    static const char text[] = "f {\n 'a',\n k = 1, g { 1, 2 },\n { 5,\n 6 },\n [9] = 1 }";
    assert_int_equal(find(text, 1, "f", "1"), 2);
    assert_int_equal(find(text, 1, "f", "2"), 3);
    assert_int_equal(find(text, 1, "f", "3"), 4);
    assert_int_equal(find(text, 1, "f", "3.2"), 5);
    assert_int_equal(find(text, 1, "f", "9"), 6);
}

static void
test_line_when_comments_and_strings_hold_braces_then_they_are_skipped(void **state) {
    (void)state;
    assert_int_equal(find("f { -- } b = 1\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("f { --[[ }\n b = 1 ]] a = 1,\n b = 2 }", 1, "f", "b"), 3);
    assert_int_equal(find("f { --[==[ ]]\n}]==]\n b = 2 }", 1, "f", "b"), 3);
    assert_int_equal(find("f { a = '}', c = \"\\\"}\",\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("f { a = [[\n}\nb = 1]],\n b = 2 }", 1, "f", "b"), 4);
    assert_int_equal(find("f { a = [=[]]\n}]=],\n b = 2 }", 1, "f", "b"), 3);
    assert_int_equal(find("f { a = t[i[1]],\n b = 2 }", 1, "f", "b"), 2);
}

static void test_line_when_values_are_expressions_then_they_are_stepped_over(void **state) {
    (void)state;
    assert_int_equal(find("f { a = g { b = 1 },\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("f { a = (1 + g(2, 3)) * #t[1],\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("f { a = function(x, y)\n if x then local b = 1, 2 end\n"
                          " for i = 1, 2 do local t = { b = 1 } end\n"
                          " repeat local z until x, y\n while x do end return x, y end,\n"
                          " b = 2 }",
                          1, "f", "b"),
                     6);
    assert_int_equal(find("f { a == b, c >= 1, b ~= 2,\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("f { a = 4.5e-4, c = 0x1p-3,\n b = 2 }", 1, "f", "b"), 2);
}

static void test_line_when_several_calls_share_a_line_then_the_key_decides(void **state) {
    (void)state;
    assert_int_equal(find("g { x = f { a = 1 }, y = f { c = 1,\n b = 2 } }", 1, "f", "b"), 2);
    assert_int_equal(find("g { b = 1 } f {\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("f {\n b = 1 } g {\n b = 2 }", 1, "f", "b"), 2);
    assert_int_equal(find("local alias = f\nalias {\n b = 1 }", 2, "f", "b"), 3);
    assert_int_equal(find("f { b = 1 }\nf {\n b = 1 }", 2, "f", "b"), 3);
}

static void test_line_when_the_call_has_other_arguments_then_the_table_is_found(void **state) {
    (void)state;
    assert_int_equal(
        find("derive(require 'x', {\n a = { c = 1 },\n b = 2 })", 1, "derive", "b"), 3);
    assert_int_equal(find("derive(require 'x',\n{\n a = {\n b = 2 } })", 1, "derive", "a.b"),
                     4);
    assert_int_equal(find("require 'm' {\n b = 2 }", 1, "m", "b"), 2);
}

static void test_line_when_the_path_ends_early_then_its_last_key_is_named(void **state) {
    (void)state;
    assert_int_equal(find("local t = { b = 1 }\nf {\n a = t }", 2, "f", "a.b"), 3);
    assert_int_equal(find("f {\n a = 1 }", 1, "f", "b"), 1);
    assert_int_equal(find("f {\n a = { c = 1 } }", 1, "f", "a.b"), 2);
    assert_int_equal(find("nothing here", 1, "f", "b"), 1);
    assert_int_equal(find("", 7, "f", "b"), 7);
}

static void test_line_when_the_text_is_broken_then_it_still_ends(void **state) {
    (void)state;
    assert_int_equal(find("f { a = 'open", 1, "f", "b"), 1);
    assert_int_equal(find("f { a = [[open", 1, "f", "b"), 1);
    assert_int_equal(find("f { --[[ open", 1, "f", "b"), 1);
    assert_int_equal(find("}}} ))) ]] f {\n b = 1", 1, "f", "b"), 2);
    assert_int_equal(find("f {\n [", 1, "f", "b"), 1);
    assert_int_equal(find("f { ,,,;;\n b = 1 }", 1, "f", "b"), 2);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_line_when_the_key_is_below_the_call_then_it_is_found),
    cmocka_unit_test(test_line_when_the_path_is_deep_then_each_step_is_followed),
    cmocka_unit_test(test_line_when_keys_are_positions_then_they_are_counted),
    cmocka_unit_test(test_line_when_comments_and_strings_hold_braces_then_they_are_skipped),
    cmocka_unit_test(test_line_when_values_are_expressions_then_they_are_stepped_over),
    cmocka_unit_test(test_line_when_several_calls_share_a_line_then_the_key_decides),
    cmocka_unit_test(test_line_when_the_call_has_other_arguments_then_the_table_is_found),
    cmocka_unit_test(test_line_when_the_path_ends_early_then_its_last_key_is_named),
    cmocka_unit_test(test_line_when_the_text_is_broken_then_it_still_ends),
};
MPT_TEST_MAIN(cases)
