/* The model files: parameter counts of the sizes, layers, and the names and shapes of real
 * checkpoints (tests/golden/NAME_names.txt, written by Hugging Face transformers). */
#include "mpt_test.h"

#include <stdlib.h>

#include "graph/nn.h"
#include "recipe/recipe.h"

enum { NAMES_MAX = 128, NAME_BYTES = 96 };

/* Draws a model: `expression` is what a recipe would write after `model =`. */
static mpt_status draw(mpt_ctx *ctx, const char *expression, mpt_recipe **recipe,
                       mpt_graph **graph) {
    char text[1024];
    snprintf(text, sizeof text, "return recipe { model = %s }", expression);
    MPT_TRY(mpt_recipe_load_string(ctx, "m.lua", text, strlen(text), NULL, recipe));
    MPT_TRY(mpt_graph_create(ctx, 2, 32, 96, graph));
    mpt_nn nn = {.graph = *graph, .prefix = "", .block = -1};
    return (*recipe)->source.build((*recipe)->source.ud, &nn, false);
}

typedef struct drawn {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_graph *graph;
} drawn;

static drawn draw_ok(const char *expression) {
    drawn d = {.ctx = mpt_test_ctx()};
    assert_mpt_ok(d.ctx, draw(d.ctx, expression, &d.recipe, &d.graph));
    return d;
}

static void finish(drawn *d) {
    mpt_graph_destroy(d->graph);
    mpt_recipe_destroy(d->recipe);
    assert_int_equal(mpt_ctx_memory(d->ctx).live_bytes, 0);
    mpt_ctx_destroy(d->ctx);
}

static int64_t count_parameters(const mpt_graph *graph) {
    int64_t n = 0;
    for (int i = 0; i < graph->n_params; i++)
        n += mpt_value_elements(&graph->values[graph->params[i].value]);
    return n;
}

static int count_layers(const mpt_graph *graph, mpt_layer_kind kind) {
    int n = 0;
    for (int i = 0; i < graph->n_layers; i++)
        n += graph->layers[i].kind == kind &&
             (kind != MPT_LAYER_LINEAR || graph->layers[i].block >= 0);
    return n;
}

static const mpt_param *find_param(const mpt_graph *graph, const char *name) {
    for (int i = 0; i < graph->n_params; i++)
        if (strcmp(graph->params[i].name, name) == 0)
            return &graph->params[i];
    return NULL;
}

/* ---- nemotron_h ---- */

static void test_nemotron_when_12b_then_the_counts_are_the_release(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.nemotron_h' '12b'");
    assert_true(count_parameters(d.graph) == INT64_C(12310001152));
    assert_int_equal(d.graph->n_blocks, 62);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_LINEAR), 124);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_HEAD), 1);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_EMBEDDING), 1);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_ATTENTION), 6);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_SCAN), 28);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_CONV), 28);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_NORM), 62 + 28 + 1);
    finish(&d);
}

static void test_nemotron_when_8b_then_the_counts_are_the_release(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.nemotron_h' '8b'");
    int64_t n = count_parameters(d.graph);
    assert_true(n == INT64_C(8100852736));
    assert_int_equal(d.graph->n_blocks, 52);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_LINEAR), 104);
    finish(&d);
}

static void test_nemotron_when_4b_or_9b_then_the_counts_are_the_release(void **state) {
    (void)state;
    static const struct {
        const char *expression;
        int64_t parameters;
        int blocks;
    } rows[] = {{"require 'models.nemotron_h' '4b'", INT64_C(4489223040), 52},
                {"require 'models.nemotron_h' '9b'", INT64_C(8888227328), 56}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        drawn d = draw_ok(rows[i].expression);
        assert_true(count_parameters(d.graph) == rows[i].parameters);
        assert_int_equal(d.graph->n_blocks, rows[i].blocks);
        finish(&d);
    }
}

