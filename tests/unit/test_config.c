/* model.from_config: models from Hugging Face's config.json, and what it refuses. */
#include "lua_test.h"

#include <stdlib.h>
#include <unistd.h>

#include "allowance.h"
#include "graph/nn.h"

static char folder[] = "/tmp/mpt_config_XXXXXX";

static void write_config(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"c.json", "recipe.lua"};
    char path[128];
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

/* A recipe held in memory whose model is this expression. */
static mpt_status load(mpt_ctx *ctx, const char *expression, mpt_recipe **out) {
    char text[1024];
    snprintf(text, sizeof text, "return recipe {\n model = %s }", expression);
    return mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, out);
}

/* The file's text must be refused at the recipe's line, with this behind the file's path. */
static void refuse_file(const char *text, const char *message) {
    char expression[256], whole[512];
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    write_config("c.json", text);
    snprintf(expression, sizeof expression, "model.from_config '%s/c.json'", folder);
    snprintf(whole, sizeof whole, "r.lua:2: %s/c.json%s", folder, message);
    assert_int_equal(load(ctx, expression, &recipe), MPT_INVALID);
    assert_memory_equal(mpt_ctx_error(ctx)->message, whole, strlen(whole));
    mpt_lua_finish(ctx, recipe);
}

static mpt_recipe *load_file(mpt_ctx *ctx, const char *text) {
    char expression[256];
    mpt_recipe *recipe = NULL;
    write_config("c.json", text);
    snprintf(expression, sizeof expression, "model.from_config '%s/c.json'", folder);
    assert_mpt_ok(ctx, load(ctx, expression, &recipe));
    return recipe;
}

/* Two expressions must mean the same model. */
static void compare(const char *a, const char *b, bool same) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *one = NULL, *other = NULL;
    char hash[17], other_hash[17];
    assert_mpt_ok(ctx, load(ctx, a, &one));
    assert_mpt_ok(ctx, load(ctx, b, &other));
    assert_mpt_ok(ctx, mpt_recipe_hash(one, hash));
    assert_mpt_ok(ctx, mpt_recipe_hash(other, other_hash));
    assert_int_equal(strcmp(hash, other_hash) == 0, same);
    mpt_recipe_destroy(one);
    mpt_lua_finish(ctx, other);
}

#define GPT2       "\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 32, \"n_head\": 4, "
#define GPT2_WHOLE GPT2 "\"n_positions\": 32"
#define HYBRID                                                                                 \
    "\"model_type\": \"nemotron_h\", \"hidden_size\": 32, \"intermediate_size\": 64, "         \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "                \
    "\"mamba_num_heads\": 8, \"mamba_head_dim\": 8, \"ssm_state_size\": 16, "                  \
    "\"n_groups\": 2, \"conv_kernel\": 4, "

#define LLAMA                                                                                  \
    "\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 80, "              \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "

#define EXPERTS                                                                                \
    "\"model_type\": \"deepseek_v3\", \"hidden_size\": 32, \"intermediate_size\": 64, "        \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "       \
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, "

/* ---- what is read ---- */

/* Widths of a model derived from one with its size. */
static void test_derive_when_the_base_is_a_model_then_its_size_is_changed(void **state) {
    (void)state;
    compare("derive(require 'models.llama' 'tiny', { hidden_size = 64 })",
            "require 'models.llama' { hidden_size = 64, intermediate_size = 64,"
            "num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2 }",
            true);
    compare("derive(require 'models.gpt2' 'tiny', { n_layer = 3 })",
            "require 'models.gpt2' { n_layer = 3, n_embd = 32, n_head = 4, n_positions = 64 }",
            true);
    compare("derive(require 'models.llama' '1b', { rope_scaling = { factor = 8.0 } })",
            "derive(require 'models.llama' '1b', { rope_scaling = replace { factor = 8.0,"
            "rope_type = 'llama3', low_freq_factor = 1.0, high_freq_factor = 4.0,"
            "original_max_position_embeddings = 8192 } })",
            true);
    compare(
        "derive(derive(require 'models.nemotron_h' '8b_proxy', { n_groups = 4 }),"
        "{ hidden_size = 32 })",
        "derive(require 'models.nemotron_h' '8b_proxy', { hidden_size = 32, n_groups = 4 })",
        true);
    compare("derive(model.from_config '" MPT_TESTS_DIR "/oracle/llama', { hidden_size = 64 })",
            "model.from_config('" MPT_TESTS_DIR "/oracle/llama', { hidden_size = 64 })", true);
}

