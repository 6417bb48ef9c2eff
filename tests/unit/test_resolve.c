/* recipe/select.c and resolve.c: the cascade from rules to one policy a layer. */
#include "recipe_fixture.h"

/* The NVFP4 recipe's gemm: square weights, stochastic gradients, wgrad rotated. */
static const mpt_set four_bit[] = {{"weight", "nvfp4 block=16x16"},
                                   {"activation", "nvfp4"},
                                   {"gradient", "nvfp4 rounding=stochastic"},
                                   {"wgrad", "hadamard.size=16 hadamard.signs=fixed"}};

static void test_resolve_when_no_rule_then_the_base_decides(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_resolve(&f, 0);
    const mpt_policy *up = FIXTURE_POLICY(&f, "layers.0.mlp.up_proj");
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        assert_string_equal(up->slot[s].name, "bf16");
        assert_true(mpt_quantizer_is_cast(&up->slot[s]));
    }
    assert_int_equal(up->output[MPT_GEMM_FPROP], MPT_DTYPE_BF16);
    assert_int_equal(up->output[MPT_GEMM_DGRAD], MPT_DTYPE_BF16);
    assert_int_equal(up->n_decided, 0);
    assert_int_equal(FIXTURE_POLICY(&f, "wte")->compute, MPT_DTYPE_BF16);
    const mpt_policy *head = FIXTURE_POLICY(&f, "lm_head");
    assert_int_equal(head->output[MPT_GEMM_FPROP], MPT_DTYPE_FP32);
    assert_int_equal(head->output[MPT_GEMM_DGRAD], MPT_DTYPE_BF16);
    assert_int_equal(head->compute, MPT_DTYPE_FP32);
    fixture_close(&f);
}

static void test_resolve_when_base_is_set_then_all_layers_take_it(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "precision.base", "fp16");
    fixture_resolve(&f, 0);
    assert_int_equal(FIXTURE_POLICY(&f, "layers.3.attn.o_proj")->slot[0].format,
                     MPT_DTYPE_FP16);
    assert_int_equal(FIXTURE_POLICY(&f, "layers.3.ln")->compute, MPT_DTYPE_FP16);
    fixture_close(&f);
}

static void test_resolve_when_four_bit_then_each_slot_is_as_published(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 10, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_resolve(&f, 0);
    const mpt_quantizer *q = FIXTURE_POLICY(&f, "layers.1.mlp.up_proj")->slot;
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        assert_string_equal(q[s].name, "nvfp4");
        assert_int_equal(q[s].format, MPT_DTYPE_E2M1);
        assert_int_equal(q[s].scale_format, MPT_SCALE_E4M3);
        assert_int_equal(q[s].block_cols, 16);
        bool weight = s == MPT_SLOT_FPROP_W || s == MPT_SLOT_DGRAD_W;
        bool gradient = s == MPT_SLOT_DGRAD_DY || s == MPT_SLOT_WGRAD_DY;
        bool wgrad = s == MPT_SLOT_WGRAD_DY || s == MPT_SLOT_WGRAD_X;
        assert_int_equal(q[s].block_rows, weight ? 16 : 1);
        assert_int_equal(q[s].rounding,
                         gradient ? MPT_ROUNDING_STOCHASTIC : MPT_ROUNDING_NEAREST);
        assert_int_equal(q[s].hadamard.size, wgrad ? 16 : 0);
    }
    /* "linear" is the GEMM layers inside blocks, not the head. */
    assert_string_equal(FIXTURE_POLICY(&f, "lm_head")->slot[0].name, "bf16");
    fixture_close(&f);
}

static void test_resolve_when_first_and_last_then_later_rules_win(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 10, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&f, 11, .selector = "linear", .blocks = "first 1", .use = "bf16");
    fixture_rule(&f, 12, .selector = "linear", .blocks = "last 2", .use = "bf16");
    fixture_resolve(&f, 0);
    const mpt_policy *first = FIXTURE_POLICY(&f, "layers.0.attn.qkv");
    assert_true(mpt_quantizer_is_cast(&first->slot[MPT_SLOT_WGRAD_X]));
    assert_int_equal(first->n_decided, 1);
    assert_int_equal(first->decided_by[0].line, 11);
    assert_string_equal(FIXTURE_POLICY(&f, "layers.1.attn.qkv")->slot[0].name, "nvfp4");
    assert_string_equal(FIXTURE_POLICY(&f, "layers.2.attn.qkv")->slot[0].name, "bf16");
    assert_int_equal(FIXTURE_POLICY(&f, "layers.3.attn.qkv")->decided_by[0].line, 12);
    fixture_close(&f);
}

