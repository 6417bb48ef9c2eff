/* The autocast table: one row an op. */
#include "recipe/ops.h"

#include <string.h>

#define NONE MPT_OPS_COUNT

static const mpt_ops_row rows[] = {
    /* op, class, own word, word of its kind, reads, writes */
    {"embedding", MPT_OPS_CLASS_WIDEST, MPT_OPS_EMBEDDING, NONE, false, true},
    {"linear", MPT_OPS_CLASS_LOW, NONE, NONE, false, false}, /* rules say how, slot by slot */
    {"add", MPT_OPS_CLASS_WIDEST, MPT_OPS_ADD, NONE, false, true},
    {"mul", MPT_OPS_CLASS_WIDEST, MPT_OPS_MUL, NONE, false, true},
    {"gelu", MPT_OPS_CLASS_WIDEST, MPT_OPS_GELU, NONE, false, true},
    {"silu", MPT_OPS_CLASS_WIDEST, MPT_OPS_SILU, NONE, false, true},
    {"relu2", MPT_OPS_CLASS_WIDEST, MPT_OPS_RELU2, NONE, false, true},
    {"softplus", MPT_OPS_CLASS_WIDEST, MPT_OPS_SOFTPLUS, NONE, false, true},
    {"swiglu", MPT_OPS_CLASS_WIDEST, MPT_OPS_SWIGLU, NONE, false, true},
    {"softmax", MPT_OPS_CLASS_WIDEST, NONE, NONE, false, false}, /* the word is attention's */
    {"scale", MPT_OPS_CLASS_WIDEST, NONE, NONE, false, false},
    {"dropout", MPT_OPS_CLASS_WIDEST, NONE, NONE, false, false},
    {"rope", MPT_OPS_CLASS_WIDEST, MPT_OPS_ROPE, NONE, false, true},
    {"rmsnorm", MPT_OPS_CLASS_FP32, MPT_OPS_RMSNORM, MPT_OPS_NORM, false, true},
    {"layernorm", MPT_OPS_CLASS_FP32, MPT_OPS_LAYERNORM, MPT_OPS_NORM, false, true},
    {"gated_rmsnorm", MPT_OPS_CLASS_FP32, MPT_OPS_GATED_RMSNORM, MPT_OPS_NORM, false, true},
    {"attention", MPT_OPS_CLASS_LOW, MPT_OPS_ATTENTION, NONE, true, true},
    {"conv1d", MPT_OPS_CLASS_LOW, MPT_OPS_CONV1D, MPT_OPS_CONV, true, true},
    {"ssm_scan", MPT_OPS_CLASS_FP32, MPT_OPS_SSM_SCAN, MPT_OPS_SCAN, false, true},
    {"split", MPT_OPS_CLASS_WIDEST, NONE, NONE, false, false}, /* these two move numbers */
    {"concat", MPT_OPS_CLASS_WIDEST, NONE, NONE, false, false},
    {"moe_route", MPT_OPS_CLASS_FP32, NONE, NONE, false, false},
    {"moe_dispatch", MPT_OPS_CLASS_WIDEST, NONE, NONE, false, false},
    {"moe_combine", MPT_OPS_CLASS_LOW, NONE, NONE, false, false}, /* sums in FP32 inside */
    {"cross_entropy", MPT_OPS_CLASS_FP32, MPT_OPS_CROSS_ENTROPY, NONE, true, false},
};

const char *mpt_ops_word_name(mpt_ops_word word) {
    static const char *const names[] = {
#define NAME(id, name, formats, by_default, doc) name,
        MPT_OPS_WORD_LIST(NAME)
#undef NAME
    };
    return (unsigned)word < MPT_OPS_COUNT ? names[word] : "?";
}

const char *mpt_ops_class_name(mpt_ops_class which) {
    static const char *const names[] = {"low", "fp32", "widest"};
    return (unsigned)which < MPT_COUNT(names) ? names[which] : "?";
}

const mpt_ops_row *mpt_ops_find(const char *op) {
    for (size_t i = 0; op && i < MPT_COUNT(rows); i++)
        if (strcmp(rows[i].op, op) == 0)
            return &rows[i];
    return NULL;
}

const mpt_ops_row *mpt_ops_rows(int *out_n) {
    *out_n = (int)MPT_COUNT(rows);
    return rows;
}

mpt_ops_word mpt_ops_said(const mpt_ops_use *uses, const mpt_ops_row *row) {
    if (!uses || !row)
        return MPT_OPS_COUNT;
    if (row->own != MPT_OPS_COUNT && uses[row->own].format != MPT_DTYPE_COUNT)
        return row->own;
    if (row->group != MPT_OPS_COUNT && uses[row->group].format != MPT_DTYPE_COUNT)
        return row->group;
    return MPT_OPS_COUNT;
}