static void test_derive_when_a_model_has_no_such_field_then_it_is_refused(void **state) {
    (void)state;
    mpt_lua_refuse("return recipe { model = derive(require 'models.llama' 'tiny',\n"
                   "{ hidden_sise = 64 }) }",
                   "r.lua:2: llama: no size field 'hidden_sise'; did you mean 'hidden_size'?");
    mpt_lua_refuse("return recipe { model = derive(require 'models.llama' 'tiny', { 3 }) }",
                   "r.lua:1: llama: a number stands here without a name; give it a name: name "
                   "= value");
    mpt_lua_refuse("return recipe { model = derive(require 'models.llama' 'tiny',\n"
                   "{ hidden_size = 'x' }) }",
                   "r.lua:2: model.hidden_size: cannot be 'x'; give an integer of at least 1");
    mpt_lua_refuse("return recipe { model = derive(require 'models.llama' 'tiny',\n"
                   "{ hidden_act = 'gelu' }) }",
                   "r.lua:2: llama: hidden_act: cannot be \"gelu\"; llama computes with "
                   "\"silu\" only");
}

static void test_config_when_gpt2_then_it_is_the_table_of_its_fields(void **state) {
    (void)state;
    compare("model.from_config '" MPT_TESTS_DIR "/oracle/gpt2/config.json'",
            "require 'models.gpt2' { n_layer = 2, n_embd = 32, n_head = 4, n_positions = 32, "
            "vocab_size = 96, attn_pdrop = 0, embd_pdrop = 0, resid_pdrop = 0,"
            "scale_attn_weights = true, scale_attn_by_inverse_layer_idx = false,"
            "reorder_and_upcast_attn = false, add_cross_attention = false }",
            true);
}

static void test_config_when_nemotron_h_then_blocks_are_the_pattern(void **state) {
    (void)state;
    compare("model.from_config('" MPT_TESTS_DIR "/oracle/nemotron_h', "
            "{ layers_block_type = {'mamba', 'mlp', 'mamba', 'attention', 'mlp'} })",
            "model.from_config('" MPT_TESTS_DIR "/oracle/nemotron_h', "
            "{ hybrid_override_pattern = 'M-M*-' })",
            true);
}

static void test_config_when_drawn_then_parameters_are_the_checkpoint_s(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "nemotron_h", "llama"};
    static const int n_params[] = {28, 30, 17}; /* the query, key and value of one are fused */
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        char expression[256];
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        mpt_graph *graph = NULL;
        snprintf(expression, sizeof expression,
                 "model.from_config '" MPT_TESTS_DIR "/oracle/%s'", names[i]);
        assert_mpt_ok(ctx, load(ctx, expression, &recipe));
        assert_string_equal(recipe->model.name, names[i]);
        assert_string_equal(recipe->model.size, "custom");
        assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 16, 96, &graph));
        mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
        assert_mpt_ok(ctx, recipe->source.build(recipe->source.ud, &nn, false));
        assert_int_equal(graph->n_params, n_params[i]);
        assert_int_equal(graph->values[graph->logits].dims[1], 96);
        mpt_graph_destroy(graph);
        mpt_lua_finish(ctx, recipe);
    }
}

