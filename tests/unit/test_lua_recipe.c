/* lua/bind: each word of the recipe language, as it arrives in the IR. */
#include "lua_test.h"

#include "recipe/use.h"

/* ---- words ---- */

static void test_recipe_when_plain_fields_then_they_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        mpt_lua_load_fields(ctx, "version = 1, name = 'n', description = 'd',\n"
                                 "train = { steps = 7, batch = 4, sequence = 8, clip = 0.5,"
                                 " seed = 3, decay = 'all', eval = { every = 5 } }");
    assert_string_equal(r->name, "n");
    assert_string_equal(r->description, "d");
    assert_int_equal(r->train.steps, 7);
    assert_int_equal(r->train.batch, 4);
    assert_int_equal(r->train.sequence, 8);
    assert_true(r->train.clip == 0.5);
    assert_int_equal(r->train.seed, 3);
    assert_int_equal(r->train.decay, MPT_DECAY_ALL);
    assert_int_equal(r->train.eval_every, 5);
    assert_true(r->model.present);
    assert_string_equal(r->model.name, "m");
    assert_string_equal(r->model.size, "s");
    assert_int_equal(r->model.where.line, 4);
    assert_int_equal(r->where.line, 4);
    assert_false(r->proxy.present);
    mpt_lua_finish(ctx, r);
}

static void test_recipe_when_name_is_missing_then_the_file_gives_it(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, "version = 1");
    assert_string_equal(r->name, "r");
    assert_string_equal(r->file, "r.lua");
    assert_non_null(strstr(r->source_text, "return recipe"));
    mpt_lua_finish(ctx, r);
}

static void test_optimizer_when_adamw_or_sgd_then_their_fields_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, "train = { optimizer = adamw { betas = {0.5, 0.75}, eps = 1e-6 } }");
    assert_int_equal(r->train.optimizer.kind, MPT_OPTIMIZER_ADAMW);
    assert_true(r->train.optimizer.beta1 == 0.5 && r->train.optimizer.beta2 == 0.75);
    assert_true(r->train.optimizer.eps == 1e-6);
    assert_true(r->train.optimizer.weight_decay == 0.1);
    mpt_recipe_destroy(r);
    r = mpt_lua_load_fields(ctx, "train = { optimizer = sgd { momentum = 0.9 } }");
    assert_int_equal(r->train.optimizer.kind, MPT_OPTIMIZER_SGD);
    assert_true(r->train.optimizer.momentum == 0.9);
    mpt_lua_finish(ctx, r);
}

static void test_lr_when_each_word_then_its_kind_and_spans_arrive(void **state) {
    (void)state;
    static const char *const words[] = {"constant", "linear", "cosine", "wsd"};
    for (int i = 0; i < 4; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        char fields[256];
        snprintf(fields, sizeof fields, "train = { lr = %s { peak = 0.25, warmup = 20 %s } }",
                 words[i], i == 3 ? ", decay = 0.5" : "");
        mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
        assert_int_equal(r->train.lr.kind, i);
        assert_true(r->train.lr.peak == 0.25);
        assert_true(r->train.lr.warmup.value == 20 && !r->train.lr.warmup.fraction);
        if (i == 3)
            assert_true(r->train.lr.decay.value == 0.5 && r->train.lr.decay.fraction);
        mpt_lua_finish(ctx, r);
    }
}

static void test_proxy_when_given_then_only_its_settings_differ(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        mpt_lua_load_fields(ctx, "proxy = m { w = 2 },\n"
                                 "train = { tokens = 1e6, batch = 4, sequence = 8,\n"
                                 "proxy = { steps = 20, lr = wsd { peak = 1e-3 } } }");
    mpt_train full = mpt_recipe_train(r, false), proxy = mpt_recipe_train(r, true);
    assert_true(r->proxy.present);
    assert_string_equal(r->proxy.size, "custom");
    assert_true(full.tokens == 1e6);
    assert_int_equal(proxy.steps, 20);
    assert_int_equal(proxy.batch, 4);
    assert_int_equal(proxy.lr.kind, MPT_LR_WSD);
    mpt_lua_finish(ctx, r);
}

