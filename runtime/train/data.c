/* Stage 10, its input: opens the source that a recipe names, and knows which of its windows a
 * row of a step is.
 *
 * The sources themselves are data_corpus.c, data_batches.c and data_synthetic.c, behind
 * data_source.h; how epochs are counted is in data_order.c. */
#include <math.h>
#include <string.h>

#include "train/data_windows.h"

/* ---- opening ---- */

static mpt_status open_list(mpt_data *data, const mpt_data_spec *spec, mpt_data_kind kind,
                            const mpt_data_file *files, int n, const char *recipe_file) {
    mpt_corpus_spec corpus = {.kind = kind,
                              .files = files,
                              .n_files = n,
                              .recipe_file = recipe_file,
                              .words = kind == MPT_DATA_TEXT ? 0 : spec->words,
                              .validation = mpt_data_spec_validation(spec),
                              .validation_said = mpt_data_spec_says(spec, "validation"),
                              .order = spec->order};
    return mpt_data_open_corpus(data, &corpus);
}

static mpt_status open_batches(mpt_data *data, const mpt_data_spec *spec, const char *path,
                               const char *recipe_file) {
    mpt_paths paths;
    MPT_TRY(mpt_data_find(data, data->where, path, recipe_file, &paths));
    if (paths.n > 1) {
        mpt_status status =
            MPT_FAIL(data->ctx, MPT_DATA, data->where,
                     "%s: matches %d files, and batches are one", path, paths.n);
        mpt_hint(data->ctx, "name one of them");
        return status;
    }
    mpt_status status = mpt_data_open_batches(data, paths.path[0], spec->words);
    if (status == MPT_NOT_FOUND)
        mpt_data_hint_missing(data, paths.path[0]);
    return status;
}

/* ---- a file instead of the recipe's ---- */

/* What --data names is what its content says, and text where that says nothing. Tokens without
 * a header are bytes like any other: they are looked for where something speaks of tokens. */
static mpt_data_kind kind_at(const mpt_data_spec *spec, const char *path) {
    static const mpt_data_kind kinds[] = {[MPT_CONTENT_OTHER] = MPT_DATA_TEXT,
                                          [MPT_CONTENT_TOKENS] = MPT_DATA_TOKENS,
                                          [MPT_CONTENT_SAFETENSORS] = MPT_DATA_BATCHES};
    bool of_tokens = spec->words_set ? spec->words != 256 : spec->kind == MPT_DATA_TOKENS;
    return of_tokens && mpt_content_looks_like_ids(path) ? MPT_DATA_TOKENS
                                                         : kinds[mpt_content_of(path)];
}

static mpt_status kind_of(const mpt_data *data, const mpt_data_spec *spec,
                          const mpt_paths *paths, mpt_data_kind *out) {
    *out = kind_at(spec, paths->path[0]);
    for (int i = 1; i < paths->n; i++) {
        if (kind_at(spec, paths->path[i]) == *out)
            continue;
        mpt_status status = MPT_FAIL(data->ctx, MPT_DATA, data->where,
                                     "%s and %s: by their content they are not of one kind",
                                     paths->path[0], paths->path[i]);
        mpt_hint(data->ctx, "say what they are in the recipe: data = tokens { ... }");
        return status;
    }
    return MPT_OK;
}

static mpt_status check_text_words(const mpt_data *data, const mpt_data_spec *spec,
                                   const char *path) {
    if (!spec->words_set || spec->words == 256)
        return MPT_OK;
    mpt_status status = MPT_FAIL(data->ctx, MPT_INVALID, data->where,
                                 "data.vocab: %s is text, which has the 256 bytes", path);
    mpt_hint(data->ctx, "leave it out, or say data = tokens { path = ..., vocab = n }");
    return status;
}

/* Files that the recipe holds out go with the files it trains on, unless they were set as this
 * one was. */
static mpt_data_spec for_other_file(const mpt_data *data, const mpt_data_spec *spec) {
    mpt_data_spec other = *spec;
    mpt_part validation = mpt_data_spec_validation(spec);
    if (!validation.path || spec->validation_set)
        return other;
    other.validation = (mpt_part){0.1, NULL};
    mpt_log(data->ctx, MPT_LOG_INFO,
            "validation is on the last tenth of the data: the recipe's %s goes with its own",
            validation.path);
    return other;
}

