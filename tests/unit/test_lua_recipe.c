/* lua/bind: words of the recipe language into the IR, error texts verbatim, allocation sweep.
 */
#include "mpt_test.h"

#include <stdlib.h>

#include "recipe/recipe.h"
#include "recipe/use.h"

/* A model small enough to stand in each text. */
#define MODEL                                                                                  \
    "local m = model { name = 'm', sizes = { s = { w = 4 } }, graph = function(nn, size)\n"    \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

static mpt_recipe *load(mpt_ctx *ctx, const char *text) {
    mpt_recipe *recipe = NULL;
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &recipe));
    return recipe;
}

/* Loading must fail with this very message, and leave nothing behind. */
static void refuse(const char *text, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    assert_int_equal(mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &recipe),
                     MPT_INVALID);
    assert_null(recipe);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* The same for the fields of a recipe that has a model; the fields begin on line 5. */
static void refuse_fields(const char *fields, const char *message) {
    char text[4096];
    snprintf(text, sizeof text, MODEL "return recipe { model = m 's',\n%s }", fields);
    refuse(text, message);
}

static mpt_recipe *load_fields(mpt_ctx *ctx, const char *fields) {
    char text[4096];
    snprintf(text, sizeof text, MODEL "return recipe { model = m 's',\n%s }", fields);
    return load(ctx, text);
}

static void finish(mpt_ctx *ctx, mpt_recipe *recipe) {
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* ---- words ---- */

static void test_recipe_when_plain_fields_then_they_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "version = 1, name = 'n', description = 'd',\n"
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
    finish(ctx, r);
}

static void test_recipe_when_name_is_missing_then_the_file_gives_it(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "version = 1");
    assert_string_equal(r->name, "r");
    assert_string_equal(r->file, "r.lua");
    assert_non_null(strstr(r->source_text, "return recipe"));
    finish(ctx, r);
}

static void test_optimizer_when_adamw_or_sgd_then_their_fields_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        load_fields(ctx, "train = { optimizer = adamw { betas = {0.5, 0.75}, eps = 1e-6 } }");
    assert_int_equal(r->train.optimizer.kind, MPT_OPTIMIZER_ADAMW);
    assert_true(r->train.optimizer.beta1 == 0.5 && r->train.optimizer.beta2 == 0.75);
    assert_true(r->train.optimizer.eps == 1e-6);
    assert_true(r->train.optimizer.weight_decay == 0.1);
    mpt_recipe_destroy(r);
    r = load_fields(ctx, "train = { optimizer = sgd { momentum = 0.9 } }");
    assert_int_equal(r->train.optimizer.kind, MPT_OPTIMIZER_SGD);
    assert_true(r->train.optimizer.momentum == 0.9);
    finish(ctx, r);
}

static void test_lr_when_each_word_then_its_kind_and_spans_arrive(void **state) {
    (void)state;
    static const char *const words[] = {"constant", "linear", "cosine", "wsd"};
    for (int i = 0; i < 4; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        char fields[256];
        snprintf(fields, sizeof fields, "train = { lr = %s { peak = 0.25, warmup = 20 %s } }",
                 words[i], i == 3 ? ", decay = 0.5" : "");
        mpt_recipe *r = load_fields(ctx, fields);
        assert_int_equal(r->train.lr.kind, i);
        assert_true(r->train.lr.peak == 0.25);
        assert_true(r->train.lr.warmup.value == 20 && !r->train.lr.warmup.fraction);
        if (i == 3)
            assert_true(r->train.lr.decay.value == 0.5 && r->train.lr.decay.fraction);
        finish(ctx, r);
    }
}

static void test_proxy_when_given_then_only_its_settings_differ(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "proxy = m { w = 2 },\n"
                                     "train = { tokens = 1e6, batch = 4, sequence = 8,\n"
                                     "proxy = { steps = 20, lr = wsd { peak = 1e-3 } } }");
    mpt_train full = mpt_recipe_train(r, false), proxy = mpt_recipe_train(r, true);
    assert_true(r->proxy.present);
    assert_string_equal(r->proxy.size, "custom");
    assert_true(full.tokens == 1e6);
    assert_int_equal(proxy.steps, 20);
    assert_int_equal(proxy.batch, 4);
    assert_int_equal(proxy.lr.kind, MPT_LR_WSD);
    finish(ctx, r);
}

static void test_rule_when_selectors_blocks_and_gemms_then_they_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(
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
    finish(ctx, r);
}