static void test_rule_when_selectors_blocks_and_gemms_then_they_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, "precision = { rules = {\n"
             "rule { 'linear', use = bf16 },\n"
             "rule { {'*.a', 'norm'}, blocks = first(2), use = fp32 },\n"
             "rule { 'linear', blocks = last(8), gemms = {'fprop', 'wgrad'}, use = bf16 },\n"
             "rule { 'linear', blocks = range(2, 5), gemms = 'dgrad', use = bf16 },\n"
             "rule { 'linear', blocks = every(3), use = bf16 },\n"
             "rule { 'linear', blocks = last_fraction(0.15), use = bf16 },\n"
             "rule { 'linear', blocks = only {3, 7}, use = bf16 } } }");
    const mpt_rule *rules = r->rules;
    assert_int_equal(r->n_rules, 7);
    assert_int_equal(rules[0].blocks.kind, MPT_BLOCKS_ALL);
    assert_int_equal(rules[0].where.line, 6);
    assert_int_equal(rules[0].gemms, 0);
    assert_int_equal(rules[1].n_selectors, 2);
    assert_string_equal(rules[1].selectors[0], "*.a");
    assert_string_equal(rules[1].selectors[1], "norm");
    assert_int_equal(rules[1].blocks.kind, MPT_BLOCKS_FIRST);
    assert_int_equal(rules[1].blocks.a, 2);
    assert_int_equal(rules[2].blocks.kind, MPT_BLOCKS_LAST);
    assert_int_equal(rules[2].gemms, 1u << MPT_GEMM_FPROP | 1u << MPT_GEMM_WGRAD);
    assert_int_equal(rules[3].blocks.kind, MPT_BLOCKS_RANGE);
    assert_int_equal(rules[3].blocks.a, 2);
    assert_int_equal(rules[3].blocks.b, 5);
    assert_int_equal(rules[3].gemms, 1u << MPT_GEMM_DGRAD);
    assert_int_equal(rules[4].blocks.kind, MPT_BLOCKS_EVERY);
    assert_int_equal(rules[5].blocks.kind, MPT_BLOCKS_LAST_FRACTION);
    assert_true(rules[5].blocks.fraction == 0.15);
    assert_int_equal(rules[6].blocks.n_only, 2);
    assert_int_equal(rules[6].blocks.only[1], 7);
    assert_int_equal(rules[6].where.line, 12);
    mpt_lua_finish(ctx, r);
}

static void test_use_when_gemm_words_overlap_then_special_wins(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, "precision = { rules = { rule { 'linear', use = gemm {\n"
             "weight = nvfp4 { block = {16, 16} }, activation = nvfp4,\n"
             "gradient = nvfp4 { rounding = 'stochastic' }, output = bf16,\n"
             "wgrad = { x = e4m3, hadamard = hadamard { size = 32, signs = 'none' } },\n"
             "dgrad = { output = fp32 } } } } }");
    const mpt_use *use = &r->rules[0].use;
    assert_false(use->bare);
    assert_int_equal(use->slot[MPT_SLOT_FPROP_W].q.block_rows, 16);
    assert_int_equal(use->slot[MPT_SLOT_DGRAD_W].q.block_rows, 16);
    assert_int_equal(use->slot[MPT_SLOT_FPROP_X].q.block_rows, 1);
    assert_int_equal(use->slot[MPT_SLOT_FPROP_X].q.hadamard.size, 0);
    assert_int_equal(use->slot[MPT_SLOT_DGRAD_DY].q.rounding, MPT_ROUNDING_STOCHASTIC);
    assert_int_equal(use->slot[MPT_SLOT_WGRAD_DY].q.rounding, MPT_ROUNDING_STOCHASTIC);
    assert_int_equal(use->slot[MPT_SLOT_WGRAD_DY].q.hadamard.size, 32);
    assert_int_equal(use->slot[MPT_SLOT_WGRAD_DY].q.hadamard.signs, MPT_SIGNS_NONE);
    assert_int_equal(use->slot[MPT_SLOT_WGRAD_X].q.format, MPT_DTYPE_E4M3);
    assert_true(use->has_output[MPT_GEMM_FPROP]);
    assert_int_equal(use->output[MPT_GEMM_FPROP], MPT_DTYPE_BF16);
    assert_int_equal(use->output[MPT_GEMM_DGRAD], MPT_DTYPE_FP32);
    assert_false(use->has_output[MPT_GEMM_WGRAD]);
    mpt_lua_finish(ctx, r);
}