static void test_resolve_when_single_fields_then_they_merge_one_by_one(void **state) {
    (void)state;
    fixture f;
    const mpt_set words[] = {{"gradient", "rounding=stochastic"}};
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "linear", .use = "nvfp4");
    fixture_rule(&f, 2, .selector = "*.o_proj", .words = words, .n_words = 1);
    fixture_resolve(&f, 0);
    const mpt_policy *o = FIXTURE_POLICY(&f, "layers.0.attn.o_proj");
    assert_string_equal(o->slot[MPT_SLOT_DGRAD_DY].name, "nvfp4");
    assert_int_equal(o->slot[MPT_SLOT_DGRAD_DY].rounding, MPT_ROUNDING_STOCHASTIC);
    assert_int_equal(o->slot[MPT_SLOT_FPROP_X].rounding, MPT_ROUNDING_NEAREST);
    assert_int_equal(o->n_decided, 2);
    assert_int_equal(o->decided_by[0].line, 1);
    assert_int_equal(o->decided_by[1].line, 2);
    fixture_close(&f);
}

static void test_resolve_when_a_format_comes_later_then_fields_are_gone(void **state) {
    (void)state;
    fixture f;
    const mpt_set refined[] = {{"activation", "nvfp4"}};
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&f, 2, .selector = "linear", .gemms = "wgrad", .words = refined, .n_words = 1);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    /* The activation in wgrad lost its rotation with the slot; the gradient still has it. */
    assert_int_equal(fixture_try_resolve(&f, 0), MPT_INVALID);
    assert_message(f.ctx,
                   "r.lua:1: layers.0.attn.qkv.wgrad.hadamard: the two operands are not "
                   "rotated alike; set it on both: wgrad = { hadamard = hadamard{...} }");
    fixture_close(&f);
}

static void test_resolve_when_gemms_are_named_then_the_others_stay(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&f, 2, .selector = "linear", .gemms = "fprop dgrad", .use = "bf16");
    fixture_resolve(&f, 0);
    const mpt_policy *o = FIXTURE_POLICY(&f, "layers.2.attn.o_proj");
    assert_string_equal(o->slot[MPT_SLOT_FPROP_X].name, "bf16");
    assert_string_equal(o->slot[MPT_SLOT_DGRAD_W].name, "bf16");
    assert_string_equal(o->slot[MPT_SLOT_WGRAD_X].name, "nvfp4");
    assert_int_equal(o->slot[MPT_SLOT_WGRAD_X].hadamard.size, 16);
    fixture_close(&f);
}

static void test_resolve_when_bare_then_outputs_are_cleared(void **state) {
    (void)state;
    fixture f;
    const mpt_set words[] = {{"output", "fp32"}};
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "linear", .words = words, .n_words = 1);
    fixture_rule(&f, 2, .selector = "linear", .blocks = "only 1 3", .use = "e4m3");
    fixture_resolve(&f, 0);
    const mpt_policy *kept = FIXTURE_POLICY(&f, "layers.0.attn.o_proj");
    assert_int_equal(kept->output[MPT_GEMM_FPROP], MPT_DTYPE_FP32);
    assert_int_equal(kept->output[MPT_GEMM_DGRAD], MPT_DTYPE_FP32);
    assert_int_equal(kept->compute, MPT_DTYPE_FP32);
    assert_string_equal(kept->slot[0].name, "bf16");
    const mpt_policy *cleared = FIXTURE_POLICY(&f, "layers.3.attn.o_proj");
    assert_int_equal(cleared->output[MPT_GEMM_FPROP], MPT_DTYPE_BF16);
    assert_int_equal(cleared->n_decided, 1);
    assert_int_equal(cleared->decided_by[0].line, 2);
    fixture_close(&f);
}

