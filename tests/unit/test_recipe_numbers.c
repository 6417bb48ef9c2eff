/* precision.state and gemm{ accumulate, promote } in a recipe: who wins, what is refused, what
 * is warned about, and that a host and a .lua file say the same. */
#include "lua_test.h"
#include "recipe_fixture.h"

/* ---- the cascade ---- */

static void expect_sum(const mpt_policy *policy, mpt_gemm gemm, mpt_dtype accumulate,
                       int promote) {
    assert_int_equal(policy->accumulate[gemm], accumulate);
    assert_int_equal(policy->promote[gemm], promote);
}

static void test_sum_when_nothing_is_said_then_plain_fp32(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 10, .selector = "linear", .use = "e4m3");
    fixture_resolve(&f, 0);
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        expect_sum(FIXTURE_POLICY(&f, "layers.0.mlp.up_proj"), (mpt_gemm)g, MPT_DTYPE_FP32, 0);
    fixture_close(&f);
}

static void test_sum_when_rules_overlap_then_fields_merge_and_a_format_clears(void **state) {
    (void)state;
    static const mpt_set all[] = {{"accumulate", "bf16"}, {"promote", "128"}};
    static const mpt_set one[] = {{"wgrad.promote", "64"}, {"dgrad.accumulate", "fp16"}};
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 10, .selector = "linear", .words = all, .n_words = 2);
    fixture_rule(&f, 11, .selector = "*.up_proj", .words = one, .n_words = 2);
    fixture_rule(&f, 12, .selector = "linear", .blocks = "only 1", .use = "e4m3");
    fixture_rule(&f, 13, .selector = "linear", .blocks = "only 2", .gemms = "fprop",
                 .use = "e4m3");
    fixture_resolve(&f, 0);
    const mpt_policy *up = FIXTURE_POLICY(&f, "layers.0.mlp.up_proj");
    expect_sum(up, MPT_GEMM_FPROP, MPT_DTYPE_BF16, 128);
    expect_sum(up, MPT_GEMM_DGRAD, MPT_DTYPE_FP16, 128);
    expect_sum(up, MPT_GEMM_WGRAD, MPT_DTYPE_BF16, 64);
    assert_int_equal(up->n_decided, 2);
    up = FIXTURE_POLICY(&f, "layers.1.mlp.up_proj");
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        expect_sum(up, (mpt_gemm)g, MPT_DTYPE_FP32, 0);
    assert_int_equal(up->n_decided, 1);
    up = FIXTURE_POLICY(&f, "layers.2.attn.o_proj");
    expect_sum(up, MPT_GEMM_FPROP, MPT_DTYPE_FP32, 0);
    expect_sum(up, MPT_GEMM_DGRAD, MPT_DTYPE_BF16, 128);
    expect_sum(FIXTURE_POLICY(&f, "lm_head"), MPT_GEMM_FPROP, MPT_DTYPE_FP32, 0);
    fixture_close(&f);
}

static void test_sum_when_one_product_says_it_then_it_outranks_the_gemm(void **state) {
    (void)state;
    static const mpt_set words[] = {
        {"fprop.promote", "32"}, {"promote", "128"}, {"fprop.accumulate", "fp32"}};
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 10, .selector = "linear", .words = words, .n_words = 3);
    fixture_resolve(&f, 0);
    const mpt_policy *up = FIXTURE_POLICY(&f, "layers.0.mlp.up_proj");
    expect_sum(up, MPT_GEMM_WGRAD, MPT_DTYPE_FP32, 128);
    expect_sum(up, MPT_GEMM_FPROP, MPT_DTYPE_FP32, 32);
    fixture_close(&f);
}

/* ---- refusals ---- */

static void refuse_words(const char *word, const char *value, const char *message) {
    const mpt_set words[] = {{word, value}};
    fixture_expect(&(const mpt_rule_desc){.size = sizeof(mpt_rule_desc),
                                          .file = "r.lua",
                                          .line = 3,
                                          .selector = "linear",
                                          .words = words,
                                          .n_words = 1},
                   message);
}

static void test_host_when_a_sum_is_wrong_then_the_way_out_is_named(void **state) {
    (void)state;
    refuse_words("promote", "100",
                 "r.lua:5: precision.rules[1].use.promote: 100 is no multiple of 16; products "
                 "are summed up in groups of 16: give 128");
    refuse_words("wgrad.promote", "8",
                 "r.lua:5: precision.rules[1].use.wgrad.promote: out of range: 8; give a whole "
                 "number of 16 or more and at most 1073741824");
    refuse_words("accumulate", "e4m3",
                 "r.lua:5: precision.rules[1].use.accumulate: no format 'e4m3' here; take "
                 "fp32, bf16 or fp16");
    refuse_words("fprop.acumulate", "bf16",
                 "r.lua:5: precision.rules[1].use: no word 'fprop.acumulate'; did you mean "
                 "'fprop.accumulate'?");
}

