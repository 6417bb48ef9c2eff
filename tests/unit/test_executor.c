/* exec/executor.c: numbers of a net small enough to follow by hand, rounding behind kernels,
 * threads, memory, and the two backends against each other. */
#include "mpt_test.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "exec/backend.h"
#include "exec/executor.h"
#include "graph/nn.h"
#include "recipe/schema.h"
#include "small_net.h"

enum { MANY_LAYERS = 32, MANY_PARAMS = 32, MANY_FLOATS = 1 << 16 };

/* ---- a program with state from one array ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_phase_program *program;
    mpt_executor *executor;
    mpt_policy policies[MANY_LAYERS];
    float *memory; /* of masters, gradients and moments */
    size_t used;
} fixture;

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

static mpt_train some_training(void) {
    return (mpt_train){
        .steps = 10,
        .batch = 2,
        .sequence = 16,
        .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
        .clip = 1.0};
}

static void bind(fixture *f, mpt_value_id v) {
    if (v < 0)
        return;
    size_t n = (size_t)mpt_value_elements(&f->program->graph->values[v]);
    assert_true(f->used + n <= MANY_FLOATS);
    mpt_executor_bind(f->executor, v, f->memory + f->used);
    f->used += n;
}

static float *data_of(const fixture *f, mpt_value_id v) {
    return mpt_executor_tensor(f->executor, v)->data;
}

/* Weights from a fixed generator: small, of both signs. */
static void fill_weights(fixture *f) {
    const mpt_graph *graph = f->program->graph;
    uint32_t random = 7;
    for (int p = 0; p < graph->n_params; p++) {
        float *w = data_of(f, graph->params[p].value);
        int64_t n = mpt_value_elements(&graph->values[graph->params[p].value]);
        for (int64_t i = 0; i < n; i++) {
            random = random * 1664525u + 1013904223u;
            w[i] = ((float)(random >> 8) / 8388608.0f - 1.0f) * 0.4f;
        }
    }
}

static void create(fixture *f, mpt_graph *graph, const char *format, mpt_device device) {
    mpt_train train = some_training();
    mpt_dtype base = mpt_dtype_by_name(format);
    mpt_dtype wide = base == MPT_DTYPE_FP32 || base == MPT_DTYPE_FP16 ? base : MPT_DTYPE_BF16;
    assert_true(graph->n_layers <= MANY_LAYERS && graph->n_params <= MANY_PARAMS);
    for (int i = 0; i < graph->n_layers; i++) {
        mpt_policy *p = &f->policies[i];
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            p->slot[s] = named(
                graph->layers[i].kind == MPT_LAYER_LINEAR ? format : mpt_dtype_name(wide));
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            p->output[g] = wide;
        p->compute = wide;
    }
    assert_mpt_ok(f->ctx, mpt_graph_append_update(graph, &train));
    mpt_precision_options precision = {.base = wide, .residual = wide, .policies = f->policies};
    assert_mpt_ok(f->ctx, mpt_graph_apply_precision(graph, &precision));
    assert_mpt_ok(f->ctx, mpt_phase_program_create(graph, "main", &f->program));
    f->program->backend = mpt_backend_get(device);
    mpt_schedule_options options = {.tables = f->program->backend->tables, .n_threads = 2};
    assert_mpt_ok(f->ctx, mpt_schedule_select(f->program, &options));
    assert_mpt_ok(f->ctx, mpt_schedule_order(f->program));
    assert_mpt_ok(f->ctx, mpt_schedule_plan_memory(f->program));
    assert_mpt_ok(f->ctx, mpt_executor_create(f->program, &f->executor));
}

static void setup(fixture *f, const small_net *net, const char *format, mpt_device device) {
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    create(f, small_graph(f->ctx, net, 2, 16, true), format, device);
    f->memory = calloc(MANY_FLOATS, sizeof(float));
    assert_non_null(f->memory);
    const mpt_graph *graph = f->program->graph;
    for (int p = 0; p < graph->n_params; p++) {
        bind(f, graph->params[p].value);
        bind(f, graph->params[p].grad);
        bind(f, graph->params[p].moment[0]);
        bind(f, graph->params[p].moment[1]);
    }
    fill_weights(f);
    int32_t *tokens = mpt_executor_tensor(f->executor, graph->tokens)->data;
    int32_t *targets = mpt_executor_tensor(f->executor, graph->targets)->data;
    for (int32_t i = 0; i < 32; i++) {
        tokens[i] = i * 7 % (int32_t)net->vocab;
        targets[i] = (i * 7 + 7) % (int32_t)net->vocab;
    }
}

