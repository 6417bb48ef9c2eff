/* Rows for what a model is trained on: the words of `data`, and one of several files.
 *
 * No row of text that synthetic lacks stands at the place of one that synthetic has: what was
 * set for a file that is given later (set.c) has a bit of its own in the mask. */
#include "recipe/schema_store.h"

#include <math.h>

static const mpt_field synthetic_fields[] = {
    {"seed", MPT_FIELD_INT, MEMBER(mpt_data_spec, seed), 0, COUNT_MAX, .by_default = "0",
     .doc = "Another seed is another language.", .source = ""},
    {"vocab", MPT_FIELD_INT, MEMBER(mpt_data_spec, vocab), 32, 65536, .by_default = "128",
     .doc = "Words of the language, of which the model's vocabulary is made.", .source = ""},
};
const mpt_record mpt_record_synthetic = {
    "synthetic",
    "An endless language with grammar and repeats, whose entropy is known.",
    synthetic_fields,
    MPT_COUNT(synthetic_fields),
    offsetof(mpt_data_spec, set),
    sizeof(mpt_data_spec),
    MPT_DATA_SYNTHETIC};

/* ---- one of several files ---- */

static const mpt_field file_fields[] = {
    {"path", MPT_FIELD_STRING, MEMBER(mpt_data_file, path), .by_default = "required",
     .doc = "A file, or a glob.", .source = ""},
    {"weight", MPT_FIELD_NUMBER, MEMBER(mpt_data_file, weight), 1e-3, 1e3, .by_default = "1",
     .doc = "How often a window of this file is taken for one of a file of weight 1: an epoch "
            "has it so many times.",
     .source = "GPT-3, arXiv 2005.14165, table 2.2"},
};
const mpt_record mpt_record_file = {"file",
                                    "One of the files of `text` or `tokens`.",
                                    file_fields,
                                    MPT_COUNT(file_fields),
                                    offsetof(mpt_data_file, set),
                                    sizeof(mpt_data_file),
                                    -1};

/* ---- files ---- */

static const mpt_choice orders[] = {
    {"random", MPT_ORDER_RANDOM, "each window starts anywhere, drawn anew for each row"},
    {"shuffle", MPT_ORDER_SHUFFLE,
     "windows that do not overlap, each once an epoch, in an order of the epoch's own"},
    {"sequential", MPT_ORDER_SEQUENTIAL, "the same windows, one behind the other"},
    {NULL, 0, NULL}};
static const mpt_choice remainders[] = {
    {"carry", MPT_REMAINDER_CARRY, "the batch is filled from the next epoch"},
    {"step", MPT_REMAINDER_STEP,
     "they are a short step, whose mean is over the targets that it has"},
    {"drop", MPT_REMAINDER_DROP, "they are left out until the next epoch"},
    {NULL, 0, NULL}};

#define LIST_ROW                                                                               \
    {                                                                                          \
        "files", MPT_FIELD_SPECIAL, NO_MEMBER,                                                 \
            .by_default = "this or path",                                                      \
            .doc = "Several files as one corpus; entries without a name mean the same.",       \
            .source = "", .takes = "a list of paths, or of tables of a path and a weight"      \
    }
#define REMAINDER_ROW                                                                          \
    {                                                                                          \
        "remainder", MPT_FIELD_CHOICE, MEMBER(mpt_data_spec, remainder),                       \
            .choices = remainders, .late = true, .by_default = "carry",                        \
            .doc = "What becomes of the windows that fill no batch when an epoch ends.",       \
            .source = ""                                                                       \
    }
#define ORDER_ROW                                                                              \
    {                                                                                          \
        "order", MPT_FIELD_CHOICE, MEMBER(mpt_data_spec, order),                               \
            .choices = orders, .late = true, .by_default = "random",                           \
            .doc = "In which order training takes the windows of its files.",                  \
            .source = "nanoGPT"                                                                \
    }
#define VALIDATION_ROW                                                                         \
    {                                                                                          \
        "validation", MPT_FIELD_PART, MEMBER(mpt_data_spec, validation), 0, 0.5,               \
            .late = true, .by_default = "0.1",                                                 \
            .doc = "Held back for evaluation: this share of each file, at its end, or files "  \
                   "of their own.",                                                            \
            .source = "nanoGPT"                                                                \
    }
#define WORDS_ROW                                                                              \
    {                                                                                          \
        "vocab", MPT_FIELD_INT, MEMBER(mpt_data_spec, words), 1, INT32_MAX,                    \
            .by_default = "this or the model's",                                               \
            .doc = "Words of the tokenizer: ids are below it.", .source = ""                   \
    }

static const mpt_field text_fields[] = {
    {"path", MPT_FIELD_STRING, MEMBER(mpt_data_spec, path), .by_default = "this or files",
     .doc = "A file whose bytes are the tokens, or a glob.", .source = ""},
    LIST_ROW,
    ORDER_ROW,
    REMAINDER_ROW,
    VALIDATION_ROW,
};
static const mpt_field tokens_fields[] = {
    {"path", MPT_FIELD_STRING, MEMBER(mpt_data_spec, path), .by_default = "this or files",
     .doc = "A file of nanoGPT's, a shard of llm.c's, or a pair of Megatron's; or a glob.",
     .source = ""},
    LIST_ROW,
    ORDER_ROW,
    REMAINDER_ROW,
    VALIDATION_ROW,
    WORDS_ROW,
};
static const mpt_field batches_fields[] = {
    {"path", MPT_FIELD_STRING, MEMBER(mpt_data_spec, path), .by_default = "required",
     .doc = "A safetensors file with int32 `tokens` [micro-batches, batch, sequence + 1]; its "
            "rows are taken in order.",
     .source = ""},
    REMAINDER_ROW,
    WORDS_ROW,
};
const mpt_record mpt_record_text = {"text",
                                    "The bytes of files.",
                                    text_fields,
                                    MPT_COUNT(text_fields),
                                    offsetof(mpt_data_spec, set),
                                    sizeof(mpt_data_spec),
                                    MPT_DATA_TEXT};
const mpt_record mpt_record_tokens = {
    "tokens",
    "The ids of token files; which of the formats each has, its content says.",
    tokens_fields,
    MPT_COUNT(tokens_fields),
    offsetof(mpt_data_spec, set),
    sizeof(mpt_data_spec),
    MPT_DATA_TOKENS};
const mpt_record mpt_record_batches = {
    "batches",
    "Batches that were cut before; what the run leaves over is its validation.",
    batches_fields,
    MPT_COUNT(batches_fields),
    offsetof(mpt_data_spec, set),
    sizeof(mpt_data_spec),
    MPT_DATA_BATCHES};

const mpt_record *const mpt_data_records[] = {&mpt_record_synthetic, &mpt_record_text,
                                              &mpt_record_tokens, &mpt_record_batches, NULL};

/* ---- what was said ---- */

bool mpt_data_spec_says(const mpt_data_spec *spec, const char *name) {
    const mpt_record *record =
        spec->kind == MPT_DATA_SYNTHETIC ? &mpt_record_text : mpt_data_records[spec->kind];
    const mpt_field *field = mpt_record_lookup(record, name);
    return field && mpt_record_has(record, spec, field);
}

mpt_part mpt_data_spec_validation(const mpt_data_spec *spec) {
    if (mpt_data_spec_says(spec, "validation"))
        return spec->validation;
    return (mpt_part){0.1, NULL};
}
