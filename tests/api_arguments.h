/* For the tests of wrong arguments: every public call answers with MPT_INVALID and names the
 * argument, and none crashes.
 *
 * Each test has a table of rows that begin with the calls they are of, and compares it with
 * its header: assert_header("mpt.h", rows). test_api_arguments.c sees that each header of
 * runtime/include/mpt has such a line. */
#ifndef MPT_TESTS_API_ARGUMENTS_H
#define MPT_TESTS_API_ARGUMENTS_H

#include "mpt/model.h"
#include "mpt_test.h"
#include "safetensors_file.h"

/* What the rows need: one of each object, all sound. */
typedef struct objects {
    mpt_ctx *ctx;
    mpt_recipe *recipe, *open; /* `open` is not compiled */
    mpt_program *program;
    mpt_trainer *trainer;
} objects;

static inline mpt_status build_tiny(void *ud, mpt_nn *nn, bool proxy) {
    (void)ud, (void)proxy;
    mpt_model_value x = mpt_model_embedding(nn, "wte", mpt_model_tokens(nn), 0, 8);
    return mpt_model_cross_entropy(
        nn, mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true)));
}

static inline mpt_recipe *make_recipe(mpt_ctx *ctx, mpt_build_fn build, void *ud) {
    static const mpt_set fields[] = {{"train.steps", "2"},     {"train.batch", "2"},
                                     {"train.sequence", "8"},  {"train.lr", "constant"},
                                     {"train.lr.peak", "0.1"}, {"data", "synthetic"},
                                     {"data.vocab", "32"}};
    mpt_recipe *recipe;
    assert_mpt_ok(ctx, mpt_recipe_create(ctx, "tiny", &recipe));
    assert_mpt_ok(ctx, mpt_recipe_set_model(recipe, "tiny", "8", build, ud));
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, fields[i].path, fields[i].value));
    return recipe;
}

static inline void open_objects(objects *o) {
    o->ctx = mpt_test_ctx();
    o->recipe = make_recipe(o->ctx, build_tiny, NULL);
    o->open = make_recipe(o->ctx, build_tiny, NULL);
    assert_mpt_ok(o->ctx, mpt_compile(o->recipe, NULL, &o->program));
    assert_mpt_ok(o->ctx, mpt_trainer_create(o->program, NULL, &o->trainer));
}

static inline void close_objects(objects *o) {
    mpt_trainer_destroy(o->trainer);
    mpt_program_destroy(o->program);
    mpt_recipe_destroy(o->open);
    mpt_recipe_destroy(o->recipe);
    assert_int_equal(mpt_ctx_memory(o->ctx).live_bytes, 0);
    mpt_ctx_destroy(o->ctx);
}

static inline bool write_nothing(void *ud, const char *text, size_t length) {
    (void)ud, (void)text, (void)length;
    return true;
}

/* The status is MPT_INVALID, and the message holds `named`. */
static inline void refused(mpt_ctx *ctx, mpt_status status, const char *named) {
    const char *message = mpt_ctx_error(ctx)->message;
    if (status != MPT_INVALID || !strstr(message, named))
        fail_msg("expected MPT_INVALID naming '%s', got %s: %s", named, mpt_status_name(status),
                 message);
    (void)MPT_FAIL(ctx, MPT_INTERNAL, MPT_NOWHERE, "the message before"); /* not to be met */
}

/* A call without an object has no context, and so no message. */
#define BARE(expression) assert_int_equal((expression), MPT_INVALID)

/* Wrong calls on the objects. */
typedef struct api_row {
    const char *calls; /* separated by spaces */
    void (*check)(objects *o);
} api_row;

static inline void check_rows(const api_row *rows, size_t n) {
    objects o;
    open_objects(&o);
    for (size_t i = 0; i < n; i++)
        rows[i].check(&o);
    close_objects(&o);
}

/* ---- every public call has a row ---- */

/* A table of any rows whose first member is the text of their calls. */
typedef struct api_table {
    const void *rows;
    size_t n, row_size;
} api_table;

static inline const char *table_calls(const api_table *table, size_t i) {
    return *(const char *const *)(const void *)((const char *)table->rows +
                                                i * table->row_size);
}

/* Whether the words of a text, separated by spaces, have this one of `length` bytes. */
static inline bool has_word(const char *text, const char *word, size_t length) {
    for (; *text; text += strspn(text, " ")) {
        size_t n = strcspn(text, " ");
        if (n == length && memcmp(text, word, n) == 0)
            return true;
        text += n;
    }
    return false;
}

static inline bool table_has(const api_table *table, const char *call, size_t length) {
    for (size_t i = 0; i < table->n; i++)
        if (has_word(table_calls(table, i), call, length))
            return true;
    return false;
}

/* The names in front of '(' behind each MPT_API of a header of runtime/include/mpt, each with
 * a space behind. */
static inline void read_calls(const char *header, char *out, size_t size) {
    char path[512];
    size_t used = 0;
    snprintf(path, sizeof path, "%s/runtime/include/mpt/%s", MPT_SOURCE_DIR, header);
    file_bytes text = bytes_read(path);
    text.data[text.size] = 0;
    *out = 0;
    for (const char *at = (const char *)text.data; (at = strstr(at, "\nMPT_API "));) {
        const char *end = strchr(++at, '('), *name = end;
        assert_non_null(end);
        while (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= 'z'))
            name--;
        used += (size_t)snprintf(out + used, size - used, "%.*s ", (int)(end - name), name);
        assert_true(used < size);
    }
    bytes_free(&text);
}

/* Each public call of the header has a row, and each row is of such calls. */
static inline void check_header(const char *header, api_table table) {
    static char calls[16 * 1024];
    read_calls(header, calls, sizeof calls);
    for (const char *at = calls; *at; at += strcspn(at, " ") + 1)
        if (!table_has(&table, at, strcspn(at, " ")))
            fail_msg("%.*s of %s has no row in this test", (int)strcspn(at, " "), at, header);
    for (size_t i = 0; i < table.n; i++) {
        for (const char *at = table_calls(&table, i); *at; at += strspn(at, " ")) {
            size_t n = strcspn(at, " ");
            if (!has_word(calls, at, n))
                fail_msg("%.*s has a row, but is no call of %s", (int)n, at, header);
            at += n;
        }
    }
}

#define assert_header(header, rows)                                                            \
    check_header(header, (api_table){rows, MPT_COUNT(rows), sizeof *(rows)})

#endif