#define USE_GEMM "precision = { rules = { rule { 'linear', use = gemm {"

static void test_lua_when_a_sum_is_wrong_then_its_line_is_named(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {USE_GEMM "\n  accumulate = bf16,\n  promote = 100 } } } }",
         "r.lua:7: precision.rules[1].use.promote: 100 is no multiple of 16; products are "
         "summed up in groups of 16: give 128"},
        {USE_GEMM " wgrad = {\n  promote = 24 } } } } }",
         "r.lua:6: precision.rules[1].use.wgrad.promote: 24 is no multiple of 16; products are "
         "summed up in groups of 16: give 128"},
        {USE_GEMM "\n  promote = 0 } } } }",
         "r.lua:6: precision.rules[1].use.promote: out of range: 0; give a whole number of 16 "
         "or more and at most 1073741824"},
        {USE_GEMM "\n  promote = 'often' } } } }",
         "r.lua:6: precision.rules[1].use.promote: cannot be 'often'; give a whole number of "
         "16 or more and at most 1073741824"},
        {USE_GEMM "\n  promote = 128.5 } } } }",
         "r.lua:6: precision.rules[1].use.promote: must be whole, not 128.5; give a whole "
         "number of 16 or more and at most 1073741824"},
        {USE_GEMM " dgrad = {\n  accumulate = e4m3 } } } } }",
         "r.lua:6: precision.rules[1].use.dgrad.accumulate: no format 'e4m3' here; take fp32, "
         "bf16 or fp16"},
        {USE_GEMM " fprop = {\n  promte = 128 } } } } }",
         "r.lua:6: precision.rules[1].use.fprop: no field 'promte'; did you mean 'promote'?"},
        {"precision = { state = {\n  adam_m = e2m1 } }",
         "r.lua:6: precision.state.adam_m: no format 'e2m1' here; take fp32, bf16, fp16, e4m3 "
         "or "
         "e5m2"},
        {"precision = { state = {\n  adam_m = nvfp4 { block = {1, 16} } } }",
         "r.lua:6: precision.state.adam_m: no format 'nvfp4' here; take fp32, bf16, fp16, e4m3 "
         "or e5m2"},
        {"precision = { state = {\n  master = e4m3 } }",
         "r.lua:6: precision.state.master: no format 'e4m3' here; take fp32, bf16 or fp16"},
        {"precision = { state = {\n  gradient = bf16 { rounding = 'stochastic' } } }",
         "r.lua:6: precision.state.gradient: cannot be a number format; give fp32, bf16 or "
         "fp16"},
        {"precision = { state = {\n  master = bf16 { rounding = 'half_away' } } }",
         "r.lua:6: precision.state.master.rounding: a state in bf16 does not have it; take "
         "\"nearest\" or \"stochastic\""},
        {"precision = { state = {\n  master = bf16 { rouding = 'stochastic' } } }",
         "r.lua:6: precision.state.master: no field 'rouding'; did you mean 'rounding'?"},
        {"precision = { state = {\n  master = fp32 { rounding = 'stochastic' } } }",
         "r.lua:6: precision.state.master.rounding: a state in fp32 does not have it; fp32 "
         "holds "
         "states as they are; take bf16, fp16 or e4m3"},
        {"precision = { state = {\n  adam_v = bf16 { scale = current {} } } }",
         "r.lua:6: precision.state.adam_v.scale: a state in bf16 does not have it; leave it "
         "out; "
         "states take rounding, and fp16 scale = current {}"},
        {"precision = { state = {\n  adam_m = e4m3 { scale = delayed { history = 4 } } } }",
         "r.lua:6: precision.state.adam_m.scale: a state is scaled by its own largest element; "
         "take scale = current {}"},
        {"precision = { state = {\n  adam_m = e4m3 { hadamard = hadamard { size = 16 } } } }",
         "r.lua:6: precision.state.adam_m.hadamard: a state in e4m3 does not have it; leave it "
         "out; states take rounding, block, scale_format, scale_rule and headroom"},
        {"precision = { state = {\n  adam = bf16 } }",
         "r.lua:6: precision.state: no field 'adam'; did you mean 'adam_m'?"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        mpt_lua_refuse_fields(rows[i][0], rows[i][1]);
}

/* ---- Lua and C say the same ---- */

static void canonical(mpt_ctx *ctx, mpt_recipe *recipe, mpt_str *out) {
    mpt_str_init(out, ctx);
    mpt_recipe_canonical(recipe, out);
}

static void test_state_when_it_has_fields_then_lua_and_text_give_one_recipe(void **state) {
    (void)state;
    static const mpt_set sets[] = {
        {"precision.state.master", "bf16 rounding=stochastic"},
        {"precision.state.adam_m", "e4m3 block=1x128"},
        {"precision.state.adam_v", "fp16 scale=current rounding=stochastic"}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = mpt_lua_load_fields(
        ctx, "precision = { state = { master = bf16 { rounding = 'stochastic' }, adam_m = e4m3 "
             "{ block = {1, 128} }, adam_v = fp16 { scale = current {}, rounding = "
             "'stochastic' } } }");
    mpt_recipe *set = mpt_lua_load_fields(
        ctx,
        "precision = { state = { master = fp16, adam_m = e5m2 { rounding = 'stochastic' } } }");
    mpt_str a, b;
    for (size_t i = 0; i < MPT_COUNT(sets); i++)
        assert_mpt_ok(ctx, mpt_recipe_set(set, sets[i].path, sets[i].value));
    canonical(ctx, lua, &a);
    canonical(ctx, set, &b);
    assert_string_equal(a.data, b.data);
    assert_non_null(strstr(a.data, "precision.state.adam_m = e4m3 block=1x128 scale=current "));
    assert_non_null(strstr(a.data, "precision.state.master = bf16 block=tensor scale=none "));
    mpt_str_deinit(&a);
    mpt_str_deinit(&b);
    mpt_recipe_destroy(lua);
    mpt_recipe_destroy(set);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_recipe_when_said_in_c_and_in_lua_then_one_text(void **state) {
    (void)state;
    static const mpt_set words[] = {{"accumulate", "bf16"},
                                    {"promote", "128"},
                                    {"wgrad.accumulate", "fp32"},
                                    {"dgrad.promote", "64"}};
    static const mpt_set sets[] = {{"precision.state.master", "bf16"},
                                   {"precision.state.gradient", "fp16"},
                                   {"precision.state.reduce", "bf16"},
                                   {"precision.state.adam_m", "bf16"},
                                   {"precision.state.adam_v", "fp16"},
                                   {"train.steps", "5"},
                                   {"train.batch", "2"},
                                   {"train.sequence", "8"},
                                   {"train.lr", "constant"},
                                   {"train.lr.peak", "1e-3"}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = mpt_lua_load_fields(
        ctx, "precision = { rules = { rule { 'linear', use = gemm { accumulate = bf16,\n"
             " promote = 128, wgrad = { accumulate = fp32 }, dgrad = { promote = 64 } } } },\n"
             " state = { master = bf16, gradient = fp16, reduce = bf16, adam_m = bf16,\n"
             " adam_v = fp16 } }, train = { steps = 5, batch = 2, sequence = 8,\n"
             " lr = constant { peak = 1e-3 } }");
    mpt_recipe *host;
    mpt_str a, b;
    assert_mpt_ok(ctx, mpt_recipe_create(ctx, "host", &host));
    assert_mpt_ok(ctx, mpt_recipe_set_model(host, "m", "s", fixture_build, NULL));
    for (size_t i = 0; i < MPT_COUNT(sets); i++)
        assert_mpt_ok(ctx, mpt_recipe_set(host, sets[i].path, sets[i].value));
    assert_mpt_ok(ctx, mpt_recipe_add_rule(
                           host, MPT_RULE(.selector = "linear", .words = words, .n_words = 4)));
    canonical(ctx, lua, &a);
    canonical(ctx, host, &b);
    assert_string_equal(a.data, b.data);
    assert_non_null(strstr(a.data, "precision.state.master = bf16\n"
                                   "precision.state.gradient = fp16\n"
                                   "precision.state.reduce = bf16\n"
                                   "precision.state.adam_m = bf16\n"
                                   "precision.state.adam_v = fp16\n"));
    assert_non_null(strstr(a.data, "precision.rules[1].use.fprop.accumulate = bf16\n"
                                   "precision.rules[1].use.fprop.promote = 128\n"
                                   "precision.rules[1].use.dgrad.accumulate = bf16\n"
                                   "precision.rules[1].use.dgrad.promote = 64\n"
                                   "precision.rules[1].use.wgrad.accumulate = fp32\n"
                                   "precision.rules[1].use.wgrad.promote = 128\n"));
    mpt_str_deinit(&a);
    mpt_str_deinit(&b);
    mpt_recipe_destroy(host);
    mpt_lua_finish(ctx, lua);
}

/* ---- warnings ---- */

typedef struct checked {
    fixture f;
    mpt_arena arena;
    mpt_warning *list;
    int n;
} checked;

static void open(checked *c) {
    fixture_open(&c->f);
    mpt_arena_init(&c->arena, c->f.ctx);
    c->f.recipe->where = (mpt_where){"r.lua", 1};
    for (int i = 0; i < FIXTURE_LAYERS; i++)
        c->f.layers[i].in_features = c->f.layers[i].out_features = 512;
}

/* Checks and closes; expects one warning, or none where `name` is NULL. */
static void finish(checked *c, const char *name, int line, const char *text) {
    mpt_policy *policies[] = {c->f.policies};
    fixture_resolve(&c->f, 0);
    assert_mpt_ok(c->f.ctx,
                  mpt_recipe_check(c->f.recipe, &c->arena, c->f.layers, FIXTURE_LAYERS,
                                   FIXTURE_BLOCKS, policies, &c->list, &c->n));
    for (int i = 0; i < c->n && (!name || c->n != 1); i++)
        print_message("%s: %s\n", c->list[i].name, c->list[i].text);
    assert_int_equal(c->n, name ? 1 : 0);
    if (name) {
        assert_string_equal(c->list[0].name, name);
        assert_string_equal(c->list[0].text, text);
        assert_int_equal(c->list[0].where.line, line);
    }
    mpt_arena_deinit(&c->arena);
    fixture_close(&c->f);
}

static void test_check_when_sums_stay_narrow_then_low_precision_accumulate(void **state) {
    (void)state;
    static const mpt_set narrow[] = {{"dgrad.accumulate", "bf16"}};
    static const mpt_set moved[] = {{"accumulate", "bf16"}, {"promote", "128"}};
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .words = narrow, .n_words = 1);
    finish(&c, "low-precision-accumulate", 10,
           "sums of products in bf16, never moved to fp32, in 12 layers, first "
           "layers.0.attn.qkv (dgrad); promote = 128 moves them");
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .words = moved, .n_words = 2);
    finish(&c, NULL, 0, NULL);
}

static void test_check_when_no_dot_product_is_longer_then_promote_has_no_effect(void **state) {
    (void)state;
    static const mpt_set words[] = {{"fprop.promote", "512"}, {"wgrad.promote", "128"}};
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .words = words, .n_words = 2);
    finish(&c, "no-effect", 10,
           "layers.0.attn.qkv.fprop.promote = 512: no dot product there has more products than "
           "that");
    open(&c);
    c.f.layers[fixture_find(&c.f, "layers.3.attn.o_proj")].in_features = 513;
    fixture_rule(&c.f, 10, .selector = "linear", .words = words, .n_words = 2);
    finish(&c, NULL, 0, NULL);
}

static void test_check_when_the_master_is_16_bits_then_lost_update(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "precision.state.master", "bf16");
    finish(&c, "lost-update", 1,
           "precision.state.master is bf16, which loses updates under 2^-9 of a weight; at the "
           "peak learning rate of 0.001 weights above 0.512 stand still, and none decays; "
           "rounding = \"stochastic\" keeps them on average");
    open(&c);
    fixture_set(&c.f, "precision.state.master", "bf16 rounding=stochastic");
    finish(&c, NULL, 0, NULL);
    open(&c);
    fixture_set(&c.f, "precision.state.master", "fp16");
    fixture_set(&c.f, "train.optimizer", "sgd");
    finish(&c, "lost-update", 1,
           "precision.state.master is fp16, which loses updates under 2^-12 of a weight; "
           "rounding = \"stochastic\" keeps them on average");
}