static void test_config_when_gpt2_drops_then_dropout_is_drawn(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    int n = 0;
    mpt_recipe *recipe =
        load_file(ctx, "{" GPT2_WHOLE ", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.25}");
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 16, 96, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    assert_mpt_ok(ctx, recipe->source.build(recipe->source.ud, &nn, false));
    for (int i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == MPT_OP_dropout;
    assert_int_equal(n, 5);
    mpt_graph_destroy(graph);
    mpt_lua_finish(ctx, recipe);
}

static void test_config_when_llama_then_heads_and_rope_are_read(void **state) {
    (void)state;
    compare("model.from_config '" MPT_TESTS_DIR "/oracle/llama'",
            "require 'models.llama' { hidden_size = 32, intermediate_size = 80, head_dim = 8,"
            "num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,"
            "rms_norm_eps = 1e-5, rope_parameters = { rope_theta = 10000.0,"
            "rope_type = 'default' }, max_position_embeddings = 64, vocab_size = 96,"
            "tie_word_embeddings = false, attention_bias = false, mlp_bias = false,"
            "initializer_range = 0.02, hidden_act = 'silu', attention_dropout = 0,"
            "pretraining_tp = 1 }",
            true);
    refuse_file(
        "{" LLAMA "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0}}",
        ": rope_type: cannot be \"yarn\"; llama computes with \"default\", \"linear\" or "
        "\"llama3\" only");
    refuse_file("{" LLAMA "\"hidden_act\": \"gelu\"}", ": hidden_act: cannot be \"gelu\"");
    compare("require 'models.llama' { hidden_size = 32, intermediate_size = 80,"
            "num_hidden_layers = 2, num_attention_heads = 4 }",
            "require 'models.llama' { hidden_size = 32, intermediate_size = 80,"
            "num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 4 }",
            true);
}

static void test_config_when_infinity_is_bare_or_wrapped_then_it_is_read(void **state) {
    (void)state;
    static const char *const ends[] = {"Infinity", "{\"__float__\": \"Infinity\"}"};
    for (size_t i = 0; i < MPT_COUNT(ends); i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{" HYBRID "\"hybrid_override_pattern\": \"M-\", \"n\": [-Infinity, null],\n"
                 "\"quote\": \"\\\"Infinity\", \"time_step_limit\": [0.0, %s]}",
                 ends[i]);
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_lua_finish(ctx, load_file(ctx, text));
    }
    refuse_file("{" HYBRID "\"hybrid_override_pattern\": \"M-\", "
                "\"time_step_limit\": [0.0, 0.5]}",
                ": time_step_limit: cannot be other than {0, infinity}: steps are not clamped "
                "here");
}

static void test_config_when_changes_are_given_then_they_win(void **state) {
    (void)state;
    write_config("c.json", "{" GPT2_WHOLE ", \"attn_pdrop\": 0.1}");
    char expression[256];
    snprintf(expression, sizeof expression,
             "model.from_config('%s/c.json', { attn_pdrop = 0, n_layer = 3 })", folder);
    compare(expression,
            "require 'models.gpt2' { n_layer = 3, n_embd = 32, n_head = 4, n_positions = 32, "
            "attn_pdrop = 0 }",
            true);
}

/* A change must be a field of the model or another spelling of one; a file's are left aside. */
static void test_config_when_a_change_is_misspelt_then_it_is_refused(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"n_laier = 3", "no size field 'n_laier' to change; did you mean 'n_layer'?"},
        {"wholly_other = 3", "no size field 'wholly_other' to change"},
        {"3", "a number stands here without a name"},
        {"n_layer = 'x'", "n_layer: cannot be 'x'; give an integer of at least 1"},
    };
    write_config("c.json", "{" GPT2_WHOLE ", \"wholly_other\": 2, \"n_laier\": 5}");
    for (size_t i = 0; i < MPT_COUNT(changes); i++) {
        char expression[256];
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        snprintf(expression, sizeof expression, "model.from_config('%s/c.json', { %s })",
                 folder, changes[i][0]);
        assert_int_equal(load(ctx, expression, &recipe), MPT_INVALID);
        if (!strstr(mpt_ctx_error(ctx)->message, changes[i][1]))
            fail_msg("%s: %s", changes[i][0], mpt_ctx_error(ctx)->message);
        mpt_lua_finish(ctx, recipe);
    }
    compare("model.from_config('" MPT_TESTS_DIR "/oracle/llama', { model_type = 'llama' })",
            "model.from_config '" MPT_TESTS_DIR "/oracle/llama'", true);
}

