/* What the time of a step is told by: each op belongs to one class. */
#ifndef MPT_TOOLS_OP_CLASS_H
#define MPT_TOOLS_OP_CLASS_H

#include "graph/graph.h"

/* X(ENUM, "name"). DATA is what no op takes: drawing the batch, and the walk between ops. */
#define MPT_OP_CLASS_LIST(X)                                                                   \
    X(GEMM, "gemm")                                                                            \
    X(ATTENTION, "attention")                                                                  \
    X(SCAN, "scan")                                                                            \
    X(QUANTIZE, "quantize")                                                                    \
    X(NORM, "norm")                                                                            \
    X(ELEMENTWISE, "elementwise")                                                              \
    X(EMBEDDING, "embedding")                                                                  \
    X(EXPERTS, "experts")                                                                      \
    X(LOSS, "loss")                                                                            \
    X(OPTIMIZER, "optimizer")                                                                  \
    X(DATA, "data")                                                                            \
    X(OTHER, "other")

typedef enum mpt_op_class {
#define MPT_OP_CLASS_ENUM(id, name) MPT_OP_CLASS_##id,
    MPT_OP_CLASS_LIST(MPT_OP_CLASS_ENUM)
#undef MPT_OP_CLASS_ENUM
        MPT_OP_CLASS_COUNT
} mpt_op_class;

const char *mpt_op_class_name(mpt_op_class class);

/* The class of an op; OTHER only where op_class.c has no row for it. A gradient has the class
 * of its forward op. */
mpt_op_class mpt_op_class_of(mpt_op op);

#endif
