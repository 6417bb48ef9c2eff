/* Inside the pipeline: what compiling (pipeline_draw.c, pipeline_compile.c) and the dumps
 * (pipeline_dump.c, pipeline_run.c) share. Nothing else includes this. */
#ifndef MPT_PIPELINE_STAGES_H
#define MPT_PIPELINE_STAGES_H

#include "pipeline.h"

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