static void test_config_when_deepseek_v3_then_rope_and_counts_of_0_are_read(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = load_file(
        ctx, "{" EXPERTS "\"n_shared_experts\": 0, \"first_k_dense_replace\": 0, "
             "\"max_position_embeddings\": 64, "
             "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000}}");
    assert_non_null(strstr(recipe->model.fields, "model.n_shared_experts = 0\n"));
    assert_non_null(strstr(recipe->model.fields, "rope_theta = 500000"));
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 16, 96, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    assert_mpt_ok(ctx, recipe->source.build(recipe->source.ud, &nn, false));
    int turned = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != MPT_OP_rope)
            continue;
        assert_true(graph->nodes[i].attrs.rope.theta == 500000.0f);
        turned++;
    }
    assert_int_equal(turned, 4);
    mpt_graph_destroy(graph);
    mpt_lua_finish(ctx, recipe);
    ctx = mpt_test_ctx();
    recipe = load_file(ctx, "{" HYBRID "\"hybrid_override_pattern\": \"ME\", "
                            "\"n_shared_experts\": 0, \"n_routed_experts\": 4, "
                            "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32}");
    assert_non_null(strstr(recipe->model.fields, "model.n_shared_experts = 0\n"));
    mpt_lua_finish(ctx, recipe);
    compare("model.from_config('" MPT_TESTS_DIR "/oracle/llama',"
            "{ rope_parameters = false, rope_theta = 10000.0 })",
            "derive(model.from_config('" MPT_TESTS_DIR "/oracle/llama',"
            "{ rope_parameters = false }), { rope_theta = 10000.0 })",
            true);
}

static void test_config_when_beside_the_recipe_then_it_is_found(void **state) {
    (void)state;
    char path[128];
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    write_config("c.json", "{" GPT2_WHOLE "}");
    write_config("recipe.lua", "return recipe { model = model.from_config 'c.json' }");
    snprintf(path, sizeof path, "%s/recipe.lua", folder);
    assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, path, NULL, &recipe));
    assert_string_equal(recipe->model.name, "gpt2");
    mpt_lua_finish(ctx, recipe);
    mpt_lua_refuse(
        "return recipe {\nmodel = model.from_config 'c.json' }",
        "r.lua:2: model.from_config: there is no c.json; a path starts at the working "
        "directory or at the recipe's folder");
}

static void test_size_when_a_table_differs_then_the_recipe_s_hash_does(void **state) {
    (void)state;
#define SIZE(n, more)                                                                          \
    "require 'models.gpt2' { n_layer = " #n                                                    \
    ", n_embd = 32, n_head = 4, n_positions = 32 " more "}"
    compare(SIZE(2, ""), SIZE(2, ", layer_norm_epsilon = 1e-5"), true);
    compare(SIZE(2, ""), SIZE(3, ""), false);
    compare(SIZE(2, ""), SIZE(2, ", layer_norm_epsilon = 1e-6"), false);
}

/* ---- what is refused ---- */

static void test_config_when_json_is_malformed_then_line_and_column_are_told(void **state) {
    (void)state;
    refuse_file("{\n \"n_layer\": 2,\n \"n_head\" 4\n}", ":3:");
    refuse_file("", ":1:0: '[' or '{' expected near end of file; it should be");
    refuse_file("{\"n\": Infinity, x}", ":1:17: string or '}' expected near 'x'");
    refuse_file("[1]", ": holds no object; it should be a config.json");
    refuse_file("{\"a\": 1, \"a\": 2}", ":1:12: duplicate object key near '\"a\"'");
    refuse_file("{\"n_layer\": NaN}", ":1:");
    refuse_file("{\"n_layer\": 123456789012345678901234567890}", ":1:");
}

static void test_config_when_the_model_is_unknown_then_it_is_named(void **state) {
    (void)state;
    refuse_file("{\"n_layer\": 2}", ": has no model_type; it should be");
    refuse_file("{\"model_type\": \"bert\"}",
                ": model_type: there is no model 'bert'; models are");
    refuse_file("{\"model_type\": \"../x\"}", ": model_type: there is no model '../x'; ");
    refuse_file("{\"model_type\": 4}", ": has no model_type; ");
}

static void test_config_when_a_field_is_missing_or_bad_then_it_is_named(void **state) {
    (void)state;
    refuse_file("{" GPT2 "\"n_positions\": null}",
                ": the file has no 'n_positions'; gpt2 asks for it: n_positions = 1024");
    refuse_file("{" GPT2 "\"n_positions\": \"32\"}",
                ": n_positions: cannot be '32'; give an integer of at least 1");
    refuse_file("{" GPT2_WHOLE ", \"n_inner\": 1.5}",
                ": n_inner: cannot be 1.5; give an integer of at least 0");
    refuse_file("{" HYBRID "\"hybrid_override_pattern\": \"M-\", \"num_hidden_layers\": 3}",
                ": num_hidden_layers: cannot be 3; the pattern has 2 blocks");
    refuse_file("{" HYBRID "\"hybrid_override_pattern\": \"ME\"}",
                ": moe_intermediate_size: missing, and the pattern has blocks of experts (E)");
    refuse_file("{" HYBRID "\"layers_block_type\": [\"mamba\", \"rwkv\"]}",
                ": layers_block_type[2]: no block 'rwkv'; there are mamba,");
    refuse_file("{" HYBRID "\"layers_block_type\": [\"mamba\"], "
                "\"hybrid_override_pattern\": \"-\"}",
                ": layers_block_type: says M, and hybrid_override_pattern -");
}

