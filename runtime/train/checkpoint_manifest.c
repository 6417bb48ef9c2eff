/* checkpoint.json: whose state a checkpoint is, and the sum of every file, its own included.
 *
 * The file is one JSON object whose last member is the XXH3-64 of all bytes before it; the
 * bytes behind are fixed, so no byte of it can change unseen. It is written as the last, when
 * the sums of the other files are known. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dir.h"
#include "io/file.h"
#include "io/file_write.h"

#define FORMAT "mpt checkpoint"
enum { VERSION = 1 };

/* ---- making ---- */

/* A text as JSON has it; bytes that are no UTF-8 are written out. */
static json_t *text_of(const char *text) {
    json_t *json = json_string(text);
    if (json)
        return json;
    size_t room = 4 * strlen(text) + 1;
    char *plain = malloc(room);
    size_t n = 0;
    for (; plain && *text; text++) {
        unsigned char c = (unsigned char)*text;
        n += (size_t)snprintf(plain + n, room - n, c < 0x80 ? "%c" : "\\x%02x", c);
    }
    json = plain ? json_stringn(plain, n) : NULL;
    free(plain);
    return json;
}

static json_t *phases_json(const mpt_program *program) {
    json_t *list = json_array();
    bool failed = !list;
    for (int p = 0; p < program->n_phases && !failed; p++) {
        json_t *name = text_of(program->phases[p]->phase);
        failed =
            json_array_append_new(list, json_pack("{s:o, s:s}", "name", name, "schedule_hash",
                                                  program->phases[p]->schedule_hash)) != 0;
    }
    return list;
}

/* "fp32 [256, 64], moments bf16 bf16": what must be the same whatever the recipe says. */
static json_t *param_json(const mpt_graph *graph, const mpt_param *param) {
    const mpt_value *value = &graph->values[param->value];
    char text[256];
    int n = snprintf(text, sizeof text, "%s [", mpt_dtype_name(value->dtype));
    for (int d = 0; d < value->rank; d++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRId64, d ? ", " : "",
                      value->dims[d]);
    n += snprintf(text + n, sizeof text - (size_t)n, "]");
    for (int m = 0; m < 2; m++)
        if (param->moment[m] >= 0)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s %s", m ? "" : ", moments",
                          mpt_dtype_name(graph->values[param->moment[m]].dtype));
    return json_string(text);
}

static json_t *params_json(const mpt_graph *graph) {
    json_t *object = json_object();
    bool failed = !object;
    for (int p = 0; p < graph->n_params && !failed; p++)
        failed = json_object_set_new(object, graph->params[p].name,
                                     param_json(graph, &graph->params[p])) != 0;
    return object;
}

/* What training would draw, wherever the files lie: every id of them, and, for how they are
 * drawn, some rows and the validation's first window; as 16 digits, none where the host gives
 * the tokens. */
static mpt_status sum_of_data(const mpt_program *program, char out[17]) {
    enum { ROWS = 64 };
    int64_t n = program->train.sequence;
    uint64_t chain[2] = {program->data ? mpt_data_sum(program->data) : 0, 0};
    size_t bytes = mpt_size_mul(2 * sizeof(int32_t), (size_t)n);
    out[0] = 0;
    if (!program->data || program->phases[0]->graph->own_tokens)
        return MPT_OK;
    int32_t *tokens = mpt_alloc(program->ctx, bytes);
    if (!tokens)
        return mpt_fail_memory(program->ctx, bytes);
    for (int64_t step = 0; step < ROWS; step++) {
        mpt_data_train(program->data, 0, step, 0, tokens, tokens + n);
        chain[1] = mpt_hash(tokens, bytes);
        chain[0] = mpt_hash(chain, sizeof chain);
    }
    if (mpt_data_n_windows(program->data) > 0) {
        mpt_data_window(program->data, 0, tokens, tokens + n);
        chain[1] = mpt_hash(tokens, bytes);
        chain[0] = mpt_hash(chain, sizeof chain);
    }
    mpt_free(program->ctx, tokens);
    snprintf(out, 17, "%016" PRIx64, chain[0]);
    return MPT_OK;
}

mpt_status mpt_manifest_make(const mpt_trainer *trainer, json_t **out) {
    const mpt_program *program = trainer->program;
    const mpt_graph *graph = program->phases[0]->graph;
    const char *root = trainer->root ? trainer->root : mpt_weights_root(graph, 0);
    bool sgd = program->train.optimizer.kind == MPT_OPTIMIZER_SGD;
    char data_sum[17];
    *out = NULL;
    MPT_TRY(sum_of_data(program, data_sum));
    *out = json_pack(
        "{s:s, s:i, s:s, s:I, s:I, s:I, s:b, s:s, s:o, s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:s}",
        "format", FORMAT, "version", VERSION, "mpt", mpt_version(), "step",
        (json_int_t)trainer->attempted, "tokens", (json_int_t)trainer->tokens_seen,
        "metrics_bytes", (json_int_t)trainer->metrics_bytes, "gave_up",
        trainer->diagnosis.reason != MPT_STOP_NONE, "device", program->phases[0]->backend->name,
        "phase", text_of(mpt_trainer_phase(trainer)), "recipe_hash", program->recipe_hash,
        "recipe", text_of(program->fields), "phases", phases_json(program), "data",
        text_of(program->data ? mpt_data_describe(program->data) : ""), "data_xxh3", data_sum,
        "optimizer", sgd ? "sgd" : "adamw", "parameters", params_json(graph), "root", root);
    return *out ? MPT_OK : mpt_fail_memory(trainer->ctx, (size_t)graph->n_params);
}

