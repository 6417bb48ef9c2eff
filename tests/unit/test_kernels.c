/* kernels: what each op must give by its formula, on ref and cpu alike.
 *
 * Cases with a known answer, the edges (first token, ignored targets, ids outside the table)
 * and NaN, which no kernel may hide. Shapes and bounds in general are test_conformance.c. */
#include <omp.h>

#include "op_cases.h"

static const mpt_kernel *const backends[] = {mpt_kernels_ref, mpt_kernels_cpu};

/* batch, sequence, in, out, heads, kv_heads, dim, groups, state, taps, chunk */
static const op_sizes small = {2, 6, 9, 5, 2, 1, 3, 1, 4, 4, 4};

static const op_row *row_of(mpt_op op) {
    for (size_t i = 0; i < MPT_COUNT(op_rows); i++)
        if (op_rows[i].op == op)
            return &op_rows[i];
    fail_msg("no row");
    return NULL;
}

/* What a backend has no row for runs by ref. */
static void run(op_case *c, size_t backend) {
    const mpt_kernel *kernel = op_selected(backends[backend], c);
    omp_set_num_threads(2);
    op_run(c, kernel ? kernel : op_kernel(mpt_kernels_ref, c->op), false, 2);
}

static void fill(op_tensor *t, double x) {
    for (int64_t i = 0; i < op_elements(t); i++)
        t->data[i] = x;
}

static void assert_near(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%.9g, expected %.9g", got, expected);
}

#define FOR_BACKENDS(b) for (size_t b = 0; b < MPT_COUNT(backends); b++)

static void test_attention_when_one_token_then_o_is_v(void **state) {
    (void)state;
    op_sizes s = small;
    s.sequence = 1;
    op_case c = op_forward(row_of(MPT_OP_attention), &s, 1);
    FOR_BACKENDS(b) {
        run(&c, b);
        for (int64_t h = 0; h < s.heads; h++) {
            double score = 0;
            for (int64_t i = 0; i < s.dim; i++) {
                score += c.in[0].data[h * s.dim + i] * c.in[1].data[i];
                assert_near(c.out[0].data[h * s.dim + i], c.in[2].data[i], 1e-6);
            }
            assert_near(c.out[1].data[h], score * (double)c.attrs.scale, 1e-6);
        }
    }
    op_free(&c);
}

static void test_attention_when_later_tokens_change_then_earlier_output_stays(void **state) {
    (void)state;
    op_sizes s = {1, 80, 9, 5, 2, 1, 3, 1, 4, 4, 4};
    FOR_BACKENDS(b) {
        op_case c = op_forward(row_of(MPT_OP_attention), &s, 1);
        run(&c, b);
        op_tensor before = op_tensor_copy(&c.out[0]);
        int64_t width = s.kv_heads * s.dim, cut = 70;
        for (int64_t i = cut * width; i < s.sequence * width; i++) {
            c.in[1].data[i] = 3;
            c.in[2].data[i] = -5;
        }
        run(&c, b);
        assert_memory_equal(before.data, c.out[0].data,
                            (size_t)(cut * s.heads * s.dim) * sizeof(double));
        assert_true(before.data[cut * s.heads * s.dim] != c.out[0].data[cut * s.heads * s.dim]);
        free(before.data);
        op_free(&c);
    }
}

static void test_attention_when_keys_are_equal_then_o_is_mean_of_v(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_attention), &small, 1);
    fill(&c.in[1], 0.5);
    FOR_BACKENDS(b) {
        run(&c, b);
        double mean = 0;
        for (int64_t t = 0; t < small.sequence; t++)
            mean += c.in[2].data[t * small.dim] / (double)small.sequence;
        assert_near(c.out[0].data[(small.sequence - 1) * small.heads * small.dim], mean, 1e-6);
    }
    op_free(&c);
}

static void test_conv1d_when_sequence_starts_then_the_past_is_zero(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_conv1d), &small, 1);
    const double *x = c.in[0].data, *w = c.in[1].data, *bias = c.in[2].data;
    int64_t n = small.in, taps = small.taps;
    FOR_BACKENDS(b) {
        run(&c, b);
        for (int64_t batch = 0; batch < small.batch; batch++) {
            int64_t at = batch * small.sequence * n;
            for (int64_t i = 0; i < n; i++) {
                double last = w[i * taps + taps - 1], second = w[i * taps + taps - 2];
                assert_near(c.out[0].data[at + i], bias[i] + last * x[at + i], 1e-6);
                assert_near(c.out[0].data[at + n + i],
                            bias[i] + last * x[at + n + i] + second * x[at + i], 1e-6);
            }
        }
    }
    op_free(&c);
}

