/* The schema: each word a recipe may say is one row, and everything else is made from the rows.
 *
 * A record is a struct of the recipe IR ("quantizer", "train", "adamw", ...); a field is one of
 * its members. mpt_record_set is the only way a value enters the IR, whether it comes from Lua,
 * from `--set train.steps=20` or from a C host: so each checks, defaults and suggests alike. */
#ifndef MPT_RECIPE_SCHEMA_H
#define MPT_RECIPE_SCHEMA_H

#include "recipe/recipe.h"

typedef enum mpt_field_type {
    MPT_FIELD_BOOL,   /* bool */
    MPT_FIELD_INT,    /* int64_t; range min..max */
    MPT_FIELD_NUMBER, /* double; range min..max */
    MPT_FIELD_CHOICE, /* an enum, by its name in `choices` */
    MPT_FIELD_FORMAT, /* mpt_dtype, by name, out of `choices` */
    MPT_FIELD_STRING, /* const char *, copied into the recipe's arena */
    MPT_FIELD_SPAN,   /* mpt_span: an integer or float with fraction rule of recipes.md */
    MPT_FIELD_BLOCK,  /* int32_t[2]: "tensor", "row" or {rows, cols}; out of `choices` */
    MPT_FIELD_PAIR,   /* double[2] */
    MPT_FIELD_PART,   /* mpt_part: a share in min..max, or a path */
    MPT_FIELD_RECORD, /* an embedded struct with its own record; set by mpt_record_put, or by
                         mpt_record_set with a name out of `choices` or `variants`, or with the
                         value of its field where it, or its first variant, has only one, and
                         there are no choices */
    MPT_FIELD_SPECIAL /* handled by its owner in code (rules, model, use ...): documented here,
                         settable there */
} mpt_field_type;

typedef struct mpt_choice {
    const char *name;
    int64_t value;
    const char *doc;
} mpt_choice;

struct mpt_record;

typedef struct mpt_field {
    const char *name;
    mpt_field_type type;
    size_t offset; /* in the record's struct; SIZE_MAX: checked, but there is only one value */
    size_t bytes;  /* of the member */
    double min, max;
    const mpt_choice *choices; /* ends with a NULL name */
    const struct mpt_record *record;
    /* Instead of `record`, where several words fit ("adamw" or "sgd"): ends with NULL. The
     * embedded struct starts with an enum that holds the `kind` of the record, or the value of
     * one of `choices`, words without fields. */
    const struct mpt_record *const *variants;
    const char *by_default; /* as printed in the reference: "nearest", "by format" */
    const char *doc;        /* one sentence; a row without it fails a test */
    const char *source;     /* paper or tool the word comes from, or "" */
    const char *takes;      /* SPECIAL: what it may be, in words; else NULL, the type says it */
    bool always;  /* RECORD: it is there whether said or not, with the defaults of its rows */
    bool refined; /* FORMAT: the member is the `format` of a mpt_quantizer, and fields of one
                     may follow the word: bf16 { rounding = "stochastic" } */
    bool late;    /* came later than hashes did: in none where it has its default */
} mpt_field;

typedef struct mpt_record {
    const char *name; /* "quantizer" */
    const char *doc;
    const mpt_field *fields;
    int n_fields;
    size_t set_offset; /* of a uint64_t mask in the struct, SIZE_MAX where there is none */
    size_t bytes;      /* of the struct; 0 where the record is a view of its parent's struct */
    int32_t kind;      /* written to the struct's first member; -1: it has no kind */
} mpt_record;

/* The records, by name, and the struct each is a view of:
 *   "file"                                     mpt_data_file
 *   "recipe" "precision" "state" "ops"         mpt_recipe
 *   "train" "proxy" "eval"                     mpt_train
 *   "recompute"                                mpt_recompute
 *   "checkpoint" "watch" "spike" "telemetry"   mpt_checkpoints mpt_watch mpt_spike
 * mpt_telemetry "adamw" "sgd"                              mpt_optimizer "constant" "linear"
 * "cosine" "wsd"         mpt_lr "synthetic" "text" "tokens" "batches"      mpt_data_spec
 *   "quantizer"                                mpt_slot_use (its mask is `set`)
 *   "delayed" and a second "static"            mpt_scale_source
 *   "four_over_six"                            mpt_scale_rule
 *   "hadamard"                                 mpt_hadamard
 *   "static" "dynamic"                         mpt_loss_scale
 *   "phase"                                    mpt_phase
 *   "gemm" "fprop" "dgrad" "wgrad" "rule"      none: all rows are SPECIAL (see recipe/use.h) */
const mpt_record *mpt_record_find(const char *name); /* the first of that name */
const mpt_record *const *mpt_record_all(int *out_n);

/* A value on its way into a field. */
typedef enum mpt_setting_kind {
    MPT_SETTING_BOOL,
    MPT_SETTING_INT,
    MPT_SETTING_NUMBER,
    MPT_SETTING_STRING,
    MPT_SETTING_NUMBERS /* a short list: {16, 16}, {0.9, 0.95} */
} mpt_setting_kind;

typedef struct mpt_setting {
    mpt_setting_kind kind;
    bool boolean;
    int64_t integer;
    double number;      /* also set for INT */
    const char *string; /* for numbers: how they were typed, or NULL */
    int n;
    double numbers[8];
    bool integral; /* all of `numbers` are integers */
} mpt_setting;

/* The row of a field, or NULL with the error set: unknown name, nearest name suggested. `path`
 * is the field path up to here ("precision.rules[2].use"), for the message. */
const mpt_field *mpt_record_field(mpt_ctx *ctx, const mpt_record *record, const char *path,
                                  const char *name, mpt_where where);

/* Checks a value against its row and writes it into the struct at `object`. Strings go into
 * `arena`. Errors name place, path, fault and way out. */
mpt_status mpt_record_set(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                          void *object, const char *path, const char *name,
                          const mpt_setting *value, mpt_where where);

/* Writes the defaults of a record into a struct that the caller zeroed: the value of each row
 * whose by_default is a value, and the kind. Bits of the mask are not touched. */
void mpt_record_init(const mpt_record *record, void *object);

/* Puts a finished struct of the record `what` into a RECORD field: `lr = wsd{...}` in train.
 * Fails where the field takes another word. */
mpt_status mpt_record_put(mpt_ctx *ctx, const mpt_record *record, void *object,
                          const char *path, const char *name, const mpt_record *what,
                          const void *value, mpt_where where);

/* Follows a dotted path of fields from `object` and sets the last one from text ("train.steps",
 * "300"), read by the row's type. A record on the way that was never set gets its defaults; a
 * record with variants is chosen by name ("train.lr", "wsd"). */
mpt_status mpt_record_set_path(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                               void *object, const char *path, const char *text,
                               mpt_where where);

/* Reads text as the row's type wants it. */
void mpt_setting_parse(const mpt_field *field, const char *text, mpt_setting *out);

/* Whether the fields of a quantizer go together; the one place that knows which combinations
 * the kernels have. `path` is the quantizer's ("precision.rules[2].use.weight"). */
mpt_status mpt_quantizer_validate(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                                  mpt_where where);

/* The quantizer a bare format name means ("nvfp4": 1x16 blocks, E4M3 scales ...); false where
 * no format or preset has the name. mpt_format_names lists them, for suggestions. */
bool mpt_quantizer_by_name(const char *name, mpt_quantizer *out);
const char *const *mpt_format_names(int *out_n);

#endif
