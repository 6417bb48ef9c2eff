/* Inside the pipeline: what compiling (pipeline_draw.c, pipeline_compile.c) and the dumps
 * (pipeline_dump.c, pipeline_run.c) share. Nothing else includes this. */
#ifndef MPT_PIPELINE_STAGES_H
#define MPT_PIPELINE_STAGES_H

#include "exec/module.h"
#include "pipeline.h"

/* What a program computes on. */
typedef struct mpt_device_choice {
    mpt_device device; /* never AUTO */
    const struct mpt_backend *backend;
    mpt_target target; /* that the plan speaks of; HOST as the host's wish means this machine */
    double rate;       /* floating-point operations a second that a run may reach */
    uint64_t memory;   /* bytes a new program could use; 0: unknown */
    const char *whose; /* "this machine" */
    char no_device[MPT_MODULE_WHY]; /* of mpt_program_info */
} mpt_device_choice;

/* Takes the device that was asked for. MPT_NO_DEVICE: it is not there. */
mpt_status mpt_pipeline_choose_device(mpt_ctx *ctx, mpt_device asked, int n_threads,
                                      mpt_device_choice *out);

/* The shape of one drawing: a micro-batch. */
typedef struct mpt_drawing {
    bool proxy;
    int64_t batch, sequence, vocab;
    bool vocab_unstated; /* of graph.h */
} mpt_drawing;

/* Stage 1, second half: lets the recipe's model draw its forward graph, and checks it.
 * With own_tokens the host gives all tokens. */
mpt_status mpt_pipeline_draw(mpt_recipe *recipe, const mpt_drawing *drawing, bool own_tokens,
                             mpt_graph **out);

/* Stage 4: backward pass and the optimizer's tail. */
mpt_status mpt_pipeline_grow(mpt_graph *graph, const mpt_train *train);

/* The ten dumps, each the text of the value after its stage. */
mpt_status mpt_dump_load(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_freeze(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_check(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_grad(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_precise(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_select(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_order(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_plan(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_run(const mpt_program *program, mpt_str *out);
mpt_status mpt_dump_train(const mpt_program *program, mpt_str *out);

/* Sum of all memory classes. */
uint64_t mpt_phase_program_bytes(const mpt_phase_program *program);

#endif