static void test_nemotron_when_proxy_then_it_has_the_blocks_and_the_data_s_words(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.nemotron_h' '12b_proxy'");
    assert_int_equal(d.graph->n_blocks, 62);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_LINEAR), 124);
    const mpt_param *table = find_param(d.graph, "embeddings.weight");
    assert_non_null(table);
    assert_int_equal(d.graph->values[table->value].dims[0], 96);
    assert_int_equal(d.graph->values[table->value].dims[1], 64);
    finish(&d);
}

static void test_nemotron_when_attention_then_qkv_is_one_layer_of_three_parts(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.nemotron_h' '12b'");
    const mpt_layer *qkv = NULL;
    for (int i = 0; i < d.graph->n_layers; i++)
        if (strcmp(d.graph->layers[i].path, "layers.7.mixer.qkv_proj") == 0)
            qkv = &d.graph->layers[i];
    assert_non_null(qkv);
    assert_int_equal(qkv->block, 7);
    assert_int_equal(qkv->n_parts, 3);
    assert_string_equal(qkv->parts[0], "q_proj");
    assert_string_equal(qkv->parts[1], "k_proj");
    assert_string_equal(qkv->parts[2], "v_proj");
    assert_int_equal(qkv->in_features, 5120);
    assert_int_equal(qkv->out_features, 5120 + 2 * 1024);
    finish(&d);
}

static void test_nemotron_when_the_pattern_is_wrong_then_it_is_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    mpt_graph *graph = NULL;
    static const char size[] = "require 'models.nemotron_h' { hybrid_override_pattern = 'MX', "
                               "hidden_size = 32, intermediate_size = 64, "
                               "num_attention_heads = 4, num_key_value_heads = 2, "
                               "head_dim = 8, mamba_num_heads = 8, mamba_head_dim = 8, "
                               "ssm_state_size = 16, n_groups = 2, conv_kernel = 4 }";
    assert_int_equal(draw(ctx, size, &recipe, &graph), MPT_INVALID);
    assert_non_null(
        strstr(mpt_ctx_error(ctx)->message, "the pattern may hold M, *, - and E, not 'X'"));
    mpt_graph_destroy(graph);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
}

/* Nemotron-3-Nano-30B-A3B: 31.6 B parameters, of which a token meets 3.6 B. */
static void test_nemotron_when_nano_30b_then_the_counts_are_the_release(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.nemotron_h' 'nano30b-a3b'");
    int64_t active = 0;
    for (int i = 0; i < d.graph->n_params; i++) {
        const mpt_param *param = &d.graph->params[i];
        int64_t n = mpt_value_elements(&d.graph->values[param->value]);
        active += param->n_experts ? n / param->n_experts * 6 : n;
    }
    assert_true(count_parameters(d.graph) == INT64_C(31577940288));
    assert_true(active == INT64_C(3580076352));
    assert_int_equal(d.graph->n_blocks, 52);
    assert_int_equal(count_layers(d.graph, MPT_LAYER_ROUTER), 23);
    const mpt_param *bias = find_param(d.graph, "layers.1.mixer.gate.e_score_correction_bias");
    assert_non_null(bias);
    assert_non_null(find_param(d.graph, "layers.1.mixer.experts.up_proj.weight"));
    assert_non_null(find_param(d.graph, "layers.1.mixer.shared_experts.down_proj.weight"));
    finish(&d);
}

static void test_deepseek_when_tiny_then_dense_blocks_come_first(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.deepseek_moe' 'tiny'");
    assert_non_null(find_param(d.graph, "layers.0.mlp.gate_proj.weight"));
    assert_null(find_param(d.graph, "layers.0.mlp.gate.weight"));
    assert_non_null(find_param(d.graph, "layers.1.mlp.gate.e_score_correction_bias"));
    assert_non_null(find_param(d.graph, "layers.1.mlp.experts.gate_proj.weight"));
    assert_non_null(find_param(d.graph, "layers.1.mlp.shared_experts.up_proj.weight"));
    assert_int_equal(count_layers(d.graph, MPT_LAYER_ROUTER), 1);
    finish(&d);
}

/* ---- initial values ---- */

