/* Shapes of one test's own for the kernels that multiply by tiles: float32 and two bytes a
 * value against the definition in double, and every bit the same in a shuffled order. */
#ifndef MPT_TESTS_CUSIM_TILE_CASE_H
#define MPT_TESTS_CUSIM_TILE_CASE_H

#include "conformance.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sim/control.h"

/* What tensors of a case lie in; statistics that a pass keeps for the other stay float32. */
static inline bool tile_is_kept(const op_case *c, bool out, int i) {
    if (c->op == MPT_OP_attention || c->op == MPT_OP_ssm_scan)
        return out && i == 1;
    return !out && i == (c->op == MPT_OP_attention_grad ? 4 : 7);
}

/* The input rounded to a storage, for the kernel and the definition alike. */
static inline void tile_take_input(op_tensor *t, mpt_storage storage) {
    t->storage = storage;
    for (int64_t e = 0; e < op_elements(t); e++)
        t->data[e] = (double)mpt_round(op_storage_dtype(storage), (float)t->data[e]);
}

static inline op_case tile_run(const op_case *c, mpt_storage out, uint64_t seed) {
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2};
    op_case got = twin_of(c);
    got.gpu = &gpu;
    for (int o = 0; o < got.n_out; o++)
        if (!tile_is_kept(&got, true, o) && got.out[o].kind == OP_REAL)
            got.out[o].storage = out;
    cusim_shuffle(seed);
    op_run(&got, op_selected(mpt_kernels_cuda, c), false, 1);
    cusim_shuffle(0);
    return got;
}

static inline void tile_same_bits(const op_case *a, const op_case *b, const char *name) {
    for (int o = 0; o < a->n_out; o++)
        for (int64_t i = 0; a->out[o].data && i < op_elements(&a->out[o]); i++)
            if (memcmp(&a->out[o].data[i], &b->out[o].data[i], sizeof(double)) != 0)
                fail_msg("%s: output %d, element %d is %a, not %a", name, o, (int)i,
                         a->out[o].data[i], b->out[o].data[i]);
}

/* Rounds the inputs that `storages` names and holds the kernel against the definition. */
static inline void tile_check_stored(const op_case *of, const shape *sh,
                                     const mpt_storage *storages) {
    op_case expected = twin_of(of);
    for (int i = 0; i < of->n_in; i++) {
        expected.in[i] = op_tensor_copy(&of->in[i]);
        if (!tile_is_kept(of, false, i) && of->in[i].rank == 2)
            tile_take_input(&expected.in[i], storages[i % 3]);
    }
    op_run(&expected, op_kernel(ref64_kernels, of->op), true, 1);
    op_case got = tile_run(&expected, storages[0], 0);
    compare(&got, &expected, tolerance_of(&sh->sizes), mpt_op_get(of->op)->name, sh->name);
    twin_free(&got);
    op_free(&expected);
}

static void check_node(op_case *expected, const shape *sh) {
    const mpt_storage mixed[] = {MPT_STORAGE_BF16, MPT_STORAGE_HOST, MPT_STORAGE_FP16};
    const mpt_storage bf16[] = {MPT_STORAGE_BF16, MPT_STORAGE_BF16, MPT_STORAGE_BF16};
    const char *name = mpt_op_get(expected->op)->name;
    op_case got = tile_run(expected, MPT_STORAGE_HOST, 0);
    op_case shuffled = tile_run(expected, MPT_STORAGE_HOST, 7);
    compare(&got, expected, tolerance_of(&sh->sizes), name, sh->name);
    tile_same_bits(&got, &shuffled, name);
    tile_check_stored(expected, sh, bf16);
    tile_check_stored(expected, sh, mixed);
    twin_free(&got);
    twin_free(&shuffled);
}

static inline const op_row *tile_row_of(mpt_op op) {
    for (size_t i = 0; i < MPT_COUNT(op_rows); i++)
        if (op_rows[i].op == op)
            return &op_rows[i];
    fail_msg("no case for %s", mpt_op_get(op)->name);
    return NULL;
}

/* Forward and backward in each shape. */
static inline void tile_check(mpt_op op, const shape *of, size_t n) {
    for (size_t i = 0; i < n; i++)
        check_row(tile_row_of(op), &of[i]);
}

#endif