static void test_resolve_when_blocks_vary_then_those_and_no_others(void **state) {
    (void)state;
    static const struct {
        const char *blocks;
        int mask; /* of the four blocks */
    } rows[] = {{"first 2", 3},          {"last 1", 8},           {"range 1 2", 6},
                {"every 2", 5},          {"every 9", 1},          {"last_fraction 0.25", 8},
                {"only 0 2", 5},         {"last_fraction 1", 15}, {"all", 15},
                {"last_fraction .3", 12}};
    for (size_t r = 0; r < MPT_COUNT(rows); r++) {
        fixture f;
        fixture_open(&f);
        fixture_rule(&f, 1, .selector = "linear", .blocks = rows[r].blocks, .use = "e5m2");
        fixture_resolve(&f, 0);
        for (int b = 0; b < FIXTURE_BLOCKS; b++) {
            char path[64];
            snprintf(path, sizeof path, "layers.%d.mlp.up_proj", b);
            bool hit = FIXTURE_POLICY(&f, path)->slot[0].format == MPT_DTYPE_E5M2;
            if (hit != (rows[r].mask >> b & 1))
                fail_msg("blocks '%s', block %d", rows[r].blocks, b);
        }
        fixture_close(&f);
    }
}

static void test_resolve_when_a_list_selects_then_kinds_and_globs_add_up(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "head *.{o_proj,up_proj}", .use = "e4m3");
    fixture_resolve(&f, 0);
    assert_string_equal(FIXTURE_POLICY(&f, "lm_head")->slot[0].name, "e4m3");
    assert_string_equal(FIXTURE_POLICY(&f, "layers.3.mlp.up_proj")->slot[0].name, "e4m3");
    assert_string_equal(FIXTURE_POLICY(&f, "layers.3.attn.qkv")->slot[0].name, "bf16");
    fixture_close(&f);
}

static void test_resolve_when_a_listed_kind_is_absent_then_the_rest_counts(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "attention scan", .use = "fp32");
    fixture_resolve(&f, 0);
    assert_int_equal(FIXTURE_POLICY(&f, "layers.0.attn")->compute, MPT_DTYPE_FP32);
    fixture_close(&f);
}

static void test_resolve_when_a_glob_catches_norms_then_only_gemms_quantize(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "layers.1.*", .use = "nvfp4");
    fixture_rule(&f, 2, .selector = "layers.2.*", .use = "fp32");
    fixture_resolve(&f, 0);
    assert_string_equal(FIXTURE_POLICY(&f, "layers.1.attn.qkv")->slot[0].name, "nvfp4");
    assert_int_equal(FIXTURE_POLICY(&f, "layers.1.ln")->compute, MPT_DTYPE_BF16);
    assert_int_equal(FIXTURE_POLICY(&f, "layers.1.ln")->n_decided, 0);
    assert_int_equal(FIXTURE_POLICY(&f, "layers.2.ln")->compute, MPT_DTYPE_FP32);
    fixture_close(&f);
}

static void test_resolve_when_all_parts_match_then_the_fused_layer_does(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "*.{q,k,v}_proj", .use = "e4m3");
    fixture_resolve(&f, 0);
    assert_string_equal(FIXTURE_POLICY(&f, "layers.0.attn.qkv")->slot[0].name, "e4m3");
    fixture_close(&f);
}

static void test_resolve_when_a_phase_has_rules_then_they_come_after(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "four_bit", NULL));
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "settle", "0.82"));
    fixture_rule(&f, 1, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&f, 2, .phase = "settle", .selector = "linear", .gemms = "fprop",
                 .use = "bf16");
    fixture_resolve(&f, 0);
    const char *path = "layers.0.mlp.up_proj";
    assert_string_equal(FIXTURE_POLICY(&f, path)->slot[MPT_SLOT_FPROP_X].name, "nvfp4");
    fixture_resolve(&f, 1);
    assert_string_equal(FIXTURE_POLICY(&f, path)->slot[MPT_SLOT_FPROP_X].name, "bf16");
    assert_string_equal(FIXTURE_POLICY(&f, path)->slot[MPT_SLOT_DGRAD_W].name, "nvfp4");
    assert_int_equal(FIXTURE_POLICY(&f, path)->n_decided, 2);
    fixture_close(&f);
}

static void test_resolve_when_many_rules_decide_then_the_latest_are_named(void **state) {
    (void)state;
    static const mpt_set words[] = {{"fprop.x", "rounding=nearest"},
                                    {"fprop.x", "scale=current"}};
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "linear", .use = "e4m3");
    for (int i = 0; i < 20; i++)
        fixture_rule(&f, 2 + i, .selector = "linear", .words = &words[i & 1], .n_words = 1);
    fixture_resolve(&f, 0);
    const mpt_policy *up = FIXTURE_POLICY(&f, "layers.0.mlp.up_proj");
    /* Only the last of each field decides, and the first rule for all the other fields. */
    assert_int_equal(up->n_decided, 3);
    assert_int_equal(up->decided_by[0].line, 1);
    assert_int_equal(up->decided_by[1].line, 20);
    assert_int_equal(up->decided_by[2].line, 21);
    fixture_close(&f);
}

