/* The inside of a comparison: compare_read.c reads run folders, compare.c pairs and sums them
 * up, compare_verdict.c finds the words, compare_text.c, compare_json.c and compare_page.c
 * write it. */
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

/* One run as its folder has it. */
typedef struct mpt_compared_run {
    const char *folder;
    int recipe;
    uint64_t seed;
    const char *name, *model, *recipe_hash, *schedule_hash;
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
    int64_t skipped;
    mpt_gemm_list gemms;
    mpt_band loss, difference;           /* training loss, smoothed; relative to the base's */
    mpt_band eval_loss, eval_difference; /* validation */
    const char *said; /* the quantized format that its name promises, or NULL */
    bool as_base;     /* all its GEMMs ran in the base's formats */
    bool same_schedule;
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
    int n_seeds;
    char verdict[1024];
    int n_flags;
    mpt_compare_flag *flags;
};

/* Reads one run; strings and arrays lie in the arena. */
mpt_status mpt_compare_read(mpt_ctx *ctx, mpt_arena *arena, const mpt_compare_run *from,
                            mpt_compared_run *out);

/* Adds what ran to a list; rows past its end are summed up in the last. */
void mpt_gemms_ran_add(mpt_gemm_list *list, const mpt_gemms_ran *row);

/* compare_sums.c: fills the recipes from the runs. */
mpt_status mpt_compare_sum(mpt_comparison *c);

/* compare_verdict.c: outcomes, order, flags and the line. */
mpt_status mpt_compare_judge(mpt_comparison *c);

/* "+0.7 % +- 0.2 %"; without noise where it is NAN. */
enum { MPT_COMPARE_WORDS = 64 };
void mpt_compare_words(double difference, double noise, char out[MPT_COMPARE_WORDS]);

/* GEMMs of a list whose operands were quantized to this pair, over all products: "nvfp4 71 %,
 * bf16 29 %". */
void mpt_gemm_list_text(const mpt_gemm_list *list, char *out, size_t size);

/* The sum over products for the i-th pair of formats; false past the last. */
bool mpt_gemm_list_pair(const mpt_gemm_list *list, int i, char name[64], uint64_t *out_runs);

void mpt_compare_text(const mpt_comparison *c, mpt_str *out);
mpt_status mpt_compare_json(const mpt_comparison *c, mpt_str *out);

#endif
