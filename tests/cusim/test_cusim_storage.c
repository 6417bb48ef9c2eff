/* The conformance table with tensors in two bytes a value: the inputs are rounded for kernel
 * and definition alike, so what differs is the rounding of outputs. */
#include "conformance.h"

#include "kernels/cuda/cuda.h"

typedef struct storages {
    mpt_storage in, out;
} storages;

static const storages pairs[] = {{MPT_STORAGE_BF16, MPT_STORAGE_BF16},
                                 {MPT_STORAGE_FP16, MPT_STORAGE_FP16},
                                 {MPT_STORAGE_BF16, MPT_STORAGE_HOST},
                                 {MPT_STORAGE_HOST, MPT_STORAGE_BF16}};

/* Statistics that one pass keeps for the other, losses and the router are FP32 in every recipe,
 * as parameters' vectors, their gradients and factors are. */
static bool is_two_bytes(const op_case *c, const op_tensor *t, bool out, int i) {
    if (t->kind != OP_REAL || t->rank != 2)
        return false;
    switch (c->op) {
    case MPT_OP_attention:
    case MPT_OP_ssm_scan:
        return !out || i == 0;
    case MPT_OP_attention_grad:
        return out || i != 4;
    case MPT_OP_ssm_scan_grad:
        return out || i != 7;
    case MPT_OP_moe_route:
    case MPT_OP_moe_route_grad:
        return false;
    default:
        return true;
    }
}

static void take_inputs(op_case *c, mpt_storage storage) {
    for (int i = 0; i < c->n_in; i++) {
        if (!c->in[i].data)
            continue;
        c->in[i] = op_tensor_copy(&c->in[i]);
        if (!is_two_bytes(c, &c->in[i], false, i))
            continue;
        c->in[i].storage = storage;
        for (int64_t e = 0; e < op_elements(&c->in[i]); e++)
            c->in[i].data[e] =
                (double)mpt_round(op_storage_dtype(storage), (float)c->in[i].data[e]);
    }
}

static void check_storages(const op_case *of, const shape *sh, storages s) {
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2};
    op_case expected = twin_of(of);
    take_inputs(&expected, s.in);
    op_run(&expected, op_kernel(ref64_kernels, expected.op), true, 1);
    const mpt_kernel *row = op_selected(mpt_kernels_cuda, &expected);
    if (!row)
        fail_msg("cuda has no kernel for %s", mpt_op_get(expected.op)->name);
    op_case got = twin_of(&expected);
    got.gpu = &gpu;
    for (int o = 0; o < got.n_out; o++)
        if (is_two_bytes(&got, &got.out[o], true, o))
            got.out[o].storage = s.out;
    op_run(&got, row, false, 1);
    compare(&got, &expected, tolerance_of(&sh->sizes), row->name, sh->name);
    twin_free(&got);
    op_free(&expected);
}

/* The odd shape has only rows that are no multiple of a vector, the other only such that are.
 */
static void check_node(op_case *expected, const shape *sh) {
    for (size_t i = 0; i < MPT_COUNT(pairs); i++)
        if (strcmp(sh->name, "odd") == 0 || (i == 0 && strcmp(sh->name, "proxy") == 0))
            check_storages(expected, sh, pairs[i]);
}

CONFORMANCE_OPS(CONFORMANCE_CASE)

static const struct CMUnitTest cases[] = {
#define CASE(op) cmocka_unit_test(test_conformance_when_##op##_then_within_bound),
    CONFORMANCE_OPS(CASE)};

MPT_TEST_MAIN(cases)