static void test_use_when_gemm_words_overlap_then_special_wins(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(
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
    finish(ctx, r);
}

static void test_format_when_bare_or_refined_then_it_fills_all_slots(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "precision = { rules = {\n"
                                     "rule { 'linear', use = e5m2 },\n"
                                     "rule { 'linear', use = e4m3 { rounding ="
                                     " 'stochastic' } } } }");
    assert_true(r->rules[0].use.bare);
    assert_int_equal(r->rules[0].use.slot[MPT_SLOT_WGRAD_X].q.format, MPT_DTYPE_E5M2);
    assert_true(r->rules[1].use.bare);
    assert_int_equal(r->rules[1].use.slot[MPT_SLOT_FPROP_X].q.rounding,
                     MPT_ROUNDING_STOCHASTIC);
    finish(ctx, r);
}

static void test_format_when_refined_twice_then_fields_add_up(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        load_fields(ctx, "precision = { rules = { rule { 'linear', use =\n"
                         "nvfp4 { block = {16, 16} } { rounding = 'stochastic' } }\n"
                         "} }");
    const mpt_quantizer *q = &r->rules[0].use.slot[0].q;
    assert_int_equal(q->block_rows, 16);
    assert_int_equal(q->rounding, MPT_ROUNDING_STOCHASTIC);
    finish(ctx, r);
}

static void test_precision_when_base_state_and_loss_scale_then_they_arrive(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "precision = { base = fp16, loss_scale = static(1024),\n"
                                     "state = { master = fp32, residual = fp32 } }");
    assert_int_equal(r->base, MPT_DTYPE_FP16);
    assert_int_equal(r->residual, MPT_DTYPE_FP32);
    assert_true(r->loss_scale == 1024);
    finish(ctx, r);
}

static void test_phases_when_given_then_their_rules_are_their_own(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(
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
    finish(ctx, r);
}

static void test_data_when_text_or_synthetic_then_it_arrives(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "data = text 'a/b.txt'");
    assert_int_equal(r->data.kind, MPT_DATA_TEXT);
    assert_string_equal(r->data.path, "a/b.txt");
    assert_int_equal(r->data.where.line, 5);
    mpt_recipe_destroy(r);
    r = load_fields(ctx, "data = synthetic { seed = 9, vocab = 64 }");
    assert_int_equal(r->data.kind, MPT_DATA_SYNTHETIC);
    assert_int_equal(r->data.seed, 9);
    assert_int_equal(r->data.vocab, 64);
    finish(ctx, r);
}

static void test_allow_when_given_then_the_names_are_kept(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(ctx, "allow = { 'sr-forward', 'no-clip' }");
    assert_int_equal(r->n_allow, 2);
    assert_string_equal(r->allow[1], "no-clip");
    finish(ctx, r);
}