static void test_init_when_nemotron_then_it_is_mamba_ssm_s(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.nemotron_h' '12b_proxy'");
    static const struct {
        const char *name;
        mpt_init_kind kind;
    } rows[] = {
        {"layers.0.mixer.A_log", MPT_INIT_A_LOG},
        {"layers.0.mixer.D", MPT_INIT_ONE},
        {"layers.0.mixer.dt_bias", MPT_INIT_DT_BIAS},
        {"layers.0.mixer.conv1d.weight", MPT_INIT_UNIFORM},
        {"layers.0.mixer.conv1d.bias", MPT_INIT_UNIFORM},
        {"layers.0.norm.weight", MPT_INIT_ONE},
        {"layers.0.mixer.in_proj.weight", MPT_INIT_NORMAL},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        const mpt_param *param = find_param(d.graph, rows[i].name);
        assert_non_null(param);
        assert_int_equal(param->init.kind, rows[i].kind);
    }
    float out = find_param(d.graph, "layers.1.mixer.down_proj.weight")->init.a;
    assert_true(out > 0.00253f && out < 0.00255f); /* 0.02 / sqrt(62) */
    assert_true(find_param(d.graph, "layers.0.mixer.conv1d.weight")->init.a == 0.5f);
    finish(&d);
}

static void test_init_when_gpt2_then_residual_projections_are_scaled(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.gpt2' '124m'");
    assert_true(find_param(d.graph, "h.0.attn.c_attn.weight")->init.a == 0.02f);
    float out = find_param(d.graph, "h.11.mlp.c_proj.weight")->init.a;
    assert_true(out > 0.00408f && out < 0.00409f); /* 0.02 / sqrt(24) */
    assert_int_equal(find_param(d.graph, "h.0.attn.c_attn.bias")->init.kind, MPT_INIT_ZERO);
    assert_true(find_param(d.graph, "h.0.mlp.c_fc.weight")->transposed);
    finish(&d);
}

/* ---- gpt2 and mlp ---- */

static void test_gpt2_when_fields_are_given_then_the_graph_has_them(void **state) {
    (void)state;
    drawn d = draw_ok("require 'models.gpt2' { n_layer = 1, n_embd = 32, n_head = 4, "
                      "n_positions = 32, n_inner = 48, activation_function = 'gelu', "
                      "layer_norm_epsilon = 1e-3, initializer_range = 0.5, "
                      "tie_word_embeddings = false }");
    const mpt_param *head = find_param(d.graph, "lm_head.weight");
    assert_non_null(head);
    assert_true(head->init.a == 0.5f);
    assert_true(find_param(d.graph, "wpe.weight")->init.a == 0.25f);
    const mpt_param *up = find_param(d.graph, "h.0.mlp.c_fc.weight");
    assert_int_equal(d.graph->values[up->value].dims[0], 48);
    for (int i = 0; i < d.graph->n_nodes; i++) {
        const mpt_node *node = &d.graph->nodes[i];
        if (node->op == MPT_OP_gelu)
            assert_true(node->attrs.exact);
        if (node->op == MPT_OP_layernorm)
            assert_true(node->attrs.eps == 1e-3f);
    }
    finish(&d);
}

static void test_nemotron_when_fields_are_given_then_the_graph_has_them(void **state) {
    (void)state;
    drawn d = draw_ok(
        "require 'models.nemotron_h' { hybrid_override_pattern = 'M-', hidden_size = 32, "
        "intermediate_size = 64, num_attention_heads = 4, num_key_value_heads = 2, "
        "head_dim = 8, mamba_num_heads = 8, mamba_head_dim = 8, ssm_state_size = 16, "
        "n_groups = 2, conv_kernel = 4, use_conv_bias = false, tie_word_embeddings = true, "
        "rescale_prenorm_residual = false, initializer_range = 0.5 }");
    assert_null(find_param(d.graph, "layers.0.mixer.conv1d.bias"));
    assert_null(find_param(d.graph, "lm_head.weight"));
    assert_true(find_param(d.graph, "layers.0.mixer.out_proj.weight")->init.a == 0.5f);
    finish(&d);
}

