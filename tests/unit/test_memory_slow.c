/* Three blocks of Nemotron-H 12B, one of each kind, in full width: a step of it runs on a
 * machine of 8 GB, and takes what its plan says. */
#include "mpt_test.h"

#include <math.h>

#include "lua_test.h"

/* The most memory that this process has held, in bytes: what the system saw, not the context.
 */
static double most_resident(void) {
    char line[256];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld kB", &kilobytes) == 1)
            break;
    if (status)
        (void)fclose(status);
    return (double)kilobytes * 1024;
}

static const char text[] =
    "return recipe { name = 'wide', model = require 'models.nemotron_h' { "
    "hybrid_override_pattern = 'M-*', hidden_size = 5120, intermediate_size = 20480, "
    "num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128, mamba_num_heads = 128, "
    "mamba_head_dim = 80, ssm_state_size = 128, n_groups = 8, conv_kernel = 4, vocab_size = "
    "256 "
    "}, precision = presets.fp32, data = synthetic { vocab = 256 }, train = { steps = 1, batch "
    "= 1, sequence = 128, optimizer = adamw { }, lr = constant { peak = 1e-4 }, clip = 1.0 } }";

static void test_step_when_blocks_are_the_12b_models_then_memory_is_as_planned(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
    mpt_step_result result;
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "w.lua", text, strlen(text), NULL, &recipe));
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    double planned = (double)mpt_program_get_info(program).bytes_total;
    assert_int_equal(mpt_program_get_info(program).parameters, 443771264);
    mpt_status status = mpt_trainer_create(program, NULL, &trainer);
    if (status == MPT_OUT_OF_MEMORY) {
        print_message("skipped: %s\n", mpt_ctx_error(ctx)->message);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        mpt_ctx_destroy(ctx);
        skip();
    }
    assert_mpt_ok(ctx, status);
    assert_mpt_ok(ctx, mpt_trainer_step(trainer, NULL, &result));
    assert_true(!result.skipped && isfinite(result.loss) && result.grad_norm > 0);
    double held = (double)mpt_ctx_memory(ctx).peak_bytes / planned;
    double resident = most_resident() / planned;
    print_message("planned %.0f bytes; held %.4f of it, resident %.4f; loss %.4f\n", planned,
                  held, resident, result.loss);
    assert_true(held > 0.9 && held < 1.1);
    assert_true(resident > 0.9 && resident < 1.1);
    mpt_trainer_destroy(trainer);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_step_when_blocks_are_the_12b_models_then_memory_is_as_planned),
};

MPT_TEST_MAIN(cases)