static mpt_status open_override(mpt_data *data, const char *path, const mpt_data_spec *spec) {
    mpt_paths paths;
    mpt_data_kind kind;
    MPT_TRY(mpt_data_find(data, MPT_NOWHERE, path, NULL, &paths));
    MPT_TRY(kind_of(data, spec, &paths, &kind));
    if (kind == MPT_DATA_BATCHES)
        return open_batches(data, spec, path, NULL);
    if (kind == MPT_DATA_TEXT)
        MPT_TRY(check_text_words(data, spec, paths.path[0]));
    mpt_data_spec other = for_other_file(data, spec);
    mpt_data_file file = {.path = path, .weight = 1};
    return open_list(data, &other, kind, &file, 1, NULL);
}

/* ---- the recipe's data ---- */

/* Words that were set for a file, and there is none. */
static mpt_status open_language(mpt_data *data, const mpt_data_spec *spec) {
    static const char *const words[] = {"order", "remainder", "validation"};
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        if (!mpt_data_spec_says(spec, words[i]))
            continue;
        mpt_status status =
            MPT_FAIL(data->ctx, MPT_INVALID, data->where,
                     "data.%s: the synthetic language never ends and has none", words[i]);
        mpt_hint(data->ctx, "name files for it: --data FILE, or data = text \"file\"");
        return status;
    }
    return mpt_data_open_synthetic(data, spec->seed, spec->vocab);
}

