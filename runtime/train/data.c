/* Stage 10, its input: opens the source that a recipe names and passes calls on to it.
 *
 * The sources themselves are data_text.c, data_tokens.c, data_batches.c and data_synthetic.c,
 * behind data_source.h. */
#include "train/data_source.h"

#include <math.h>
#include <string.h>

#include "io/tokens.h"

/* A relative path is looked for from the working directory, then beside the recipe: recipes
 * that carry their data keep working wherever they are called from. */
static mpt_status find_file(mpt_data *data, const char *path, const char *recipe_file,
                            const char **out) {
    *out = path;
    const char *slash = recipe_file ? strrchr(recipe_file, '/') : NULL;
    if (mpt_tokens_exist(path) || path[0] == '/' || !slash)
        return MPT_OK;
    const char *beside = mpt_arena_printf(&data->arena, "%.*s%s",
                                          (int)(slash + 1 - recipe_file), recipe_file, path);
    if (!beside)
        return MPT_OUT_OF_MEMORY;
    if (mpt_tokens_exist(beside))
        *out = beside;
    return MPT_OK;
}

static mpt_status open_file(mpt_data *data, mpt_data_kind kind, const char *path,
                            int64_t words) {
    switch (kind) {
    case MPT_DATA_TOKENS:
        return mpt_data_open_tokens(data, path, words);
    case MPT_DATA_BATCHES:
        return mpt_data_open_batches(data, path, words);
    default:
        return mpt_data_open_text(data, path);
    }
}

/* What --data names is what its content says, and text where that says nothing: tokens without
 * a header look like any bytes, so that only a byte 0 among them gives a warning. */
static mpt_status open_override(mpt_data *data, const char *path, const mpt_data_spec *spec) {
    static const mpt_data_kind kinds[] = {[MPT_CONTENT_OTHER] = MPT_DATA_TEXT,
                                          [MPT_CONTENT_TOKENS] = MPT_DATA_TOKENS,
                                          [MPT_CONTENT_SAFETENSORS] = MPT_DATA_BATCHES};
    mpt_data_kind kind = kinds[mpt_content_of(path)];
    if (kind == MPT_DATA_TEXT && spec->words_set && spec->words != 256) {
        mpt_status status = MPT_FAIL(data->ctx, MPT_INVALID, data->where,
                                     "data.vocab: %s is text, which has the 256 bytes", path);
        mpt_hint(data->ctx, "leave it out, or say data = tokens { path = ..., vocab = n }");
        return status;
    }
    MPT_TRY(open_file(data, kind, path, spec->words));
    if (kind == MPT_DATA_TEXT && mpt_content_looks_like_ids(path))
        mpt_log(data->ctx, MPT_LOG_WARNING,
                "%s: is read as text, byte by byte, and has bytes that are 0; if it holds "
                "nanoGPT's tokens, say data = tokens { path = ..., vocab = n }",
                path);
    return MPT_OK;
}

static mpt_status open_source(mpt_data *data, const mpt_data_spec *spec,
                              const char *override_path, const char *recipe_file) {
    if (override_path)
        return open_override(data, override_path, spec);
    if (spec->kind == MPT_DATA_SYNTHETIC)
        return mpt_data_open_synthetic(data, spec->seed, spec->vocab);
    const char *path;
    MPT_TRY(find_file(data, spec->path, recipe_file, &path));
    mpt_status status = open_file(data, spec->kind, path, spec->words);
    if (status == MPT_NOT_FOUND)
        mpt_hint(data->ctx, "a path starts at the working directory or at the recipe's folder");
    return status;
}

mpt_status mpt_data_open(mpt_ctx *ctx, const mpt_data_spec *spec, const char *override_path,
                         const char *recipe_file, mpt_data **out) {
    *out = NULL;
    mpt_data *data = mpt_alloc(ctx, sizeof *data);
    if (!data)
        return mpt_fail_memory(ctx, sizeof *data);
    data->ctx = ctx;
    data->where = override_path ? MPT_NOWHERE : spec->where;
    data->entropy = data->unigram = NAN;
    mpt_arena_init(&data->arena, ctx);
    mpt_status status = open_source(data, spec, override_path, recipe_file);
    if (status != MPT_OK) {
        mpt_data_close(data);
        return status;
    }
    *out = data;
    return MPT_OK;
}

void mpt_data_close(mpt_data *data) {
    if (!data)
        return;
    if (data->ops && data->ops->close)
        data->ops->close(data);
    mpt_arena_deinit(&data->arena);
    mpt_free(data->ctx, data);
}

mpt_status mpt_data_check(const mpt_data *data, int64_t sequence) {
    return data->ops->check ? data->ops->check(data, sequence) : MPT_OK;
}

mpt_status mpt_data_settle(mpt_data *data, const mpt_train *train) {
    MPT_TRY(mpt_data_check(data, train->sequence));
    if (data->ops->settle)
        data->ops->settle(data, train);
    return MPT_OK;
}

bool mpt_data_states_vocab(const mpt_data *data) {
    return !data->unstated;
}

mpt_status mpt_data_check_model(const mpt_data *data, int64_t vocab) {
    if (!data->unstated || data->id_limit == 0 || vocab - 1 <= data->id_limit)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(data->ctx, MPT_DATA, data->where,
                 "%s: its ids end at %lld, and the model's vocabulary has %lld words",
                 data->unstated, (long long)data->id_limit, (long long)vocab);
    mpt_hint(data->ctx, "larger ids would have lost their upper bits: make the file anew with "
                        "32 bits (mptrun tokens --format llmc32), or state the vocabulary it "
                        "has: data = tokens { path = ..., vocab = n }");
    return status;
}

int32_t mpt_data_vocab(const mpt_data *data) {
    return data->vocab;
}

const char *mpt_data_describe(const mpt_data *data) {
    return data->description;
}

double mpt_data_entropy(const mpt_data *data) {
    return data->entropy;
}

double mpt_data_unigram_entropy(const mpt_data *data) {
    return data->unigram;
}

void mpt_data_begin(const mpt_data *data, const mpt_train *train) {
    if (data->ops->begin)
        data->ops->begin(data, train);
}

void mpt_data_train(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                    int64_t sequence, int32_t *tokens, int32_t *targets) {
    data->ops->train(data, seed, step, row, sequence, tokens, targets);
}

int64_t mpt_data_n_windows(const mpt_data *data, int64_t sequence) {
    return data->ops->n_windows(data, sequence);
}

void mpt_data_window(const mpt_data *data, int64_t window, int64_t sequence, int32_t *tokens,
                     int32_t *targets) {
    data->ops->window(data, window, sequence, tokens, targets);
}
