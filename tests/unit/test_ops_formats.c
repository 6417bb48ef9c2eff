/* precision.ops, state.activation and rules for layers other than linear: the formats and casts
 * that stage 5 makes of them, who outranks whom, hashes, and short runs on both backends. */
#include "ops_fixture.h"

#include <math.h>

/* ---- rows ---- */

/* A row said, and what its op then puts out or reads. */
static const struct row {
    const char *word, *format;
    mpt_build_fn build;
    mpt_op op;
    int input; /* -1: the format is that of output 0; else of this input */
    mpt_dtype is;
} rows[] = {
    {"norm", "fp32", ops_draw_gpt2, MPT_OP_layernorm, -1, MPT_DTYPE_FP32},
    {"norm", "fp16", ops_draw_hybrid, MPT_OP_rmsnorm, -1, MPT_DTYPE_FP16},
    {"layernorm", "fp32", ops_draw_gpt2, MPT_OP_layernorm, -1, MPT_DTYPE_FP32},
    {"rmsnorm", "fp32", ops_draw_hybrid, MPT_OP_rmsnorm, -1, MPT_DTYPE_FP32},
    {"gated_rmsnorm", "fp32", ops_draw_hybrid, MPT_OP_gated_rmsnorm, -1, MPT_DTYPE_FP32},
    {"attention", "fp16", ops_draw_gpt2, MPT_OP_attention, -1, MPT_DTYPE_FP16},
    {"attention", "fp16", ops_draw_gpt2, MPT_OP_attention, 1, MPT_DTYPE_FP16},
    {"attention", "fp16", ops_draw_gpt2, MPT_OP_attention_grad, 3, MPT_DTYPE_FP16},
    {"attention", "fp16", ops_draw_gpt2, MPT_OP_attention_grad, 4, MPT_DTYPE_FP32},
    {"attention", "fp16", ops_draw_gpt2, MPT_OP_attention_grad, 5, MPT_DTYPE_FP16},
    {"attention", "fp32", ops_draw_gpt2, MPT_OP_attention, 0, MPT_DTYPE_BF16},
    {"conv", "fp16", ops_draw_hybrid, MPT_OP_conv1d, -1, MPT_DTYPE_FP16},
    {"conv1d", "fp16", ops_draw_hybrid, MPT_OP_conv1d, 0, MPT_DTYPE_FP16},
    {"conv1d", "fp16", ops_draw_hybrid, MPT_OP_conv1d, 1, MPT_DTYPE_FP32},
    {"scan", "fp32", ops_draw_hybrid, MPT_OP_ssm_scan, -1, MPT_DTYPE_FP32},
    {"ssm_scan", "fp16", ops_draw_hybrid, MPT_OP_ssm_scan, -1, MPT_DTYPE_FP16},
    {"ssm_scan", "fp16", ops_draw_hybrid, MPT_OP_ssm_scan, 1, MPT_DTYPE_BF16},
    {"cross_entropy", "bf16", ops_draw_gpt2, MPT_OP_cross_entropy, 0, MPT_DTYPE_BF16},
    {"cross_entropy", "bf16", ops_draw_gpt2, MPT_OP_cross_entropy_grad, 0, MPT_DTYPE_BF16},
    {"embedding", "fp32", ops_draw_gpt2, MPT_OP_embedding, -1, MPT_DTYPE_FP32},
    {"gelu", "fp32", ops_draw_gpt2, MPT_OP_gelu, -1, MPT_DTYPE_FP32},
    {"silu", "fp16", ops_draw_hybrid, MPT_OP_silu, -1, MPT_DTYPE_FP16},
    {"relu2", "fp32", ops_draw_hybrid, MPT_OP_relu2, -1, MPT_DTYPE_FP32},
};

