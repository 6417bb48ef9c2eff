/* Where tokens come from: bytes of text, token files, batches that were cut before, or the
 * embedded synthetic language.
 *
 * A source is deterministic by seed and position: the batch of a step depends on nothing that
 * ran before it, so a run goes on with the number of its next batch alone. Training never reads
 * what is held back for validation. */
#ifndef MPT_TRAIN_DATA_H
#define MPT_TRAIN_DATA_H

#include "recipe/recipe.h"

typedef struct mpt_data mpt_data;

/* Opens the source a recipe names. `override_path`, from --data, replaces it where not NULL: a
 * file, or a glob, that is by its content a token file, a safetensors file of batches, or else
 * text. Tokens without a header are told from text where the recipe's data are tokens or their
 * vocabulary was set: by a byte 0 in a whole number of uint16. What the recipe states for its
 * own files (vocabulary, order, remainder, share of validation) holds for it, too. Errors name
 * the file. */
mpt_status mpt_data_open(mpt_ctx *ctx, const mpt_data_spec *spec, const char *override_path,
                         const char *recipe_file, mpt_data **out);
void mpt_data_close(mpt_data *data);

/* Tells the source which run will read it: to be done when sequence and batch are known, before
 * anything below, and again when they or the steps change. Refuses data that is too short for
 * one sequence and its last target (MPT_DATA: "needs 129 tokens, has 10"). */
mpt_status mpt_data_settle(mpt_data *data, const mpt_train *train);

/* Steps that so many epochs take in the run that was settled, rounded up; MPT_INVALID where the
 * data has no epochs. */
mpt_status mpt_data_steps(const mpt_data *data, int64_t epochs, int64_t *out_steps);

/* How many words there are: as stated, or where nothing states it (mpt_data_states_vocab is
 * false) what the largest id needs. Then only the model can say it, and mpt_data_check_model
 * refuses one whose ids the file's type cannot hold: they may have been cut off. */
int32_t mpt_data_vocab(const mpt_data *data);
bool mpt_data_states_vocab(const mpt_data *data);
mpt_status mpt_data_check_model(const mpt_data *data, int64_t vocab);

/* Why a file that is read as text seems to be none, naming it; NULL: none does. And who asked
 * for the data: no line where --data did. */
const char *mpt_data_doubt(const mpt_data *data);
mpt_where mpt_data_where(const mpt_data *data);

const char *mpt_data_describe(const mpt_data *data); /* "synthetic language, 128 words" */

/* A sum over every id of every file, wherever they lie and whatever their format; 0 where the
 * data are no files. */
uint64_t mpt_data_sum(const mpt_data *data);

/* What the run that was settled takes of it: "shuffled, 2.3 epochs of 1,000 windows; validation
 * on the last 10 % of it, 111 windows". NULL where the data never ends. */
const char *mpt_data_describe_run(const mpt_data *data);

/* How many epochs the run takes; where windows are drawn at random, how many it takes the
 * tokens of. 0 where the data never ends. */
double mpt_data_epochs(const mpt_data *data);

/* Entropy per token in nats: of the source itself (NAN where unknown), and of its unigram
 * distribution. The first is the floor of the loss, the second what a model that only counts
 * words reaches. */
double mpt_data_entropy(const mpt_data *data);
double mpt_data_unigram_entropy(const mpt_data *data);

/* Says, as training begins, that windows will come again where nobody asked for epochs. */
void mpt_data_begin(const mpt_data *data, const mpt_train *train);

/* Fills one sequence of training step `step`: row `row` of the batch (over all micro-batches).
 * tokens[t] and targets[t] = the token after it, t < the settled sequence. A row behind the end
 * of an epoch that ends with a short step has targets of -1. */
void mpt_data_train(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                    int32_t *tokens, int32_t *targets);

/* Validation windows (at most 200; 0 where what is held back is shorter than one), and one. */
int64_t mpt_data_n_windows(const mpt_data *data);
void mpt_data_window(const mpt_data *data, int64_t window, int32_t *tokens, int32_t *targets);

#endif