static void test_gpt2_when_a_published_size_then_the_counts_are_its_own(void **state) {
    (void)state;
    static const struct {
        const char *size;
        int64_t parameters;
        int blocks;
    } rows[] = {{"124m", 124439808, 12},
                {"355m", 354823168, 24},
                {"774m", 774030080, 36},
                {"1558m", 1557611200, 48}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        mpt_graph *graph = NULL;
        char expression[64];
        snprintf(expression, sizeof expression, "require 'models.gpt2' '%s'", rows[i].size);
        assert_mpt_ok(ctx, draw(ctx, expression, &recipe, &graph));
        assert_true(count_parameters(graph) == rows[i].parameters);
        assert_int_equal(graph->n_blocks, rows[i].blocks);
        assert_int_equal(count_layers(graph, MPT_LAYER_LINEAR), 4 * rows[i].blocks);
        drawn d = {ctx, recipe, graph};
        finish(&d);
    }
}

static void test_small_models_when_drawn_then_they_take_the_data_s_words(void **state) {
    (void)state;
    static const char *const expressions[] = {
        "require 'models.gpt2' 'tiny'",
        "require 'models.mlp' 'tiny'",
        "require 'models.mlp' 'small'",
        "require 'models.llama' 'tiny'",
        "require 'models.transformer' '1.2b_proxy'",
        "require 'models.mlp' { layers = 1, width = 16, hidden = 16 }"};
    for (size_t i = 0; i < MPT_COUNT(expressions); i++) {
        drawn d = draw_ok(expressions[i]);
        assert_int_equal(d.graph->values[d.graph->logits].dims[1], 96);
        finish(&d);
    }
}

static void test_model_when_the_vocabulary_is_too_small_then_it_is_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    mpt_graph *graph = NULL;
    assert_int_equal(draw(ctx,
                          "require 'models.gpt2' { n_layer = 2, n_embd = 32, n_head = 4, "
                          "n_positions = 32, vocab_size = 95 }",
                          &recipe, &graph),
                     MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "95"));
    mpt_graph_destroy(graph);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
}

/* ---- the names of checkpoints ---- */

typedef char name_list[NAMES_MAX][NAME_BYTES];

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* The lines of the golden file, without the root that checkpoints put in front. */
static int read_golden(const char *model, const char *root, name_list out) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s_names.txt", MPT_TESTS_DIR, model);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int n = 0;
    char line[NAME_BYTES];
    while (fgets(line, sizeof line, file)) {
        assert_true(n < NAMES_MAX);
        line[strcspn(line, "\n")] = 0;
        size_t skip = strncmp(line, root, strlen(root)) == 0 ? strlen(root) : 0;
        snprintf(out[n++], NAME_BYTES, "%s", line + skip);
    }
    fclose(file);
    qsort(out, (size_t)n, NAME_BYTES, by_text);
    return n;
}

/* One name and its shape as a checkpoint has them: a fused layer by its parts. */
static int write_param(const mpt_graph *graph, const mpt_param *param, const int64_t *part_rows,
                       name_list out, int n) {
    const mpt_value *v = &graph->values[param->value];
    const mpt_layer *layer = &graph->layers[param->layer];
    int n_parts = layer->n_parts ? layer->n_parts : 1;
    for (int p = 0; p < n_parts; p++) {
        char *text = out[n++];
        int64_t dims[4];
        memcpy(dims, v->dims, sizeof dims);
        if (layer->n_parts) {
            const char *last = strrchr(layer->path, '.');
            snprintf(text, NAME_BYTES, "%.*s.%s.weight ", (int)(last - layer->path),
                     layer->path, layer->parts[p]);
            dims[0] = part_rows[p];
        } else {
            snprintf(text, NAME_BYTES, "%s ", param->name);
        }
        if (param->transposed) {
            dims[0] = v->dims[1];
            dims[1] = v->dims[0];
        }
        for (int i = 0; i < v->rank; i++) {
            size_t used = strlen(text);
            snprintf(text + used, NAME_BYTES - used, "%s%lld", i ? "x" : "",
                     (long long)dims[i]);
        }
    }
    return n;
}