static void test_row_when_said_then_its_op_has_the_format(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char path[64];
        ops_fixture plain, f;
        snprintf(path, sizeof path, "precision.ops.%s", rows[i].word);
        ops_open(&plain, rows[i].build, NULL, NULL);
        ops_open(&f, rows[i].build, path, rows[i].format);
        const mpt_node *node = ops_find(&f, rows[i].op);
        mpt_dtype is =
            ops_dtype(&f, rows[i].input < 0 ? node->out[0] : node->in[rows[i].input]);
        if (is != rows[i].is)
            fail_msg("%s = %s: %s has %s, not %s", rows[i].word, rows[i].format,
                     mpt_op_get(rows[i].op)->name, mpt_dtype_name(is),
                     mpt_dtype_name(rows[i].is));
        if (strcmp(plain.program->recipe_hash, f.program->recipe_hash) == 0)
            fail_msg("%s: the same recipe hash", rows[i].word);
        if (strcmp(plain.program->phases[0]->schedule_hash,
                   f.program->phases[0]->schedule_hash) == 0)
            fail_msg("%s: the same schedule hash", rows[i].word);
        ops_close(&plain);
        ops_close(&f);
    }
}

/* A row that says what the table says is no other recipe. */
static void test_row_when_it_says_the_default_then_hashes_stay(void **state) {
    (void)state;
    static const ops_setting defaults[] = {{"precision.ops.softmax", "fp32"},
                                           {"precision.ops.norm", "bf16"},
                                           {"precision.ops.attention", "bf16"},
                                           {"precision.ops.cross_entropy", "fp32"}};
    ops_fixture plain, f;
    ops_open(&plain, ops_draw_gpt2, NULL, NULL);
    for (size_t i = 0; i < MPT_COUNT(defaults); i++) {
        ops_open(&f, ops_draw_gpt2, defaults[i].path, defaults[i].value);
        assert_string_equal(plain.program->recipe_hash, f.program->recipe_hash);
        assert_string_equal(plain.program->phases[0]->schedule_hash,
                            f.program->phases[0]->schedule_hash);
        ops_close(&f);
    }
    ops_close(&plain);
}

static void test_row_when_a_rule_names_the_layer_then_the_rule_wins(void **state) {
    (void)state;
    ops_fixture f;
    ops_recipe(&f, ops_draw_gpt2);
    ops_set(&f, "precision.ops.norm", "fp32");
    ops_rule(&f, .selector = "norm", .blocks = "first 1", .use = "fp16");
    ops_compile(&f, MPT_DEVICE_REF);
    const mpt_graph *graph = ops_graph(&f);
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->op != MPT_OP_layernorm)
            continue;
        bool first = graph->layers[node->layer].block == 0;
        n++;
        assert_int_equal(ops_dtype(&f, node->out[0]), first ? MPT_DTYPE_FP16 : MPT_DTYPE_FP32);
        assert_int_equal(f.program->phases[0]->policies[node->layer].by_ops, !first);
    }
    assert_int_equal(n, 5);
    ops_close(&f);
}

static void test_row_when_op_and_kind_are_said_then_the_op_wins(void **state) {
    (void)state;
    ops_fixture f;
    ops_recipe(&f, ops_draw_hybrid);
    ops_set(&f, "precision.ops.norm", "fp32");
    ops_set(&f, "precision.ops.gated_rmsnorm", "fp16");
    ops_compile(&f, MPT_DEVICE_REF);
    assert_int_equal(ops_dtype(&f, ops_find(&f, MPT_OP_rmsnorm)->out[0]), MPT_DTYPE_FP32);
    assert_int_equal(ops_dtype(&f, ops_find(&f, MPT_OP_gated_rmsnorm)->out[0]), MPT_DTYPE_FP16);
    ops_close(&f);
}

/* The stream has its own format; sums inside a block have the row's. */
static void test_row_when_add_then_the_stream_keeps_its_format(void **state) {
    (void)state;
    ops_fixture f;
    int line = 0;
    ops_open(&f, ops_draw_gpt2, "precision.ops.add", "fp32");
    assert_string_equal(ops_warning(&f, "no-effect", &line),
                        "precision.ops.add: no operation of this model takes its format from "
                        "it");
    ops_close(&f);
}

/* ---- rules ---- */