static void test_where_when_called_then_it_sees_the_layer(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_fields(
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
    finish(ctx, r);
}

/* ---- derive ---- */

static void test_derive_when_maps_then_they_merge_and_rules_append(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load(
        ctx, MODEL "local base = recipe { model = m 's', name = 'base', precision = {\n"
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
    finish(ctx, r);
}

static void test_derive_when_replace_then_the_rules_are_new(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        load(ctx, MODEL "local base = recipe { model = m 's', precision = {\n"
                        "  rules = { rule { 'linear', use = bf16 } } } }\n"
                        "return derive(base, { precision = {\n"
                        "  rules = replace { rule { 'linear', use = nvfp4 } } } })");
    assert_int_equal(r->n_rules, 1);
    assert_int_equal(r->rules[0].where.line, 7);
    finish(ctx, r);
}

static void test_derive_when_a_key_is_wrong_then_its_own_line_is_named(void **state) {
    (void)state;
    refuse(MODEL "local base = recipe { model = m 's',\n"
                 "  train = {\n"
                 "    stepz = 4 } }\n"
                 "return derive(base, { name = 'x', train = { batch = 2 } })",
           "r.lua:6: train: no field 'stepz'; did you mean 'steps'?");
    refuse(MODEL "local base = recipe { model = m 's', train = { steps = 4 } }\n"
                 "return derive(base, {\n"
                 "  train = {\n"
                 "    bach = 2 } })",
           "r.lua:7: train: no field 'bach'; did you mean 'batch'?");
}

/* ---- errors ---- */

static void test_key_when_misspelt_on_line_7_then_that_line_is_named(void **state) {
    (void)state;
    /* The enclosing call starts on line 5, 6 or 7: the key is always on line 7. */
    refuse(MODEL "return recipe { model = m 's', precision = { rules = { rule { 'linear',\n"
                 "  use = nvfp4 { -- }\n"
                 "    block = {16, 16},\n"
                 "    roundng = \"nearest\" } } } } }",
           "r.lua:7: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
    refuse(MODEL "return recipe { model = m 's', precision = { rules = { rule { 'linear',\n"
                 "  -- nvfp4 { roundng = 1 }\n"
                 "  use = nvfp4 {\n"
                 "    roundng = \"nearest\" } } } } }",
           "r.lua:7: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
    refuse(MODEL "local q = [[\n"
                 "nvfp4 { ]]\n"
                 "return recipe { model = m 's', precision = { rules = { rule { 'linear',\n"
                 "  use = nvfp4 { block = {16, 16}, roundng = \"nearest\" } } } } }",
           "r.lua:7: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
}

static void test_key_when_unknown_then_path_and_suggestion_are_given(void **state) {
    (void)state;
    refuse_fields("train = { steps = 1,\n\n  btch = 4 }",
                  "r.lua:7: train: no field 'btch'; did you mean 'batch'?");
    refuse_fields("trian = {}", "r.lua:5: no field 'trian'; did you mean 'train'?");
    refuse_fields("train = {\n  lr = wsd {\n    peek = 1 } }",
                  "r.lua:7: train.lr: no field 'peek'; did you mean 'peak'?");
    refuse_fields("precision = { rules = { rule { 'linear',\n  us = bf16, use = bf16 } } }",
                  "r.lua:6: precision.rules[1]: no field 'us'; did you mean 'use'?");
}

static void test_value_when_wrong_then_the_way_out_is_given(void **state) {
    (void)state;
    refuse_fields("precision = { rules = { rule { 'linear', use = gemm {\n"
                  "  wgrad = { dy = nvfp4 {\n"
                  "    rounding = 'stochastc' } } } } } }",
                  "r.lua:7: precision.rules[1].use.wgrad.dy.rounding: no rounding 'stochastc'; "
                  "did you mean 'stochastic'?");
    refuse_fields(
        "train = {\n  batch = 'four' }",
        "r.lua:6: train.batch: cannot be 'four'; give a whole number of 1 or more and "
        "at most 16777216");
    refuse_fields("train = { batch = 1,\n  optimizer = wsd { peak = 1 } }",
                  "r.lua:6: train.optimizer: cannot be wsd; give one of adamw or sgd");
    refuse_fields("train = { optimizer =\n adamw }",
                  "r.lua:5: train.optimizer: cannot be a word without its { }");
    refuse_fields("allow = {'sr-forwrd'}",
                  "r.lua:5: allow: no warning 'sr-forwrd'; did you mean 'sr-forward'?");
}

static void test_rule_when_incomplete_then_it_is_refused(void **state) {
    (void)state;
    refuse_fields("precision = { rules = { rule { use = bf16 } } }",
                  "r.lua:5: precision.rules[1]: says no layers; begin with a kind or a path: "
                  "rule { \"linear\", use = bf16 }");
    refuse_fields(
        "precision = { rules = { rule { 'linear' } } }",
        "r.lua:5: precision.rules[1].use: missing; give a format (bf16, nvfp4 { ... }) "
        "or gemm { ... }");
    refuse_fields(
        "precision = { rules = { rule { 'linear', use = 'bf16' } } }",
        "r.lua:5: precision.rules[1].use: cannot be string; give a format (bf16, nvfp4 "
        "{ ... }) or gemm { ... }");
    refuse_fields(
        "precision = { rules = { rule { 'linear', use = bf16,\n gemms = {'frop'} } } }",
        "r.lua:6: precision.rules[1].gemms: no product 'frop'; it can be fprop, dgrad "
        "or wgrad");
    refuse_fields(
        "precision = { rules = { rule { 'linear', use = bf16, blocks = first(0) } } }",
        "r.lua:5: precision.rules[1].blocks: no blocks are meant by these numbers of "
        "first; first(2), last(8), range(2, 5), every(4), last_fraction(0.15) or only "
        "{ 3, 7 }; blocks are counted from 0");
    refuse_fields(
        "precision = { rules = { { 'linear', use = bf16 } } }",
        "r.lua:5: precision.rules[1]: cannot be a table; write rule { \"linear\", use "
        "= bf16 }");
}

static void test_name_when_unknown_then_a_near_one_is_suggested(void **state) {
    (void)state;
    refuse("\nreturn recipe { model = nvpf4 }",
           "r.lua:2: unknown name 'nvpf4'; did you mean 'nvfp4'?");
    refuse("\n\nlocal x = string.fromat('')",
           "r.lua:3: unknown name 'string.fromat'; did you mean 'string.format'?");
    refuse("x = 1", "r.lua:1: cannot set 'x': no globals here; write `local x = ...`");
}

static void test_word_when_misused_then_an_example_is_shown(void **state) {
    (void)state;
    refuse("local x = first{2}", "r.lua:1: first: takes plain arguments; write first(2)");
    refuse("local x = gemm()", "r.lua:1: gemm: takes one table; write gemm { weight = nvfp4, "
                               "activation = nvfp4 }");
    refuse("local x = nvfp4(16)", "r.lua:1: nvfp4: takes a table of fields, not number");
    refuse("local x = gemm { weight = nvfp4 }\nx.weight = bf16",
           "r.lua:2: gemm: values of a recipe never change; make a changed copy with "
           "derive(base, { ... })");
}

static void test_model_when_missing_or_wrong_then_it_is_refused(void **state) {
    (void)state;
    refuse("\nreturn recipe { version = 1 }",
           "r.lua:2: model: missing; name one: model = require \"models.gpt2\" \"124m\"");
    refuse(MODEL "return recipe {\nmodel = m }",
           "r.lua:5: model: cannot be a model without a size; name its size, one of s");
    refuse(MODEL "return recipe { model = 'm' }",
           "r.lua:4: model: cannot be string; give a model with its size: gpt2 \"124m\"");
    refuse(MODEL "return recipe { model = m 'big' }",
           "r.lua:4: m: no size 'big'; it has s, or a table of its own");
    refuse(MODEL "return recipe { model = m {\n w = 4, wd = 3 } }",
           "r.lua:5: m: no size field 'wd'; did you mean 'w'?");
    refuse(
        MODEL "return recipe { model = m {} }",
        "r.lua:4: m: the size has no 'w'; a size of your own says all that the named ones say");
}

static void test_file_when_it_returns_no_recipe_then_it_is_refused(void **state) {
    (void)state;
    refuse("return 7",
           "r.lua: the file returned number, not a recipe; end it with return recipe "
           "{ version = 1, ... }");
    refuse("", "r.lua: the file returned nothing, not a recipe; end it with return recipe { "
               "version = 1, ... }");
    refuse("return nvfp4",
           "r.lua: the file returned a number format, not a recipe; end it with "
           "return recipe { version = 1, ... }");
}

static void test_lua_errors_when_raised_then_file_and_line_stay(void **state) {
    (void)state;
    refuse("\nlocal x = = 1", "r.lua:2: unexpected symbol near '='");
    refuse("\n\nlocal x = nil + 1", "r.lua:3: attempt to perform arithmetic on a nil value");
    refuse("\nerror 'mine'", "r.lua:2: mine");
    refuse("error {}", "r.lua: the recipe raised an error that is a table");
    refuse("error()", "r.lua: the recipe raised an error that is a nil");
}

static void test_file_name_when_long_then_messages_are_not_cut(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    char name[201], message[300];
    memset(name, 'n', 200);
    name[200] = 0;
    snprintf(message, sizeof message, "%s:2: mine", name);
    const char *text = "\nerror 'mine'";
    assert_int_equal(mpt_recipe_load_string(ctx, name, text, strlen(text), NULL, &recipe),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    mpt_ctx_destroy(ctx);
}

/* ---- files ---- */

static void test_recipes_when_shipped_then_each_loads_and_freezes(void **state) {
    (void)state;
    static const char *const names[] = {"nvfp4_12b", "gpt2_base", "gpt2_fp32", "gpt2_bf16",
                                        "gpt2_fp16", "gpt2_fp8",  "gpt2_nvfp4"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        char path[512];
        snprintf(path, sizeof path, "%s/recipes/%s.lua", MPT_SOURCE_DIR, names[i]);
        assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, path, NULL, &recipe));
        assert_string_equal(recipe->name, names[i]);
        assert_mpt_ok(ctx, mpt_recipe_freeze(recipe));
        finish(ctx, recipe);
    }
}

static void test_sets_when_given_then_they_come_last(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    mpt_set sets[] = {{"train.steps", "9"}, {"seed", "77"}};
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    options.sets = sets;
    options.n_sets = 2;
    assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, MPT_SOURCE_DIR "/recipes/nvfp4_12b.lua",
                                            &options, &recipe));
    assert_int_equal(mpt_recipe_train(recipe, true).steps, 9);
    assert_int_equal(mpt_recipe_train(recipe, false).steps, 9);
    assert_int_equal(recipe->train.seed, 77);
    mpt_recipe_destroy(recipe);
    sets[0].path = "train.stepz";
    assert_int_equal(
        mpt_recipe_load_file(ctx, MPT_SOURCE_DIR "/recipes/nvfp4_12b.lua", &options, &recipe),
        MPT_INVALID);
    assert_null(recipe);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "did you mean 'steps'?"));
    finish(ctx, NULL);
}