static void teardown(fixture *f) {
    free(f->memory);
    mpt_executor_destroy(f->executor);
    mpt_phase_program_destroy(f->program);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

static mpt_run_env some_env(void) {
    return (mpt_run_env){.seed = 1,
                         .loss_seed = 1.0f / 32.0f,
                         .grad_unscale = 1.0f,
                         .lr = 1e-2f,
                         .bias_correction1 = 0.1f,
                         .bias_correction2 = 0.05f,
                         .n_threads = 2};
}

static void run_step(fixture *f) {
    mpt_run_env env = some_env();
    for (mpt_pass pass = 0; pass < MPT_PASS_COUNT; pass++)
        mpt_executor_run(f->executor, pass, &env);
}

static const small_net net = {
    .width = 32, .hidden = 48, .vocab = 20, .n_blocks = 2, .n_readers = 2};

/* ---- by hand ---- */

/* Two tokens, two features, two words, no norm: E = [[1, 2], [3, -1]], W = [[1, 0], [1, 1]].
 * Token 0 has logits (1, 3), token 1 (3, 2); targets are 1 and 0. */
static mpt_graph *hand_graph(mpt_ctx *ctx) {
    mpt_graph *graph = NULL;
    mpt_status status = MPT_OK;
    mpt_value_id tokens;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 2, 2, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    assert_mpt_ok(ctx, mpt_nn_tokens(&nn, &tokens));
    mpt_value_id x = small_call(
        &nn, MPT_OP_embedding,
        &(mpt_nn_args){.name = "e", .n_in = 1, .in = {tokens}, .out_features = 2}, &status);
    x = small_call(
        &nn, MPT_OP_linear,
        &(mpt_nn_args){.name = "w", .n_in = 1, .in = {x}, .out_features = 2, .head = true},
        &status);
    (void)small_call(&nn, MPT_OP_cross_entropy, &(mpt_nn_args){.n_in = 1, .in = {x}}, &status);
    assert_mpt_ok(ctx, status);
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    return graph;
}

static void setup_hand(fixture *f) {
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    create(f, hand_graph(f->ctx), "fp32", MPT_DEVICE_REF);
    f->memory = calloc(MANY_FLOATS, sizeof(float));
    const mpt_graph *graph = f->program->graph;
    for (int p = 0; p < 2; p++) {
        bind(f, graph->params[p].value);
        bind(f, graph->params[p].grad);
        bind(f, graph->params[p].moment[0]);
        bind(f, graph->params[p].moment[1]);
    }
    memcpy(data_of(f, graph->params[0].value), (float[]){1, 2, 3, -1}, 16);
    memcpy(data_of(f, graph->params[1].value), (float[]){1, 0, 1, 1}, 16);
    memcpy(mpt_executor_tensor(f->executor, graph->tokens)->data, (int32_t[]){0, 1}, 8);
    memcpy(mpt_executor_tensor(f->executor, graph->targets)->data, (int32_t[]){1, 0}, 8);
}

static void test_run_when_two_tokens_then_loss_and_gradients_are_those_by_hand(void **state) {
    (void)state;
    fixture f;
    setup_hand(&f);
    const mpt_graph *graph = f.program->graph;
    mpt_run_env env = some_env();
    env.loss_seed = 0.5f;
    for (mpt_pass pass = 0; pass <= MPT_PASS_BACKWARD; pass++)
        mpt_executor_run(f.executor, pass, &env);
    double a = log(1 + exp(-2.0)), b = log(1 + exp(-1.0)); /* -log of the right word's share */
    assert_true(fabs(data_of(&f, graph->loss)[0] - (a + b) / 2) < 1e-6);
    double p = 1 / (1 + exp(2.0)), q = 1 / (1 + exp(1.0)); /* share of the wrong word */
    /* dlogits = [[p, -p], [-q, q]] / 2; dW = dlogits^T E; dE = dlogits W. */
    double dw[] = {(p * 1 - q * 3) / 2, (p * 2 + q) / 2, (-p * 1 + q * 3) / 2,
                   (-p * 2 - q) / 2};
    double de[] = {0, -p / 2, 0, q / 2};
    for (int i = 0; i < 4; i++) {
        assert_true(fabs((double)data_of(&f, graph->params[1].grad)[i] - dw[i]) < 1e-6);
        assert_true(fabs((double)data_of(&f, graph->params[0].grad)[i] - de[i]) < 1e-6);
    }
    teardown(&f);
}

static void test_run_when_two_micro_batches_then_gradients_add_up(void **state) {
    (void)state;
    fixture f;
    setup_hand(&f);
    const mpt_graph *graph = f.program->graph;
    mpt_run_env env = some_env();
    float once[4];
    mpt_executor_run(f.executor, MPT_PASS_PREPARE, &env);
    for (int m = 0; m < 2; m++) {
        mpt_executor_run(f.executor, MPT_PASS_FORWARD, &env);
        mpt_executor_run(f.executor, MPT_PASS_BACKWARD, &env);
        if (m == 0)
            memcpy(once, data_of(&f, graph->params[1].grad), sizeof once);
    }
    for (int i = 0; i < 4; i++)
        assert_true(data_of(&f, graph->params[1].grad)[i] == 2 * once[i]);
    mpt_executor_run(f.executor, MPT_PASS_PREPARE, &env);
    assert_true(data_of(&f, graph->params[1].grad)[0] == 0);
    teardown(&f);
}

/* ---- whole steps ---- */

static void test_run_when_steps_follow_then_the_loss_falls(void **state) {
    (void)state;
    static const char *const formats[] = {"fp32", "bf16", "fp16", "e4m3", "nvfp4"};
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        fixture f;
        setup(&f, &net, formats[i], MPT_DEVICE_CPU);
        run_step(&f);
        float first = data_of(&f, f.program->graph->loss)[0];
        for (int step = 0; step < 20; step++)
            run_step(&f);
        float last = data_of(&f, f.program->graph->loss)[0];
        if (!(last < first - 0.2f))
            fail_msg("%s: loss %g, then %g", formats[i], (double)first, (double)last);
        teardown(&f);
    }
}

