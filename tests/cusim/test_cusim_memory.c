/* The CUDA backend where the host's memory runs out: every allocation of a trainer, which opens
 * the device, fails once, and then nothing is lost; steps have none. The device aborts where
 * something of its own was not given back. */
#include "allowance.h"

#include "kernels/backend.h"
#include "kernels/cuda/cuda.h"
#include "runtime/pipeline.h"
#include "train/trainer.h"

static const char text[] =
    "return recipe { name = 'm', model = require 'models.mlp' 'tiny', "
    "allow = { 'no-warmup' }, precision = { rules = { rule { 'linear', use = nvfp4 } } }, "
    "train = { steps = 4, batch = 2, micro_batch = 1, sequence = 8, lr = "
    "constant { peak = 1e-2 } } }";

typedef struct run {
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
} run;

static mpt_status compile(mpt_ctx *ctx, run *r) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    *r = (run){.recipe = NULL};
    ctx->device_backend = &mpt_backend_cuda;
    options.model = MPT_MODEL_FULL;
    options.n_threads = 1;
    options.target = MPT_TARGET_SM90;
    options.device = MPT_DEVICE_CUDA;
    MPT_TRY(mpt_recipe_load_string(ctx, MPT_SOURCE_DIR "/recipes/m.lua", text, strlen(text),
                                   NULL, &r->recipe));
    return mpt_compile(r->recipe, &options, &r->program);
}

/* A program in a context whose allocations are counted. */
static mpt_ctx *begin(allowance *a, run *r) {
    mpt_ctx *ctx = allowance_context(a, -1);
    assert_mpt_ok(ctx, compile(ctx, r));
    return ctx;
}

static void end(mpt_ctx *ctx, const allowance *a, run *r) {
    mpt_trainer_destroy(r->trainer);
    mpt_program_destroy(r->program);
    mpt_recipe_destroy(r->recipe);
    mpt_ctx_destroy(ctx);
    assert_int_equal(a->live, 0);
}

/* A clear text, whichever of the parts it was that wanted memory. */
static void assert_says_memory(const mpt_ctx *ctx, mpt_status status, long n) {
    const char *message = mpt_ctx_error(ctx)->message;
    bool closed = status == MPT_UNSUPPORTED && strstr(message, "the host's memory is full");
    if (status != MPT_OUT_OF_MEMORY && !closed)
        fail_msg("after %ld allocations: status %d, %s", n, (int)status, message);
    assert_true(*message != 0);
}

static void test_create_when_any_allocation_fails_then_said_and_nothing_is_lost(void **state) {
    (void)state;
    allowance a;
    run r;
    mpt_step_result result;
    mpt_ctx *ctx = begin(&a, &r);
    long live = a.live, n = 0;
    for (mpt_status status = MPT_OUT_OF_MEMORY; status != MPT_OK; n++) {
        a.left = n;
        status = mpt_trainer_create(r.program, NULL, &r.trainer);
        a.left = -1;
        if (status == MPT_OK)
            continue;
        assert_says_memory(ctx, status, n);
        assert_null(r.trainer);
        assert_int_equal(a.live, live);
    }
    assert_true(n > 10);
    assert_mpt_ok(ctx, mpt_trainer_step(r.trainer, NULL, &result));
    end(ctx, &a, &r);
}

/* Steps take no memory of the host at all, so that none can be refused there. */
static void test_step_when_no_allocation_is_left_then_it_needs_none(void **state) {
    (void)state;
    allowance a;
    run r;
    mpt_step_result result;
    mpt_ctx *ctx = begin(&a, &r);
    assert_mpt_ok(ctx, mpt_trainer_create(r.program, NULL, &r.trainer));
    a.left = 0;
    for (int i = 0; i < 3; i++)
        assert_mpt_ok(ctx, mpt_trainer_step(r.trainer, NULL, &result));
    a.left = -1;
    end(ctx, &a, &r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_create_when_any_allocation_fails_then_said_and_nothing_is_lost),
    cmocka_unit_test(test_step_when_no_allocation_is_left_then_it_needs_none),
};

MPT_TEST_MAIN(cases)