/* ---- predicates ---- */

static mpt_status only_even_blocks(void *ud, int predicate, const mpt_layer *layer, bool *out) {
    (*(int *)ud)++;
    *out = predicate == 7 && layer->block % 2 == 0;
    return MPT_OK;
}

static void test_resolve_when_a_predicate_is_given_then_asked_once_a_layer(void **state) {
    (void)state;
    fixture f;
    int calls = 0;
    fixture_open(&f);
    fixture_rule(&f, 1, .selector = "linear", .blocks = "first 3", .use = "e4m3");
    f.recipe->source.where = only_even_blocks;
    f.recipe->source.ud = &calls;
    f.recipe->rules[0].predicate = 7;
    fixture_resolve(&f, 0);
    assert_int_equal(calls, 9);
    assert_string_equal(FIXTURE_POLICY(&f, "layers.2.mlp.up_proj")->slot[0].name, "e4m3");
    assert_string_equal(FIXTURE_POLICY(&f, "layers.1.mlp.up_proj")->slot[0].name, "bf16");
    assert_string_equal(FIXTURE_POLICY(&f, "wte")->slot[0].name, "bf16");
    fixture_close(&f);
}

/* ---- size ---- */

static void test_resolve_when_the_model_is_large_then_it_costs_little(void **state) {
    (void)state;
    enum { BLOCKS = 62, PER_BLOCK = 8, N = BLOCKS * PER_BLOCK };
    static mpt_layer layers[N];
    static mpt_policy policies[N];
    static char paths[N][48];
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < N; i++) {
        snprintf(paths[i], sizeof paths[i], "layers.%d.mixer.part_%d_proj", i / PER_BLOCK,
                 i % PER_BLOCK);
        layers[i] =
            (mpt_layer){.path = paths[i], .kind = MPT_LAYER_LINEAR, .block = i / PER_BLOCK};
    }
    fixture_rule(&f, 1, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&f, 2, .selector = "linear", .blocks = "first 2", .use = "bf16");
    fixture_rule(&f, 3, .selector = "linear", .blocks = "last 8", .use = "bf16");
    fixture_rule(&f, 4, .selector = "*.part_{1,3,5}_proj", .use = "bf16");
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    uint64_t before = mpt_ctx_memory(f.ctx).n_allocs;
    assert_mpt_ok(f.ctx, mpt_recipe_resolve(f.recipe, 0, layers, N, BLOCKS, policies));
    assert_true(mpt_ctx_memory(f.ctx).n_allocs - before < 8);
    int low = 0;
    for (int i = 0; i < N; i++)
        low += policies[i].slot[0].format == MPT_DTYPE_E2M1;
    assert_int_equal(low, 52 * 5);
    fixture_close(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_resolve_when_no_rule_then_the_base_decides),
    cmocka_unit_test(test_resolve_when_base_is_set_then_all_layers_take_it),
    cmocka_unit_test(test_resolve_when_four_bit_then_each_slot_is_as_published),
    cmocka_unit_test(test_resolve_when_first_and_last_then_later_rules_win),
    cmocka_unit_test(test_resolve_when_single_fields_then_they_merge_one_by_one),
    cmocka_unit_test(test_resolve_when_a_format_comes_later_then_fields_are_gone),
    cmocka_unit_test(test_resolve_when_gemms_are_named_then_the_others_stay),
    cmocka_unit_test(test_resolve_when_bare_then_outputs_are_cleared),
    cmocka_unit_test(test_resolve_when_blocks_vary_then_those_and_no_others),
    cmocka_unit_test(test_resolve_when_a_list_selects_then_kinds_and_globs_add_up),
    cmocka_unit_test(test_resolve_when_a_listed_kind_is_absent_then_the_rest_counts),
    cmocka_unit_test(test_resolve_when_a_glob_catches_norms_then_only_gemms_quantize),
    cmocka_unit_test(test_resolve_when_all_parts_match_then_the_fused_layer_does),
    cmocka_unit_test(test_resolve_when_a_phase_has_rules_then_they_come_after),
    cmocka_unit_test(test_resolve_when_many_rules_decide_then_the_latest_are_named),
    cmocka_unit_test(test_resolve_when_a_predicate_is_given_then_asked_once_a_layer),
    cmocka_unit_test(test_resolve_when_the_model_is_large_then_it_costs_little),
};
MPT_TEST_MAIN(cases)
