/* What a kernel is to the rest of the runtime: one row in a backend's table.
 *
 * Rows stand best first; the selector (sched/select.c) takes the first whose can() says yes and
 * keeps the reasons of those that did not. ref.<op> is last, takes everything, and is the
 * definition of the op's numbers.
 *
 * The contract of every kernel: outputs that are parameter gradients (MPT_VALUE_GRAD) are added
 * to, all others are written whole; inputs are only read, except moments and amax histories,
 * which their ops bring up to date; float data is float32 (mpt_real in ref, which tests also
 * compile as double); results are rounded to the output's dtype by the executor after the
 * kernel, except for quantize, cast and the optimizer, which round themselves. No kernel
 * allocates, prints or fails: whatever can be wrong is refused by infer.
 */
#ifndef MPT_KERNELS_KERNEL_H
#define MPT_KERNELS_KERNEL_H

#include "graph/graph.h"

/* How a tensor's elements lie in memory. */
typedef enum mpt_storage {
    MPT_STORAGE_HOST,  /* float32 or int32: everything on the host backends */
    MPT_STORAGE_BF16,  /* two bytes a value */
    MPT_STORAGE_FP16,  /* two bytes a value */
    MPT_STORAGE_PACKED /* codes and scales of a quantized copy: kernels/packed.h */
} mpt_storage;

struct mpt_packed; /* kernels/packed.h */

typedef struct mpt_tensor {
    void *data; /* NULL where an optional tensor is absent */
    mpt_dtype dtype;
    int rank;
    int64_t dims[MPT_MAX_RANK];
    mpt_storage storage;
    const struct mpt_packed *packed; /* where it is packed; else NULL */
} mpt_tensor;

struct mpt_quantize_counts; /* kernels/quantize.h */
struct mpt_comm;            /* comm/comm.h */

/* How often the steps of a program ran, summed up by what they are. */
typedef struct mpt_run_tally {
    const int32_t *of_step; /* one a step: its place in `runs`, or -1: not counted */
    int64_t *runs;
} mpt_run_tally;

/* What changes from step to step, set by the trainer. */
typedef struct mpt_run_env {
    uint64_t seed;
    uint32_t step;        /* attempted step, from 0: keys the stochastic streams */
    uint32_t micro_batch; /* index within the step */
    float loss_seed;    /* loss scale / targets of the whole step: factor on softmax - onehot */
    float grad_unscale; /* 1 / loss scale, applied once by the optimizer's tail */
    float lr;
    float bias_correction1, bias_correction2; /* 1 - beta^t, of applied steps */
    int n_threads;
    bool evaluating; /* nothing that outlives the step is written: no amax enters a history; and
                        nothing is dropped */
    const struct mpt_comm *comm; /* to the other ranks; NULL: there are none */
    /* One for each of the graph's operands, added to; NULL: nothing is counted. */
    struct mpt_quantize_counts *counts;
    const mpt_run_tally *tally; /* the executor adds each step that ran; NULL: it does not */
} mpt_run_env;

typedef struct mpt_kernel_args {
    const mpt_node *node;
    const mpt_tensor *in;  /* node->n_in of them */
    const mpt_tensor *out; /* node->n_out of them */
    void *scratch;         /* as many bytes as scratch() asked for, 64-byte aligned */
    const mpt_run_env *env;
    struct mpt_gpu *gpu; /* kernels/cuda/device.h; NULL on the host */
} mpt_kernel_args;

typedef struct mpt_kernel {
    mpt_op op;
    const char *name; /* "cpu.linear_sgemm" */
    /* NULL: takes all. Else false with a reason (static text) for a node it cannot take. */
    bool (*can)(const mpt_graph *graph, const mpt_node *node, const char **why);
    void (*run)(const mpt_kernel_args *args);
    /* NULL: none. Bytes of scratch for this node with n_threads threads. */
    size_t (*scratch)(const mpt_graph *graph, const mpt_node *node, int n_threads);
} mpt_kernel;

/* The tables; each ends with a row whose run is NULL. */
extern const mpt_kernel mpt_kernels_ref[];
extern const mpt_kernel mpt_kernels_cpu[];
extern const mpt_kernel mpt_kernels_cuda[]; /* of the CUDA module and of its simulator */

#endif