/* Every kind that a rule can name, and what its layers then put out. */
static void test_rule_when_it_names_a_kind_then_its_layers_have_the_format(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        mpt_op op;
    } kinds[] = {{"attention", MPT_OP_attention}, {"norm", MPT_OP_rmsnorm},
                 {"norm", MPT_OP_gated_rmsnorm},  {"embedding", MPT_OP_embedding},
                 {"scan", MPT_OP_ssm_scan},       {"conv", MPT_OP_conv1d}};
    for (size_t i = 0; i < MPT_COUNT(kinds); i++) {
        ops_fixture f;
        ops_recipe(&f, ops_draw_hybrid);
        ops_rule(&f, .selector = kinds[i].kind, .use = "fp32");
        ops_compile(&f, MPT_DEVICE_REF);
        assert_int_equal(ops_dtype(&f, ops_find(&f, kinds[i].op)->out[0]), MPT_DTYPE_FP32);
        ops_close(&f);
    }
    ops_fixture f;
    ops_recipe(&f, ops_draw_hybrid);
    ops_rule(&f, .selector = "head", .use = "fp32");
    ops_compile(&f, MPT_DEVICE_REF);
    const mpt_graph *graph = ops_graph(&f);
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == MPT_OP_linear &&
            graph->layers[graph->nodes[i].layer].kind == MPT_LAYER_HEAD)
            assert_int_equal(ops_dtype(&f, graph->nodes[i].in[1]), MPT_DTYPE_FP32);
    ops_close(&f);
}

/* A list of a kind and of globs, one with braces. */
static void test_rule_when_it_lists_kinds_and_globs_then_all_of_them_follow(void **state) {
    (void)state;
    ops_fixture f;
    int n = 0;
    ops_recipe(&f, ops_draw_gpt2);
    ops_rule(&f, .selector = "attention h.{0,1}.ln_1 *.c_proj", .use = "fp32");
    ops_compile(&f, MPT_DEVICE_REF);
    const mpt_graph *graph = ops_graph(&f);
    for (int i = 0; i < graph->n_layers; i++) {
        const mpt_policy *p = &f.program->phases[0]->policies[i];
        bool named = graph->layers[i].kind == MPT_LAYER_ATTENTION ||
                     strstr(graph->layers[i].path, ".ln_1") ||
                     strstr(graph->layers[i].path, ".c_proj");
        bool linear = graph->layers[i].kind == MPT_LAYER_LINEAR;
        bool head = graph->layers[i].kind == MPT_LAYER_HEAD;
        n += named;
        if (!head)
            assert_int_equal((linear ? p->slot[0].format : p->compute) == MPT_DTYPE_FP32,
                             named);
    }
    assert_int_equal(n, 2 + 2 + 4);
    ops_close(&f);
}

static void test_rule_when_it_names_routers_then_the_model_has_none(void **state) {
    (void)state;
    ops_fixture f;
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    ops_recipe(&f, ops_draw_gpt2);
    ops_rule(&f, .selector = "router", .use = "fp32");
    assert_int_equal(mpt_compile(f.recipe, &options, &f.program), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(f.ctx)->message,
                        "r.lua:9: precision.rules[1]: the model has no 'router' layer; it has "
                        "linear, attention, norm, embedding, head");
    ops_close(&f);
}

/* ---- casts ---- */

static void test_casts_when_low_reads_wider_then_each_tensor_has_one(void **state) {
    (void)state;
    ops_fixture f;
    static const mpt_set words[] = {{"output", "fp32"}};
    ops_recipe(&f, ops_draw_gpt2);
    ops_rule(&f, .selector = "*.c_attn", .words = words, .n_words = 1);
    ops_compile(&f, MPT_DEVICE_REF);
    const mpt_node *forward = ops_find(&f, MPT_OP_attention);
    const mpt_node *backward = ops_find(&f, MPT_OP_attention_grad);
    assert_int_equal(ops_casts(&f, "input"), 2 * 3);
    for (int i = 0; i < 3; i++) {
        const mpt_node *cast = ops_producer(&f, forward->in[i]);
        assert_int_equal(cast->op, MPT_OP_cast);
        assert_int_equal(cast->pass, MPT_PASS_FORWARD);
        assert_int_equal(ops_dtype(&f, cast->in[0]), MPT_DTYPE_FP32);
        assert_int_equal(ops_dtype(&f, forward->in[i]), MPT_DTYPE_BF16);
        /* the gradient of q is FP32, as q is */
        assert_int_equal(ops_dtype(&f, ops_find(&f, MPT_OP_attention_grad)->out[i]),
                         MPT_DTYPE_FP32);
    }
    assert_int_equal(ops_dtype(&f, backward->in[0]), MPT_DTYPE_BF16);
    ops_close(&f);
}