static void
test_config_when_a_field_would_change_the_computation_then_it_is_refused(void **state) {
    (void)state;
    static const char *const gpt2[][2] = {
        {"\"activation_function\": \"relu\"",
         "activation_function: cannot be \"relu\"; gpt2 computes with \"gelu_new\", "
         "\"gelu_pytorch_tanh\" or \"gelu\" only; model.from_config("},
        {"\"scale_attn_by_inverse_layer_idx\": true",
         "scale_attn_by_inverse_layer_idx: cannot be true; gpt2 computes with false only"},
        {"\"scale_attn_weights\": false", "scale_attn_weights: cannot be false"},
        {"\"attn_pdrop\": 0.1", "attn_pdrop: cannot be 0.1; gpt2 computes with 0 only"},
        {"\"add_cross_attention\": true", "add_cross_attention: cannot be true"},
    };
    static const char *const hybrid[][2] = {
        {"\"use_bias\": true", "use_bias: cannot be true"},
        {"\"mlp_bias\": true", "mlp_bias: cannot be true"},
        {"\"attention_bias\": true", "attention_bias: cannot be true"},
        {"\"mamba_proj_bias\": true", "mamba_proj_bias: cannot be true"},
        {"\"mlp_hidden_act\": \"silu\"", "mlp_hidden_act: cannot be \"silu\""},
        {"\"mamba_hidden_act\": \"gelu\"", "mamba_hidden_act: cannot be \"gelu\""},
        {"\"attention_dropout\": 0.1", "attention_dropout: cannot be 0.1"},
        {"\"hidden_dropout\": 0.1", "hidden_dropout: cannot be 0.1"},
        {"\"time_step_max\": 0.2", "time_step_max: cannot be 0.2"},
        {"\"sliding_window\": 16, \"max_position_embeddings\": 64",
         "sliding_window: cannot be 16: attention sees all tokens before here"},
        {"\"moe_latent_size\": 16", "moe_latent_size: cannot be 16"},
        {"\"n_shared_experts\": 2",
         "n_shared_experts: cannot be 2; nemotron_h computes with 0 or 1 only"},
    };
    char text[1024], message[512];
    for (size_t i = 0; i < MPT_COUNT(gpt2); i++) {
        snprintf(text, sizeof text, "{" GPT2_WHOLE ", %s}", gpt2[i][0]);
        snprintf(message, sizeof message, ": %s", gpt2[i][1]);
        refuse_file(text, message);
    }
    for (size_t i = 0; i < MPT_COUNT(hybrid); i++) {
        snprintf(text, sizeof text, "{" HYBRID "\"hybrid_override_pattern\": \"M-\", %s}",
                 hybrid[i][0]);
        snprintf(message, sizeof message, ": %s", hybrid[i][1]);
        refuse_file(text, message);
    }
}