static void compare_names(const char *model, const char *root, const char *expression,
                          const int64_t *part_rows) {
    static const int64_t no_parts[3] = {0};
    name_list *lists = calloc(2, sizeof *lists);
    assert_non_null(lists);
    drawn d = draw_ok(expression);
    int n_golden = read_golden(model, root, lists[0]), n = 0;
    for (int i = 0; i < d.graph->n_params; i++)
        n = write_param(d.graph, &d.graph->params[i], part_rows ? part_rows : no_parts,
                        lists[1], n);
    qsort(lists[1], (size_t)n, NAME_BYTES, by_text);
    assert_int_equal(n, n_golden);
    for (int i = 0; i < n; i++)
        assert_string_equal(lists[1][i], lists[0][i]);
    free(lists);
    finish(&d);
}

static void test_names_when_gpt2_then_they_are_the_checkpoint_s(void **state) {
    (void)state;
    compare_names("gpt2", "transformer.",
                  "require 'models.gpt2' { n_layer = 2, n_embd = 32, n_head = 4, "
                  "n_positions = 32, vocab_size = 96 }",
                  NULL);
}

static void test_names_when_nemotron_h_then_they_are_the_checkpoint_s(void **state) {
    (void)state;
    static const int64_t parts[] = {32, 16, 16};
    compare_names("nemotron_h", "model.",
                  "require 'models.nemotron_h' { hybrid_override_pattern = 'M-M*-', "
                  "hidden_size = 32, intermediate_size = 64, num_attention_heads = 4, "
                  "num_key_value_heads = 2, head_dim = 8, mamba_num_heads = 8, "
                  "mamba_head_dim = 8, ssm_state_size = 16, n_groups = 2, "
                  "conv_kernel = 4, vocab_size = 96 }",
                  parts);
}

static void test_names_when_llama_then_they_are_the_checkpoint_s(void **state) {
    (void)state;
    static const int64_t parts[] = {32, 16, 16};
    compare_names("llama", "model.",
                  "require 'models.llama' { hidden_size = 32, intermediate_size = 80, "
                  "num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, "
                  "vocab_size = 96 }",
                  parts);
}

/* ---- misuse of nn ---- */

