/* What every layer stands on: the context, memory, errors, text and names.
 *
 * A context holds all state of one user of the library: allocator, log hook and the last error.
 * There is no other mutable state; one thread uses a context at a time. */
#ifndef MPT_BASE_BASE_H
#define MPT_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpt/mpt.h"
#include "kernels/formats.h"

#define MPT_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#define MPT_COUNT(array)            (sizeof(array) / sizeof((array)[0]))

/* ---- context ---- */

enum { MPT_ERROR_WHERE = 512, MPT_ERROR_TEXT = 2048, MPT_ERROR_HINT = 1024 };

struct mpt_ctx {
    mpt_alloc_fn alloc;
    void *alloc_ud;
    mpt_log_fn log;
    void *log_ud;
    const struct mpt_backend *device_backend; /* of MPT_DEVICE_CUDA; NULL: none was opened */
    char *modules;                            /* where modules are looked for first; or NULL */
    uint64_t
        n_allocs; /* calls of the allocator that asked for memory; a step must not add to it */
    size_t live_bytes;
    size_t peak_bytes;
    /* The last error. Fixed buffers, so that reporting "out of memory" needs no memory. */
    mpt_error error;
    char error_where[MPT_ERROR_WHERE];
    char error_text[MPT_ERROR_TEXT];
    char error_hint[MPT_ERROR_HINT];
    char error_message[MPT_ERROR_WHERE + MPT_ERROR_TEXT + MPT_ERROR_HINT];
};

/* ---- errors ---- */

/* A place in a recipe or model file. The file name outlives the object that holds the place
 * (static or in an arena); file NULL means no place is known, line 0 the file as a whole. */
typedef struct mpt_where {
    const char *file;
    int line;
} mpt_where;

#define MPT_NOWHERE ((mpt_where){NULL, 0})

/* Sets the context's error and gives the code back: `return MPT_FAIL(ctx, MPT_INVALID, where,
 * "precision.rules[2].use: no format '%s'", name);`. The text starts with the field path where
 * there is one; a way out follows by MPT_HINT. */
#define MPT_FAIL(ctx, code, where, ...)                                                        \
    mpt_fail((ctx), (code), (where), __FILE__, __LINE__, __VA_ARGS__)
mpt_status mpt_fail(mpt_ctx *ctx, mpt_status code, mpt_where where, const char *c_file,
                    int c_line, const char *fmt, ...) MPT_PRINTF(6, 7);

/* Adds the way out to the error just set ("did you mean 'rounding'?"). */
void mpt_hint(mpt_ctx *ctx, const char *fmt, ...) MPT_PRINTF(2, 3);

/* For the entry points: a wrong argument of the host ends the call, named. An object without
 * which there is no context gives the bare status. */
#define MPT_REQUIRE_OBJECT(object)                                                             \
    do {                                                                                       \
        if (!(object))                                                                         \
            return MPT_INVALID;                                                                \
    } while (0)
#define MPT_REQUIRE(ctx, argument)                                                             \
    do {                                                                                       \
        if (!(argument))                                                                       \
            return MPT_FAIL((ctx), MPT_INVALID, MPT_NOWHERE, "%s: %s is NULL", __func__,       \
                            #argument);                                                        \
    } while (0)

/* Copies a host's options over the defaults in `out`; those of an older host are shorter, and
 * what it does not know keeps its default. `given` NULL: all defaults. ctx NULL: no text. */
mpt_status mpt_options_read(mpt_ctx *ctx, const char *call, const void *given, void *out,
                            size_t out_bytes);

/* A number of path=value pairs, all there. */
mpt_status mpt_sets_check(mpt_ctx *ctx, const char *call, const char *name, const mpt_set *sets,
                          int n);

/* Passes a failure up. */
#define MPT_TRY(expression)                                                                    \
    do {                                                                                       \
        mpt_status mpt_try_status = (expression);                                              \
        if (mpt_try_status != MPT_OK)                                                          \
            return mpt_try_status;                                                             \
    } while (0)

/* The common failure of every allocation, in one wording. */
mpt_status mpt_fail_memory(mpt_ctx *ctx, size_t bytes);

/* Copies a text with its control characters as \xNN, cut to `size`: what comes from a file or a
 * recipe may end on a terminal. Errors are made so already. */
void mpt_plain(char *out, size_t size, const char *text);

/* A line for the host's log hook; nothing is printed without one. */
void mpt_log(mpt_ctx *ctx, mpt_log_level level, const char *fmt, ...) MPT_PRINTF(3, 4);

/* ---- memory ---- */

/* Sizes that would overflow give SIZE_MAX, which no allocator can serve. */
size_t mpt_size_mul(size_t a, size_t b);
size_t mpt_size_add(size_t a, size_t b);

/* Zeroed memory from the context's allocator, 64-byte aligned; NULL sets no error. */
void *mpt_alloc(mpt_ctx *ctx, size_t bytes);
void mpt_free(mpt_ctx *ctx, void *ptr);

/* Memory that is freed whole: one arena a recipe, one a graph, one a program. */
typedef struct mpt_arena {
    mpt_ctx *ctx;
    struct mpt_chunk *chunks;
} mpt_arena;

void mpt_arena_init(mpt_arena *arena, mpt_ctx *ctx);
void mpt_arena_deinit(mpt_arena *arena);
/* Zeroed, 16-byte aligned; NULL when the allocator refuses, with the context's error set. */
void *mpt_arena_alloc(mpt_arena *arena, size_t bytes);
char *mpt_arena_strdup(mpt_arena *arena, const char *text);
char *mpt_arena_printf(mpt_arena *arena, const char *fmt, ...) MPT_PRINTF(2, 3);

/* Room for one more element at the end of an array in an arena. `array` is NULL at first. Gives
 * the array (moved or not) with n < *cap, or NULL with the error set; the old one stays valid.
 */
void *mpt_arena_grow(mpt_arena *arena, void *array, size_t element_bytes, int n, int *cap);

/* ---- text ---- */

/* A growing string in the context's memory. `failed` sticks, so callers test it once. */
typedef struct mpt_str {
    mpt_ctx *ctx;
    char *data; /* always a C string once something was added, else NULL */
    size_t len;
    size_t cap;
    bool failed;
} mpt_str;

void mpt_str_init(mpt_str *s, mpt_ctx *ctx);
void mpt_str_deinit(mpt_str *s);
void mpt_str_printf(mpt_str *s, const char *fmt, ...) MPT_PRINTF(2, 3);
void mpt_str_vprintf(mpt_str *s, const char *fmt, va_list args) MPT_PRINTF(2, 0);
void mpt_str_append(mpt_str *s, const char *text, size_t len);

/* ---- names ---- */

/* Whether `text` matches a glob of *, ?, [a-z] and {a,b} (nestable). '*' also crosses dots. */
bool mpt_glob_match(const char *glob, const char *text);

/* XXH3-64 of bytes; the one hash of the project (schedules, recipes, operand ids). */
uint64_t mpt_hash(const void *data, size_t bytes);

/* ---- number formats ---- */

const char *mpt_dtype_name(mpt_dtype dtype);
/* MPT_DTYPE_COUNT where no format has the name. */
mpt_dtype mpt_dtype_by_name(const char *name);
int mpt_dtype_bits(mpt_dtype dtype);

#endif
