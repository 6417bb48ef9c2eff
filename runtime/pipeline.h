/* The one path from recipe to loss as a list of stages, and the program that comes out of it.
 *
 * stages[] in pipeline.c is the table of contents of the runtime. mpt_compile runs stages 1 to
 * 8 once a phase; mpt_pipeline_dump runs them again up to one stage and prints its value. */
#ifndef MPT_PIPELINE_H
#define MPT_PIPELINE_H

#include "sched/program.h"
#include "train/data.h"

struct mpt_program {
    mpt_ctx *ctx;
    mpt_recipe *recipe; /* lent */
    mpt_arena arena;
    bool proxy;
    mpt_device device;     /* AUTO is decided */
    const char *no_device; /* of mpt_program_info */
    mpt_target target;     /* that the plan speaks of */
    int n_threads;
    const char *why; /* why AUTO took this model; "" where it did not choose */
    mpt_train train; /* merged for this model, micro_batch and steps filled in */
    mpt_data *data;  /* owned; opened while compiling, for its vocabulary */
    bool data_given; /* by the host, instead of the recipe's */
    int n_phases;
    mpt_phase_program **phases;
    int64_t *phase_start; /* steps after which each begins: attempted ones ... */
    bool *phase_applied;  /* ... or applied ones; NULL: attempted in all of them */
    /* Forward only, one a phase, where evaluation has a precision of its own; else none. */
    int n_evals;
    mpt_phase_program **evals;
    int n_warnings;
    mpt_warning *warnings;
    const char *fields; /* the recipe's canonical text, with what compiling settled */
    char recipe_hash[17];
};

/* The programs that a run switches between: those of the phases, then those of evaluation. */
static inline const mpt_phase_program *mpt_program_part(const mpt_program *program, int i) {
    return i < program->n_phases ? program->phases[i] : program->evals[i - program->n_phases];
}

/* Whether the start of phase p is counted in applied steps. */
static inline bool mpt_program_by_applied(const mpt_program *program, int p) {
    return program->phase_applied && program->phase_applied[p];
}

/* "from step 164", "from about step 164": skipped steps put off a start by applied ones. */
void mpt_program_print_start(const mpt_program *program, int p, mpt_str *out);

/* What evaluation uses, as a recipe's rule: "bf16", "fprop.w = nvfp4 ..."; false: nothing of
 * its own. */
bool mpt_program_eval_text(const mpt_program *program, bool brief, mpt_str *out);

/* The value after the stage of this name, as text; MPT_INVALID names the stages there are. */
mpt_status mpt_pipeline_dump(const mpt_program *program, const char *stage, mpt_str *out);

/* A phase compiled once more as if `every` blocks at a time were recomputed, 0 for none: for
 * figures to compare with. It is the caller's, and lends the program's policies. */
mpt_status mpt_pipeline_recompile(const mpt_program *program, int phase, int every,
                                  mpt_phase_program **out);

#endif
