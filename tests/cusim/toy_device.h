/* A backend whose memory is the simulator's and whose kernels are the definition's: each takes
 * its tensors out of the device's storage, computes as ref does, and stores what it has made.
 * What the runtime does around kernels is then seen by itself: trained on this device, a model
 * has the bits that it has on ref. Of quantized copies those with one scale can be stored so.
 */
#ifndef MPT_TESTS_TOY_DEVICE_H
#define MPT_TESTS_TOY_DEVICE_H

#include <stdlib.h>

#include "comm/comm.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sim/runtime_sim.h"
#include "kernels/packed.h"
#include "kernels/quantize.h"
#include "kernels/tensor.h"
#include "mpt_test.h"

/* A tensor of a call as the host has it. Two of one place are one: ops work in place. */
typedef struct toy_tensor {
    const mpt_tensor *device;
    float *host;
} toy_tensor;

typedef struct toy_call {
    toy_tensor tensors[MPT_MAX_IN + MPT_MAX_OUT];
    int n;
    mpt_tensor in[MPT_MAX_IN], out[MPT_MAX_OUT];
} toy_call;

static inline mpt_tensor toy_take(toy_call *call, const mpt_tensor *t) {
    mpt_tensor host = *t;
    host.storage = MPT_STORAGE_HOST;
    host.packed = NULL;
    for (int i = 0; t->data && i < call->n; i++)
        if (call->tensors[i].device->data == t->data) {
            host.data = call->tensors[i].host;
            return host;
        }
    if (!t->data)
        return host;
    toy_tensor *taken = &call->tensors[call->n++];
    int64_t n = mpt_tensor_elements(t);
    *taken = (toy_tensor){t, malloc((size_t)n * sizeof(float))};
    assert_non_null(taken->host);
    mpt_unpack(t->storage, t->packed, t->data, n, taken->host);
    host.data = taken->host;
    return host;
}

static inline const mpt_kernel *toy_definition(mpt_op op) {
    const mpt_kernel *row = mpt_kernels_ref;
    while (row->run && row->op != op)
        row++;
    assert_non_null(row->run);
    return row;
}

static inline void toy_round(const mpt_node *node, const mpt_tensor *out) {
    if (!(mpt_op_get(node->op)->flags & (MPT_OP_CAST | MPT_OP_UPDATE)) && out->data &&
        mpt_is_wide(out->dtype))
        mpt_ref_round_to(out->dtype, out->data, (size_t)mpt_tensor_elements(out));
}

/* A code of a row of codes; longer ones than 4 bits take whole bytes, little-endian. */
static inline void toy_put_code(uint8_t *row, int bits, int64_t k, uint32_t code) {
    if (bits == 4)
        row[k / 2] = (uint8_t)(k % 2 ? (row[k / 2] & 15u) | code << 4 : code);
    else
        memcpy(row + k * (bits / 8), &code, (size_t)bits / 8);
}

/* A copy without scales: its values are those of its codes. */
static inline void toy_pack_copy(const mpt_packed *p, const float *x, uint8_t *out) {
    int bits = mpt_code_bits(p->q.format);
    int64_t turned_row = (p->rows * bits + 7) / 8;
    assert_true(p->scales == 0);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t k = 0; k < p->k; k++) {
            uint32_t code =
                mpt_encode(p->q.format, x[p->column ? k * p->rows + r : r * p->k + k]);
            toy_put_code(out + r * p->code_row, bits, k, code);
            if (p->turned)
                toy_put_code(out + p->turned + (size_t)(k * turned_row), bits, r, code);
        }
}

static inline void toy_store(const mpt_tensor *t, const float *x) {
    if (t->storage == MPT_STORAGE_PACKED)
        toy_pack_copy(t->packed, x, t->data);
    else
        mpt_pack(t->storage, x, mpt_tensor_elements(t), t->data);
}

/* In the stream, when the device's memory may be touched. */
static inline void toy_compute(const mpt_kernel_args *args, bool counting) {
    const mpt_node *node = args->node;
    mpt_run_env env = *args->gpu->env; /* as the step before it wrote it to the device */
    toy_call call = {.n = 0};
    for (int i = 0; i < node->n_in; i++)
        call.in[i] = toy_take(&call, &args->in[i]);
    for (int k = 0; k < node->n_out; k++)
        call.out[k] = toy_take(&call, &args->out[k]);
    env.n_threads = 1;
    env.comm = mpt_comm_self();
    env.counts = counting ? args->gpu->counts : NULL;
    env.tally = NULL;
    toy_definition(node->op)->run(
        &(mpt_kernel_args){node, call.in, call.out, args->scratch, &env, NULL});
    for (int k = 0; k < node->n_out; k++)
        toy_round(node, &call.out[k]);
    for (int i = 0; i < call.n; i++) {
        toy_store(call.tensors[i].device, call.tensors[i].host);
        free(call.tensors[i].host);
    }
}

static inline void toy_compute_counting(const mpt_kernel_args *args) {
    toy_compute(args, true);
}

static inline void toy_compute_plain(const mpt_kernel_args *args) {
    toy_compute(args, false);
}

/* A kernel: which call is launched may depend on `counting` now, as with real ones. */
static inline void toy_launch(const mpt_kernel_args *args) {
    cusim_launch_call(args, args->gpu->counting ? toy_compute_counting : toy_compute_plain);
}

typedef struct toy_device {
    mpt_kernel rows[MPT_OP_COUNT + 1];
    const mpt_kernel *tables[2];
    mpt_device_ops ops;
    mpt_backend backend;
} toy_device;

static inline void toy_make(toy_device *toy) {
    int n = 0;
    memset(toy, 0, sizeof *toy);
    for (int op = 0; op < MPT_OP_COUNT; op++) {
        toy->rows[n] = *toy_definition((mpt_op)op);
        toy->rows[n].name = "toy";
        toy->rows[n++].run = toy_launch;
    }
    toy->tables[0] = toy->rows;
    toy->ops = *mpt_backend_cuda.device;
    toy->backend = mpt_backend_cuda;
    toy->backend.name = "toy";
    toy->backend.tables = toy->tables;
    toy->backend.device = &toy->ops;
}

#endif
