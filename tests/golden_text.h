/* Compares a text with a committed file, line by line. Set MPT_UPDATE_GOLDEN to write the file
 * instead, and read the difference before committing it. */
#ifndef MPT_GOLDEN_TEXT_H
#define MPT_GOLDEN_TEXT_H

#include <stdlib.h>

/* Reads a whole file into a string builder; false where it cannot be opened. */
static inline bool golden_read(const char *path, mpt_str *out) {
    char piece[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
        mpt_str_append(out, piece, n);
    fclose(file);
    return true;
}

static inline void golden_write(const char *path, const mpt_str *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text->data, 1, text->len, file), text->len);
    assert_int_equal(fclose(file), 0);
}

/* Asserts that `text` is the file at `path`. */
static inline void assert_golden_file(const mpt_str *text, const char *path) {
    mpt_str expected;
    assert_false(text->failed);
    if (getenv("MPT_UPDATE_GOLDEN"))
        golden_write(path, text);
    mpt_str_init(&expected, text->ctx);
    if (!golden_read(path, &expected))
        fail_msg("%s: cannot be read", path);
    const char *a = expected.data ? expected.data : "", *b = text->data ? text->data : "";
    for (int line = 1; *a || *b; line++) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0)
            fail_msg("%s:%d:\n  file: %.*s\n  text: %.*s", path, line, (int)n, a, (int)m, b);
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    mpt_str_deinit(&expected);
}

/* Asserts that `text` is tests/golden/NAME. */
static inline void assert_golden(const mpt_str *text, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s", MPT_TESTS_DIR, name);
    assert_golden_file(text, path);
}

#endif