static void test_format_when_bare_or_refined_then_it_fills_all_slots(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, "precision = { rules = {\n"
                                             "rule { 'linear', use = e5m2 },\n"
                                             "rule { 'linear', use = e4m3 { rounding ="
                                             " 'stochastic' } } } }");
    assert_true(r->rules[0].use.bare);
    assert_int_equal(r->rules[0].use.slot[MPT_SLOT_WGRAD_X].q.format, MPT_DTYPE_E5M2);
    assert_true(r->rules[1].use.bare);
    assert_int_equal(r->rules[1].use.slot[MPT_SLOT_FPROP_X].q.rounding,
                     MPT_ROUNDING_STOCHASTIC);
    mpt_lua_finish(ctx, r);
}

static void test_format_when_refined_twice_then_fields_add_up(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        mpt_lua_load_fields(ctx, "precision = { rules = { rule { 'linear', use =\n"
                                 "nvfp4 { block = {16, 16} } { rounding = 'stochastic' } }\n"
                                 "} }");
    const mpt_quantizer *q = &r->rules[0].use.slot[0].q;
    assert_int_equal(q->block_rows, 16);
    assert_int_equal(q->rounding, MPT_ROUNDING_STOCHASTIC);
    mpt_lua_finish(ctx, r);
}

static void test_precision_when_base_state_and_loss_scale_then_they_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        mpt_lua_load_fields(ctx, "precision = { base = fp16, loss_scale = static(1024),\n"
                                 "state = { master = fp32, residual = fp32 } }");
    assert_int_equal(r->base, MPT_DTYPE_FP16);
    assert_int_equal(r->residual, MPT_DTYPE_FP32);
    assert_true(r->loss_scale.scale == 1024);
    mpt_lua_finish(ctx, r);
}

static void test_phases_when_given_then_their_rules_are_their_own(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, "precision = { rules = { rule { 'linear', use = nvfp4 } } },\n"
             "phases = { phase { 'a' },\n"
             "phase { 'b', from = 0.5, rules = { rule { 'linear', use = bf16 } } },\n"
             "phase { 'c', from = 100 } }");
    assert_int_equal(r->n_phases, 3);
    assert_int_equal(r->n_rules, 1);
    assert_string_equal(r->phases[0].name, "a");
    assert_int_equal(r->phases[1].n_rules, 1);
    assert_true(r->phases[1].from == 0.5 && r->phases[1].from_is_fraction);
    assert_int_equal(r->phases[1].where.line, 7);
    assert_true(r->phases[2].from == 100 && !r->phases[2].from_is_fraction);
    mpt_lua_finish(ctx, r);
}

static void test_data_when_any_word_then_it_arrives(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, "data = text 'a/b.txt'");
    assert_int_equal(r->data.kind, MPT_DATA_TEXT);
    assert_string_equal(r->data.path, "a/b.txt");
    assert_int_equal(r->data.where.line, 5);
    mpt_recipe_destroy(r);
    r = mpt_lua_load_fields(ctx, "data = synthetic { seed = 9, vocab = 64 }");
    assert_int_equal(r->data.kind, MPT_DATA_SYNTHETIC);
    assert_int_equal(r->data.seed, 9);
    assert_int_equal(r->data.vocab, 64);
    mpt_recipe_destroy(r);
    r = mpt_lua_load_fields(ctx, "data = tokens { path = 'a.bin', vocab = 50257 }");
    assert_int_equal(r->data.kind, MPT_DATA_TOKENS);
    assert_string_equal(r->data.path, "a.bin");
    assert_int_equal(r->data.words, 50257);
    mpt_recipe_destroy(r);
    r = mpt_lua_load_fields(ctx, "data = tokens { 'a.bin', vocab = 9 }");
    assert_string_equal(r->data.path, "a.bin");
    assert_int_equal(r->data.words, 9);
    mpt_recipe_destroy(r);
    r = mpt_lua_load_fields(ctx, "data = batches 'a.safetensors'");
    assert_int_equal(r->data.kind, MPT_DATA_BATCHES);
    assert_int_equal(r->data.words, 0);
    mpt_lua_finish(ctx, r);
}

