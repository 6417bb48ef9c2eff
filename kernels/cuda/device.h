/* What a kernel of the CUDA backend runs on: a stream, memory there, and the library's handle.
 *
 * One a trainer; its owner is exec/. All pointers but `env_host` are device memory. What
 * changes from step to step is read from `env` by kernels while they run, never baked into a
 * launch's arguments, because a graph runs the launches of one step again in all others. Which
 * kernels are launched may depend on the node, on `counting` and on args->env->evaluating
 * alone. */
#ifndef MPT_KERNELS_CUDA_DEVICE_H
#define MPT_KERNELS_CUDA_DEVICE_H

#include "kernels/quantize.h"

struct mpt_lt; /* kernels/cuda/lt.h */

typedef struct mpt_gpu {
    mpt_target target; /* the kind of GPU: what its tensor cores take */
    int n_multiprocessors;
    void *stream;           /* cudaStream_t, or the simulator's; its NULL runs at once */
    const mpt_run_env *env; /* a copy in device memory: numbers only, its pointers are void */
    bool counting;          /* operands are counted in this run */
    mpt_quantize_counts *counts; /* one an operand of the graph, added to */
    struct mpt_lt *lt;
    void *workspace; /* of lt alone */
    size_t workspace_bytes;
    const char *error; /* how it failed first, static text; NULL: it has not */
    char name[64];
    int capability;                  /* 90: compute capability 9.0 */
    size_t memory_bytes, free_bytes; /* when it was opened */
} mpt_gpu;

#endif