static void test_casts_when_a_norm_is_narrow_then_all_readers_read_the_cast(void **state) {
    (void)state;
    ops_fixture f;
    int line = 0, n = 0;
    ops_open(&f, ops_draw_gpt2, "precision.ops.norm", "e4m3");
    const mpt_graph *graph = ops_graph(&f);
    assert_int_equal(ops_casts(&f, "output"), 5);
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            const mpt_value *value = node->in[k] >= 0 ? &graph->values[node->in[k]] : NULL;
            if (value && value->producer >= 0 &&
                graph->nodes[value->producer].op == MPT_OP_layernorm) {
                assert_int_equal(node->op, MPT_OP_cast);
                assert_int_equal(value->dtype, MPT_DTYPE_FP32);
                n++;
            }
        }
        for (int k = 0; k < node->n_out; k++)
            if (node->pass == MPT_PASS_BACKWARD && node->out[k] >= 0)
                assert_true(mpt_dtype_bits(ops_dtype(&f, node->out[k])) >= 16);
    }
    assert_int_equal(n, 5);
    assert_string_equal(ops_warning(&f, "fp8-norm", &line),
                        "precision.ops.norm is e4m3: what norms put out keeps 3 bits of "
                        "mantissa");
    ops_close(&f);
}

static void test_casts_when_activations_are_saved_then_backward_alone_reads_them(void **state) {
    (void)state;
    ops_fixture f;
    ops_open(&f, ops_draw_gpt2, "precision.state.activation", "e4m3");
    const mpt_graph *graph = ops_graph(&f);
    /* a block: the streams before both norms, q, k, v, o, and gelu's input; then ln_f's */
    assert_int_equal(ops_casts(&f, "saved"), 2 * 7 + 1);
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            const mpt_value *value = node->in[k] >= 0 ? &graph->values[node->in[k]] : NULL;
            if (!value || value->producer < 0)
                continue;
            const mpt_node *cast = &graph->nodes[value->producer];
            bool saved = cast->op == MPT_OP_cast && strcmp(cast->slot, "saved") == 0;
            if (!saved)
                continue;
            assert_int_equal(cast->pass, MPT_PASS_FORWARD);
            assert_int_equal(value->dtype, MPT_DTYPE_E4M3);
            assert_int_equal(node->pass, MPT_PASS_BACKWARD);
            assert_true(node->op == MPT_OP_layernorm_grad || node->op == MPT_OP_gelu_grad ||
                        node->op == MPT_OP_attention_grad);
        }
    }
    assert_int_equal(ops_dtype(&f, ops_find(&f, MPT_OP_attention_grad)->in[4]), MPT_DTYPE_FP32);
    assert_int_equal(ops_dtype(&f, ops_find(&f, MPT_OP_cross_entropy_grad)->in[0]),
                     MPT_DTYPE_FP32);
    ops_close(&f);
}

/* Bits of what the forward pass makes and the backward pass reads. */
static int64_t kept_bits(const ops_fixture *f) {
    const mpt_graph *graph = ops_graph(f);
    int64_t bits = 0;
    for (int v = 0; v < graph->n_values; v++) {
        const mpt_value *value = &graph->values[v];
        bool read = false;
        if (value->kind != MPT_VALUE_ACTIVATION ||
            graph->nodes[value->producer].pass != MPT_PASS_FORWARD)
            continue;
        for (int i = 0; i < graph->n_nodes && !read; i++)
            for (int k = 0; k < graph->nodes[i].n_in; k++)
                read |= graph->nodes[i].pass == MPT_PASS_BACKWARD && graph->nodes[i].in[k] == v;
        bits += read ? mpt_value_elements(value) * mpt_dtype_bits(value->dtype) : 0;
    }
    return bits;
}

static void test_saved_when_narrower_then_less_is_kept(void **state) {
    (void)state;
    static const char *const narrowing[] = {"bf16", "e5m6", "e4m3"};
    ops_fixture f;
    int64_t before = INT64_MAX;
    for (size_t i = 0; i < MPT_COUNT(narrowing); i++) {
        ops_open(&f, ops_draw_hybrid, "precision.state.activation", narrowing[i]);
        assert_true(kept_bits(&f) < before);
        before = kept_bits(&f);
        ops_close(&f);
    }
}