static void test_check_when_a_moment_cannot_fall_then_lost_update(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "precision.state.adam_v", "bf16");
    fixture_set(&c.f, "precision.state.adam_m", "bf16");
    finish(&c, NULL, 0, NULL);
    open(&c);
    fixture_set(&c.f, "precision.state.adam_v", "bf16");
    fixture_set(&c.f, "train.optimizer.betas", "0.9,0.999");
    finish(
        &c, "lost-update", 1,
        "precision.state.adam_v is bf16: a step takes 0.001 of it away, which is under 2^-9, "
        "so it never falls");
    open(&c);
    fixture_set(&c.f, "precision.state.adam_v", "fp16");
    finish(
        &c, "lost-update", 1,
        "precision.state.adam_v is fp16, in which squares under 3e-08 are 0: their steps are "
        "divided by eps alone; scale = current {} keeps them");
    open(&c);
    fixture_set(&c.f, "precision.state.adam_v", "fp16 scale=current");
    fixture_set(&c.f, "precision.state.adam_m", "e4m3 block=1x128");
    finish(&c, NULL, 0, NULL);
    open(&c);
    fixture_set(&c.f, "precision.state.adam_v", "e4m3");
    finish(&c, "lost-update", 1,
           "precision.state.adam_v is e4m3, in which squares under 2^-18 of the largest under "
           "their scale are 0: their steps are divided by eps alone");
    open(&c);
    fixture_set(&c.f, "precision.state.adam_m", "e5m2 block=1x128");
    fixture_set(&c.f, "train.optimizer.betas", "0.95,0.95");
    finish(&c, "lost-update", 1,
           "precision.state.adam_m is e5m2: a step takes 0.05 of it away, which is under 2^-4, "
           "so it falls only with the scale of its block");
    open(&c);
    fixture_set(&c.f, "precision.state.adam_m", "e5m2 block=1x128 rounding=stochastic");
    fixture_set(&c.f, "train.optimizer.betas", "0.95,0.95");
    finish(&c, NULL, 0, NULL);
}

