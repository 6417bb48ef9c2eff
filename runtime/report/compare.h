/* The inside of a comparison: compare_read.c reads run folders, compare_pairs.c sees whether
 * they belong together, compare_sums.c sums them up, compare_verdict.c, compare_notes.c and
 * compare_sweep.c find the words, compare_text.c, compare_json.c and compare_page.c write it,
 * compare_index.c keeps which runs they are. */
#ifndef MPT_REPORT_COMPARE_H
#define MPT_REPORT_COMPARE_H

#include "base/base.h"
#include "mpt/compare.h"

/* Losses along a run; NAN where it was not finite. Steps rise. */
typedef struct mpt_point {
    int64_t step;
    double tokens, loss;
} mpt_point;
typedef struct mpt_curve {
    int n, cap;
    mpt_point *at;
} mpt_curve;

/* GEMMs of one product with one pair of operand formats. */
typedef struct mpt_gemms_ran {
    const char *gemm, *a, *b;
    bool quantized;
    uint64_t runs;
} mpt_gemms_ran;

enum { MPT_GEMMS_RAN_MAX = 64 };
typedef struct mpt_gemm_list {
    int n;
    mpt_gemms_ran of[MPT_GEMMS_RAN_MAX];
} mpt_gemm_list;

/* A field of training, or of data where the recipe says it, in words. */
typedef struct mpt_compared_field {
    const char *name, *value;
} mpt_compared_field;

/* One run as its folder has it. Of one that is not begun nothing is read, and texts are "". */
typedef struct mpt_compared_run {
    const char *folder;
    int recipe;
    uint64_t seed, own_seed; /* of the pair; as its plan has it */
    bool begun;
    const char *source, *windows; /* of data */
    double unigram;
    int n_fields, cap_fields;
    mpt_compared_field *fields;
    const char *name, *own_name; /* as it is told; as its plan has it */
    const char *model, *recipe_hash, *schedule_hash;
    const char *device; /* "cpu", or where it went on on another "ref until step 10, then cpu";
                           "": the plan is of an older build */
    bool moved;         /* it did */
    int64_t parameters, planned; /* steps */
    uint64_t bytes;
    mpt_curve steps, evals;
    bool validates; /* it has validation losses */
    bool ended;     /* the metrics have their last line */
    int64_t ended_at, skipped;
    double eval_loss; /* of that line */
    int n_ms, cap_ms;
    double *step_ms;
    double tokens_a_step;
    mpt_gemm_list gemms;
} mpt_compared_run;

/* A mean over seeds along the run, and how far they spread. */
typedef struct mpt_band {
    int n;
    double *tokens, *mean, *spread; /* spread NAN with fewer than two seeds */
} mpt_band;

typedef struct mpt_compared {
    mpt_comparison_row row;
    int n_broke;
    int64_t stopped_at; /* of the first run that broke */
    int64_t reached;    /* of the first run that a signal ended */
    int64_t skipped;
    mpt_gemm_list gemms;
    mpt_band loss, difference;           /* training loss, smoothed; relative to the base's */
    mpt_band eval_loss, eval_difference; /* validation */
    const char *said;                /* the quantized format that its name promises, or NULL */
    bool as_base;                    /* all its GEMMs ran in the base's formats */
    bool same_schedule, same_recipe; /* as the base's, by their hashes */
    bool aside;                      /* its losses are no scale for the others' */
    const char *differs; /* "train.lr.peak", fields of training not as the base's; or NULL */
    int n_differs;
} mpt_compared;

/* A sentence on what a reader must know. */
typedef struct mpt_compare_flag {
    int recipe;
    const char *text;
} mpt_compare_flag;

struct mpt_comparison {
    mpt_ctx *ctx;
    mpt_arena arena;
    mpt_compare_options options;
    int n_runs, n;
    mpt_compared_run *runs;
    mpt_compared *recipes;
    int *order;      /* of rows as they are told */
    bool validates;  /* final losses are those of validation */
    int64_t planned; /* steps */
    int64_t window;  /* steps that the training loss is smoothed over */
    int n_seeds;     /* of the base that are begun */
    char verdict[1024];
    bool opened; /* from an index: what has no step is not begun */
    int n_flags, cap_flags;
    mpt_compare_flag *flags;
};

