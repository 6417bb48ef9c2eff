/* The classes of ops: most follow from the flags in graph/ops.def, the rest from rows here. */
#include "tools/op_class.h"

#include <string.h>

typedef struct class_row {
    const char *op; /* or what its name starts with, where that ends in '*' */
    mpt_op_class class;
} class_row;

/* By name, so that kin may share a row. The first row that fits counts. */
static const class_row rows[] = {
    {"attention", MPT_OP_CLASS_ATTENTION},   {"rope", MPT_OP_CLASS_ATTENTION},
    {"ssm_scan", MPT_OP_CLASS_SCAN},         {"conv1d", MPT_OP_CLASS_SCAN},
    {"scale_update", MPT_OP_CLASS_QUANTIZE}, {"rmsnorm", MPT_OP_CLASS_NORM},
    {"layernorm", MPT_OP_CLASS_NORM},        {"gated_rmsnorm", MPT_OP_CLASS_NORM},
    {"embedding", MPT_OP_CLASS_EMBEDDING},   {"cross_entropy", MPT_OP_CLASS_LOSS},
    {"moe*", MPT_OP_CLASS_EXPERTS},          {"route*", MPT_OP_CLASS_EXPERTS},
    {"expert*", MPT_OP_CLASS_EXPERTS},       {"add", MPT_OP_CLASS_ELEMENTWISE},
    {"mul", MPT_OP_CLASS_ELEMENTWISE},       {"scale", MPT_OP_CLASS_ELEMENTWISE},
    {"gelu", MPT_OP_CLASS_ELEMENTWISE},      {"silu", MPT_OP_CLASS_ELEMENTWISE},
    {"relu2", MPT_OP_CLASS_ELEMENTWISE},     {"swiglu", MPT_OP_CLASS_ELEMENTWISE},
    {"sigmoid", MPT_OP_CLASS_ELEMENTWISE},   {"softplus", MPT_OP_CLASS_ELEMENTWISE},
    {"softmax", MPT_OP_CLASS_ELEMENTWISE},   {"dropout", MPT_OP_CLASS_ELEMENTWISE},
    {"split", MPT_OP_CLASS_ELEMENTWISE},     {"concat", MPT_OP_CLASS_ELEMENTWISE},
    {"bias", MPT_OP_CLASS_ELEMENTWISE},
};

const char *mpt_op_class_name(mpt_op_class class) {
    static const char *const names[] = {
#define NAME(id, name) name,
        MPT_OP_CLASS_LIST(NAME)
#undef NAME
    };
    return (unsigned)class < MPT_OP_CLASS_COUNT ? names[class] : "?";
}

static bool fits(const class_row *row, const char *name) {
    size_t n = strcspn(row->op, "*");
    if (strncmp(row->op, name, n) != 0)
        return false;
    return row->op[n] == '*' || name[n] == 0 || strcmp(name + n, "_grad") == 0;
}

mpt_op_class mpt_op_class_of(mpt_op op) {
    const mpt_op_row *info = mpt_op_get(op);
    if (info->flags & MPT_OP_MATMUL)
        return MPT_OP_CLASS_GEMM;
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        if (fits(&rows[i], info->name))
            return rows[i].class;
    if (info->flags & MPT_OP_CAST)
        return MPT_OP_CLASS_QUANTIZE;
    return info->flags & MPT_OP_UPDATE ? MPT_OP_CLASS_OPTIMIZER : MPT_OP_CLASS_OTHER;
}
