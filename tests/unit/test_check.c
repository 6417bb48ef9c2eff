/* recipe/check.c: the named warnings, each with a recipe that has it and one that does not. */
#include "recipe_fixture.h"

static const mpt_set four_bit[] = {{"weight", "nvfp4 block=16x16"},
                                   {"activation", "nvfp4"},
                                   {"gradient", "nvfp4 rounding=stochastic"},
                                   {"wgrad", "hadamard.size=16"}};

typedef struct checked {
    fixture f;
    mpt_policy second[FIXTURE_LAYERS]; /* of a second phase */
    mpt_arena arena;
    mpt_warning *list;
    int n;
} checked;

static void open(checked *c) {
    fixture_open(&c->f);
    mpt_arena_init(&c->arena, c->f.ctx);
    c->f.recipe->where = (mpt_where){"r.lua", 1};
}

static void run(checked *c) {
    mpt_policy *policies[] = {c->f.policies, c->second};
    mpt_recipe *r = c->f.recipe;
    fixture_resolve(&c->f, 0);
    assert_true(r->n_phases <= 2);
    if (r->n_phases == 2)
        assert_mpt_ok(c->f.ctx, mpt_recipe_resolve(r, 1, c->f.layers, FIXTURE_LAYERS,
                                                   FIXTURE_BLOCKS, c->second));
    assert_mpt_ok(c->f.ctx, mpt_recipe_check(r, &c->arena, c->f.layers, FIXTURE_LAYERS,
                                             FIXTURE_BLOCKS, policies, &c->list, &c->n));
}

static void close(checked *c) {
    mpt_arena_deinit(&c->arena);
    fixture_close(&c->f);
}

static const mpt_warning *find(const checked *c, const char *name) {
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return &c->list[i];
    return NULL;
}

static void expect(const checked *c, const char *name, int line, const char *text) {
    const mpt_warning *w = find(c, name);
    assert_non_null(w);
    assert_string_equal(w->text, text);
    assert_string_equal(w->where.file, "r.lua");
    assert_int_equal(w->where.line, line);
}

static void test_check_when_all_is_well_then_silent(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&c.f, 11, .selector = "linear", .blocks = "last 1", .use = "bf16");
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
}

static void test_check_when_a_rule_is_overruled_then_rule_shadowed(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "*.o_proj", .use = "e4m3");
    fixture_rule(&c.f, 11, .selector = "linear", .use = "e5m2");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "rule-shadowed", 10,
           "precision.rules[1] decides nothing: later rules overrule it on every layer, or its "
           "function "
           "refused them all");
    close(&c);
}

static void test_check_when_a_rule_lives_in_one_phase_then_not_shadowed(void **state) {
    (void)state;
    checked c;
    open(&c);
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "a", NULL));
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "b", "0.5"));
    fixture_rule(&c.f, 10, .selector = "linear", .use = "e4m3");
    fixture_rule(&c.f, 11, .phase = "b", .selector = "linear", .use = "bf16");
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
}

static void test_check_when_forward_is_stochastic_then_sr_forward(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .use = "e4m3");
    fixture_rule(&c.f, 11, .selector = "*.o_proj", .use = "e4m3 rounding=stochastic");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "sr-forward", 11,
           "stochastic rounding, known to diverge, in fprop of 4 layers, first "
           "layers.0.attn.o_proj (fprop.x)");
    close(&c);
}

static void test_check_when_forward_is_rotated_then_rht_forward(void **state) {
    (void)state;
    const mpt_set words[] = {{"fprop", "hadamard.size=32"}};
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .blocks = "only 1", .use = "nvfp4");
    fixture_rule(&c.f, 11, .selector = "layers.1.mlp.up_proj", .words = words, .n_words = 1);
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "rht-forward", 11,
           "a Hadamard rotation, which costs accuracy there, in fprop of 1 layer, first "
           "layers.1.mlp.up_proj (fprop.x)");
    close(&c);
}

static void test_check_when_the_window_is_short_then_short_history(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .use = "e4m3 scale=delayed scale.history=16");
    fixture_rule(&c.f, 11, .selector = "*.up_proj",
                 .use = "e4m3 scale=delayed scale.history=15");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "short-history", 11,
           "a window of less than 16 steps for delayed scales of 4 layers, first "
           "layers.0.mlp.up_proj (fprop.x)");
    close(&c);
}

static void test_check_when_only_the_first_copy_has_a_source_then_no_effect(void **state) {
    (void)state;
    const mpt_set both[] = {{"activation", "mxfp8 source=dequantized"}};
    const mpt_set first[] = {{"fprop.x", "source=dequantized"}};
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .words = both, .n_words = 1);
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .use = "mxfp8");
    fixture_rule(&c.f, 11, .selector = "*.up_proj", .words = first, .n_words = 1);
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-effect", 11,
           "layers.0.mlp.up_proj.fprop.x.source: it is of the second copy of a tensor, which "
           "wgrad.x is");
    close(&c);
}