static void test_cross_entropy_when_logits_are_equal_then_ln_v(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_cross_entropy), &small, 1);
    fill(&c.in[0], 7.5);
    FOR_BACKENDS(b) {
        run(&c, b);
        assert_near(c.out[0].data[0], log((double)small.out), 1e-6);
    }
    op_free(&c);
}

static void test_cross_entropy_when_targets_are_ignored_then_they_weigh_nothing(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_cross_entropy), &small, 1);
    op_case g = op_backward(row_of(MPT_OP_cross_entropy),
                            &row_of(MPT_OP_cross_entropy)->gradients[0], &c, NULL);
    fill(&c.in[1], -1);
    fill(&g.in[1], -1);
    c.in[1].data[3] = g.in[1].data[3] = 2;
    g.env.loss_seed = 8;
    FOR_BACKENDS(b) {
        double sum = 0, *x = c.in[0].data + 3 * small.out;
        for (int64_t i = 0; i < small.out; i++)
            sum += exp(x[i]);
        run(&c, b);
        assert_near(c.out[0].data[0], log(sum) - x[2], 1e-6);
        run(&g, b);
        for (int64_t i = 0; i < op_elements(&g.out[0]); i++) {
            double p = exp(g.in[0].data[i]) / sum, onehot = i % small.out == 2;
            double expected = i / small.out == 3 ? 8 * (p - onehot) : 0;
            assert_near(g.out[0].data[i], expected, 1e-6);
        }
    }
    op_free(&c);
    op_free(&g);
}

static void test_cross_entropy_when_no_target_is_left_then_loss_is_zero(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_cross_entropy), &small, 1);
    fill(&c.in[1], -1);
    FOR_BACKENDS(b) {
        run(&c, b);
        assert_true(c.out[0].data[0] == 0);
    }
    op_free(&c);
}

static void test_cross_entropy_when_logits_are_huge_then_nothing_overflows(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_cross_entropy), &small, 1);
    for (int64_t i = 0; i < op_elements(&c.in[0]); i++)
        c.in[0].data[i] = i % small.out == 1 ? 1e30 : -1e30;
    fill(&c.in[1], 1);
    FOR_BACKENDS(b) {
        run(&c, b);
        assert_near(c.out[0].data[0], 0, 1e-6);
    }
    op_free(&c);
}

static void test_embedding_when_id_is_outside_then_row_is_nan(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_embedding), &small, 1);
    c.in[0].data[1] = (double)small.out;
    c.in[0].data[2] = -1;
    FOR_BACKENDS(b) {
        run(&c, b);
        assert_true(c.out[0].data[0] == c.in[1].data[(int64_t)c.in[0].data[0] * small.in]);
        assert_true(isnan(c.out[0].data[small.in]) && isnan(c.out[0].data[3 * small.in - 1]));
    }
    op_free(&c);
}

static void test_gelu_when_known_points_then_both_forms(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_gelu), &small, 1);
    const double x[] = {0, 1, -1, 3, -40, 40};
    const double tanh_form[] = {0, 0.8411920, -0.1588080, 2.9963627, 0, 40};
    const double erf_form[] = {0, 0.8413447, -0.1586553, 2.9959503, 0, 40};
    for (size_t i = 0; i < MPT_COUNT(x); i++)
        c.in[0].data[i] = x[i];
    FOR_BACKENDS(b) {
        c.attrs.exact = false;
        run(&c, b);
        for (size_t i = 0; i < MPT_COUNT(x); i++)
            assert_near(c.out[0].data[i], tanh_form[i], 2e-7);
        c.attrs.exact = true;
        run(&c, b);
        for (size_t i = 0; i < MPT_COUNT(x); i++)
            assert_near(c.out[0].data[i], erf_form[i], 2e-7);
    }
    op_free(&c);
}