static void refuse_graph(const char *body, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    mpt_graph *graph = NULL;
    char text[1024];
    snprintf(text, sizeof text,
             "local kept\nlocal m = model { name = 'm', sizes = { s = {} }, graph = "
             "function(nn, size)\n%s\nend }\nreturn recipe { model = m 's' }",
             body);
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "m.lua", text, strlen(text), NULL, &recipe));
    for (int i = 0; i < 2; i++) { /* the second drawing must tell the same */
        assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 4, 8, &graph));
        mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
        mpt_status status = recipe->source.build(recipe->source.ud, &nn, false);
        mpt_graph_destroy(graph);
        if (i == 0 && strstr(body, "kept"))
            continue;
        assert_int_equal(status, MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, message);
    }
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_nn_when_misused_then_the_model_s_line_is_named(void **state) {
    (void)state;
    refuse_graph("nn.linaer {}",
                 "m.lua:3: unknown name 'nn.linaer'; did you mean 'nn.linear'?");
    refuse_graph("local x = nn.embedding { 'e', nn.tokens(),\n outt = 4 }",
                 "m.lua:3: nn.embedding: no field 'outt'; did you mean 'out'?");
    refuse_graph("local x = nn.embedding { 'e', nn.tokens(),\n out = 'x' }",
                 "m.lua:4: nn.embedding.out: cannot be 'x'; give a whole number from 1 to "
                 "2147483647");
    refuse_graph("local x = nn.embedding { nn.tokens(), out = 4 }",
                 "m.lua:3: nn.embedding: the layer has no name; begin with its name: { "
                 "\"mixer.up_proj\", x, ... }");
    refuse_graph("nn.add(nn.tokens(), nil)", "m.lua:3: nn.add: an input cannot be nothing; "
                                             "inputs are what other nn words returned");
    refuse_graph("nn.add(nn.tokens(), 4)",
                 "m.lua:3: nn.add: an input cannot be a number; inputs "
                 "are what other nn words returned");
    refuse_graph("nn.embedding { 'e', nn.tokens(), out = 4, init = { norml = 1 } }",
                 "m.lua:3: nn.embedding.init.norml: no initial values 'norml'; give { normal = "
                 "0.02 }, { "
                 "uniform = 0.5 }, \"zeros\" or \"ones\"");
    refuse_graph("nn.dropout { nn.tokens(), p = 0.1 }",
                 "m.lua:3: nn.dropout: the layer has no name; begin with its name: { "
                 "\"mixer.up_proj\", x, ... }");
    refuse_graph("nn.dropout { 'd', nn.embedding { 'e', nn.tokens(), out = 4 }, p = 1 }",
                 "m.lua:3: d: dropout: p is 1, expected at least 0 and less than 1");
    refuse_graph("nn.scale { nn.tokens(), factor = 'x' }",
                 "m.lua:3: nn.scale.factor: cannot be 'x'; give a number other than 0, in "
                 "the range of FP32");
    refuse_graph("nn.scale { nn.tokens(), factor = -math.huge }",
                 "m.lua:3: nn.scale.factor: cannot be -inf; give a number other than 0, in "
                 "the range of FP32");
    refuse_graph("nn.scale(nn.embedding { 'e', nn.tokens(), out = 4 })",
                 "m.lua:3: nn.scale: factor is missing; write factor = ...");
    refuse_graph("nn.swiglu(nn.tokens())", "m.lua:3: swiglu: 1 inputs, expected 2");
    refuse_graph("", "m.lua:2: m: the graph has no loss; end it with nn.cross_entropy(logits)");
    refuse_graph(
        "if kept then nn.gelu(kept) end kept = nn.tokens()",
        "m.lua:3: nn.gelu: an input belongs to another graph; draw every value anew in "
        "graph = function(nn, size)");
    refuse_graph("error 'mine'", "m.lua:3: mine");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_nemotron_when_12b_then_the_counts_are_the_release),
    cmocka_unit_test(test_nemotron_when_8b_then_the_counts_are_the_release),
    cmocka_unit_test(test_nemotron_when_4b_or_9b_then_the_counts_are_the_release),
    cmocka_unit_test(test_nemotron_when_proxy_then_it_has_the_blocks_and_the_data_s_words),
    cmocka_unit_test(test_nemotron_when_attention_then_qkv_is_one_layer_of_three_parts),
    cmocka_unit_test(test_nemotron_when_nano_30b_then_the_counts_are_the_release),
    cmocka_unit_test(test_deepseek_when_tiny_then_dense_blocks_come_first),
    cmocka_unit_test(test_nemotron_when_the_pattern_is_wrong_then_it_is_refused),
    cmocka_unit_test(test_init_when_nemotron_then_it_is_mamba_ssm_s),
    cmocka_unit_test(test_init_when_gpt2_then_residual_projections_are_scaled),
    cmocka_unit_test(test_gpt2_when_fields_are_given_then_the_graph_has_them),
    cmocka_unit_test(test_nemotron_when_fields_are_given_then_the_graph_has_them),
    cmocka_unit_test(test_gpt2_when_a_published_size_then_the_counts_are_its_own),
    cmocka_unit_test(test_small_models_when_drawn_then_they_take_the_data_s_words),
    cmocka_unit_test(test_model_when_the_vocabulary_is_too_small_then_it_is_refused),
    cmocka_unit_test(test_names_when_gpt2_then_they_are_the_checkpoint_s),
    cmocka_unit_test(test_names_when_nemotron_h_then_they_are_the_checkpoint_s),
    cmocka_unit_test(test_names_when_llama_then_they_are_the_checkpoint_s),
    cmocka_unit_test(test_nn_when_misused_then_the_model_s_line_is_named),
};
MPT_TEST_MAIN(cases)
