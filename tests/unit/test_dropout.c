/* dropout: how many numbers fall, that the choice depends on its key alone, and what it does in
 * a run: the same bits on every backend, with any number of threads, and a second time. */
#include "mpt_test.h"

#include <math.h>
#include <omp.h>

#include "kernels/dropout.h"
#include "models.h"
#include "op_cases.h"
#include "train_rig.h"

/* ---- the kernel ---- */

static op_case drop_case(int64_t n, float p) {
    op_case c = {.op = MPT_OP_dropout, .attrs = {.p = p, .scope = 17}};
    c.env = (mpt_run_env){.seed = 5, .step = 3, .micro_batch = 1};
    op_in(&c, OP_REAL, n, 0, 1, 1); /* ones */
    op_out(&c, OP_REAL, n, 0);
    op_fill(&c, 1);
    return c;
}

static void run_on(op_case *c, const mpt_kernel *table, int n_threads) {
    omp_set_num_threads(n_threads);
    op_run(c, op_kernel(table, MPT_OP_dropout), false, n_threads);
}

static int64_t count_kept(const op_case *c) {
    int64_t n = op_elements(&c->out[0]), kept = 0;
    for (int64_t i = 0; i < n; i++)
        kept += c->out[0].data[i] != 0;
    return kept;
}

/* Five standard deviations; what is kept has one value, so that the mean is that of x. */
static void test_dropout_when_many_numbers_then_the_share_falls_and_the_mean_stays(void **s) {
    (void)s;
    static const float shares[] = {0.001f, 0.1f, 0.5f, 0.9f};
    enum { N = 400003 };
    for (size_t k = 0; k < MPT_COUNT(shares); k++) {
        double p = (double)shares[k], kept;
        op_case c = drop_case(N, shares[k]);
        run_on(&c, mpt_kernels_cpu, 2);
        kept = (double)count_kept(&c);
        assert_true(fabs(kept - N * (1 - p)) < 5 * sqrt(N * p * (1 - p)));
        for (int i = 0; i < N; i++)
            assert_true(c.out[0].data[i] == 0 ||
                        c.out[0].data[i] == (double)(1.0f / (1.0f - shares[k])));
        assert_true(fabs(kept / (1 - p) / N - 1) < 5 * sqrt(p / (1 - p) / N));
        op_free(&c);
    }
}

/* Neighbours fall as often together as chance has it: each of the four words is its own. */
static void test_dropout_when_numbers_are_near_then_they_fall_independently(void **s) {
    (void)s;
    enum { N = 100000 };
    op_case c = drop_case(N, 0.5f);
    run_on(&c, mpt_kernels_cpu, 1);
    for (int distance = 1; distance <= 64; distance++) {
        int equal = 0;
        for (int i = 0; i + distance < N; i++)
            equal += (c.out[0].data[i] != 0) == (c.out[0].data[i + distance] != 0);
        assert_true(fabs(equal - (N - distance) / 2.0) < 5 * sqrt(N / 4.0));
    }
    op_free(&c);
}

static void test_dropout_when_backends_and_threads_differ_then_the_bits_do_not(void **s) {
    (void)s;
    static const int64_t sizes[] = {1, 3, 4, 5, 63, 64, 65, 8191, 8192, 8193, 30001};
    for (size_t k = 0; k < MPT_COUNT(sizes); k++) {
        op_case ref = drop_case(sizes[k], 0.3f), cpu = drop_case(sizes[k], 0.3f);
        size_t bytes = (size_t)sizes[k] * sizeof(double);
        run_on(&ref, mpt_kernels_ref, 1);
        for (int threads = 1; threads <= 3; threads++) {
            run_on(&cpu, mpt_kernels_cpu, threads);
            assert_memory_equal(ref.out[0].data, cpu.out[0].data, bytes);
        }
        op_free(&ref);
        op_free(&cpu);
    }
}

/* Every part of the key gives another choice; half of the numbers agree by chance. */
static void test_dropout_when_any_part_of_the_key_differs_then_so_does_the_choice(void **s) {
    (void)s;
    enum { N = 10000 };
    op_case base = drop_case(N, 0.5f);
    run_on(&base, mpt_kernels_cpu, 1);
    for (int part = 0; part < 5; part++) {
        op_case c = drop_case(N, 0.5f);
        c.env.seed += part == 0 ? 1 : part == 1 ? UINT64_C(1) << 40 : 0;
        c.env.step += part == 2;
        c.env.micro_batch += part == 3;
        c.attrs.scope += part == 4;
        run_on(&c, mpt_kernels_cpu, 1);
        int equal = 0;
        for (int i = 0; i < N; i++)
            equal += base.out[0].data[i] == c.out[0].data[i];
        assert_true(abs(equal - N / 2) < 5 * 50);
        op_free(&c);
    }
    op_free(&base);
}

static void test_dropout_when_evaluating_or_none_falls_then_x_as_it_is(void **s) {
    (void)s;
    const mpt_kernel *const tables[] = {mpt_kernels_ref, mpt_kernels_cpu};
    for (int k = 0; k < 4; k++) {
        op_case c = drop_case(100, k % 2 ? 0.5f : 0);
        c.env.evaluating = k % 2;
        c.in[0].data[7] = -3.25;
        run_on(&c, tables[k / 2], 1);
        assert_memory_equal(c.in[0].data, c.out[0].data, 100 * sizeof(double));
        op_free(&c);
    }
}

