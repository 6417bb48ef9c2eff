/* kernels/ref: the backward kernel of every op against finite differences of its forward
 * kernel.
 *
 * Both run in double precision on odd shapes; each element of each input is moved by a small
 * step. A forward op without a row in op_cases.h fails the test, as does a gradient op that no
 * row uses. */
#include "ref64.h"
#include "op_cases.h"

/* batch, sequence, in, out, heads, kv_heads, dim, groups, state, taps, chunk */
static const op_sizes odd = {2, 29, 7, 5, 6, 2, 3, 3, 5, 4, 8};

/* Sequences of one token, and taps that reach past the start. */
static const op_sizes tiny = {2, 1, 1, 2, 1, 1, 1, 1, 1, 3, 4};

/* The number whose gradient is tested: sum of dy * output over the outputs that have one. */
static double loss_of(const op_row *row, op_case *c, const op_tensor *dy) {
    double sum = 0;
    op_run(c, op_kernel(ref64_kernels, row->op), true, 1);
    for (int o = 0; o < row->n_free_out; o++)
        for (int64_t i = 0; i < op_elements(&c->out[o]); i++)
            sum += dy[o].data[i] * c->out[o].data[i];
    return sum;
}

static void check_input(const op_row *row, op_case *c, const op_tensor *dy, int input,
                        const double *gradient) {
    const double step = 1e-4;
    op_tensor *t = &c->in[input];
    for (int64_t i = 0; i < op_elements(t); i++) {
        double x = t->data[i], f[4];
        const double at[4] = {-2, -1, 1, 2};
        for (int k = 0; k < 4; k++) {
            t->data[i] = x + at[k] * step;
            f[k] = loss_of(row, c, dy);
        }
        t->data[i] = x;
        double expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
        if (!(fabs(expected - gradient[i]) <= 2e-8 * (1 + fabs(expected))))
            fail_msg("%s, input %d, element %d: kernel %.12g, differences %.12g",
                     op_kernel(ref64_kernels, row->op)->name, input, (int)i, gradient[i],
                     expected);
    }
}

/* Runs one gradient node and checks each of its outputs; marks the inputs it covers. */
static void check_gradient(const op_row *row, const op_gradient *g, op_case *forward,
                           const op_tensor *dy, bool *covered) {
    op_case c = op_backward(row, g, forward, dy);
    int output = 0;
    if (g->op != MPT_OP_COUNT)
        op_run(&c, op_kernel(ref64_kernels, g->op), true, 1);
    for (const char *at = g->out; *at; at++) {
        if (*at == ' ')
            continue;
        op_tensor *d = g->op == MPT_OP_COUNT ? &c.in[0] : &c.out[output];
        for (int64_t i = 0; d->kind == OP_SUM && i < op_elements(d); i++)
            d->data[i] -= op_sum_start;
        check_input(row, forward, dy, *at - '0', d->data);
        covered[*at - '0'] = true;
        output++;
    }
    op_free(&c);
}

static void check_row(const op_row *row, const op_sizes *sizes) {
    op_case forward = op_forward(row, sizes, 1);
    op_tensor dy[MPT_MAX_OUT] = {0};
    bool covered[MPT_MAX_IN] = {false};
    op_fill_dy(row, &forward, dy);
    if (row->op == MPT_OP_cross_entropy)
        dy[0].data[0] = 1;
    loss_of(row, &forward, dy);
    for (int i = 0; i < 4 && row->gradients[i].in; i++) {
        loss_of(row, &forward, dy);
        check_gradient(row, &row->gradients[i], &forward, dy, covered);
    }
    for (int i = 0; i < forward.n_in; i++)
        if (forward.in[i].kind == OP_REAL && !covered[i])
            fail_msg("%s: no gradient of input %d", op_kernel(ref64_kernels, row->op)->name, i);
    for (int i = 0; i < row->n_free_out; i++)
        free(dy[i].data);
    op_free(&forward);
}

static void check_op(mpt_op op) {
    bool found = false;
    for (size_t i = 0; i < MPT_COUNT(op_rows); i++) {
        if (op_rows[i].op != op)
            continue;
        found = true;
        check_row(&op_rows[i], &odd);
        check_row(&op_rows[i], &tiny);
    }
    assert_true(found);
}

