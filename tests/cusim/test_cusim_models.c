/* Whole models through the CUDA kernels, in the simulator: some steps of training beside those
 * of ref, and what must not depend on how the steps are launched. */
#include "exec/backend.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda.h"
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/pipeline.h"
#include "train/trainer.h"

enum { STEPS = 4 };

static const double loss_bound =
    2e-3; /* of a loss: sums in another order, BF16 rounded after */

typedef struct run {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
    double loss[STEPS];
} run;

static const char gpt2[] = "require 'models.gpt2' { n_layer = 2, n_embd = 16, n_head = 2, "
                           "n_positions = 16 }";
static const char nemotron_h[] =
    "require 'models.nemotron_h' { hybrid_override_pattern = 'M-*', hidden_size = 16, "
    "intermediate_size = 32, num_attention_heads = 2, num_key_value_heads = 1, head_dim = 8, "
    "mamba_num_heads = 2, mamba_head_dim = 8, ssm_state_size = 8, n_groups = 1, conv_kernel = "
    "4 }";

/* `backend` of a device, or NULL for ref. */
static mpt_status load_for(run *r, const mpt_backend *backend, mpt_target target,
                           const char *model, const char *precision) {
    char text[2048];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    r->ctx->device_backend = backend;
    snprintf(text, sizeof text,
             "return recipe { name = 'c', model = %s, allow = { 'no-warmup' }, precision = %s, "
             "train = { steps = 10, batch = 2, micro_batch = 1, sequence = 8, lr = constant { "
             "peak = 1e-2 } } }",
             model, precision);
    options.model = MPT_MODEL_FULL;
    options.n_threads = 1;
    options.target = target;
    options.device = backend ? MPT_DEVICE_CUDA : MPT_DEVICE_REF;
    assert_mpt_ok(r->ctx, mpt_recipe_load_string(r->ctx, MPT_SOURCE_DIR "/recipes/c.lua", text,
                                                 strlen(text), NULL, &r->recipe));
    return mpt_compile(r->recipe, &options, &r->program);
}

/* Without a trainer. */
static void begin_for(run *r, const mpt_backend *backend, mpt_target target, const char *model,
                      const char *precision) {
    *r = (run){.ctx = mpt_test_ctx()};
    assert_mpt_ok(r->ctx, load_for(r, backend, target, model, precision));
}

static void begin(run *r, const mpt_backend *backend, const char *model,
                  const char *precision) {
    mpt_target target = backend ? MPT_TARGET_SM90 : MPT_TARGET_HOST; /* the simulator's */
    begin_for(r, backend, target, model, precision);
    assert_mpt_ok(r->ctx, mpt_trainer_create(r->program, NULL, &r->trainer));
}

static void train(run *r) {
    mpt_step_result result;
    for (int i = 0; i < STEPS; i++) {
        assert_mpt_ok(r->ctx, mpt_trainer_step(r->trainer, NULL, &result));
        r->loss[i] = result.loss;
    }
}

static void end(run *r) {
    mpt_trainer_destroy(r->trainer);
    mpt_program_destroy(r->program);
    mpt_recipe_destroy(r->recipe);
    assert_int_equal(mpt_ctx_memory(r->ctx).live_bytes, 0);
    mpt_ctx_destroy(r->ctx);
}

static uint64_t weights_of(const run *r) {
    mpt_param_view view;
    uint64_t hash = 0;
    for (int i = 0; mpt_trainer_param(r->trainer, i, &view); i++) {
        size_t n = 1;
        for (int d = 0; d < view.rank; d++)
            n *= (size_t)view.dims[d];
        hash = hash * 31 + mpt_hash(view.data, n * sizeof(float));
    }
    return hash;
}

/* A mpt_step_fn: who looks on has every kernel launched by itself. */
static void look_on(void *ud, int step) {
    (void)ud;
    (void)step;
}

/* Losses near ref's; the same bits again, and the same step by step. The backend is the one of
 * a GPU: a kernel that it lacks is not made up for. */