static mpt_status open_source(mpt_data *data, const mpt_data_spec *spec,
                              const char *override_path, const char *recipe_file) {
    data->epochs = (mpt_epochs){0, 1, spec->remainder};
    if (override_path)
        return open_override(data, override_path, spec);
    if (spec->kind == MPT_DATA_SYNTHETIC)
        return open_language(data, spec);
    if (spec->kind == MPT_DATA_BATCHES)
        return open_batches(data, spec, spec->path, recipe_file);
    mpt_data_file one = {.path = spec->path, .weight = 1};
    bool list = spec->n_files > 0;
    return open_list(data, spec, spec->kind, list ? spec->files : &one,
                     list ? spec->n_files : 1, recipe_file);
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

/* ---- a run ---- */

static bool is_random(const mpt_data *data) {
    return data->order == MPT_ORDER_RANDOM;
}

static void say_remainder(const mpt_data *data, mpt_str *out) {
    static const char *const words[] = {[MPT_REMAINDER_CARRY] = "are carried into the next",
                                        [MPT_REMAINDER_STEP] = "are a step of their own",
                                        [MPT_REMAINDER_DROP] = "are left out"};
    int64_t rest = data->epochs.windows % data->epochs.batch;
    if (!is_random(data) && rest > 0)
        mpt_str_printf(out, ", of which %lld fill no batch and %s", (long long)rest,
                       words[data->epochs.remainder]);
}

/* The words on a run; none before it has steps. */
static mpt_status say_run(mpt_data *data) {
    mpt_str text;
    char count[32];
    double epochs = mpt_data_epochs(data);
    data->run_description = NULL;
    if (data->epochs.windows == 0 || data->steps == 0)
        return MPT_OK;
    mpt_str_init(&text, data->ctx);
    mpt_windows_commas(data->epochs.windows, count);
    if (is_random(data))
        mpt_str_printf(&text, "drawn at random, %.3g times what there is to train on", epochs);
    else
        mpt_str_printf(&text, "%s, %.4g epoch%s of %s windows",
                       data->order == MPT_ORDER_SHUFFLE ? "shuffled" : "in order", epochs,
                       epochs == 1 ? "" : "s", count);
    say_remainder(data, &text);
    if (data->ops->describe)
        data->ops->describe(data, &text);
    if (!text.failed && text.data)
        data->run_description = mpt_arena_strdup(&data->arena, text.data);
    mpt_str_deinit(&text);
    return data->run_description ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status fail_dropped(const mpt_data *data) {
    mpt_status status =
        MPT_FAIL(data->ctx, MPT_DATA, data->where,
                 "data.remainder: an epoch has %lld windows, which fill no "
                 "batch of %lld, and drop leaves nothing to train on",
                 (long long)data->epochs.windows, (long long)data->epochs.batch);
    mpt_hint(data->ctx, "take remainder = \"carry\", or lower train.batch or train.sequence");
    return status;
}

mpt_status mpt_data_settle(mpt_data *data, const mpt_train *train) {
    data->sequence = train->sequence;
    data->epochs.batch = train->batch;
    data->steps = train->steps;
    MPT_TRY(data->ops->settle(data));
    bool drops = data->epochs.windows > 0 && data->epochs.remainder == MPT_REMAINDER_DROP;
    if (drops && !is_random(data) && data->epochs.windows < data->epochs.batch)
        return fail_dropped(data);
    return say_run(data);
}

mpt_status mpt_data_steps(const mpt_data *data, int64_t epochs, int64_t *out_steps) {
    *out_steps = mpt_epochs_steps(&data->epochs, epochs);
    if (data->epochs.windows > 0 && !is_random(data))
        return MPT_OK;
    mpt_status status = MPT_FAIL(
        data->ctx, MPT_INVALID, data->where, "train.epochs: %s %s, and so no epochs",
        mpt_data_describe(data), is_random(data) ? "are drawn at random" : "never ends");
    mpt_hint(data->ctx, is_random(data) ? "set data.order to shuffle, or give train.steps"
                                        : "give train.steps");
    return status;
}

double mpt_data_epochs(const mpt_data *data) {
    return is_random(data) && data->epochs.windows > 0
               ? (double)data->steps * (double)data->epochs.batch / (double)data->epochs.windows
               : mpt_epochs_of(&data->epochs, data->steps);
}

/* ---- the vocabulary ---- */

void mpt_data_state_vocab(mpt_data *data, const mpt_tokens *tokens, int64_t vocab) {
    int64_t words = tokens->largest < 0 ? 1 : tokens->largest + 1;
    int64_t limit = mpt_token_type_largest(tokens->type);
    if (vocab > 0 || tokens->format == MPT_TOKENS_TEXT) {
        data->vocab = (int32_t)(vocab > 0 ? vocab : limit + 1);
        return;
    }
    if (words > data->vocab)
        data->vocab = (int32_t)words;
    if (data->unstated && limit >= data->id_limit)
        return;
    data->unstated = tokens->path;
    data->id_limit = limit;
}

void mpt_data_take_sum(mpt_data *data, const mpt_tokens *tokens, bool held_out) {
    uint64_t chain[4] = {data->sum, tokens->sum, (uint64_t)tokens->n, held_out};
    data->sum = mpt_hash(chain, sizeof chain);
}

uint64_t mpt_data_sum(const mpt_data *data) {
    return data->sum;
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

/* ---- words and figures ---- */

const char *mpt_data_doubt(const mpt_data *data) {
    return data->doubt;
}

mpt_where mpt_data_where(const mpt_data *data) {
    return data->where;
}

const char *mpt_data_describe(const mpt_data *data) {
    return data->description;
}

const char *mpt_data_describe_run(const mpt_data *data) {
    return data->run_description;
}

double mpt_data_entropy(const mpt_data *data) {
    return data->entropy;
}

double mpt_data_unigram_entropy(const mpt_data *data) {
    return data->unigram;
}

/* Rows that come again are no new data, and nobody should find out from the loss. */
void mpt_data_begin(const mpt_data *data, const mpt_train *train) {
    double epochs = mpt_data_epochs(data);
    if (train->epochs > 0 || epochs <= 1)
        return;
    if (is_random(data))
        mpt_log(data->ctx, MPT_LOG_INFO,
                "%s: the run takes %.3g times as many tokens as there are to train on",
                data->description, epochs);
    else
        mpt_log(data->ctx, MPT_LOG_WARNING,
                "%s: the run takes %.3g epochs: its windows last for %lld of %lld steps, and "
                "then come again",
                data->description, epochs, (long long)mpt_epochs_steps(&data->epochs, 1),
                (long long)data->steps);
}

/* ---- rows ---- */

void mpt_data_train(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                    int32_t *tokens, int32_t *targets) {
    if (is_random(data) || data->epochs.windows == 0) {
        data->ops->draw(data, seed, step, row, tokens, targets);
        return;
    }
    mpt_epoch_place place = mpt_epochs_place(&data->epochs, step, row);
    data->ops->at(data, seed, place.epoch, place.index, tokens, targets);
    for (int64_t i = 0; place.masked && i < data->sequence; i++)
        targets[i] = -1;
}

int64_t mpt_data_n_windows(const mpt_data *data) {
    return data->ops->n_windows(data);
}

void mpt_data_window(const mpt_data *data, int64_t window, int32_t *tokens, int32_t *targets) {
    data->ops->window(data, window, tokens, targets);
}
