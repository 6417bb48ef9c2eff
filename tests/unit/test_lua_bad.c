/* tests/lua/bad/: recipes that must be refused, each with the message it gets, verbatim, in its
 * first line. They are what people get wrong, and what the ill-meaning try: none may take two
 * seconds of a processor or 128 MB.
 *
 * A file says `-- refused: MESSAGE`, in which the file's own name stands without a folder;
 * MPT_UPDATE_GOLDEN=1 writes these lines anew. */
#include "mpt_test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "golden_text.h"
#include "mpt/mpt.h"

enum { BAD_MAX = 256, BAD_NAME = 64, LEAST_FILES = 100, PARTS = 6, MESSAGE = 1024 };
#define FOLDER MPT_TESTS_DIR "/lua/bad"

typedef struct bad_list {
    int n;
    char names[BAD_MAX][BAD_NAME];
} bad_list;

static int compare(const void *a, const void *b) {
    return strcmp(a, b);
}

static void list_files(bad_list *list) {
    DIR *dir = opendir(FOLDER);
    assert_non_null(dir);
    list->n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 4, ".lua") != 0)
            continue;
        assert_true(list->n < BAD_MAX && n < BAD_NAME);
        memcpy(list->names[list->n++], entry->d_name, n + 1);
    }
    closedir(dir);
    qsort(list->names, (size_t)list->n, BAD_NAME, compare);
}

/* ---- the message that is expected, and the one that came ---- */

static void expected_message(mpt_ctx *ctx, const char *path, char out[MESSAGE]) {
    static const char head[] = "-- refused: ";
    mpt_str text;
    mpt_str_init(&text, ctx);
    assert_true(golden_read(path, &text));
    if (strncmp(text.data, head, sizeof head - 1) != 0)
        fail_msg("%s does not begin with '%s'", path, head);
    const char *from = text.data + sizeof head - 1;
    snprintf(out, MESSAGE, "%.*s", (int)strcspn(from, "\n"), from);
    mpt_str_deinit(&text);
}

/* The message without the folders of this tree, wherever they stand in it. */
static void strip_folders(const char *message, char out[MESSAGE]) {
    static const char *const folders[] = {FOLDER "/", MPT_SOURCE_DIR "/"};
    size_t n = 0;
    while (*message && n + 1 < MESSAGE) {
        size_t skip = 0;
        for (size_t i = 0; i < MPT_COUNT(folders) && skip == 0; i++)
            if (strncmp(message, folders[i], strlen(folders[i])) == 0)
                skip = strlen(folders[i]);
        if (skip == 0)
            out[n++] = *message++;
        message += skip;
    }
    out[n] = 0;
}

/* Puts the message that came into the first line, where golden texts are written anew. */
static void update_file(mpt_ctx *ctx, const char *path, const char *message) {
    mpt_str text, fresh;
    mpt_str_init(&text, ctx);
    mpt_str_init(&fresh, ctx);
    assert_true(golden_read(path, &text));
    mpt_str_printf(&fresh, "-- refused: %s%s", message, strchr(text.data, '\n'));
    golden_write(path, &fresh);
    mpt_str_deinit(&text);
    mpt_str_deinit(&fresh);
}

/* Loads and compiles; one of the two must refuse. */
static void refuse_file(mpt_ctx *ctx, const char *path) {
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_status status = mpt_recipe_load_file(ctx, path, NULL, &recipe);
    if (status == MPT_OK)
        status = mpt_compile(recipe, NULL, &program);
    if (status == MPT_OK)
        fail_msg("%s was not refused", path);
    assert_int_equal(status, MPT_INVALID);
    assert_null(program);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
}

/* ---- what it cost ---- */

/* Sanitizers make everything several times slower and larger; the caps are of the plain build.
 */
#if defined(__SANITIZE_ADDRESS__)
static const double most_seconds = 20;
static const long most_kilobytes = 4L << 20;
#else
static const double most_seconds = 2;
static const long most_kilobytes = 128L << 10;
#endif

static void check_file(const char *name) {
    char path[512], expected[MESSAGE], message[MESSAGE];
    mpt_ctx *ctx = mpt_test_ctx();
    snprintf(path, sizeof path, "%s/%s", FOLDER, name);
    expected_message(ctx, path, expected);
    clock_t began = clock();
    refuse_file(ctx, path);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    strip_folders(mpt_ctx_error(ctx)->message, message);
    if (getenv("MPT_UPDATE_GOLDEN"))
        update_file(ctx, path, message);
    else if (strcmp(message, expected) != 0)
        fail_msg("%s\n  expected: %s\n  got:      %s", name, expected, message);
    if (seconds > most_seconds)
        fail_msg("%s took %.1f s", name, seconds);
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    if (usage.ru_maxrss > most_kilobytes)
        fail_msg("%s took %ld KB", name, usage.ru_maxrss);
    mpt_ctx_destroy(ctx);
}

/* Every PARTS-th file, so that the cases run side by side. */
static void check_part(int part) {
    bad_list list;
    list_files(&list);
    for (int i = part; i < list.n; i += PARTS)
        check_file(list.names[i]);
}

static void test_bad_when_counted_then_there_are_enough(void **state) {
    (void)state;
    bad_list list;
    list_files(&list);
    assert_true(list.n >= LEAST_FILES);
}

static void test_bad_when_loaded_then_refused_in_these_words_1(void **state) {
    (void)state;
    check_part(0);
}

static void test_bad_when_loaded_then_refused_in_these_words_2(void **state) {
    (void)state;
    check_part(1);
}

static void test_bad_when_loaded_then_refused_in_these_words_3(void **state) {
    (void)state;
    check_part(2);
}

static void test_bad_when_loaded_then_refused_in_these_words_4(void **state) {
    (void)state;
    check_part(3);
}

static void test_bad_when_loaded_then_refused_in_these_words_5(void **state) {
    (void)state;
    check_part(4);
}

static void test_bad_when_loaded_then_refused_in_these_words_6(void **state) {
    (void)state;
    check_part(5);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_bad_when_counted_then_there_are_enough),
    cmocka_unit_test(test_bad_when_loaded_then_refused_in_these_words_1),
    cmocka_unit_test(test_bad_when_loaded_then_refused_in_these_words_2),
    cmocka_unit_test(test_bad_when_loaded_then_refused_in_these_words_3),
    cmocka_unit_test(test_bad_when_loaded_then_refused_in_these_words_4),
    cmocka_unit_test(test_bad_when_loaded_then_refused_in_these_words_5),
    cmocka_unit_test(test_bad_when_loaded_then_refused_in_these_words_6),
};
MPT_TEST_MAIN(cases)