static void test_saved_when_nothing_is_wider_then_no_effect(void **state) {
    (void)state;
    ops_fixture plain, f;
    int line = 0;
    ops_open(&plain, ops_draw_gpt2, NULL, NULL);
    ops_open(&f, ops_draw_gpt2, "precision.state.activation", "bf16");
    assert_string_equal(ops_warning(&f, "no-effect", &line),
                        "precision.state.activation: nothing that is kept for backward is "
                        "wider than bf16");
    assert_string_equal(plain.program->phases[0]->schedule_hash,
                        f.program->phases[0]->schedule_hash);
    ops_close(&plain);
    ops_close(&f);
}

/* ---- softmax ---- */

static void test_softmax_when_said_then_both_passes_of_attention_have_it(void **state) {
    (void)state;
    ops_fixture plain, f;
    mpt_str text;
    int line = 0;
    ops_open(&plain, ops_draw_gpt2, NULL, NULL);
    ops_open(&f, ops_draw_gpt2, "precision.ops.softmax", "e4m3");
    assert_int_equal(ops_find(&f, MPT_OP_attention)->attrs.softmax, MPT_DTYPE_E4M3);
    assert_int_equal(ops_find(&f, MPT_OP_attention_grad)->attrs.softmax, MPT_DTYPE_E4M3);
    assert_string_not_equal(plain.program->phases[0]->schedule_hash,
                            f.program->phases[0]->schedule_hash);
    mpt_str_init(&text, f.ctx);
    mpt_schedule_print(f.program->phases[0], &text);
    assert_non_null(strstr(text.data, "bf16 bf16 bf16 -> bf16 fp32, softmax e4m3"));
    mpt_str_deinit(&text);
    assert_string_equal(ops_warning(&f, "fp8-softmax", &line),
                        "precision.ops.softmax is e4m3: probabilities below 2^-10 of the "
                        "largest vanish");
    ops_close(&plain);
    ops_close(&f);
}

/* ---- warnings ---- */

static void test_warning_when_the_model_has_no_such_op_then_no_effect(void **state) {
    (void)state;
    static const struct {
        const char *word, *value;
    } unused[] = {{"conv1d", "fp32"}, {"scan", "fp32"}, {"silu", "bf16"}, {"rmsnorm", "fp32"}};
    for (size_t i = 0; i < MPT_COUNT(unused); i++) {
        char path[64], expected[128];
        ops_fixture f;
        int line = 0;
        snprintf(path, sizeof path, "precision.ops.%s", unused[i].word);
        snprintf(expected, sizeof expected,
                 "%s: no operation of this model takes its format from it", path);
        ops_open(&f, ops_draw_gpt2, path, unused[i].value);
        const char *text = ops_warning(&f, "no-effect", &line);
        assert_non_null(text);
        assert_string_equal(text, expected);
        ops_close(&f);
    }
}

static void test_warning_when_allowed_then_silent(void **state) {
    (void)state;
    ops_fixture f;
    int line = 0;
    ops_recipe(&f, ops_draw_gpt2);
    ops_set(&f, "precision.ops.softmax", "e5m2");
    ops_set(&f, "precision.ops.norm", "e5m2");
    assert_mpt_ok(f.ctx, mpt_recipe_append_allow(f.recipe, "fp8-softmax", MPT_NOWHERE));
    ops_compile(&f, MPT_DEVICE_REF);
    assert_null(ops_warning(&f, "fp8-softmax", &line));
    assert_non_null(ops_warning(&f, "fp8-norm", &line));
    ops_close(&f);
}

static void test_warning_when_an_op_is_fp16_then_fp16_no_loss_scale(void **state) {
    (void)state;
    ops_fixture f;
    int line = 0;
    ops_open(&f, ops_draw_gpt2, "precision.ops.gelu", "fp16");
    assert_non_null(ops_warning(&f, "fp16-no-loss-scale", &line));
    ops_close(&f);
    ops_open(&f, ops_draw_gpt2, "precision.ops.softmax", "fp16");
    assert_null(ops_warning(&f, "fp16-no-loss-scale", &line));
    ops_close(&f);
}

/* ---- runs ---- */

static double train(mpt_build_fn build, const ops_setting *s, mpt_device device) {
    ops_fixture f;
    mpt_trainer *trainer = NULL;
    mpt_step_result result = {0};
    ops_recipe(&f, build);
    if (s)
        ops_set(&f, s->path, s->value);
    ops_compile(&f, device);
    assert_mpt_ok(f.ctx, mpt_trainer_create(f.program, NULL, &trainer));
    for (int i = 0; i < 3; i++) {
        assert_mpt_ok(f.ctx, mpt_trainer_step(trainer, NULL, &result));
        assert_false(result.skipped);
    }
    mpt_trainer_destroy(trainer);
    ops_close(&f);
    return result.loss;
}