static void test_check_when_moments_are_sgds_then_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "precision.state.adam_v", "bf16");
    fixture_set(&c.f, "train.optimizer", "sgd");
    finish(&c, "no-effect", 1,
           "precision.state.adam_v is of AdamW's moments, but the optimizer is sgd");
}

static void test_check_when_p22_too_many_gradients_are_summed_then_it_is_said(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "precision.state.gradient", "bf16");
    fixture_set(&c.f, "train.batch", "512");
    fixture_set(&c.f, "train.micro_batch", "1");
    finish(&c, "low-precision-accumulate", 1,
           "precision.state.gradient is bf16: it sums up 512 micro-batches, and a sum of equal "
           "gradients stops at 256");
    open(&c);
    fixture_set(&c.f, "precision.state.gradient", "bf16");
    fixture_set(&c.f, "train.batch", "512");
    fixture_set(&c.f, "train.micro_batch", "2");
    finish(&c, NULL, 0, NULL);
}

static void test_check_when_gradients_are_fp16_then_a_loss_scale_counts(void **state) {
    (void)state;
    static const char *const paths[] = {"precision.state.gradient", "precision.state.reduce"};
    for (size_t i = 0; i < MPT_COUNT(paths); i++) {
        checked c;
        open(&c);
        fixture_set(&c.f, paths[i], "fp16");
        finish(&c, "fp16-no-loss-scale", 1,
               "fp16 gradients below 6e-8 vanish: give precision.loss_scale = "
               "static(1024), or dynamic { }");
        open(&c);
        fixture_set(&c.f, paths[i], "fp16");
        fixture_set(&c.f, "precision.loss_scale", "1024");
        finish(&c, NULL, 0, NULL);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_sum_when_nothing_is_said_then_plain_fp32),
    cmocka_unit_test(test_sum_when_rules_overlap_then_fields_merge_and_a_format_clears),
    cmocka_unit_test(test_sum_when_one_product_says_it_then_it_outranks_the_gemm),
    cmocka_unit_test(test_host_when_a_sum_is_wrong_then_the_way_out_is_named),
    cmocka_unit_test(test_lua_when_a_sum_is_wrong_then_its_line_is_named),
    cmocka_unit_test(test_state_when_it_has_fields_then_lua_and_text_give_one_recipe),
    cmocka_unit_test(test_recipe_when_said_in_c_and_in_lua_then_one_text),
    cmocka_unit_test(test_check_when_sums_stay_narrow_then_low_precision_accumulate),
    cmocka_unit_test(test_check_when_no_dot_product_is_longer_then_promote_has_no_effect),
    cmocka_unit_test(test_check_when_the_master_is_16_bits_then_lost_update),
    cmocka_unit_test(test_check_when_a_moment_cannot_fall_then_lost_update),
    cmocka_unit_test(test_check_when_moments_are_sgds_then_no_effect),
    cmocka_unit_test(test_check_when_p22_too_many_gradients_are_summed_then_it_is_said),
    cmocka_unit_test(test_check_when_gradients_are_fp16_then_a_loss_scale_counts),
};
MPT_TEST_MAIN(cases)
