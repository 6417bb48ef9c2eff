/* One op with data, built by hand, for tests that run kernels without a graph or an executor.
 *
 * All numbers are kept as doubles that are exact in float32. op_run() hands a kernel a copy in
 * float or double and brings the outputs back. Outputs that a kernel must write whole start as
 * NaN, parameter gradients start at a known number, so that a forgotten element shows. */
#ifndef MPT_TESTS_OP_CASE_H
#define MPT_TESTS_OP_CASE_H

#include <stdlib.h>
#include <math.h>

#include "mpt_test.h"
#include "kernels/cuda/device.h"
#include "kernels/packed.h"
#include "kernels/tensor.h"

typedef enum op_kind { OP_ABSENT, OP_REAL, OP_CONSTANT, OP_IDS, OP_SUM } op_kind;

/* OP_REAL: a floating tensor. OP_CONSTANT: one without a gradient. OP_SUM: an output that is
 * added to. */
typedef struct op_tensor {
    op_kind kind;
    int rank;
    int64_t dims[MPT_MAX_RANK];
    double lo, hi;       /* of the random numbers of an input */
    double *data;        /* OP_IDS too */
    mpt_storage storage; /* in which a kernel of a device finds it */
} op_tensor;

typedef struct op_case {
    mpt_op op;
    mpt_attrs attrs;
    mpt_run_env env;
    mpt_gpu *gpu; /* of the simulator; NULL: the kernel is a host's */
    int n_in, n_out;
    op_tensor in[MPT_MAX_IN], out[MPT_MAX_OUT];
} op_case;

static const double op_sum_start = 0.25;

static inline int64_t op_elements(const op_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* Declares the next input or output; cols 0 makes a vector. */
static inline op_tensor op_tensor_of(op_kind kind, int64_t rows, int64_t cols, double lo,
                                     double hi) {
    return (op_tensor){kind, cols > 0 ? 2 : 1, {rows, cols, 0, 0}, lo, hi, NULL, 0};
}

static inline void op_in(op_case *c, op_kind kind, int64_t rows, int64_t cols, double lo,
                         double hi) {
    c->in[c->n_in++] = op_tensor_of(kind, rows, cols, lo, hi);
}

static inline void op_out(op_case *c, op_kind kind, int64_t rows, int64_t cols) {
    c->out[c->n_out++] = op_tensor_of(kind, rows, cols, 0, 0);
}

static inline void *op_calloc(size_t n, size_t bytes) {
    void *p = aligned_alloc(64, (n * bytes + 127) / 64 * 64);
    assert_non_null(p);
    memset(p, 0, (n * bytes + 127) / 64 * 64);
    return p;
}

/* A number of [0, 1) from a counter (splitmix64), the same on every machine. */
static inline double op_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 40) / 16777216.0;
}

static inline void op_fill_tensor(op_tensor *t, uint64_t seed) {
    int64_t n = op_elements(t);
    t->data = op_calloc((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        double x = t->lo + (t->hi - t->lo) * op_random(&seed);
        t->data[i] = t->kind == OP_IDS ? floor(x) : (double)(float)x;
    }
}

/* Random inputs, and room for the outputs. */
static inline void op_fill(op_case *c, uint64_t seed) {
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind != OP_ABSENT)
            op_fill_tensor(&c->in[i], seed + 1000 * (uint64_t)i);
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i].kind != OP_ABSENT)
            op_fill_tensor(&c->out[i], 0);
}

static inline void op_free(op_case *c) {
    for (int i = 0; i < c->n_in; i++)
        free(c->in[i].data);
    for (int i = 0; i < c->n_out; i++)
        free(c->out[i].data);
}

static inline mpt_dtype op_storage_dtype(mpt_storage storage) {
    return storage == MPT_STORAGE_BF16   ? MPT_DTYPE_BF16
           : storage == MPT_STORAGE_FP16 ? MPT_DTYPE_FP16
                                         : MPT_DTYPE_FP32;
}

/* A kernel's view of a tensor, in memory of its own. */
static inline mpt_tensor op_tensor_load(const op_tensor *t, bool wide) {
    mpt_storage storage = wide || t->kind == OP_IDS ? MPT_STORAGE_HOST : t->storage;
    mpt_tensor out = {.rank = t->rank, .storage = storage};
    out.dtype = t->kind == OP_IDS ? MPT_DTYPE_I32 : op_storage_dtype(storage);
    memcpy(out.dims, t->dims, sizeof out.dims);
    if (t->kind == OP_ABSENT)
        return out;
    int64_t n = op_elements(t);
    out.data = op_calloc((size_t)n, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        float x = (float)t->data[i];
        if (t->kind == OP_IDS)
            ((int32_t *)out.data)[i] = (int32_t)t->data[i];
        else if (wide)
            ((double *)out.data)[i] = t->data[i];
        else
            mpt_pack(storage, &x, 1, (char *)out.data + (size_t)i * mpt_storage_bytes(storage));
    }
    return out;
}