/* Each changes the loss, and the backends agree on it. */
static void test_run_when_formats_change_then_numbers_do_and_backends_agree(void **state) {
    (void)state;
    static const ops_setting settings[] = {
        {"precision.ops.softmax", "bf16"},       {"precision.ops.softmax", "e4m3"},
        {"precision.ops.norm", "e4m3"},          {"precision.ops.attention", "fp16"},
        {"precision.ops.cross_entropy", "bf16"}, {"precision.state.activation", "e4m3"},
        {"precision.state.activation", "e5m6"}};
    const mpt_build_fn builds[] = {ops_draw_gpt2, ops_draw_hybrid};
    for (size_t m = 0; m < MPT_COUNT(builds); m++) {
        double plain = train(builds[m], NULL, MPT_DEVICE_REF);
        for (size_t i = 0; i < MPT_COUNT(settings); i++) {
            double ref = train(builds[m], &settings[i], MPT_DEVICE_REF);
            double cpu = train(builds[m], &settings[i], MPT_DEVICE_CPU);
            if (ref == plain)
                fail_msg("%s = %s changes no loss", settings[i].path, settings[i].value);
            if (!(fabs(ref - cpu) <= 2e-3 * ref && fabs(ref - plain) <= 0.1 * plain))
                fail_msg("%s = %s: ref %.9g, cpu %.9g, without %.9g", settings[i].path,
                         settings[i].value, ref, cpu, plain);
        }
    }
}

/* ---- the table ---- */

static void test_table_when_read_then_every_word_is_of_some_op(void **state) {
    (void)state;
    int n;
    const mpt_ops_row *table = mpt_ops_rows(&n);
    for (int w = 0; w < MPT_OPS_COUNT; w++) {
        bool used = w == MPT_OPS_SOFTMAX;
        for (int i = 0; i < n; i++)
            used |= (int)table[i].own == w || (int)table[i].group == w;
        if (!used)
            fail_msg("no op follows '%s'", mpt_ops_word_name((mpt_ops_word)w));
    }
    for (int i = 0; i < n; i++)
        assert_int_not_equal(mpt_op_by_name(table[i].op), MPT_OP_COUNT);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_row_when_said_then_its_op_has_the_format),
    cmocka_unit_test(test_row_when_it_says_the_default_then_hashes_stay),
    cmocka_unit_test(test_row_when_a_rule_names_the_layer_then_the_rule_wins),
    cmocka_unit_test(test_row_when_op_and_kind_are_said_then_the_op_wins),
    cmocka_unit_test(test_row_when_add_then_the_stream_keeps_its_format),
    cmocka_unit_test(test_rule_when_it_names_a_kind_then_its_layers_have_the_format),
    cmocka_unit_test(test_rule_when_it_lists_kinds_and_globs_then_all_of_them_follow),
    cmocka_unit_test(test_rule_when_it_names_routers_then_the_model_has_none),
    cmocka_unit_test(test_casts_when_low_reads_wider_then_each_tensor_has_one),
    cmocka_unit_test(test_casts_when_a_norm_is_narrow_then_all_readers_read_the_cast),
    cmocka_unit_test(test_casts_when_activations_are_saved_then_backward_alone_reads_them),
    cmocka_unit_test(test_saved_when_narrower_then_less_is_kept),
    cmocka_unit_test(test_saved_when_nothing_is_wider_then_no_effect),
    cmocka_unit_test(test_softmax_when_said_then_both_passes_of_attention_have_it),
    cmocka_unit_test(test_warning_when_the_model_has_no_such_op_then_no_effect),
    cmocka_unit_test(test_warning_when_allowed_then_silent),
    cmocka_unit_test(test_warning_when_an_op_is_fp16_then_fp16_no_loss_scale),
    cmocka_unit_test(test_run_when_formats_change_then_numbers_do_and_backends_agree),
    cmocka_unit_test(test_table_when_read_then_every_word_is_of_some_op),
};
MPT_TEST_MAIN(cases)