static void test_allow_when_given_then_the_names_are_kept(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, "allow = { 'sr-forward', 'no-clip' }");
    assert_int_equal(r->n_allow, 2);
    assert_string_equal(r->allow[1], "no-clip");
    mpt_lua_finish(ctx, r);
}

static void test_where_when_called_then_it_sees_the_layer(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx,
        "precision = { rules = { rule { 'linear', use = bf16,\n"
        "where = function(l) return l.path == 'a.b' and l.kind == 'linear' and l.block == 2"
        " and l.in_features * 2 == l.out_features end },\n"
        "rule { 'linear', use = bf16, where = function(l) return l.blok end },\n"
        "rule { 'linear', use = bf16, where = function() end } } }");
    mpt_layer layer = {.path = "a.b", .block = 2, .in_features = 4, .out_features = 8};
    bool yes = false;
    assert_int_equal(r->rules[0].predicate, 0);
    assert_mpt_ok(ctx, r->source.where(r->source.ud, 0, &layer, &yes));
    assert_true(yes);
    layer.block = 3;
    assert_mpt_ok(ctx, r->source.where(r->source.ud, 0, &layer, &yes));
    assert_false(yes);
    assert_int_equal(r->source.where(r->source.ud, 1, &layer, &yes), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:7: unknown name 'layer.blok'; did you mean 'layer.block'?");
    assert_int_equal(r->source.where(r->source.ud, 2, &layer, &yes), MPT_INVALID);
    assert_string_equal(
        mpt_ctx_error(ctx)->message,
        "r.lua:8: where: the function returned nothing for a.b; return true or false");
    mpt_lua_finish(ctx, r);
}

/* ---- derive ---- */

static void test_derive_when_maps_then_they_merge_and_rules_append(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load(
        ctx, MPT_LUA_MODEL
        "local base = recipe { model = m 's', name = 'base', precision = {\n"
        "  base = fp16, rules = { rule { 'linear', use = bf16 } } },\n"
        "  train = { tokens = 1e6, batch = 4, clip = 0.5 } }\n"
        "return derive(base, { name = 'new', precision = {\n"
        "  rules = { rule { 'linear', use = nvfp4 } } }, train = { steps = 5 } })");
    assert_string_equal(r->name, "new");
    assert_int_equal(r->base, MPT_DTYPE_FP16);
    assert_int_equal(r->n_rules, 2);
    assert_int_equal(r->rules[0].where.line, 5);
    assert_int_equal(r->rules[1].where.line, 8);
    assert_int_equal(r->train.steps, 5);
    assert_true(r->train.tokens == 0);
    assert_int_equal(r->train.batch, 4);
    mpt_lua_finish(ctx, r);
}

static void test_derive_when_replace_then_the_rules_are_new(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load(ctx, MPT_LUA_MODEL
                                 "local base = recipe { model = m 's', precision = {\n"
                                 "  rules = { rule { 'linear', use = bf16 } } } }\n"
                                 "return derive(base, { precision = {\n"
                                 "  rules = replace { rule { 'linear', use = nvfp4 } } } })");
    assert_int_equal(r->n_rules, 1);
    assert_int_equal(r->rules[0].where.line, 7);
    mpt_lua_finish(ctx, r);
}

static void test_derive_when_replace_meets_nothing_then_it_stands(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load(ctx, MPT_LUA_MODEL
                                 "local base = recipe { model = m 's' }\n"
                                 "return derive(base, { precision = { base = fp16,\n"
                                 "  rules = replace { rule { 'linear', use = nvfp4 } } },\n"
                                 "  train = replace { clip = 0.5 } })");
    assert_int_equal(r->n_rules, 1);
    assert_int_equal(r->rules[0].where.line, 6);
    assert_int_equal(r->base, MPT_DTYPE_FP16);
    assert_true(r->train.clip == 0.5);
    mpt_recipe_destroy(r);
    mpt_ctx_destroy(ctx);
    mpt_lua_refuse(MPT_LUA_MODEL "local base = recipe { model = m 's' }\n"
                                 "return derive(base, { precision = {\n"
                                 "  bas = fp16,\n"
                                 "  rules = replace {} } })",
                   "r.lua:6: precision: no field 'bas'; did you mean 'base'?");
    mpt_lua_refuse(MPT_LUA_MODEL "return recipe { model = m 's',\n"
                                 "  precision = { rules = replace {} } }",
                   "r.lua:5: precision.rules: cannot be replace; give a list: { rule { ... }, "
                   "rule { ... } }");
}