/* ---- sums ---- */

/* The sum of one file; a file that is not there is a damage of the checkpoint. */
static mpt_status sum_up(mpt_ctx *ctx, const char *path, size_t *out_bytes, uint64_t *out_sum) {
    mpt_file_map map;
    MPT_TRY(mpt_file_map_open(ctx, MPT_NOWHERE, path, &map));
    *out_bytes = map.size;
    *out_sum = mpt_hash(map.data, map.size);
    mpt_file_map_close(&map);
    return MPT_OK;
}

static mpt_status add_file(mpt_arena *arena, const char *folder, const char *name,
                           json_t *files) {
    char sum_text[17];
    size_t bytes;
    uint64_t sum;
    const char *path = mpt_arena_printf(arena, "%s/%s", folder, name);
    if (!path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(sum_up(arena->ctx, path, &bytes, &sum));
    snprintf(sum_text, sizeof sum_text, "%016" PRIx64, sum);
    json_t *file = json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)bytes,
                             "xxh3", sum_text);
    return json_array_append_new(files, file) == 0 ? MPT_OK : mpt_fail_memory(arena->ctx, 1);
}

static mpt_status add_files(mpt_ctx *ctx, const char *folder, json_t *manifest) {
    mpt_dir_names names;
    mpt_arena arena;
    json_t *files = json_array();
    if (json_object_set_new(manifest, "files", files) != 0)
        return mpt_fail_memory(ctx, 1);
    mpt_arena_init(&arena, ctx);
    mpt_status status = mpt_dir_list(&arena, folder, &names);
    for (int i = 0; i < names.n && status == MPT_OK; i++)
        status = add_file(&arena, folder, names.names[i], files);
    mpt_arena_deinit(&arena);
    return status;
}

/* ---- the file ---- */

/* What follows the summed bytes, in full length. */
enum { TAIL = sizeof ",\n  \"xxh3\": \"0123456789abcdef\"\n}\n" - 1 };
typedef struct tail_text {
    char text[TAIL + 1];
} tail_text;

static tail_text tail_of(const char *bytes, size_t n) {
    tail_text tail;
    snprintf(tail.text, sizeof tail.text, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n",
             mpt_hash(bytes, n));
    return tail;
}

static bool starts_as_json(const char *path, const unsigned char *start, size_t n) {
    (void)path;
    return n > 0 && start[0] == '{';
}

mpt_status mpt_manifest_write(mpt_ctx *ctx, const char *folder, json_t *manifest) {
    static const mpt_file_kind kind = {"JSON file", 1, starts_as_json};
    char path[4200];
    mpt_file_writer *file;
    MPT_TRY(add_files(ctx, folder, manifest));
    snprintf(path, sizeof path, "%s/" MPT_CHECKPOINT_MANIFEST, folder);
    char *text = json_dumps(manifest, JSON_INDENT(2));
    if (!text)
        return mpt_fail_memory(ctx, 1);
    size_t n = strlen(text) - 2; /* without its "\n}" */
    tail_text tail = tail_of(text, n);
    mpt_status status = mpt_file_create(ctx, path, n + TAIL, &kind, &file);
    if (status == MPT_OK) {
        char *bytes = mpt_file_bytes(file);
        memcpy(bytes, text, n);
        memcpy(bytes + n, tail.text, TAIL);
        status = mpt_file_commit(file);
    }
    free(text);
    return status;
}

/* ---- reading ---- */

static mpt_status damaged(mpt_ctx *ctx, const char *path, const char *how) {
    mpt_status status = MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE, "%s: %s", path, how);
    mpt_hint(ctx, "the checkpoint is not whole: take another one");
    return status;
}

static mpt_status parse(mpt_ctx *ctx, const char *path, const mpt_file_map *map, json_t **out) {
    json_error_t error;
    const char *bytes = (const char *)map->data;
    if (map->size < TAIL)
        return damaged(ctx, path, "is cut off");
    tail_text tail = tail_of(bytes, map->size - TAIL);
    if (memcmp(bytes + map->size - TAIL, tail.text, TAIL) != 0)
        return damaged(ctx, path, "its bytes do not have their sum");
    *out = json_loadb(bytes, map->size, JSON_REJECT_DUPLICATES, &error);
    if (!*out || strcmp(mpt_manifest_text(*out, "format"), FORMAT) != 0)
        return damaged(ctx, path, "is no checkpoint's");
    if (json_integer_value(json_object_get(*out, "version")) == VERSION)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                 "%s: was written by mpt %s in a form that this mpt does not know", path,
                 mpt_manifest_text(*out, "mpt"));
    mpt_hint(ctx, "go on with the mpt that wrote it");
    return status;
}