static void test_check_when_both_copies_are_the_same_then_source_has_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .use = "e4m3 source=dequantized");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-effect", 10,
           "layers.0.attn.qkv.wgrad.x.source: both copies of the tensor hold the same "
           "numbers");
    close(&c);
    open(&c); /* rotated, the second copy differs */
    const mpt_set rotated[] = {{"activation", "e4m3 source=dequantized"},
                               {"gradient", "e4m3"},
                               {"weight", "e4m3"},
                               {"wgrad", "hadamard.size=16"}};
    fixture_rule(&c.f, 10, .selector = "linear", .words = rotated, .n_words = 4);
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
}

static void test_check_when_blocks_divide_all_sizes_then_pad_has_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .use = "e4m3 pad=bf16");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-effect", 10,
           "layers.0.attn.qkv.fprop.x.pad: the blocks divide all sizes, so that nothing "
           "stays in bf16");
    close(&c);
}

static void test_check_when_the_last_block_is_fp4_then_all_fp4(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&c.f, 11, .selector = "linear", .blocks = "first 3", .use = "bf16");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "all-fp4", 10,
           "all linear layers of the last block multiply FP4 by FP4; runs keep a few late "
           "blocks in bf16");
    close(&c);
}

/* One operand of each product is in another format. */
static void test_check_when_fp4_meets_other_formats_only_then_not_all_fp4(void **state) {
    (void)state;
    static const mpt_set weights[] = {{"weight", "nvfp4"}};
    static const mpt_set activations[] = {
        {"weight", "e4m3"}, {"activation", "nvfp4"}, {"gradient", "e5m2"}};
    static const struct {
        const mpt_set *words;
        int n;
    } rows[] = {{weights, 1}, {activations, 3}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        checked c;
        open(&c);
        fixture_rule(&c.f, 10, .selector = "linear", .words = rows[i].words,
                     .n_words = rows[i].n);
        run(&c);
        assert_int_equal(c.n, 0);
        close(&c);
    }
}

static void test_check_when_a_late_phase_lifts_the_last_block_then_not_all_fp4(void **state) {
    (void)state;
    checked c;
    open(&c);
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "a", NULL));
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "b", "0.5"));
    fixture_rule(&c.f, 10, .selector = "linear", .words = four_bit, .n_words = 4);
    fixture_rule(&c.f, 11, .phase = "b", .selector = "layers.3.mlp.up_proj", .use = "bf16");
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
}

static void test_check_when_nothing_is_clipped_then_no_clip(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "train.clip", "0");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-clip", 1, "train.clip is 0: one bad batch can throw the weights far away");
    close(&c);
}

static void test_check_when_there_is_no_warmup_then_no_warmup(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "train.lr.warmup", "0");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-warmup", 1,
           "train.lr.warmup is 0: the first steps run at the peak learning rate");
    close(&c);
}

static void test_check_when_only_the_proxy_lacks_it_then_the_proxy_is_named(void **state) {
    (void)state;
    checked c;
    open(&c);
    c.f.recipe->proxy = (mpt_model_ref){.present = true, .name = "gpt", .size = "tiny_proxy"};
    fixture_set(&c.f, "train.proxy.clip", "0");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-clip", 1,
           "train.proxy.clip is 0: one bad batch can throw the weights far away");
    close(&c);
}

static void test_check_when_fp16_has_no_scale_then_fp16_no_loss_scale(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_rule(&c.f, 10, .selector = "*.o_proj", .use = "fp16");
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "fp16-no-loss-scale", 10,
           "fp16 gradients below 6e-8 vanish: give precision.loss_scale = static(1024), or "
           "dynamic { }");
    close(&c);
}

static void test_check_when_fp16_is_scaled_then_silent(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "precision.base", "fp16");
    fixture_set(&c.f, "precision.loss_scale", "1024");
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
}

static void test_check_when_a_scale_has_no_fp16_then_loss_scale_unused(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "precision.loss_scale", "0.5");
    run(&c);
    assert_int_equal(c.n, 2);
    expect(&c, "loss-scale-unused", 1, "precision.loss_scale is 0.5, but nothing is in fp16");
    expect(&c, "loss-scale-below-one", 1,
           "precision.loss_scale is 0.5: it makes small gradients smaller");
    close(&c);
}

static void test_check_when_a_knob_moves_nothing_then_no_effect(void **state) {
    (void)state;
    static const struct {
        const char *path, *value, *text;
    } rows[] = {
        {"train.decay", "all",
         "train.decay chooses what weight decay applies to, but weight_decay is 0"},
        {"train.eval.batches", "3",
         "train.eval.batches counts for evaluations in between, but eval.every is 0"},
        {"train.proxy.clip", "3", "train.proxy is for a proxy, but the recipe has none"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        checked c;
        open(&c);
        fixture_set(&c.f, "train.optimizer.weight_decay", "0");
        fixture_set(&c.f, rows[i].path, rows[i].value);
        run(&c);
        assert_int_equal(c.n, 1);
        expect(&c, "no-effect", 1, rows[i].text);
        close(&c);
    }
}

static void test_check_when_a_phase_never_starts_then_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "a", NULL));
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "late", "100"));
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-effect", 1, "phases[2]: 'late' starts after the run's 100 steps");
    close(&c);
}

