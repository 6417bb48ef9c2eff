/* compare.json: which runs a comparison is of. It is written before the first is trained, so
 * that whatever ends the command, what is there can be compared. */
#include <math.h>
#include <string.h>

#include "io/file.h"
#include "io/file_write.h"
#include "plan/json.h"
#include "report/compare.h"

static const char start[] = "{\"comparison\":";

/* ---- writing ---- */

const char *mpt_compare_below(const char *folder, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash + 1 - path) : 0;
    if (n == 0)
        return folder[0] == '/' || strncmp(folder, "..", 2) == 0 ? NULL : folder;
    return strncmp(folder, path, n) == 0 && folder[n] ? folder + n : NULL;
}

static json_t *runs_json(const mpt_comparison *c, const char *path) {
    json_t *array = json_array();
    for (int i = 0; array && i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i];
        const char *below = mpt_compare_below(run->folder, path);
        json_t *row = json_pack("{s:o, s:o, s:i, s:I}", "folder",
                                mpt_json_text(below ? below : run->folder), "recipe",
                                mpt_json_text(run->name), "number", run->recipe, "seed",
                                (json_int_t)run->seed);
        if (json_array_append_new(array, row) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static bool is_index(const char *path, const unsigned char *bytes, size_t n) {
    (void)path;
    return n == sizeof start - 1 && memcmp(bytes, start, n) == 0;
}

/* The first bytes are always the same: what may be replaced is known by them. */
static mpt_status index_text(const mpt_comparison *c, const char *path, mpt_str *out) {
    double within = c->options.within;
    json_t *rest =
        json_pack("{s:b, s:o, s:o}", "sweep", c->options.sweep, "within",
                  within >= 0 ? json_real(within) : json_null(), "runs", runs_json(c, path));
    mpt_str_printf(out, "%s\n", start);
    MPT_TRY(mpt_json_print(c->ctx, rest, out));
    mpt_str_printf(out, "}\n");
    return out->failed ? mpt_fail_memory(c->ctx, out->cap) : MPT_OK;
}

mpt_status mpt_comparison_write_index(const mpt_comparison *comparison, const char *path) {
    static const mpt_file_kind kind = {"list of compared runs", sizeof start - 1, is_index};
    mpt_file_writer *writer = NULL;
    mpt_str text;
    MPT_REQUIRE_OBJECT(comparison);
    MPT_REQUIRE(comparison->ctx, path);
    mpt_str_init(&text, comparison->ctx);
    mpt_status status = index_text(comparison, path, &text);
    if (status == MPT_OK)
        status = mpt_file_create(comparison->ctx, path, text.len, &kind, &writer);
    if (status == MPT_OK) {
        memcpy(mpt_file_bytes(writer), text.data, text.len);
        status = mpt_file_commit(writer);
    }
    mpt_str_deinit(&text);
    return status;
}

/* ---- reading ---- */

static mpt_status fail(mpt_ctx *ctx, const char *path, const char *what) {
    return MPT_FAIL(ctx, MPT_DATA, ((mpt_where){path, 0}), "%s", what);
}

static bool has_files(mpt_arena *arena, const char *folder, bool *out) {
    static const char *const names[] = {"plan.json", "metrics.jsonl", "timing.jsonl"};
    *out = true;
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        const char *path = mpt_arena_printf(arena, "%s/%s", folder, names[i]);
        if (!path)
            return false;
        *out = *out && mpt_file_exists(path);
    }
    return true;
}

static mpt_status read_run(mpt_ctx *ctx, mpt_arena *arena, const char *path, const json_t *row,
                           mpt_compare_run *out) {
    const char *folder = json_string_value(json_object_get(row, "folder"));
    const char *name = json_string_value(json_object_get(row, "recipe")),
               *slash = strrchr(path, '/');
    const json_t *seed = json_object_get(row, "seed"), *number = json_object_get(row, "number");
    json_int_t recipe = json_integer_value(number);
    bool there;
    if (!folder || !*folder || !name || !json_is_integer(seed) || !json_is_integer(number) ||
        recipe < 0 || recipe > INT32_MAX)
        return fail(ctx, path, "runs: one is no run with folder, recipe, number and seed");
    out->folder = folder[0] == '/' || !slash
                      ? mpt_arena_strdup(arena, folder)
                      : mpt_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, folder);
    out->name = mpt_arena_strdup(arena, name);
    out->recipe = (int)recipe;
    out->seed = (uint64_t)json_integer_value(seed);
    if (!out->folder || !out->name || !has_files(arena, out->folder, &there))
        return MPT_OUT_OF_MEMORY;
    out->not_begun = !there;
    return MPT_OK;
}

static mpt_status open_index(mpt_ctx *ctx, mpt_arena *arena, const char *path,
                             const json_t *index, mpt_comparison **out) {
    const json_t *all = json_object_get(index, "comparison"),
                 *rows = json_object_get(all, "runs"), *within = json_object_get(all, "within");
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    size_t n = json_array_size(rows);
    if (n == 0 || n > INT32_MAX / 2)
        return fail(ctx, path, "no list of compared runs");
    options.sweep = json_is_true(json_object_get(all, "sweep"));
    options.within = json_is_number(within) ? json_number_value(within) : -1;
    mpt_compare_run *runs = mpt_arena_alloc(arena, mpt_size_mul(n, sizeof *runs));
    if (!runs)
        return MPT_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        MPT_TRY(read_run(ctx, arena, path, json_array_get(rows, i), &runs[i]));
    mpt_status status = mpt_comparison_make(ctx, runs, (int)n, &options, true, out);
    return status == MPT_INVALID ? fail(ctx, path, "runs: their recipes are not numbered")
                                 : status;
}

mpt_status mpt_comparison_open(mpt_ctx *ctx, const char *path, mpt_comparison **out) {
    mpt_file_map map;
    mpt_arena arena;
    json_error_t why;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_REQUIRE(ctx, path);
    MPT_TRY(mpt_file_map_open(ctx, MPT_NOWHERE, path, &map));
    json_t *index = json_loadb((const char *)map.data, map.size, 0, &why);
    bool memory = !index && json_error_code(&why) == json_error_out_of_memory;
    mpt_arena_init(&arena, ctx);
    mpt_status status = memory  ? mpt_fail_memory(ctx, map.size)
                        : index ? open_index(ctx, &arena, path, index, out)
                                : fail(ctx, path, "not JSON, so no list of compared runs");
    mpt_arena_deinit(&arena);
    json_decref(index);
    mpt_file_map_close(&map);
    return status;
}