static void test_run_when_a_step_runs_then_nothing_is_allocated(void **state) {
    (void)state;
    fixture f;
    setup(&f, &net, "nvfp4", MPT_DEVICE_CPU);
    uint64_t before = mpt_ctx_memory(f.ctx).n_allocs;
    for (int step = 0; step < 3; step++)
        run_step(&f);
    assert_int_equal(mpt_ctx_memory(f.ctx).n_allocs, before);
    teardown(&f);
}

/* Whether a float is exact in BF16. */
static bool is_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0xffff) == 0;
}

static void test_run_when_output_is_bf16_then_it_is_rounded(void **state) {
    (void)state;
    fixture f;
    setup(&f, &net, "bf16", MPT_DEVICE_REF);
    const mpt_phase_program *p = f.program;
    mpt_run_env env = some_env();
    int n_rounded = 0;
    for (int s = 0; s < p->segment[MPT_PASS_UPDATE]; s++) {
        const mpt_node *node = &p->graph->nodes[p->steps[s].node];
        mpt_executor_run_step(f.executor, s, &env);
        for (int k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0 || p->graph->values[node->out[k]].dtype != MPT_DTYPE_BF16)
                continue;
            n_rounded++;
            for (int64_t i = 0; i < mpt_value_elements(&p->graph->values[node->out[k]]); i++)
                assert_true(is_bf16(data_of(&f, node->out[k])[i]));
        }
    }
    assert_true(n_rounded > 20);
    teardown(&f);
}

static void test_run_when_gradients_are_fp32_then_they_keep_their_bits(void **state) {
    (void)state;
    fixture f;
    setup(&f, &net, "bf16", MPT_DEVICE_REF);
    mpt_run_env env = some_env();
    for (mpt_pass pass = 0; pass <= MPT_PASS_BACKWARD; pass++)
        mpt_executor_run(f.executor, pass, &env);
    const mpt_graph *graph = f.program->graph;
    int n_wide = 0;
    for (int p = 0; p < graph->n_params; p++)
        for (int64_t i = 0; i < mpt_value_elements(&graph->values[graph->params[p].grad]); i++)
            n_wide += !is_bf16(data_of(&f, graph->params[p].grad)[i]);
    assert_true(n_wide > 100);
    teardown(&f);
}

