/* What a bench of a program's steps found, and how it is told.
 *
 * bench_program.c measures, bench_program_text.c prints. */
#ifndef MPT_TOOLS_BENCH_PROGRAM_H
#define MPT_TOOLS_BENCH_PROGRAM_H

#include "mpt/tools.h"
#include "runtime/pipeline.h"
#include "tools/op_class.h"

/* Of an op, or of all of a kind, in one step. */
typedef struct mpt_step_time {
    double seconds;
    int64_t calls;
} mpt_step_time;

typedef struct mpt_program_bench {
    const mpt_program *program;
    int steps, warm_up;     /* timed, and taken before */
    int n_skipped;          /* of the timed ones: their gradients were not finite */
    double fastest, median; /* seconds a step */
    /* Seconds of the step that the ops are told of: the fastest, or on a device the fastest of
     * those that were launched op by op, since it runs the others as a whole. */
    double told;
    bool on_device;
    /* Of that step: the GEMMs of linear layers, and all by op. */
    double gemm_flops, gemm_seconds;
    mpt_step_time ops[MPT_OP_COUNT];
    /* FLOP/s: the best of the library on large square matrices, where the host computes, and of
     * any one GEMM above. */
    double peak;
    /* Most memory, the device's where there is one; what the plan says. 0: the system does not
     * say. */
    uint64_t bytes, planned;
} mpt_program_bench;

/* Appends the result to `out`, as text or as JSON. */
mpt_status mpt_program_bench_print(mpt_ctx *ctx, const mpt_program_bench *bench, bool json,
                                   mpt_str *out);

#endif