static void test_relu2_when_negative_then_zero(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_relu2), &small, 1);
    c.in[0].data[0] = -3;
    c.in[0].data[1] = 1.5;
    FOR_BACKENDS(b) {
        run(&c, b);
        assert_true(c.out[0].data[0] == 0 && c.out[0].data[1] == 2.25);
    }
    op_free(&c);
}

static void test_norms_when_row_is_constant_then_weight_or_bias(void **state) {
    (void)state;
    op_case rms = op_forward(row_of(MPT_OP_rmsnorm), &small, 1);
    op_case layer = op_forward(row_of(MPT_OP_layernorm), &small, 1);
    fill(&rms.in[0], -300);
    fill(&layer.in[0], -300);
    FOR_BACKENDS(b) {
        run(&rms, b);
        run(&layer, b);
        for (int64_t i = 0; i < small.in; i++) {
            assert_near(rms.out[0].data[i], -rms.in[1].data[i], 1e-6);
            assert_near(layer.out[0].data[i], layer.in[2].data[i], 1e-6);
        }
    }
    op_free(&rms);
    op_free(&layer);
}

static void test_gated_rmsnorm_when_gate_is_closed_then_zero(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_gated_rmsnorm), &small, 1);
    fill(&c.in[1], 0);
    FOR_BACKENDS(b) {
        run(&c, b);
        for (int64_t i = 0; i < op_elements(&c.out[0]); i++)
            assert_true(c.out[0].data[i] == 0);
    }
    op_free(&c);
}

/* x is an impulse at the first token: y_t = delta_0 x_0 (C_t . B_0) alpha_1 ... alpha_t. */
static void test_ssm_scan_when_impulse_then_it_decays(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_ssm_scan), &small, 1);
    fill(&c.in[0], 0);
    fill(&c.in[3], 0.25);
    c.in[0].data[1] = 2;
    double delta = log1p(exp(0.25 + c.in[6].data[0])),
           alpha = exp(-exp(c.in[4].data[0]) * delta);
    FOR_BACKENDS(b) {
        double decay = 1;
        run(&c, b);
        for (int64_t t = 0; t < small.sequence; t++) {
            double dot = 0, skip = t == 0 ? 2 * c.in[5].data[0] : 0;
            for (int64_t n = 0; n < small.state; n++)
                dot += c.in[2].data[t * small.state + n] * c.in[1].data[n];
            assert_near(c.out[0].data[t * small.heads * small.dim + 1],
                        2 * delta * dot * decay + skip, 1e-6);
            assert_true(c.out[0].data[t * small.heads * small.dim] == 0);
            decay *= alpha;
        }
        for (int64_t i = 0; i < small.heads * small.dim * small.state; i++)
            assert_true(c.out[1].data[i] == 0);
    }
    op_free(&c);
}

static void test_ssm_scan_when_chunk_changes_then_y_has_the_same_bits(void **state) {
    (void)state;
    const int64_t chunks[] = {1, 2, 5, 6, 100};
    op_case first = op_forward(row_of(MPT_OP_ssm_scan), &small, 1);
    FOR_BACKENDS(b) {
        run(&first, b);
        for (size_t i = 0; i < MPT_COUNT(chunks); i++) {
            op_sizes s = small;
            s.chunk = chunks[i];
            op_case c = op_forward(row_of(MPT_OP_ssm_scan), &s, 1);
            run(&c, b);
            assert_memory_equal(c.out[0].data, first.out[0].data,
                                (size_t)op_elements(&c.out[0]) * sizeof(double));
            op_free(&c);
        }
    }
    op_free(&first);
}

static void test_linear_when_factors_are_given_then_product_is_scaled(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_linear), &small, 1);
    fill(&c.in[3], 4);
    fill(&c.in[4], 0.5);
    c.attrs.alpha = 0.25f;
    FOR_BACKENDS(b) {
        double sum = 0;
        run(&c, b);
        for (int64_t i = 0; i < small.in; i++)
            sum += c.in[0].data[i] * c.in[1].data[i];
        assert_near(c.out[0].data[0], 0.5 * sum + c.in[2].data[0], 1e-6);
    }
    op_free(&c);
}

