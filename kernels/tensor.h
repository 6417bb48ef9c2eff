/* Small readers of kernel arguments: optional tensors, rows and columns, Mamba-2 shapes.
 *
 * Every kernel starts with these, in ref and cpu alike, so that "absent", "rows" and "chunk"
 * mean the same everywhere. */
#ifndef MPT_KERNELS_TENSOR_H
#define MPT_KERNELS_TENSOR_H

#include "kernels/kernel.h"

/* Data of an input or output, NULL where the node has none there. */
static inline const void *mpt_arg_in(const mpt_kernel_args *args, int i) {
    return i < args->node->n_in ? args->in[i].data : NULL;
}

static inline void *mpt_arg_out(const mpt_kernel_args *args, int i) {
    return i < args->node->n_out ? args->out[i].data : NULL;
}

static inline int64_t mpt_tensor_elements(const mpt_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* The last dimension, and all others as one: any tensor seen as a matrix. */
static inline int64_t mpt_tensor_cols(const mpt_tensor *t) {
    return t->dims[t->rank - 1];
}

static inline int64_t mpt_tensor_rows(const mpt_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* Sizes of a Mamba-2 scan. States entering each chunk are kept as
 * [batch][n_chunks][heads][head_dim][state]; the last chunk may be short. Read by C++ too. */
typedef struct mpt_ssm_shape {
    int64_t batch, sequence, heads, head_dim, groups, state, chunk, n_chunks;
} mpt_ssm_shape;

static inline mpt_ssm_shape mpt_ssm_shape_of(const mpt_attrs *a) {
    int64_t chunk = a->sizes[0] > 0 ? a->sizes[0] : a->sequence;
    mpt_ssm_shape s = {a->batch,  a->sequence, a->heads, a->head_dim,
                       a->groups, a->state,    chunk,    0};
    s.n_chunks = (s.sequence + s.chunk - 1) / s.chunk;
    return s;
}

#endif