static void test_derive_when_of_a_derived_one_then_changes_add_up(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load(
        ctx, MPT_LUA_MODEL
        "local base = recipe { model = m 's', precision = { rules = {\n"
        "  rule { 'linear', use = bf16 } } }, train = { batch = 4, steps = 9 } }\n"
        "local one = derive(base, { precision = { rules = { rule { 'linear', use = e4m3 } } "
        "},\n"
        "  train = { clip = 0.5 } })\n"
        "local two = derive(one, { precision = { rules = { rule { 'linear', use = e5m2 } } },\n"
        "  train = { tokens = 512 } })\n"
        "assert(#one.precision.rules == 2 and #base.precision.rules == 1)\n"
        "return derive(two, { precision = { rules = replace { two.precision.rules[3] } } })");
    assert_int_equal(r->n_rules, 1);
    assert_int_equal(r->rules[0].where.line, 8);
    assert_int_equal(r->rules[0].use.slot[0].q.format, MPT_DTYPE_E5M2);
    assert_true(r->train.clip == 0.5 && r->train.tokens == 512 && r->train.steps == 0);
    assert_int_equal(r->train.batch, 4);
    mpt_lua_finish(ctx, r);
}

/* A list of phases replaces the old one; its phases are values that derive changes. */
static void test_derive_when_phases_then_the_list_is_new(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load(
        ctx, MPT_LUA_MODEL
        "local base = recipe { model = m 's', phases = { phase { 'low' },\n"
        "  phase { 'late', from = 0.5, rules = { rule { 'linear', use = bf16 } } } } }\n"
        "return derive(base, { phases = { base.phases[1], derive(base.phases[2], {\n"
        "  from = 0.9, rules = { rule { 'linear', use = fp16 } } }) } })");
    assert_int_equal(r->n_phases, 2);
    assert_string_equal(r->phases[1].name, "late");
    assert_true(r->phases[1].from_is_fraction && r->phases[1].from == 0.9);
    assert_int_equal(r->phases[1].n_rules, 2);
    mpt_recipe_destroy(r);
    r = mpt_lua_load(ctx, MPT_LUA_MODEL
                     "local base = recipe { model = m 's', phases = { phase { 'low' },\n"
                     "  phase { 'late', from = 0.5 } } }\n"
                     "return derive(base, { phases = { phase { 'all' } } })");
    assert_int_equal(r->n_phases, 1);
    assert_string_equal(r->phases[0].name, "all");
    mpt_lua_finish(ctx, r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_recipe_when_plain_fields_then_they_arrive),
    cmocka_unit_test(test_recipe_when_name_is_missing_then_the_file_gives_it),
    cmocka_unit_test(test_optimizer_when_adamw_or_sgd_then_their_fields_arrive),
    cmocka_unit_test(test_lr_when_each_word_then_its_kind_and_spans_arrive),
    cmocka_unit_test(test_proxy_when_given_then_only_its_settings_differ),
    cmocka_unit_test(test_rule_when_selectors_blocks_and_gemms_then_they_arrive),
    cmocka_unit_test(test_use_when_gemm_words_overlap_then_special_wins),
    cmocka_unit_test(test_format_when_bare_or_refined_then_it_fills_all_slots),
    cmocka_unit_test(test_format_when_refined_twice_then_fields_add_up),
    cmocka_unit_test(test_precision_when_base_state_and_loss_scale_then_they_arrive),
    cmocka_unit_test(test_phases_when_given_then_their_rules_are_their_own),
    cmocka_unit_test(test_data_when_any_word_then_it_arrives),
    cmocka_unit_test(test_allow_when_given_then_the_names_are_kept),
    cmocka_unit_test(test_where_when_called_then_it_sees_the_layer),
    cmocka_unit_test(test_derive_when_maps_then_they_merge_and_rules_append),
    cmocka_unit_test(test_derive_when_replace_then_the_rules_are_new),
    cmocka_unit_test(test_derive_when_replace_meets_nothing_then_it_stands),
    cmocka_unit_test(test_derive_when_of_a_derived_one_then_changes_add_up),
    cmocka_unit_test(test_derive_when_phases_then_the_list_is_new),
};
MPT_TEST_MAIN(cases)