static void test_check_when_allowed_then_only_that_one_is_silent(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "train.clip", "0");
    fixture_set(&c.f, "train.lr.warmup", "0");
    assert_mpt_ok(c.f.ctx, mpt_recipe_append_allow(c.f.recipe, "no-clip", MPT_NOWHERE));
    run(&c);
    assert_int_equal(c.n, 1);
    assert_non_null(find(&c, "no-warmup"));
    close(&c);
}

static void test_check_when_a_phase_is_as_the_one_before_then_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "a", NULL));
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "b", "50"));
    run(&c);
    assert_int_equal(c.n, 1);
    expect(&c, "no-effect", 1, "phases[2]: 'b' is as 'a' before it: neither has rules");
    close(&c);
}

static void test_check_when_a_phase_runs_no_step_then_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "a", NULL));
    assert_mpt_ok(c.f.ctx, mpt_recipe_add_phase(c.f.recipe, "b", "0.00001"));
    run(&c);
    expect(&c, "no-effect", 1, "phases[1]: 'a' runs no step, since 'b' starts with it");
    close(&c);
}

static void test_check_when_recompute_takes_all_blocks_then_no_effect(void **state) {
    (void)state;
    checked c;
    open(&c);
    c.f.recipe->train.recompute.every = FIXTURE_BLOCKS - 1;
    run(&c);
    assert_int_equal(c.n, 0);
    close(&c);
    open(&c);
    c.f.recipe->train.recompute.every = FIXTURE_BLOCKS;
    run(&c);
    assert_int_equal(c.n, 1);
    assert_non_null(find(&c, "no-effect"));
    assert_non_null(strstr(c.list[0].text, "nothing is saved"));
    close(&c);
}

static void test_check_when_evaluation_rounds_stochastically_then_sr_forward(void **state) {
    (void)state;
    checked c;
    open(&c);
    fixture_set(&c.f, "train.eval.use", "nvfp4 rounding=stochastic");
    run(&c);
    assert_non_null(find(&c, "sr-forward"));
    close(&c);
    open(&c);
    fixture_set(&c.f, "train.eval.use", "nvfp4");
    run(&c);
    assert_null(find(&c, "sr-forward"));
    close(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_check_when_a_phase_is_as_the_one_before_then_no_effect),
    cmocka_unit_test(test_check_when_a_phase_runs_no_step_then_no_effect),
    cmocka_unit_test(test_check_when_recompute_takes_all_blocks_then_no_effect),
    cmocka_unit_test(test_check_when_evaluation_rounds_stochastically_then_sr_forward),
    cmocka_unit_test(test_check_when_all_is_well_then_silent),
    cmocka_unit_test(test_check_when_a_rule_is_overruled_then_rule_shadowed),
    cmocka_unit_test(test_check_when_a_rule_lives_in_one_phase_then_not_shadowed),
    cmocka_unit_test(test_check_when_forward_is_stochastic_then_sr_forward),
    cmocka_unit_test(test_check_when_forward_is_rotated_then_rht_forward),
    cmocka_unit_test(test_check_when_the_window_is_short_then_short_history),
    cmocka_unit_test(test_check_when_only_the_first_copy_has_a_source_then_no_effect),
    cmocka_unit_test(test_check_when_both_copies_are_the_same_then_source_has_no_effect),
    cmocka_unit_test(test_check_when_blocks_divide_all_sizes_then_pad_has_no_effect),
    cmocka_unit_test(test_check_when_the_last_block_is_fp4_then_all_fp4),
    cmocka_unit_test(test_check_when_fp4_meets_other_formats_only_then_not_all_fp4),
    cmocka_unit_test(test_check_when_a_late_phase_lifts_the_last_block_then_not_all_fp4),
    cmocka_unit_test(test_check_when_nothing_is_clipped_then_no_clip),
    cmocka_unit_test(test_check_when_there_is_no_warmup_then_no_warmup),
    cmocka_unit_test(test_check_when_only_the_proxy_lacks_it_then_the_proxy_is_named),
    cmocka_unit_test(test_check_when_fp16_has_no_scale_then_fp16_no_loss_scale),
    cmocka_unit_test(test_check_when_fp16_is_scaled_then_silent),
    cmocka_unit_test(test_check_when_a_scale_has_no_fp16_then_loss_scale_unused),
    cmocka_unit_test(test_check_when_a_knob_moves_nothing_then_no_effect),
    cmocka_unit_test(test_check_when_a_phase_never_starts_then_no_effect),
    cmocka_unit_test(test_check_when_allowed_then_only_that_one_is_silent),
};
MPT_TEST_MAIN(cases)
