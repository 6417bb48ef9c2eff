/* Runs beside each other: what a precision costs in loss, and what really ran.
 *
 * Same rules as mpt.h. Everything is read from run folders (metrics.jsonl, timing.jsonl,
 * plan.json), so runs of other machines and days can be compared as well. `mptrun compare` and
 * `mptrun sweep` train the runs and print what these calls give. All calls are in mpt_core. */
#ifndef MPT_COMPARE_H
#define MPT_COMPARE_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mpt_comparison mpt_comparison;

/* A run folder and its place. Runs with the same `seed` saw the same data in the same order
 * from the same weights: each is held against that of recipe 0, the base. */
typedef struct mpt_compare_run {
    const char *folder;
    const char *name; /* of its recipe in tables; NULL: as its plan says */
    int recipe;       /* from 0, none left out */
    uint64_t seed;
    bool not_begun; /* it is planned: its folder is not read, and `name` must be given */
} mpt_compare_run;

typedef struct mpt_compare_options {
    size_t size;
    double within; /* bound of the relative difference, 0.01 for 1 %; below 0: none */
    /* Recipe 0 is the recipe of a sweep, the last one is all of it in BF16, and those between
     * have one thing lifted each. */
    bool sweep;
    /* `recipe`, `seed` and a `name` of NULL are found in the plans: runs are of one recipe
     * where name, schedules and all of training but the seed agree. The first run is of recipe
     * 0. */
    bool find_recipes;
} mpt_compare_options;
#define MPT_COMPARE_OPTIONS_INIT                                                               \
    ((mpt_compare_options){.size = sizeof(mpt_compare_options), .within = -1})

/* Reads the runs and compares them. A run that is not whole takes part as far as it got,
 * without a final loss. MPT_DATA: a file is no metrics or no plan, or two runs trained
 * different models, on different data, or saw different numbers of tokens at the same step;
 * MPT_NOT_FOUND: a folder lacks a file. */
MPT_API MPT_CHECKED mpt_status mpt_comparison_create(mpt_ctx *ctx, const mpt_compare_run *runs,
                                                     int n_runs,
                                                     const mpt_compare_options *options,
                                                     mpt_comparison **out);
MPT_API void mpt_comparison_destroy(mpt_comparison *comparison);

/* Writes which runs are compared, and the options, as JSON; folders below that of `path` are
 * told from there. With runs that are not begun it can be written before anything is trained.
 * MPT_INVALID: something else stands at `path`. */
MPT_API MPT_CHECKED mpt_status mpt_comparison_write_index(const mpt_comparison *comparison,
                                                          const char *path);

/* Compares the runs of such a file as they are now: a folder without a plan, without metrics or
 * with no step is of a run that is not begun. MPT_NOT_FOUND: no file at `path`; MPT_DATA: it is
 * no such file, or as mpt_comparison_create. */
MPT_API MPT_CHECKED mpt_status mpt_comparison_open(mpt_ctx *ctx, const char *path,
                                                   mpt_comparison **out);

/* What became of a recipe beside the base. */
typedef enum mpt_compare_outcome {
    MPT_COMPARE_BASE,
    MPT_COMPARE_WITHIN, /* at most the bound above the base; lower is never beyond */
    MPT_COMPARE_BEYOND,
    MPT_COMPARE_MEASURED,  /* there is no bound */
    MPT_COMPARE_BROKE,     /* a run stopped itself or died, or its loss is not finite */
    MPT_COMPARE_UNFINISHED /* no seed was trained to the end with both recipes, or it was not
                              begun */
} mpt_compare_outcome;

typedef struct mpt_comparison_row {
    const char *recipe, *recipe_hash, *schedule_hash; /* hashes of phases joined by '+' */
    mpt_compare_outcome outcome;
    int n_planned, n_runs, n_whole; /* seeds, those begun, those trained to the end */
    double final_loss; /* mean over the whole runs, of validation where the data has it; NAN:
                          no run is whole, or not finite */
    double relative_difference; /* of final losses to the base's, a mean over pairs of one seed;
                                   0 for the base; NAN where there is no pair */
    double noise; /* standard deviation of those over the seeds; for the base that of its own
                     loss, over its mean; NAN with fewer than two */
    uint64_t gemms, quantized_gemms; /* of linear layers, that ran in training steps */
    double tokens_per_s;             /* median over all steps; NAN unknown */
    uint64_t bytes;                  /* of all memory classes, as planned and allocated */
    bool empty_label; /* its name promises a quantized format, and no quantized GEMM ran */
    double share; /* of a sweep: of the loss between the recipe and BF16 everywhere, what the
                     lift gives back, from -1 to 1; NAN where either is no more than noise, as
                     with one seed, which says nothing of noise */
    const char *device; /* "cpu"; "ref until step 10, then cpu" where it went on on another; ""
                           where its plan is of an older build, or it is not begun */
} mpt_comparison_row;

/* By index: the base first, the others in their order; of a sweep, behind recipe and BF16
 * everywhere, what gives back most comes first. False past the end. */
MPT_API bool mpt_comparison_get(const mpt_comparison *comparison, int index,
                                mpt_comparison_row *out);

/* The result in one line: "gpt2_fp8 is within 1 % of gpt2_bf16 (+0.7 % +- 0.2 %)". */
MPT_API const char *mpt_comparison_verdict(const mpt_comparison *comparison);

/* The result as a table for people, or as JSON. */
MPT_API MPT_CHECKED mpt_status mpt_comparison_print(const mpt_comparison *comparison, bool json,
                                                    mpt_write_fn write, void *ud);

/* Writes the report, one HTML file that needs no other: the verdict, the curves, the difference
 * over time, what ran. It links the reports of the runs, relative to its own folder where they
 * lie below it. */
MPT_API MPT_CHECKED mpt_status mpt_comparison_write_page(const mpt_comparison *comparison,
                                                         const char *path);

/* Whether two programs can be compared: the same model by names, shapes and initial values of
 * its parameters, the same batch, sequence, steps and data; else MPT_INVALID, and what differs.
 * Anything else of training that differs beside precision goes to `note`, a line a call. */
MPT_API MPT_CHECKED mpt_status mpt_program_comparable(const mpt_program *base,
                                                      const mpt_program *other,
                                                      mpt_write_fn note, void *ud);

/* What a sweep can lift to BF16, by index: linear layers by their paths, products, operands.
 * ("precision.lift", name) of mpt_recipe_set does it. False past the end. */
typedef enum mpt_lift_kind { MPT_LIFT_LAYERS, MPT_LIFT_GEMMS, MPT_LIFT_OPERANDS } mpt_lift_kind;
typedef struct mpt_lift_view {
    const char *name; /* "h.0.mlp.c_fc", "wgrad", "fprop.x" */
    bool quantized;   /* in some phase; else there is nothing to lift */
} mpt_lift_view;
MPT_API bool mpt_program_lift(const mpt_program *program, mpt_lift_kind kind, int index,
                              mpt_lift_view *out);

#ifdef __cplusplus
}
#endif

#endif
