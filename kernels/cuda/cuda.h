/* The kernels of the CUDA backend, as C functions that launch them: mpt_cuda_<op>, and where it
 * needs room mpt_cuda_<op>_scratch. Their rows are in table.c; rows.def lists the plain ones.
 */
#ifndef MPT_KERNELS_CUDA_CUDA_H
#define MPT_KERNELS_CUDA_CUDA_H

#include "kernels/cuda/device.h"

#define MPT_CUDA_ROW(op) void mpt_cuda_##op(const mpt_kernel_args *args);
#define MPT_CUDA_ROW_SCRATCH(op)                                                               \
    MPT_CUDA_ROW(op)                                                                           \
    size_t mpt_cuda_##op##_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);
#include "kernels/cuda/rows.def"
#undef MPT_CUDA_ROW
#undef MPT_CUDA_ROW_SCRATCH

/* linear.c: by the library, what it takes as it is and what has to be decoded for it. */
void mpt_cuda_linear(const mpt_kernel_args *args);
bool mpt_cuda_linear_lt_can(const mpt_graph *graph, const mpt_node *node, const char **why);
bool mpt_cuda_linear_decoded_can(const mpt_graph *graph, const mpt_node *node,
                                 const char **why);
size_t mpt_cuda_linear_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);

/* linear_plain.cu: in ref's order of sums, for every node. */
void mpt_cuda_linear_plain(const mpt_kernel_args *args);
void mpt_cuda_linear_dgrad_plain(const mpt_kernel_args *args);
void mpt_cuda_linear_wgrad_plain(const mpt_kernel_args *args);

struct mpt_backend;
extern const struct mpt_backend mpt_backend_cuda; /* backend_cuda.c */

#endif