static void test_config_when_rope_or_windows_are_not_computed_then_refused(void **state) {
    (void)state;
    static const char *const llama[][2] = {
        {"\"partial_rotary_factor\": 0.5", "partial_rotary_factor: cannot be 0.5"},
        {"\"rope_interleaved\": true", "rope_interleaved: cannot be true"},
        {"\"logit_softcapping\": 30.0", "logit_softcapping: cannot be 30"},
        {"\"final_logit_softcapping\": 30.0", "final_logit_softcapping: cannot be 30"},
        {"\"attn_logit_softcapping\": 50.0", "attn_logit_softcapping: cannot be 50"},
        {"\"num_local_experts\": 8", "num_local_experts: cannot be 8"},
        {"\"sliding_window\": 16, \"max_position_embeddings\": 64",
         "sliding_window: cannot be 16: attention sees all tokens before here"},
        {"\"sliding_window\": 16, \"layer_types\": [\"full_attention\", "
         "\"sliding_attention\"]",
         "layer_types[2]: cannot be \"sliding_attention\": attention sees all tokens"},
        {"\"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 10000}",
         "rope_theta: cannot be 500: the table of rope says 10000; give one of them"},
    };
    static const char *const deepseek[][2] = {
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40}",
         "rope_type: cannot be \"yarn\"; deepseek_moe computes with"},
        {"\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 500000}",
         "rope_type: cannot be \"yarn\"; deepseek_moe computes with"},
        {"\"rope_theta\": 500, \"rope_scaling\": {\"rope_theta\": 10000}",
         "rope_theta: cannot be 500: the table of rope says 10000; give one of them"},
        {"\"partial_rotary_factor\": 0.5", "partial_rotary_factor: cannot be 0.5"},
        {"\"kv_lora_rank\": 512", "kv_lora_rank: cannot be 512"},
    };
    char text[1024], message[512];
    for (size_t i = 0; i < MPT_COUNT(llama); i++) {
        snprintf(text, sizeof text, "{" LLAMA "%s}", llama[i][0]);
        snprintf(message, sizeof message, ": %s", llama[i][1]);
        refuse_file(text, message);
    }
    for (size_t i = 0; i < MPT_COUNT(deepseek); i++) {
        snprintf(text, sizeof text, "{" EXPERTS "%s}", deepseek[i][0]);
        snprintf(message, sizeof message, ": %s", deepseek[i][1]);
        refuse_file(text, message);
    }
}

static void test_config_when_called_wrongly_then_the_way_is_shown(void **state) {
    (void)state;
    static const char way[] = "; write model = model.from_config \"gpt2/config.json\"";
    static const char *const calls[][2] = {
        {"model.from_config { 'a' }", "takes a path, and a table of changes"},
        {"model.from_config()", "takes a path, and a table of changes"},
        {"model.from_config('a', 2)", "takes a path, and a table of changes"},
        {"model.from_config ''", "the path is empty"},
        {"model.from_config 'a\\nb'", "the path is no plain text"},
    };
    for (size_t i = 0; i < MPT_COUNT(calls); i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, "return recipe {\nmodel = %s }", calls[i][0]);
        snprintf(message, sizeof message, "r.lua:2: model.from_config: %s%s", calls[i][1], way);
        mpt_lua_refuse(text, message);
    }
    mpt_lua_refuse("return recipe { model = model.from_confg 'a' }",
                   "r.lua:1: unknown name 'model.from_confg'; did you mean "
                   "'model.from_config'?");
}

static void test_model_when_its_parts_are_no_tables_then_they_are_refused(void **state) {
    (void)state;
    mpt_lua_refuse("local m = model { name = 'm', sizes = { a = {} }, graph = print,\n"
                   "defaults = 2 }\nreturn recipe { model = m 'a' }",
                   "r.lua:2: model.defaults: cannot be a number; give a table of fields");
    mpt_lua_refuse("local m = model { name = 'm', sizes = { a = {} }, graph = print,\n"
                   "config = {} }\nreturn recipe { model = m 'a' }",
                   "r.lua:2: model.config: cannot be a table; write config = function(fields) "
                   "... end");
    mpt_lua_refuse("local m = model { name = 'm', sizes = { a = { w = 1 } }, graph = print,\n"
                   "config = function(f) return 3 end }\nreturn recipe { model = m { w = 1 } }",
                   "r.lua:3: m: config: the model's function cannot return a number; return a "
                   "text that says why, or nothing");
}