#define GRADIENT_CASE(op)                                                                      \
    static void test_gradient_when_##op##_then_as_differences(void **state) {                  \
        (void)state;                                                                           \
        check_op(MPT_OP_##op);                                                                 \
    }
GRADIENT_CASE(embedding)
GRADIENT_CASE(linear)
GRADIENT_CASE(add)
GRADIENT_CASE(mul)
GRADIENT_CASE(gelu)
GRADIENT_CASE(silu)
GRADIENT_CASE(relu2)
GRADIENT_CASE(softplus)
GRADIENT_CASE(swiglu)
GRADIENT_CASE(softmax)
GRADIENT_CASE(scale)
GRADIENT_CASE(dropout)
GRADIENT_CASE(rope)
GRADIENT_CASE(rmsnorm)
GRADIENT_CASE(layernorm)
GRADIENT_CASE(gated_rmsnorm)
GRADIENT_CASE(attention)
GRADIENT_CASE(conv1d)
GRADIENT_CASE(ssm_scan)
GRADIENT_CASE(split)
GRADIENT_CASE(concat)
GRADIENT_CASE(moe_route)
GRADIENT_CASE(moe_dispatch)
GRADIENT_CASE(moe_combine)
GRADIENT_CASE(cross_entropy)

/* The list is ops.def itself, so a new op without a row cannot slip through. */
static void test_gradient_when_op_has_no_row_then_it_is_named(void **state) {
    (void)state;
    static const struct {
        mpt_op op;
        unsigned flags;
        const char *name;
    } ops[] = {
#define MPT_OP(name, n_in, n_out, flags, summary) {MPT_OP_##name, (flags), #name},
#include "graph/ops.def"
#undef MPT_OP
    };
    for (size_t i = 0; i < MPT_COUNT(ops); i++) {
        bool found = (ops[i].flags & (MPT_OP_CAST | MPT_OP_UPDATE)) != 0;
        for (size_t r = 0; r < MPT_COUNT(op_rows); r++) {
            found |= op_rows[r].op == ops[i].op;
            for (int g = 0; g < 4 && op_rows[r].gradients[g].in; g++)
                found |= op_rows[r].gradients[g].op == ops[i].op;
        }
        if (!found)
            fail_msg("op %s has no row in tests/op_cases.h", ops[i].name);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_gradient_when_embedding_then_as_differences),
    cmocka_unit_test(test_gradient_when_linear_then_as_differences),
    cmocka_unit_test(test_gradient_when_add_then_as_differences),
    cmocka_unit_test(test_gradient_when_mul_then_as_differences),
    cmocka_unit_test(test_gradient_when_gelu_then_as_differences),
    cmocka_unit_test(test_gradient_when_silu_then_as_differences),
    cmocka_unit_test(test_gradient_when_relu2_then_as_differences),
    cmocka_unit_test(test_gradient_when_softplus_then_as_differences),
    cmocka_unit_test(test_gradient_when_swiglu_then_as_differences),
    cmocka_unit_test(test_gradient_when_softmax_then_as_differences),
    cmocka_unit_test(test_gradient_when_scale_then_as_differences),
    cmocka_unit_test(test_gradient_when_dropout_then_as_differences),
    cmocka_unit_test(test_gradient_when_rope_then_as_differences),
    cmocka_unit_test(test_gradient_when_rmsnorm_then_as_differences),
    cmocka_unit_test(test_gradient_when_layernorm_then_as_differences),
    cmocka_unit_test(test_gradient_when_gated_rmsnorm_then_as_differences),
    cmocka_unit_test(test_gradient_when_attention_then_as_differences),
    cmocka_unit_test(test_gradient_when_conv1d_then_as_differences),
    cmocka_unit_test(test_gradient_when_ssm_scan_then_as_differences),
    cmocka_unit_test(test_gradient_when_split_then_as_differences),
    cmocka_unit_test(test_gradient_when_concat_then_as_differences),
    cmocka_unit_test(test_gradient_when_moe_route_then_as_differences),
    cmocka_unit_test(test_gradient_when_moe_dispatch_then_as_differences),
    cmocka_unit_test(test_gradient_when_moe_combine_then_as_differences),
    cmocka_unit_test(test_gradient_when_cross_entropy_then_as_differences),
    cmocka_unit_test(test_gradient_when_op_has_no_row_then_it_is_named),
};

MPT_TEST_MAIN(cases)
