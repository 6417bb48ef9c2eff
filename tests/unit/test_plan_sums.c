/* Sums and states that are not FP32 in every text about a program: plan, schedule, both as
 * JSON, and the dump of stage 5. */
#include "lua_test.h"
#include "runtime/pipeline.h"

static const char recipe_text[] =
    "local m = model { name = 'm', sizes = { s = { w = 32 } }, graph = function(nn, size)\n"
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"
    "  nn.block(0, function() x = nn.linear { 'up', x, out = 48 } end)\n"
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"
    "return recipe { model = m 's', precision = { rules = { rule { 'linear', use = gemm {\n"
    "  promote = 16, wgrad = { accumulate = bf16, promote = 32 } } } },\n"
    "  state = { master = bf16, gradient = bf16, reduce = fp16, adam_m = bf16 } },\n"
    "  allow = { 'lost-update', 'fp16-no-loss-scale' },\n"
    "  train = { steps = 4, batch = 2, sequence = 32, lr = constant { peak = 1e-3 } } }\n";

static bool take(void *ud, const char *text, size_t length) {
    mpt_str_append(ud, text, length);
    return true;
}

static void expect_all(const mpt_program *program, mpt_print what, const char *arg,
                       const char *const *texts) {
    mpt_str out;
    mpt_str_init(&out, program->ctx);
    assert_mpt_ok(program->ctx, mpt_program_print(program, what, arg, take, &out));
    for (; *texts; texts++)
        if (!strstr(out.data, *texts))
            fail_msg("'%s' is not in\n%s", *texts, out.data);
    mpt_str_deinit(&out);
}

static void test_texts_when_sums_and_states_are_narrow_then_all_say_so(void **state) {
    (void)state;
    static const char *const plan[] = {"fprop in fp32, to a total in fp32 each 16 (1 layer)",
                                       "wgrad in bf16, to a total in fp32 each 32 (1",
                                       "master bf16, gradient bf16, reduce fp16", NULL};
    static const char *const json[] = {"\"accumulate\": \"bf16\"", "\"promote\": 32",
                                       "\"promote\": 16", NULL};
    static const char *const schedule[] = {
        "-> bf16, to fp32 each 16", "-> bf16, sums in bf16, to fp32 each 32", "bf16 -> fp16",
        "bf16 -> bf16, m bf16, v fp32", NULL};
    static const char *const schedule_json[] = {"\"accumulate\": \"bf16\"", "\"promote\": null",
                                                "\"reduce\": \"fp16\"", NULL};
    static const char *const precise[] = {"accumulate=bf16 promote=32", "reduce=fp16",
                                          " m=bf16", NULL};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = mpt_lua_load(ctx, recipe_text);
    mpt_program *program = NULL;
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    expect_all(program, MPT_PRINT_PLAN, NULL, plan);
    expect_all(program, MPT_PRINT_JSON, NULL, json);
    expect_all(program, MPT_PRINT_SCHEDULE, NULL, schedule);
    expect_all(program, MPT_PRINT_SCHEDULE_JSON, NULL, schedule_json);
    expect_all(program, MPT_PRINT_STAGE, "precise", precise);
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, recipe);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_texts_when_sums_and_states_are_narrow_then_all_say_so),
};
MPT_TEST_MAIN(cases)