static inline double op_unpack(const mpt_tensor *from, int64_t i) {
    float x;
    size_t bytes = mpt_storage_bytes(from->storage);
    mpt_unpack(from->storage, NULL, (const char *)from->data + (size_t)i * bytes, 1, &x);
    return (double)x;
}

static inline void op_tensor_store(op_tensor *t, mpt_tensor *from, bool wide) {
    for (int64_t i = 0; from->data && i < op_elements(t); i++)
        t->data[i] = t->kind == OP_IDS ? (double)((int32_t *)from->data)[i]
                     : wide            ? ((double *)from->data)[i]
                                       : op_unpack(from, i);
}

static inline void op_outputs_reset(op_case *c) {
    for (int o = 0; o < c->n_out; o++)
        for (int64_t i = 0; c->out[o].data && i < op_elements(&c->out[o]); i++)
            c->out[o].data[i] = c->out[o].kind == OP_SUM   ? op_sum_start
                                : c->out[o].kind == OP_IDS ? -7777
                                                           : NAN;
}

/* The value table that scratch() may ask for shapes: inputs first, then outputs. */
static inline void op_describe(const op_case *c, mpt_node *node, mpt_value *values) {
    *node = (mpt_node){.op = c->op,
                       .layer = -1,
                       .n_in = (int8_t)c->n_in,
                       .n_out = (int8_t)c->n_out,
                       .attrs = c->attrs};
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        const op_tensor *t = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
        values[i].rank = t->rank;
        memcpy(values[i].dims, t->dims, sizeof t->dims);
        mpt_value_id id = t->kind == OP_ABSENT ? -1 : i;
        if (i < c->n_in)
            node->in[i] = id;
        else
            node->out[i - c->n_in] = id;
    }
}

/* Runs a kernel on the case: wide for the double reference. */
static inline void op_run(op_case *c, const mpt_kernel *kernel, bool wide, int n_threads) {
    mpt_node node;
    mpt_value values[MPT_MAX_IN + MPT_MAX_OUT] = {0};
    mpt_graph graph = {.values = values, .n_values = MPT_MAX_IN + MPT_MAX_OUT};
    mpt_tensor in[MPT_MAX_IN], out[MPT_MAX_OUT];
    op_describe(c, &node, values);
    op_outputs_reset(c);
    for (int i = 0; i < c->n_in; i++)
        in[i] = op_tensor_load(&c->in[i], wide);
    for (int i = 0; i < c->n_out; i++)
        out[i] = op_tensor_load(&c->out[i], wide);
    c->env.n_threads = n_threads;
    size_t bytes = kernel->scratch ? kernel->scratch(&graph, &node, n_threads) : 0;
    /* Scratch is not promised to be zero, nor to be longer than asked for. */
    unsigned char *scratch = op_calloc(bytes + 64, 1);
    memset(scratch, 0xff, bytes + 64);
    mpt_kernel_args args = {&node, in, out, scratch, &c->env, c->gpu};
    if (c->gpu)
        c->gpu->env = &c->env;
    kernel->run(&args);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + (size_t)i], 0xff);
    free(scratch);
    for (int i = 0; i < c->n_out; i++)
        op_tensor_store(&c->out[i], &out[i], wide);
    for (int i = 0; i < c->n_in; i++)
        free(in[i].data);
    for (int i = 0; i < c->n_out; i++)
        free(out[i].data);
}

/* The table's first row of an op, which is its best; NULL where it has none. */
static inline const mpt_kernel *op_kernel(const mpt_kernel *table, mpt_op op) {
    for (; table->run; table++)
        if (table->op == op)
            return table;
    return NULL;
}

/* The first row that takes the case, as the selector would have it. */
static inline const mpt_kernel *op_selected(const mpt_kernel *table, const op_case *c) {
    mpt_node node;
    mpt_value values[MPT_MAX_IN + MPT_MAX_OUT] = {0};
    mpt_graph graph = {.values = values, .n_values = MPT_MAX_IN + MPT_MAX_OUT};
    const char *why = NULL;
    op_describe(c, &node, values);
    for (; table->run; table++)
        if (table->op == c->op && (!table->can || table->can(&graph, &node, &why)))
            return table;
    return NULL;
}

#endif
