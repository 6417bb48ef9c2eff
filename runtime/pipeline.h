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
    mpt_device device; /* REF or CPU: AUTO is decided */
    int n_threads;
    const char *why; /* why AUTO took this model; "" where it did not choose */
    mpt_train train; /* merged for this model, micro_batch and steps filled in */
    mpt_data *data;  /* owned; opened while compiling, for its vocabulary */
    int n_phases;
    mpt_phase_program **phases;
    int64_t *phase_start; /* attempted step at which each begins */
    int n_warnings;
    mpt_warning *warnings;
    char recipe_hash[17];
};

/* The value after the stage of this name, as text; MPT_INVALID names the stages there are. */
mpt_status mpt_pipeline_dump(const mpt_program *program, const char *stage, mpt_str *out);

/* A phase compiled once more as if `every` blocks at a time were recomputed, 0 for none: for
 * figures to compare with. It is the caller's, and lends the program's policies. */
mpt_status mpt_pipeline_recompile(const mpt_program *program, int phase, int every,
                                  mpt_phase_program **out);

#endif