/* Absent optional tensors: a shorter list of inputs, or NULL within it. */
static void test_linear_when_bias_and_factors_are_absent_then_plain_product(void **state) {
    (void)state;
    op_case c = op_forward(row_of(MPT_OP_linear), &small, 1);
    c.attrs.alpha = 1;
    c.in[2].kind = OP_ABSENT;
    FOR_BACKENDS(b) {
        for (int n_in = 2; n_in <= 3; n_in++) {
            double sum = 0;
            c.n_in = n_in;
            run(&c, b);
            for (int64_t i = 0; i < small.in; i++)
                sum += c.in[0].data[i] * c.in[1].data[i];
            assert_near(c.out[0].data[0], sum, 1e-6);
        }
    }
    c.n_in = 5;
    op_free(&c);
}

/* All of one input NaN: the first output must have one, forward and backward. */
static void check_nan(op_case *c, int input, const char *what) {
    op_tensor kept = op_tensor_copy(&c->in[input]);
    fill(&c->in[input], NAN);
    FOR_BACKENDS(b) {
        bool found = false;
        run(c, b);
        for (int o = 0; o < c->n_out; o++)
            for (int64_t i = 0; i < op_elements(&c->out[o]); i++)
                found |= isnan(c->out[o].data[i]) != 0;
        if (!found)
            fail_msg("%s: input %d is NaN and no output is, backend %d", what, input, (int)b);
    }
    memcpy(c->in[input].data, kept.data, (size_t)op_elements(&kept) * sizeof(double));
    free(kept.data);
}

static void check_all_nan(op_case *c, const char *what) {
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == OP_REAL || c->in[i].kind == OP_CONSTANT)
            check_nan(c, i, what);
}

static void test_kernels_when_input_is_nan_then_an_output_is(void **state) {
    (void)state;
    for (size_t r = 0; r < MPT_COUNT(op_rows); r++) {
        const op_row *row = &op_rows[r];
        const char *name = op_kernel(mpt_kernels_ref, row->op)->name;
        op_case c = op_forward(row, &small, 3);
        op_tensor dy[MPT_MAX_OUT] = {0};
        op_fill_dy(row, &c, dy);
        check_all_nan(&c, name);
        run(&c, 0);
        for (int i = 0; i < 4 && row->gradients[i].in; i++) {
            if (row->gradients[i].op == MPT_OP_COUNT)
                continue;
            op_case g = op_backward(row, &row->gradients[i], &c, dy);
            check_all_nan(&g, op_kernel(mpt_kernels_ref, g.op)->name);
            op_free(&g);
        }
        for (int i = 0; i < row->n_free_out; i++)
            free(dy[i].data);
        op_free(&c);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_attention_when_one_token_then_o_is_v),
    cmocka_unit_test(test_attention_when_later_tokens_change_then_earlier_output_stays),
    cmocka_unit_test(test_attention_when_keys_are_equal_then_o_is_mean_of_v),
    cmocka_unit_test(test_conv1d_when_sequence_starts_then_the_past_is_zero),
    cmocka_unit_test(test_cross_entropy_when_logits_are_equal_then_ln_v),
    cmocka_unit_test(test_cross_entropy_when_targets_are_ignored_then_they_weigh_nothing),
    cmocka_unit_test(test_cross_entropy_when_no_target_is_left_then_loss_is_zero),
    cmocka_unit_test(test_cross_entropy_when_logits_are_huge_then_nothing_overflows),
    cmocka_unit_test(test_embedding_when_id_is_outside_then_row_is_nan),
    cmocka_unit_test(test_gelu_when_known_points_then_both_forms),
    cmocka_unit_test(test_relu2_when_negative_then_zero),
    cmocka_unit_test(test_norms_when_row_is_constant_then_weight_or_bias),
    cmocka_unit_test(test_gated_rmsnorm_when_gate_is_closed_then_zero),
    cmocka_unit_test(test_ssm_scan_when_impulse_then_it_decays),
    cmocka_unit_test(test_ssm_scan_when_chunk_changes_then_y_has_the_same_bits),
    cmocka_unit_test(test_linear_when_factors_are_given_then_product_is_scaled),
    cmocka_unit_test(test_linear_when_bias_and_factors_are_absent_then_plain_product),
    cmocka_unit_test(test_kernels_when_input_is_nan_then_an_output_is),
};

MPT_TEST_MAIN(cases)