static void test_run_when_ref_and_cpu_then_steps_agree(void **state) {
    (void)state;
    static const char *const formats[] = {"fp32", "bf16", "e4m3", "nvfp4"};
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        fixture ref, cpu;
        setup(&ref, &net, formats[i], MPT_DEVICE_REF);
        setup(&cpu, &net, formats[i], MPT_DEVICE_CPU);
        run_step(&ref);
        run_step(&cpu);
        const mpt_graph *graph = ref.program->graph;
        double a = (double)data_of(&ref, graph->loss)[0];
        double b = (double)data_of(&cpu, graph->loss)[0];
        double bound = i == 0 ? 1e-5 : 2e-2; /* sums differ in order, then rounding doubts */
        if (!(fabs(a - b) < bound))
            fail_msg("%s: loss %g by ref, %g by cpu", formats[i], a, b);
        float norm = data_of(&ref, graph->norm)[0], other = data_of(&cpu, graph->norm)[0];
        assert_true(fabsf(norm - other) < 0.05f * norm);
        teardown(&ref);
        teardown(&cpu);
    }
}

static void test_run_when_repeated_then_bits_are_the_same(void **state) {
    (void)state;
    fixture a, b;
    setup(&a, &net, "nvfp4", MPT_DEVICE_REF);
    setup(&b, &net, "nvfp4", MPT_DEVICE_REF);
    for (int step = 0; step < 3; step++) {
        run_step(&a);
        run_step(&b);
    }
    assert_int_equal(a.used, b.used);
    assert_memory_equal(a.memory, b.memory, a.used * sizeof(float));
    teardown(&a);
    teardown(&b);
}

static void test_run_when_host_has_its_own_threads_then_they_come_back(void **state) {
    (void)state;
    fixture f;
    setup(&f, &net, "fp32", MPT_DEVICE_CPU);
    omp_set_num_threads(3);
    run_step(&f);
    assert_int_equal(omp_get_max_threads(), 3);
    teardown(&f);
}

static int32_t threads_seen(const mpt_kernel_args *args) {
    return args->env->n_threads == omp_get_max_threads() ? args->env->n_threads : -1;
}

static void tell_threads(const mpt_kernel_args *args) {
    ((float *)args->out[0].data)[0] = (float)threads_seen(args);
}

static const mpt_kernel telling[] = {{MPT_OP_cross_entropy, "test", NULL, tell_threads, NULL},
                                     {0, NULL, NULL, NULL, NULL}};
static const mpt_kernel *const telling_tables[] = {telling, mpt_kernels_ref, NULL};

static void test_run_when_more_threads_are_asked_for_then_no_more_than_compiled(void **state) {
    (void)state;
    fixture f;
    mpt_run_env env = some_env();
    setup(&f, &net, "fp32", MPT_DEVICE_REF);
    mpt_schedule_options options = {.tables = telling_tables, .n_threads = 2};
    assert_mpt_ok(f.ctx, mpt_schedule_select(f.program, &options));
    assert_mpt_ok(f.ctx, mpt_schedule_order(f.program));
    static const struct { int asked, expected; } rows[] = {{1, 1}, {2, 2}, {64, 2}, {0, 2}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        env.n_threads = rows[i].asked;
        mpt_executor_run(f.executor, MPT_PASS_FORWARD, &env);
        assert_true(data_of(&f, f.program->graph->loss)[0] == (float)rows[i].expected);
    }
    teardown(&f);
}

/* ---- creation ---- */

static void test_create_when_backend_is_of_another_version_then_refused(void **state) {
    (void)state;
    fixture f;
    mpt_executor *executor;
    char text[128];
    setup(&f, &net, "fp32", MPT_DEVICE_REF);
    mpt_backend other = *mpt_backend_get(MPT_DEVICE_REF);
    other.api = MPT_BACKEND_API + 1;
    f.program->backend = &other;
    assert_int_equal(mpt_executor_create(f.program, &executor), MPT_UNSUPPORTED);
    snprintf(text, sizeof text, "backend ref was made for version %d of the interface, not %d",
             MPT_BACKEND_API + 1, MPT_BACKEND_API);
    assert_string_equal(mpt_ctx_error(f.ctx)->message, text);
    assert_null(executor);
    teardown(&f);
}