static void check(const char *model, const char *precision) {
    run ref, first, again;
    begin(&ref, NULL, model, precision);
    begin(&first, &mpt_backend_cuda, model, precision);
    begin(&again, &mpt_backend_cuda, model, precision);
    mpt_executor_watch(again.trainer->executors[0], look_on, NULL);
    train(&ref);
    train(&first);
    train(&again);
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(first.loss[i] - ref.loss[i]) <= loss_bound * ref.loss[i]))
            fail_msg("step %d of %s in %s: loss %.6f, of ref %.6f", i, model, precision,
                     first.loss[i], ref.loss[i]);
        assert_true(first.loss[i] == again.loss[i]);
    }
    assert_int_equal(weights_of(&first), weights_of(&again));
    end(&ref);
    end(&first);
    end(&again);
}

static void test_train_when_gpt2_then_losses_are_refs_within_bound(void **state) {
    (void)state;
    check(gpt2, "{ base = fp32 }");
    check(gpt2, "{ base = bf16 }");
}

static void test_train_when_nemotron_h_then_losses_are_refs_within_bound(void **state) {
    (void)state;
    check(nemotron_h, "{ base = bf16 }");
}

static void test_train_when_fp8_delayed_then_losses_are_refs_within_bound(void **state) {
    (void)state;
    check(gpt2, "{ rules = { rule { 'linear', use = gemm { weight = e4m3 { scale = delayed { "
                "history = 4 } }, "
                "activation = e4m3 { scale = delayed { history = 4 } }, gradient = e5m2 { "
                "scale = delayed { history = 4 } } } } "
                "} }");
}

/* Kernels for another kind of GPU would leave their work undone. */
static void test_create_when_compiled_for_another_gpu_then_refused(void **state) {
    (void)state;
    run r;
    begin_for(&r, &mpt_backend_cuda, MPT_TARGET_SM80, gpt2, "{ base = bf16 }");
    assert_int_equal(mpt_trainer_create(r.program, NULL, &r.trainer), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(r.ctx)->message,
                        "the program was compiled for sm80, and this GPU is of the kind sm90; "
                        "leave the target out of the options of mpt_compile to run it");
    assert_null(r.trainer);
    end(&r);
}

/* There is no falling back on a host's kernel: a GPU that lacks one cannot run the model. */
static void test_table_when_any_op_then_it_has_a_kernel(void **state) {
    (void)state;
    for (int op = 0; op < MPT_OP_COUNT; op++) {
        const mpt_kernel *row = mpt_kernels_cuda;
        while (row->run && row->op != (mpt_op)op)
            row++;
        if (!row->run)
            fail_msg("kernels/cuda/table.c has no kernel for %s", mpt_op_get((mpt_op)op)->name);
    }
}

static void test_compile_when_a_kernel_is_missing_then_its_op_is_named(void **state) {
    (void)state;
    static mpt_kernel few[2 * MPT_OP_COUNT];
    static const mpt_kernel *const tables[] = {few, NULL};
    mpt_backend lacking = mpt_backend_cuda;
    int n = 0;
    for (const mpt_kernel *row = mpt_kernels_cuda; row->run; row++)
        if (row->op != MPT_OP_gelu)
            few[n++] = *row;
    assert_true(n < (int)MPT_COUNT(few));
    lacking.tables = tables;
    run r = {.ctx = mpt_test_ctx()};
    assert_int_equal(load_for(&r, &lacking, MPT_TARGET_SM90, gpt2, "{ base = bf16 }"),
                     MPT_UNSUPPORTED);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "gelu"));
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "this device has no kernel"));
    end(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_table_when_any_op_then_it_has_a_kernel),
    cmocka_unit_test(test_compile_when_a_kernel_is_missing_then_its_op_is_named),
    cmocka_unit_test(test_train_when_gpt2_then_losses_are_refs_within_bound),
    cmocka_unit_test(test_train_when_nemotron_h_then_losses_are_refs_within_bound),
    cmocka_unit_test(test_train_when_fp8_delayed_then_losses_are_refs_within_bound),
    cmocka_unit_test(test_create_when_compiled_for_another_gpu_then_refused),
};

MPT_TEST_MAIN(cases)