/* Which device saved it decides where it goes on: what is no device's name is not passed over
 * for another checkpoint, since its bytes have their sum. */
static mpt_status check_device(mpt_ctx *ctx, const char *path, const json_t *manifest) {
    static const char *const known[] = {"ref", "cpu", "cuda"};
    const json_t *device = json_object_get(manifest, "device");
    const char *word = json_string_value(device);
    for (size_t i = 0; word && i < MPT_COUNT(known); i++)
        if (strcmp(known[i], word) == 0)
            return MPT_OK;
    mpt_status status =
        word ? MPT_FAIL(ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                        "%s: device: '%.40s' is no device that this mpt knows (there are ref, "
                        "cpu, cuda)",
                        path, word)
             : MPT_FAIL(ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                        "%s: device: %s, expected ref, cpu or cuda", path,
                        device ? "is no text" : "is missing");
    mpt_hint(ctx, "go on with the mpt that wrote it, or from another checkpoint");
    return status;
}

/* One file against what the manifest says of it. */
static mpt_status check_file(mpt_ctx *ctx, const char *folder, const json_t *file) {
    char path[4400], sum_text[17];
    size_t bytes;
    uint64_t sum;
    const char *name = mpt_manifest_text(file, "name");
    if (!*name || strchr(name, '/'))
        return damaged(ctx, folder, "its list of files is none");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mpt_status status = sum_up(ctx, path, &bytes, &sum);
    if (status == MPT_NOT_FOUND)
        return damaged(ctx, path, "is missing");
    if (status != MPT_OK)
        return status;
    snprintf(sum_text, sizeof sum_text, "%016" PRIx64, sum);
    if (json_integer_value(json_object_get(file, "bytes")) != (json_int_t)bytes)
        return damaged(ctx, path, "does not have its length");
    if (strcmp(mpt_manifest_text(file, "xxh3"), sum_text) != 0)
        return damaged(ctx, path, "its bytes do not have their sum");
    return MPT_OK;
}

static mpt_status read_whole(mpt_ctx *ctx, const char *folder, const char *path, json_t **out) {
    mpt_file_map map;
    MPT_TRY(mpt_file_map_open(ctx, MPT_NOWHERE, path, &map));
    mpt_status status = parse(ctx, path, &map, out);
    mpt_file_map_close(&map);
    if (status != MPT_OK)
        return status;
    MPT_TRY(check_device(ctx, path, *out));
    const json_t *files = json_object_get(*out, "files");
    if (json_array_size(files) < 2)
        return damaged(ctx, path, "its list of files is none");
    for (size_t i = 0; i < json_array_size(files); i++)
        MPT_TRY(check_file(ctx, folder, json_array_get(files, i)));
    return MPT_OK;
}

mpt_status mpt_manifest_read(mpt_ctx *ctx, const char *folder, json_t **out) {
    char path[4200];
    *out = NULL;
    int n = snprintf(path, sizeof path, "%s/" MPT_CHECKPOINT_MANIFEST, folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return MPT_FAIL(ctx, MPT_NOT_FOUND, MPT_NOWHERE, "%.200s...: the path is too long",
                        folder);
    mpt_status status = read_whole(ctx, folder, path, out);
    if (status != MPT_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

const char *mpt_manifest_text(const json_t *manifest, const char *member) {
    const char *text = json_string_value(json_object_get(manifest, member));
    return text ? text : "";
}

static int64_t integer_of(const json_t *manifest, const char *member) {
    return (int64_t)json_integer_value(json_object_get(manifest, member));
}

void mpt_manifest_info(const json_t *manifest, const char *folder, mpt_checkpoint_info *out) {
    *out = (mpt_checkpoint_info){.step = integer_of(manifest, "step"),
                                 .tokens = integer_of(manifest, "tokens"),
                                 .metrics_bytes = integer_of(manifest, "metrics_bytes"),
                                 .gave_up = json_is_true(json_object_get(manifest, "gave_up"))};
    snprintf(out->path, sizeof out->path, "%s", folder);
    snprintf(out->recipe_hash, sizeof out->recipe_hash, "%.16s",
             mpt_manifest_text(manifest, "recipe_hash"));
    snprintf(out->device, sizeof out->device, "%.15s", mpt_manifest_text(manifest, "device"));
    snprintf(out->phase, sizeof out->phase, "%.127s", mpt_manifest_text(manifest, "phase"));
}
