/* Where tokens come from: bytes of a text, token files, batches that were cut before, or the
 * embedded synthetic language.
 *
 * A source is deterministic by seed and position: the batch of a step depends on nothing that
 * ran before it. The last tenth is validation, in fixed windows that do not overlap. */
#ifndef MPT_TRAIN_DATA_H
#define MPT_TRAIN_DATA_H

#include "recipe/recipe.h"

typedef struct mpt_data mpt_data;

/* Opens the source a recipe names. `override_path`, from --data, replaces it where not NULL: by
 * its content it is a token file, a safetensors file of batches, or else text; the vocabulary
 * that the recipe states for its own tokens holds for it, too. Errors name file, needed and
 * present token counts. */
mpt_status mpt_data_open(mpt_ctx *ctx, const mpt_data_spec *spec, const char *override_path,
                         const char *recipe_file, mpt_data **out);
void mpt_data_close(mpt_data *data);

/* Refuses a source that is too short for one sequence and its last target (MPT_DATA: "needs 129
 * tokens, has 10"). To be asked once the sequence length is known, before anything is drawn. */
mpt_status mpt_data_check(const mpt_data *data, int64_t sequence);

/* Tells the source which run will read it, of which some need length and batch: to be done when
 * they are known, and again when they change. Checks as mpt_data_check does. */
mpt_status mpt_data_settle(mpt_data *data, const mpt_train *train);

/* How many words there are: as stated, or where nothing states it (mpt_data_states_vocab is
 * false) what the largest id needs. Then only the model can say it, and mpt_data_check_model
 * refuses one whose ids the file's type cannot hold: they may have been cut off. */
int32_t mpt_data_vocab(const mpt_data *data);
bool mpt_data_states_vocab(const mpt_data *data);
mpt_status mpt_data_check_model(const mpt_data *data, int64_t vocab);

const char *mpt_data_describe(const mpt_data *data); /* "synthetic language, 128 words" */

/* Entropy per token in nats: of the source itself (NAN where unknown), and of its unigram
 * distribution. The first is the floor of the loss, the second what a model that only counts
 * words reaches. */
double mpt_data_entropy(const mpt_data *data);
double mpt_data_unigram_entropy(const mpt_data *data);

/* Warns, as training begins, of data that does not last for it. */
void mpt_data_begin(const mpt_data *data, const mpt_train *train);

/* Fills one sequence of training step `step`: row `row` of the batch (over all micro-batches).
 * tokens[t] and targets[t] = the token after it, t < sequence. */
void mpt_data_train(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                    int64_t sequence, int32_t *tokens, int32_t *targets);

/* Validation windows of this length (at most 200; 0 where the last tenth is shorter than one),
 * and one of them. */
int64_t mpt_data_n_windows(const mpt_data *data, int64_t sequence);
void mpt_data_window(const mpt_data *data, int64_t window, int64_t sequence, int32_t *tokens,
                     int32_t *targets);

#endif