static void test_dropout_when_a_nan_falls_then_it_shows(void **s) {
    (void)s;
    const mpt_kernel *const tables[] = {mpt_kernels_ref, mpt_kernels_cpu};
    for (int k = 0; k < 2; k++) {
        op_case c = drop_case(100, 0.9f);
        for (int i = 0; i < 100; i++)
            c.in[0].data[i] = NAN;
        run_on(&c, tables[k], 1);
        for (int i = 0; i < 100; i++)
            assert_true(isnan(c.out[0].data[i]));
        op_free(&c);
    }
}

/* The published answer of Philox4x32-10 for a counter and a key of zeros. */
static void test_words_when_all_is_zero_then_the_published_answer(void **s) {
    (void)s;
    mpt_words_key key = {.seed = (uint64_t)MPT_STREAM_DROPOUT << 32,
                         .stream = MPT_STREAM_DROPOUT};
    uint32_t words[4];
    mpt_random_words(&key, 0, words);
    assert_int_equal(words[0], 0x6627e8d5);
    assert_int_equal(words[1], 0xe169c58d);
    assert_int_equal(words[2], 0xbc57ac4c);
    assert_int_equal(words[3], 0x9b00dbd8);
}

/* ---- in a run ---- */

/* Two blocks with dropout at the end and one behind the table. */
static mpt_status draw_net(mpt_graph *graph, float p) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 16);
    mpt_nn_args drop = {.name = "embed_dropout", .n_in = 1, .in = {x}, .attrs.p = p};
    x = draw(&d, MPT_OP_dropout, drop);
    drop.name = "dropout";
    for (int i = 0; i < 2; i++) {
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        mpt_value_id h = draw1(&d, MPT_OP_rmsnorm, "norm", x);
        h = draw1(&d, MPT_OP_relu2, NULL, draw_linear(&d, "up", h, 32, false));
        drop.in[0] = draw_linear(&d, "down", h, 16, false);
        x = draw_add(&d, x, draw(&d, MPT_OP_dropout, drop));
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .in = {x}, .head = true};
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

static mpt_status draw_dropping(mpt_graph *graph) {
    return draw_net(graph, 0.25f);
}

static mpt_status draw_plain(mpt_graph *graph) {
    return draw_net(graph, 0);
}

typedef struct outcome {
    uint64_t state;
    double loss, validation;
} outcome;

static outcome train(const rig_options *o) {
    rig r;
    outcome result = {0};
    rig_init(&r, o);
    for (int i = 0; i < 3; i++)
        result.loss = rig_step(&r).loss;
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 2, &result.validation));
    result.state = rig_state_hash(&r);
    rig_deinit(&r);
    return result;
}

static void test_run_when_threads_or_recomputation_differ_then_the_bits_do_not(void **s) {
    (void)s;
    for (int ref = 0; ref < 2; ref++) {
        rig_options o = rig_defaults();
        o.draw = draw_dropping;
        o.micro_batch = 2;
        o.ref = ref;
        outcome base = train(&o);
        o.n_threads = 2;
        assert_true(train(&o).state == base.state);
        for (o.recompute = 1; o.recompute <= 2; o.recompute++)
            assert_true(train(&o).state == base.state);
        o.recompute = 0;
        o.seed = 2;
        assert_true(train(&o).state != base.state);
    }
}

/* With no step taken the two networks have the same weights. */
static void test_eval_when_the_model_drops_then_as_if_it_did_not(void **s) {
    (void)s;
    double loss[2], trained[2];
    for (int i = 0; i < 2; i++) {
        rig r;
        rig_options o = rig_defaults();
        o.draw = i ? draw_dropping : draw_plain;
        rig_init(&r, &o);
        assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 2, &loss[i]));
        trained[i] = rig_step(&r).loss;
        rig_deinit(&r);
    }
    assert_true(loss[0] == loss[1]);
    assert_true(trained[0] != trained[1]);
}

static void test_draw_when_p_is_0_then_there_is_no_operation(void **s) {
    (void)s;
    int n_nodes[2], n_layers[2];
    for (int i = 0; i < 2; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_graph *graph = NULL;
        assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 4, 8, &graph));
        assert_mpt_ok(ctx, i ? draw_dropping(graph) : draw_plain(graph));
        n_nodes[i] = graph->n_nodes;
        n_layers[i] = graph->n_layers;
        for (int k = 0; k < graph->n_nodes; k++)
            assert_true(i || graph->nodes[k].op != MPT_OP_dropout);
        mpt_graph_destroy(graph);
        mpt_ctx_destroy(ctx);
    }
    assert_int_equal(n_nodes[1] - n_nodes[0], 3);
    assert_int_equal(n_layers[1] - n_layers[0], 3);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_dropout_when_many_numbers_then_the_share_falls_and_the_mean_stays),
    cmocka_unit_test(test_dropout_when_numbers_are_near_then_they_fall_independently),
    cmocka_unit_test(test_dropout_when_backends_and_threads_differ_then_the_bits_do_not),
    cmocka_unit_test(test_dropout_when_any_part_of_the_key_differs_then_so_does_the_choice),
    cmocka_unit_test(test_dropout_when_evaluating_or_none_falls_then_x_as_it_is),
    cmocka_unit_test(test_dropout_when_a_nan_falls_then_it_shows),
    cmocka_unit_test(test_words_when_all_is_zero_then_the_published_answer),
    cmocka_unit_test(test_run_when_threads_or_recomputation_differ_then_the_bits_do_not),
    cmocka_unit_test(test_eval_when_the_model_drops_then_as_if_it_did_not),
    cmocka_unit_test(test_draw_when_p_is_0_then_there_is_no_operation),
};

MPT_TEST_MAIN(cases)