static void test_model_when_a_part_is_of_another_kind_then_it_is_refused(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"name = 3, sizes = { a = {} }, graph = print", "a",
         "r.lua:1: model.name: cannot be a number; write name = \"gpt2\""},
        {"sizes = { a = {} }, graph = print", "a",
         "r.lua:1: model.name: missing; write name = \"gpt2\""},
        {"name = 'm', graph = print", "a",
         "r.lua:1: model.sizes: missing; write sizes = { tiny = { ... } }"},
        {"name = 'm', sizes = 3, graph = print", "a",
         "r.lua:1: model.sizes: cannot be a number; write sizes = { tiny = { ... } }"},
        {"name = 'm', sizes = { t = 3 }, graph = print", "t",
         "r.lua:1: model.sizes.t: cannot be a number; give a table of fields"},
        {"name = 'm', sizes = {}, graph = print", "t",
         "r.lua:2: m: no size 't'; it names none: give a table of fields"},
        {"name = 'm', sizes = { a = {} }, graph = 3", "a",
         "r.lua:1: model.graph: cannot be a number; write graph = function(nn, size) ... end"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, "local m = model { %s }\nreturn recipe { model = m '%s' }",
                 rows[i][0], rows[i][1]);
        mpt_lua_refuse(text, rows[i][2]);
    }
    mpt_lua_refuse("local m = model { name = 'm', sizes = {}, graph = print }\n"
                   "return recipe { model = m }",
                   "r.lua:2: model: cannot be a model without a size; give its size, a table "
                   "of fields");
}

static void test_size_when_only_some_values_are_computed_then_others_are_refused(void **state) {
    (void)state;
    mpt_lua_refuse("local gpt2 = require 'models.gpt2'\nreturn recipe { model = gpt2 {\n"
                   "n_layer = 2, n_embd = 32, n_head = 4, n_positions = 32,\n"
                   "activation_function = 'relu' } }",
                   "r.lua:4: gpt2: activation_function: cannot be \"relu\"; gpt2 computes with "
                   "\"gelu_new\", \"gelu_pytorch_tanh\" or \"gelu\" only");
}

/* ---- memory ---- */

static void test_config_when_memory_ends_anywhere_then_nothing_is_lost(void **state) {
    (void)state;
    mpt_status status = MPT_OUT_OF_MEMORY;
    for (long left = 2; status != MPT_OK; left += 1 + left / 16) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, left);
        mpt_recipe *recipe = NULL;
        status = load(ctx, "model.from_config '" MPT_TESTS_DIR "/oracle/nemotron_h'", &recipe);
        assert_true(status == MPT_OK || status == MPT_OUT_OF_MEMORY);
        mpt_lua_finish(ctx, recipe);
        assert_int_equal(a.live, 0);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_config_when_gpt2_then_it_is_the_table_of_its_fields),
    cmocka_unit_test(test_config_when_nemotron_h_then_blocks_are_the_pattern),
    cmocka_unit_test(test_config_when_drawn_then_parameters_are_the_checkpoint_s),
    cmocka_unit_test(test_config_when_gpt2_drops_then_dropout_is_drawn),
    cmocka_unit_test(test_config_when_llama_then_heads_and_rope_are_read),
    cmocka_unit_test(test_config_when_infinity_is_bare_or_wrapped_then_it_is_read),
    cmocka_unit_test(test_config_when_changes_are_given_then_they_win),
    cmocka_unit_test(test_derive_when_the_base_is_a_model_then_its_size_is_changed),
    cmocka_unit_test(test_derive_when_a_model_has_no_such_field_then_it_is_refused),
    cmocka_unit_test(test_config_when_a_change_is_misspelt_then_it_is_refused),
    cmocka_unit_test(test_config_when_deepseek_v3_then_rope_and_counts_of_0_are_read),
    cmocka_unit_test(test_config_when_beside_the_recipe_then_it_is_found),
    cmocka_unit_test(test_size_when_a_table_differs_then_the_recipe_s_hash_does),
    cmocka_unit_test(test_config_when_json_is_malformed_then_line_and_column_are_told),
    cmocka_unit_test(test_config_when_the_model_is_unknown_then_it_is_named),
    cmocka_unit_test(test_config_when_a_field_is_missing_or_bad_then_it_is_named),
    cmocka_unit_test(test_config_when_a_field_would_change_the_computation_then_it_is_refused),
    cmocka_unit_test(test_config_when_rope_or_windows_are_not_computed_then_refused),
    cmocka_unit_test(test_config_when_called_wrongly_then_the_way_is_shown),
    cmocka_unit_test(test_model_when_its_parts_are_no_tables_then_they_are_refused),
    cmocka_unit_test(test_model_when_a_part_is_of_another_kind_then_it_is_refused),
    cmocka_unit_test(test_size_when_only_some_values_are_computed_then_others_are_refused),
    cmocka_unit_test(test_config_when_memory_ends_anywhere_then_nothing_is_lost),
};

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, make_folder, remove_folder);
}