static void *refuse_block(mpt_ctx *ctx, size_t bytes) {
    (void)ctx;
    (void)bytes;
    return NULL;
}

static void test_create_when_the_block_is_refused_then_status_and_nothing_kept(void **state) {
    (void)state;
    fixture f;
    mpt_executor *executor;
    setup(&f, &net, "fp32", MPT_DEVICE_REF);
    mpt_backend other = *mpt_backend_get(MPT_DEVICE_REF);
    other.alloc = refuse_block;
    f.program->backend = &other;
    size_t before = mpt_ctx_memory(f.ctx).live_bytes;
    assert_int_equal(mpt_executor_create(f.program, &executor), MPT_OUT_OF_MEMORY);
    assert_int_equal(mpt_ctx_memory(f.ctx).live_bytes, before);
    teardown(&f);
}

/* ---- phases in one block ---- */

static void test_create_when_within_another_then_both_work_in_its_block(void **state) {
    (void)state;
    fixture alone, shared;
    mpt_executor *second;
    setup(&alone, &net, "nvfp4", MPT_DEVICE_REF);
    setup(&shared, &net, "nvfp4", MPT_DEVICE_REF);
    const mpt_graph *graph = shared.program->graph;
    size_t before = mpt_ctx_memory(shared.ctx).live_bytes;
    assert_mpt_ok(shared.ctx,
                  mpt_executor_create_within(shared.program, shared.executor, &second));
    assert_true(mpt_ctx_memory(shared.ctx).live_bytes - before < shared.program->arena_bytes);
    assert_ptr_equal(mpt_executor_tensor(second, graph->loss)->data,
                     mpt_executor_tensor(shared.executor, graph->loss)->data);
    for (int v = 0; v < graph->n_values; v++)
        if (shared.program->placement[v].state)
            mpt_executor_bind(second, v, data_of(&shared, v));
    mpt_executor *first = shared.executor;
    for (int step = 0; step < 4; step++) {
        shared.executor = step % 2 ? second : first;
        run_step(&shared);
        run_step(&alone);
    }
    shared.executor = first;
    assert_memory_equal(alone.memory, shared.memory, alone.used * sizeof(float));
    mpt_executor_destroy(second);
    teardown(&alone);
    teardown(&shared);
}

static void test_create_when_within_a_smaller_one_then_refused(void **state) {
    (void)state;
    fixture f;
    mpt_executor *second;
    setup(&f, &net, "fp32", MPT_DEVICE_REF);
    mpt_phase_program larger = *f.program;
    larger.arena_bytes += 64;
    larger.phase = "settle";
    assert_int_equal(mpt_executor_create_within(&larger, f.executor, &second), MPT_INTERNAL);
    assert_string_equal(mpt_ctx_error(f.ctx)->message,
                        "phase settle does not fit in the memory of phase main");
    assert_null(second);
    teardown(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_run_when_two_tokens_then_loss_and_gradients_are_those_by_hand),
    cmocka_unit_test(test_run_when_two_micro_batches_then_gradients_add_up),
    cmocka_unit_test(test_run_when_steps_follow_then_the_loss_falls),
    cmocka_unit_test(test_run_when_a_step_runs_then_nothing_is_allocated),
    cmocka_unit_test(test_run_when_output_is_bf16_then_it_is_rounded),
    cmocka_unit_test(test_run_when_gradients_are_fp32_then_they_keep_their_bits),
    cmocka_unit_test(test_run_when_ref_and_cpu_then_steps_agree),
    cmocka_unit_test(test_run_when_repeated_then_bits_are_the_same),
    cmocka_unit_test(test_run_when_host_has_its_own_threads_then_they_come_back),
    cmocka_unit_test(test_run_when_more_threads_are_asked_for_then_no_more_than_compiled),
    cmocka_unit_test(test_create_when_backend_is_of_another_version_then_refused),
    cmocka_unit_test(test_create_when_the_block_is_refused_then_status_and_nothing_kept),
    cmocka_unit_test(test_create_when_within_another_then_both_work_in_its_block),
    cmocka_unit_test(test_create_when_within_a_smaller_one_then_refused),
};

MPT_TEST_MAIN(cases)