/* Reads one run; strings and arrays lie in the arena. */
mpt_status mpt_compare_read(mpt_ctx *ctx, mpt_arena *arena, const mpt_compare_run *from,
                            mpt_compared_run *out);

/* compare_pairs.c: finds recipe and seed of each run in its plan. */
mpt_status mpt_compare_find(mpt_comparison *c);

/* Whether all runs are of one model, data and number of steps. */
mpt_status mpt_compare_check(const mpt_comparison *c);

/* A run that stands for a recipe: the first one begun, else the first. Of any recipe: -1. */
const mpt_compared_run *mpt_compare_first(const mpt_comparison *c, int recipe);

/* The next thing in which the training of two runs differs: the device, then fields of `a` and
 * then of `b`, from *at on; false past the last. Values are NULL where one has none. Seeds are
 * left out. */
typedef struct mpt_field_pair {
    const char *name, *a, *b;
} mpt_field_pair;
bool mpt_compare_differs(const mpt_compared_run *a, const mpt_compared_run *b, int *at,
                         mpt_field_pair *out);

/* Reads and judges; the options and the arena are there. */
mpt_status mpt_comparison_make(mpt_ctx *ctx, const mpt_compare_run *runs, int n_runs,
                               const mpt_compare_options *options, bool opened,
                               mpt_comparison **out);

/* A folder as the folder of the file at `path` sees it; NULL where it does not lie below. */
const char *mpt_compare_below(const char *folder, const char *path);

/* Adds what ran to a list; rows past its end are summed up in the last. */
void mpt_gemms_ran_add(mpt_gemm_list *list, const mpt_gemms_ran *row);

/* The device of all runs, or NULL where they differ or none of them says one. */
const char *mpt_compare_device(const mpt_comparison *c);

/* Whether some run says another device than another one does. */
bool mpt_compare_devices_differ(const mpt_comparison *c);

/* Whether the recipe has a run that the base has one of the same seed to, and all such pairs
 * have the same losses to the bit. */
bool mpt_compare_same_losses(const mpt_comparison *c, int recipe);

/* compare_sums.c: fills the recipes from the runs. */
mpt_status mpt_compare_sum(mpt_comparison *c);

/* compare_verdict.c: outcomes, order, flags and the line. */
mpt_status mpt_compare_judge(mpt_comparison *c);

/* compare_notes.c: what a reader must know. */
mpt_status mpt_compare_note(mpt_comparison *c);

/* compare_sweep.c: order, shares and line of a sweep. */
void mpt_compare_judge_sweep(mpt_comparison *c);

/* "+0.70 %", or without its sign "0.70 %"; "-" for NAN. */
enum { MPT_COMPARE_PERCENT = 32 };
void mpt_compare_percent(double x, bool sign, char out[MPT_COMPARE_PERCENT]);

/* A share or a bound as it was given: "1 %", "0.5 %". */
void mpt_compare_bound(double x, char out[MPT_COMPARE_PERCENT]);

/* "+0.7 % +- 0.2 %"; without noise where it is NAN. */
enum { MPT_COMPARE_WORDS = 2 * MPT_COMPARE_PERCENT + 4 };
void mpt_compare_words(double difference, double noise, char out[MPT_COMPARE_WORDS]);

/* GEMMs of a list whose operands were quantized to this pair, over all products: "nvfp4 71 %,
 * bf16 29 %". */
void mpt_gemm_list_text(const mpt_gemm_list *list, char *out, size_t size);

/* The sum over products for the i-th pair of formats; false past the last. */
bool mpt_gemm_list_pair(const mpt_gemm_list *list, int i, char name[64], uint64_t *out_runs);

void mpt_compare_text(const mpt_comparison *c, mpt_str *out);
mpt_status mpt_compare_json(const mpt_comparison *c, mpt_str *out);

#endif