static void test_file_when_absent_then_the_path_is_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    assert_int_not_equal(mpt_recipe_load_file(ctx, "no/such.lua", NULL, &recipe), MPT_OK);
    assert_null(recipe);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "no/such.lua"));
    finish(ctx, NULL);
}

/* ---- allocation failures ---- */

typedef struct allowance {
    long left;
    long live;
} allowance;

static void *limited_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    allowance *a = ud;
    if (new_size == 0) {
        a->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (a->left == 0)
        return NULL;
    if (new_size > old_size || !ptr)
        a->left--;
    void *fresh = realloc(ptr, new_size);
    a->live += !ptr;
    return fresh;
}

static void test_load_when_allocations_fail_then_nothing_leaks(void **state) {
    (void)state;
    static const char text[] = MODEL
        "local q = nvfp4 { block = {16, 16} }\n"
        "local base = recipe { model = m 's', proxy = m { w = 2 }, data = synthetic {},\n"
        "  precision = { rules = { rule { 'linear', use = gemm { weight = q,\n"
        "    wgrad = { hadamard = hadamard { size = 16 } } }, blocks = only {1, 2} } },\n"
        "    loss_scale = static(8) }, phases = { phase { 'a' }, phase { 'b', from = 0.5,\n"
        "    rules = { rule { 'linear', use = bf16, where = function() return true end } } } "
        "},\n"
        "  train = { steps = 3, lr = wsd { peak = 1 }, optimizer = adamw {} } }\n"
        "local ok = pcall(function() return ('x'):rep(100) .. 'y' end)\n"
        "return derive(base, { name = 'swept', allow = { 'no-clip' } })";
    long n = 0;
    for (;; n++) {
        allowance a = {.left = 1};
        mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
        mpt_ctx *ctx;
        mpt_recipe *recipe = NULL;
        options.alloc = limited_alloc;
        options.alloc_ud = &a;
        assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
        a.left = n;
        mpt_status status =
            mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe);
        if (status == MPT_OK)
            assert_string_equal(mpt_recipe_name(recipe), "swept");
        else
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
        mpt_recipe_destroy(recipe);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
        if (status == MPT_OK)
            break;
    }
    assert_true(n > 200);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
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
        cmocka_unit_test(test_data_when_text_or_synthetic_then_it_arrives),
        cmocka_unit_test(test_allow_when_given_then_the_names_are_kept),
        cmocka_unit_test(test_where_when_called_then_it_sees_the_layer),
        cmocka_unit_test(test_derive_when_maps_then_they_merge_and_rules_append),
        cmocka_unit_test(test_derive_when_replace_then_the_rules_are_new),
        cmocka_unit_test(test_derive_when_a_key_is_wrong_then_its_own_line_is_named),
        cmocka_unit_test(test_key_when_misspelt_on_line_7_then_that_line_is_named),
        cmocka_unit_test(test_key_when_unknown_then_path_and_suggestion_are_given),
        cmocka_unit_test(test_value_when_wrong_then_the_way_out_is_given),
        cmocka_unit_test(test_rule_when_incomplete_then_it_is_refused),
        cmocka_unit_test(test_name_when_unknown_then_a_near_one_is_suggested),
        cmocka_unit_test(test_word_when_misused_then_an_example_is_shown),
        cmocka_unit_test(test_model_when_missing_or_wrong_then_it_is_refused),
        cmocka_unit_test(test_file_when_it_returns_no_recipe_then_it_is_refused),
        cmocka_unit_test(test_lua_errors_when_raised_then_file_and_line_stay),
        cmocka_unit_test(test_file_name_when_long_then_messages_are_not_cut),
        cmocka_unit_test(test_recipes_when_shipped_then_each_loads_and_freezes),
        cmocka_unit_test(test_sets_when_given_then_they_come_last),
        cmocka_unit_test(test_file_when_absent_then_the_path_is_named),
        cmocka_unit_test(test_load_when_allocations_fail_then_nothing_leaks),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
