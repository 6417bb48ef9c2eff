/* Every op of op_cases.h against the double-precision reference, forward and backward, by
 * shapes.
 *
 * A test says by `check_node` how the kernels of its backend run a node; the bound is stated
 * once, in tolerance_of(). */
#ifndef MPT_TESTS_CONFORMANCE_H
#define MPT_TESTS_CONFORMANCE_H

#include "ref64.h"

#include "op_cases.h"

typedef struct shape {
    const char *name;
    op_sizes sizes;
} shape;

/* The gradient of a norm over a handful of features cancels, so no width is below 7.
 * batch, sequence, in, out, heads, kv_heads, dim, groups, state, taps, chunk */
static const shape shapes[] = {
    {"odd", {2, 29, 7, 5, 6, 2, 3, 3, 5, 4, 8}},
    {"one token", {1, 1, 9, 1, 1, 1, 1, 1, 1, 3, 4}},
    {"several tiles", {1, 150, 33, 19, 2, 1, 17, 2, 9, 4, 64}},
    {"proxy", {2, 128, 64, 328, 8, 4, 16, 2, 16, 4, 128}},
    {"wide", {3, 70, 136, 65, 4, 4, 40, 1, 24, 2, 32}},
};

/* Sums of K float32 products, K at most the longest dimension that an op sums over, err like a
 * random walk of sqrt(K) roundings; the factor leaves room for the functions in between. */
static inline double tolerance_of(const op_sizes *s) {
    int64_t k = s->batch * s->sequence;
    k = s->in > k ? s->in : k;
    k = s->out > k ? s->out : k;
    return (16 + 4 * sqrt((double)k)) * 0x1p-24;
}

static inline double largest_of(const op_tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < op_elements(t); i++)
        most = fabs(t->data[i]) > most ? fabs(t->data[i]) : most;
    return most;
}

/* What rounding to two bytes adds to the error of x: half a unit of its last place. */
static inline double rounding_of(mpt_storage storage, double x) {
    return storage == MPT_STORAGE_BF16   ? fabs(x) * 0x1.02p-8
           : storage == MPT_STORAGE_FP16 ? fabs(x) * 0x1.02p-11 + 0x1p-25
                                         : 0;
}

/* Differences are measured in units of the tensor's largest number. */
static inline void compare(const op_case *got, const op_case *expected, double tolerance,
                           const char *kernel, const char *shape_name) {
    for (int o = 0; o < got->n_out; o++) {
        const op_tensor *a = &got->out[o], *b = &expected->out[o];
        double most = largest_of(b);
        for (int64_t i = 0; i < op_elements(a); i++)
            if (!(fabs(a->data[i] - b->data[i]) <=
                  tolerance * (most + 1e-3) + rounding_of(a->storage, b->data[i])))
                fail_msg("%s, %s: output %d, element %d is %.9g, not %.9g (bound %.2g of %.3g)",
                         kernel, shape_name, o, (int)i, a->data[i], b->data[i], tolerance,
                         most);
    }
}

/* A case with the same inputs and outputs of its own. */
static op_case twin_of(const op_case *c) {
    op_case twin = *c;
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i].data)
            twin.out[i] = op_tensor_copy(&c->out[i]);
    return twin;
}

static void twin_free(op_case *twin) {
    for (int i = 0; i < twin->n_out; i++)
        free(twin->out[i].data);
}

/* Runs a node, whose ref64 outputs are in `expected`, by the backend's kernels. */
static void check_node(op_case *expected, const shape *sh);

static inline void check_row(const op_row *row, const shape *sh) {
    op_case forward = op_forward(row, &sh->sizes, 5);
    op_tensor dy[MPT_MAX_OUT] = {0};
    op_fill_dy(row, &forward, dy);
    op_run(&forward, op_kernel(ref64_kernels, row->op), true, 1);
    check_node(&forward, sh);
    for (int i = 0; i < 4 && row->gradients[i].in; i++) {
        if (row->gradients[i].op == MPT_OP_COUNT)
            continue;
        op_case c = op_backward(row, &row->gradients[i], &forward, dy);
        op_run(&c, op_kernel(ref64_kernels, c.op), true, 1);
        check_node(&c, sh);
        op_free(&c);
    }
    for (int i = 0; i < row->n_free_out; i++)
        free(dy[i].data);
    op_free(&forward);
}

static inline void check_op(mpt_op op) {
    for (size_t i = 0; i < MPT_COUNT(op_rows); i++)
        for (size_t s = 0; op_rows[i].op == op && s < MPT_COUNT(shapes); s++)
            check_row(&op_rows[i], &shapes[s]);
}

#define CONFORMANCE_CASE(op)                                                                   \
    static void test_conformance_when_##op##_then_within_bound(void **state) {                 \
        (void)state;                                                                           \
        check_op(MPT_OP_##op);                                                                 \
    }

/* The forward ops that have a conformance case. */
#define CONFORMANCE_OPS(X)                                                                     \
    X(embedding)                                                                               \
    X(linear)                                                                                  \
    X(add)                                                                                     \
    X(mul)                                                                                     \
    X(gelu)                                                                                    \
    X(silu)                                                                                    \
    X(relu2)                                                                                   \
    X(softplus)                                                                                \
    X(swiglu)                                                                                  \
    X(softmax)                                                                                 \
    X(scale)                                                                                   \
    X(dropout)                                                                                 \
    X(rope)                                                                                    \
    X(rmsnorm)                                                                                 \
    X(layernorm)                                                                               \
    X(gated_rmsnorm)                                                                           \
    X(attention)                                                                               \
    X(conv1d)                                                                                  \
    X(ssm_scan)                                                                                \
    X(split)                                                                                   \
    X(concat)                                                                                  \
    X(moe_route)                                                                               \
    X(moe_dispatch)                                                                            \
    X(moe_combine)                                                                             \
    X(cross_entropy)

#endif
