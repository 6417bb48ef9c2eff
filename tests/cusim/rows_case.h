/* One op on the simulator beside ref, with the storage of every floating tensor chosen. */
#ifndef MPT_TESTS_CUSIM_ROWS_CASE_H
#define MPT_TESTS_CUSIM_ROWS_CASE_H

#include "op_case.h"

#include "kernels/cuda/cuda.h"
#include "kernels/numerics.h"

/* Turns a tensor of float32 into codes, in place: what they hold must be exact. */
static inline void rows_to_codes(mpt_tensor *t, mpt_storage storage) {
    mpt_dtype dtype = storage == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16;
    int64_t n = t->data && t->dtype == MPT_DTYPE_FP32 ? mpt_tensor_elements(t) : 0;
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)t->data)[i] = (uint16_t)mpt_encode(dtype, ((float *)t->data)[i]);
    if (t->data && t->dtype == MPT_DTYPE_FP32) {
        t->dtype = dtype;
        t->storage = storage;
    }
}

static inline void rows_from_codes(mpt_tensor *t) {
    if (!t->data || t->storage == MPT_STORAGE_HOST)
        return;
    for (int64_t i = mpt_tensor_elements(t); i-- > 0;)
        ((float *)t->data)[i] = mpt_decode(t->dtype, ((uint16_t *)t->data)[i]);
    t->dtype = MPT_DTYPE_FP32;
    t->storage = MPT_STORAGE_HOST;
}

static inline void rows_round(op_tensor *t, mpt_dtype dtype) {
    for (int64_t i = 0; t->data && t->kind != OP_IDS && i < op_elements(t); i++)
        t->data[i] = (double)mpt_round(dtype, (float)t->data[i]);
}

/* Runs the CUDA kernel of a case whose floats lie as `storage` says, sums excepted: they are
 * parameter gradients, which stay float32. */
static inline void rows_run(op_case *c, mpt_storage storage) {
    const mpt_kernel *kernel = op_kernel(mpt_kernels_cuda, c->op);
    mpt_node node;
    mpt_value values[MPT_MAX_IN + MPT_MAX_OUT] = {0};
    mpt_graph graph = {.values = values, .n_values = MPT_MAX_IN + MPT_MAX_OUT};
    mpt_tensor in[MPT_MAX_IN], out[MPT_MAX_OUT];
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2, .env = &c->env};
    assert_non_null(kernel);
    op_describe(c, &node, values);
    op_outputs_reset(c);
    for (int i = 0; i < c->n_in; i++) {
        in[i] = op_tensor_load(&c->in[i], false);
        if (storage != MPT_STORAGE_HOST)
            rows_to_codes(&in[i], storage);
    }
    for (int i = 0; i < c->n_out; i++) {
        out[i] = op_tensor_load(&c->out[i], false);
        if (storage != MPT_STORAGE_HOST && c->out[i].kind == OP_REAL)
            rows_to_codes(&out[i], storage);
    }
    size_t bytes = kernel->scratch ? kernel->scratch(&graph, &node, 1) : 0;
    unsigned char *scratch = op_calloc(bytes + 64, 1);
    memset(scratch, 0xff, bytes + 64);
    /* What changes from step to step is read from the device's copy alone. */
    mpt_run_env host = {.evaluating = c->env.evaluating, .loss_seed = NAN};
    kernel->run(&(mpt_kernel_args){&node, in, out, scratch, &host, &gpu});
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + (size_t)i], 0xff);
    free(scratch);
    for (int i = 0; i < c->n_out; i++) {
        rows_from_codes(&out[i]);
        op_tensor_store(&c->out[i], &out[i], false);
    }
    for (int i = 0; i < c->n_in; i++)
        free(in[i].data);
    for (int i = 0; i < c->n_out; i++)
        free(out[i].data);
}

/* Runs ref, with its outputs rounded as the executor does, and cuda; they may differ by
 * `tolerance` of the largest number of an output, 0 for bit for bit. */
static inline void rows_check(op_case *c, mpt_storage storage, double tolerance) {
    op_case got;
    mpt_dtype dtype = storage == MPT_STORAGE_BF16   ? MPT_DTYPE_BF16
                      : storage == MPT_STORAGE_FP16 ? MPT_DTYPE_FP16
                                                    : MPT_DTYPE_FP32;
    for (int i = 0; i < c->n_in; i++)
        rows_round(&c->in[i], dtype);
    got = *c;
    for (int o = 0; o < c->n_out; o++)
        if (c->out[o].data)
            got.out[o].data = op_calloc((size_t)op_elements(&c->out[o]), sizeof(double));
    op_run(c, op_kernel(mpt_kernels_ref, c->op), false, 1);
    rows_run(&got, storage);
    for (int o = 0; o < c->n_out; o++) {
        double most = 0;
        if (c->out[o].kind == OP_REAL)
            rows_round(&c->out[o], dtype);
        for (int64_t i = 0; c->out[o].data && i < op_elements(&c->out[o]); i++)
            most = fmax(most, fabs(c->out[o].data[i]));
        for (int64_t i = 0; c->out[o].data && i < op_elements(&c->out[o]); i++) {
            double a = got.out[o].data[i], b = c->out[o].data[i];
            if (!(fabs(a - b) <= tolerance * most || a == b || (isnan(a) && isnan(b))))
                fail_msg("%s: output %d, element %d is %.9g, not %.9g", mpt_op_get(c->op)->name,
                         o, (int)i, a, b);
        }
        free(got.out[o].data);
    }
}

#endif
