/* Which tensors a checkpoint has for a model: those of Hugging Face's, by name and shape. */
#include "weights_case.h"

#include "graph/nn.h"
#include "lua_test.h"
#include "mpt/model.h"

/* A map of a model's full size; nothing of it is allocated. */
typedef struct map_case {
    weights_case c;
    mpt_weights_map map;
} map_case;

static void open_map(map_case *m, const char *model, mpt_weights_layout layout) {
    char text[1024];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    m->c = (weights_case){.ctx = mpt_test_ctx()};
    snprintf(text, sizeof text,
             "return recipe { name = 'w', model = %s, data = synthetic { vocab = 96 }, train = "
             "{ steps = 1, batch = 1, "
             "micro_batch = 1, sequence = 16, lr = constant { peak = 1 } } }",
             model);
    options.model = MPT_MODEL_FULL;
    options.n_threads = 1;
    m->c.recipe = mpt_lua_load(m->c.ctx, text);
    assert_mpt_ok(m->c.ctx, mpt_compile(m->c.recipe, &options, &m->c.program));
    assert_mpt_ok(m->c.ctx,
                  mpt_weights_map_create(m->c.program->phases[0]->graph, layout, &m->map));
}

static void close_map(map_case *m) {
    mpt_weights_map_destroy(&m->map);
    weights_close(&m->c);
}

static int64_t all_elements(const mpt_weights_map *map) {
    int64_t n = 0;
    for (int i = 0; i < map->n; i++)
        n += mpt_weight_elements(&map->weights[i]);
    return n;
}

static void assert_weight(const mpt_weights_map *map, const char *name, int64_t rows,
                          int64_t columns) {
    int i = mpt_name_index_find(&map->names, name);
    if (i < 0 || i >= map->n)
        fail_msg("no tensor %s", name);
    assert_int_equal(map->weights[i].rank, columns ? 2 : 1);
    assert_int_equal(map->weights[i].dims[0], rows);
    if (columns)
        assert_int_equal(map->weights[i].dims[1], columns);
}

/* The gpt2 of the hub, without the root that it lacks. */
static void test_map_when_gpt2_124m_then_as_on_the_hub(void **s) {
    (void)s;
    static const struct {
        const char *name;
        int64_t rows, columns;
    } layer[] = {
        {"ln_1.weight", 768, 0},           {"ln_1.bias", 768, 0},
        {"attn.c_attn.weight", 768, 2304}, {"attn.c_attn.bias", 2304, 0},
        {"attn.c_proj.weight", 768, 768},  {"attn.c_proj.bias", 768, 0},
        {"ln_2.weight", 768, 0},           {"ln_2.bias", 768, 0},
        {"mlp.c_fc.weight", 768, 3072},    {"mlp.c_fc.bias", 3072, 0},
        {"mlp.c_proj.weight", 3072, 768},  {"mlp.c_proj.bias", 768, 0},
    };
    map_case m;
    open_map(&m, "require 'models.gpt2' '124m'", MPT_WEIGHTS_HF);
    assert_int_equal(m.map.n, 4 + 12 * 12);
    assert_int_equal(all_elements(&m.map), 124439808);
    assert_weight(&m.map, "wte.weight", 50257, 768);
    assert_weight(&m.map, "wpe.weight", 1024, 768);
    assert_weight(&m.map, "ln_f.weight", 768, 0);
    assert_weight(&m.map, "ln_f.bias", 768, 0);
    for (int i = 0; i < 12; i++)
        for (size_t k = 0; k < MPT_COUNT(layer); k++) {
            char name[64];
            snprintf(name, sizeof name, "h.%d.%s", i, layer[k].name);
            assert_weight(&m.map, name, layer[k].rows, layer[k].columns);
        }
    assert_int_equal(m.map.n_aliases, 1);
    assert_string_equal(m.map.aliases[0].name, "lm_head.weight");
    assert_true(m.map.aliases[0].rootless);
    assert_string_equal(m.map.weights[m.map.aliases[0].weight].name, "wte.weight");
    assert_string_equal(mpt_weights_root(m.map.graph, 0), "transformer.");
    close_map(&m);
}

static void test_map_when_llama_8b_then_as_on_the_hub(void **s) {
    (void)s;
    static const struct {
        const char *name;
        int64_t rows, columns;
    } layer[] = {
        {"input_layernorm.weight", 4096, 0},     {"self_attn.q_proj.weight", 4096, 4096},
        {"self_attn.k_proj.weight", 1024, 4096}, {"self_attn.v_proj.weight", 1024, 4096},
        {"self_attn.o_proj.weight", 4096, 4096}, {"post_attention_layernorm.weight", 4096, 0},
        {"mlp.gate_proj.weight", 14336, 4096},   {"mlp.up_proj.weight", 14336, 4096},
        {"mlp.down_proj.weight", 4096, 14336},
    };
    map_case m;
    open_map(&m, "require 'models.llama' '8b'", MPT_WEIGHTS_HF);
    assert_int_equal(m.map.n, 3 + 32 * 9);
    assert_int_equal(all_elements(&m.map), INT64_C(8030261248));
    assert_weight(&m.map, "embed_tokens.weight", 128256, 4096);
    assert_weight(&m.map, "norm.weight", 4096, 0);
    assert_weight(&m.map, "lm_head.weight", 128256, 4096);
    for (int i = 0; i < 32; i++)
        for (size_t k = 0; k < MPT_COUNT(layer); k++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%d.%s", i, layer[k].name);
            assert_weight(&m.map, name, layer[k].rows, layer[k].columns);
        }
    assert_int_equal(m.map.n_aliases, 0);
    assert_string_equal(mpt_weights_root(m.map.graph, 0), "model.");
    close_map(&m);
}

/* Each value of a tensor goes where it came from, in pieces of any size, and no other moves. */
static void assert_round_trip(const mpt_weights_map *map, int index) {
    const mpt_weight *w = &map->weights[index];
    int64_t n = mpt_weight_elements(w), moved = 0;
    int64_t all = mpt_value_elements(&map->graph->values[map->graph->params[w->param].value]);
    float *param = calloc((size_t)all, sizeof *param);
    float *piece = calloc((size_t)n, sizeof *piece);
    float *back = calloc((size_t)all, sizeof *back);
    assert_true(param && piece && back);
    for (int64_t j = 0; j < all; j++)
        param[j] = (float)j + 1;
    for (int64_t at = 0, step; at < n; at += step) {
        step = n - at < 7 ? n - at : 7;
        mpt_weight_get(w, param, at, step, piece + at);
        mpt_weight_put(w, back, at, step, piece + at);
    }
    for (int64_t j = 0; j < all; j++) {
        assert_true(back[j] == 0 || back[j] == param[j]);
        moved += back[j] != 0;
    }
    assert_int_equal(moved, n);
    free(param);
    free(piece);
    free(back);
}

static void test_map_when_values_go_out_and_in_then_the_same(void **s) {
    (void)s;
    static const mpt_weights_layout layouts[] = {MPT_WEIGHTS_HF, MPT_WEIGHTS_PLAIN};
    for (size_t k = 0; k < MPT_COUNT(layouts); k++) {
        static const char *const models[] = {WEIGHTS_NEMOTRON_H, WEIGHTS_GPT2};
        map_case m;
        open_map(&m, models[k], layouts[k]);
        for (int i = 0; i < m.map.n; i++)
            assert_round_trip(&m.map, i);
        close_map(&m);
    }
}

/* Columns of the stored matrix are the rows of the parameter, also where they are parted. */
static void test_map_when_parts_are_transposed_then_parted_by_columns(void **s) {
    (void)s;
    static const char *const parts[] = {"a", "b"};
    static const int64_t widths[] = {2, 4};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph;
    mpt_weights_map map;
    mpt_model_value out[2];
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 4, 8, &graph));
    mpt_nn nn = {.graph = graph, .block = -1};
    mpt_model_prefix(&nn, "m.");
    mpt_model_value x = mpt_model_embedding(&nn, "e", mpt_model_tokens(&nn), 0, 3);
    x = mpt_model_linear(
        &nn, "c.ab", x,
        MPT_LINEAR(.out = 6, .transposed = true, .bias = true, .parts = parts, .n_parts = 2));
    mpt_model_split(&nn, x, widths, 2, out);
    x = mpt_model_linear(&nn, "lm_head", out[1], MPT_LINEAR(.head = true));
    assert_mpt_ok(ctx, mpt_model_cross_entropy(&nn, x));
    assert_mpt_ok(ctx, mpt_weights_map_create(graph, MPT_WEIGHTS_HF, &map));
    assert_weight(&map, "c.a.weight", 3, 2);
    assert_weight(&map, "c.b.weight", 3, 4);
    assert_weight(&map, "c.b.bias", 4, 0);
    assert_string_equal(mpt_weights_root(graph, 0), "m.");
    float values[18], stored[12];
    for (int i = 0; i < 18; i++)
        values[i] = (float)i;
    int b = mpt_name_index_find(&map.names, "c.b.weight");
    mpt_weight_get(&map.weights[b], values, 0, 12, stored);
    for (int in = 0; in < 3; in++)
        for (int row = 0; row < 4; row++)
            assert_true(stored[4 * in + row] == values[3 * (2 + row) + in]);
    for (int i = 0; i < map.n; i++)
        assert_round_trip(&map, i);
    mpt_weights_map_destroy(&map);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* Experts lie one below the other in a parameter, and are tensors of their own in a file. */
static void test_map_when_experts_then_one_by_one(void **s) {
    (void)s;
    map_case m;
    open_map(&m, "require 'models.deepseek_moe' 'tiny'", MPT_WEIGHTS_HF);
    int seen = 0;
    for (int i = 0; i < m.map.n; i++) {
        const mpt_weight *w = &m.map.weights[i];
        const mpt_param *param = &m.map.graph->params[w->param];
        const char *at = strstr(w->name, ".experts.");
        int expert;
        assert_round_trip(&m.map, i);
        if (param->n_experts == 0 || !at)
            continue;
        assert_int_equal(sscanf(at, ".experts.%d.", &expert), 1);
        assert_int_equal(w->rows * param->n_experts, m.map.graph->values[param->value].dims[0]);
        assert_int_equal(w->first, expert * w->rows);
        assert_int_equal(w->dims[0], w->rows);
        seen++;
    }
    assert_true(seen > 0);
    assert_true(mpt_name_index_find(&m.map.names, "layers.1.mlp.experts.0.gate_proj.weight") >=
                0);
    close_map(&m);
}

/* ---- models of one's own ---- */

#define MODEL(fields, body)                                                                    \
    "local m = model { name = 'm', sizes = { s = { w = 4 } }, " fields                         \
    "graph = function(nn, size)\n  local x = nn.embedding { 'e', nn.tokens(), out = size.w "   \
    "}\n"                                                                                      \
    "  x = " body "\n"                                                                         \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

#define ONE_STEP                                                                               \
    "return recipe { model = m 's', train = { steps = 1, batch = 1, sequence = 8, lr = "       \
    "constant { peak = 1 } } }"

static mpt_status make_map(const char *text, mpt_ctx *ctx, mpt_weights_map *map,
                           weights_case *c) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    *c = (weights_case){.ctx = ctx};
    options.n_threads = 1;
    MPT_TRY(mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &c->recipe));
    MPT_TRY(mpt_compile(c->recipe, &options, &c->program));
    return mpt_weights_map_create(c->program->phases[0]->graph, MPT_WEIGHTS_HF, map);
}

/* Parts that nothing splits are alike, if they can be. */
static void test_map_when_parts_are_not_split_then_alike_or_refused(void **s) {
    (void)s;
    static const char alike[] =
        MODEL("", "nn.linear { 'b.ab', x, out = 6, parts = { 'a', 'c' }, bias = true }")
            ONE_STEP;
    static const char unlike[] =
        MODEL("", "nn.linear { 'b.ab', x, out = 5, parts = { 'a', 'c' } }") ONE_STEP;
    weights_case c;
    mpt_weights_map map;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_mpt_ok(ctx, make_map(alike, ctx, &map, &c));
    assert_weight(&map, "b.a.weight", 3, 4);
    assert_weight(&map, "b.c.weight", 3, 4);
    assert_weight(&map, "b.c.bias", 3, 0);
    assert_int_equal(map.weights[mpt_name_index_find(&map.names, "b.c.bias")].first, 3);
    assert_string_equal(mpt_weights_root(map.graph, 0), "");
    mpt_weights_map_destroy(&map);
    weights_free(&c);
    assert_int_equal(make_map(unlike, ctx, &map, &c), MPT_INVALID); /* when it is compiled */
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:3: b.ab: the widths of its 2 parts are unknown; split its "
                        "output into as many pieces as it has parts");
    weights_free(&c);
    mpt_ctx_destroy(ctx);
}

static void test_map_when_two_tensors_have_one_name_then_refused(void **s) {
    (void)s;
    static const char text[] =
        MODEL("", "nn.linear { 'a', nn.linear { 'b', x, out = 4, parts = { 'a', 'c' } }, out "
                  "= 4 }") ONE_STEP;
    weights_case c;
    mpt_weights_map map;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_int_equal(make_map(text, ctx, &map, &c), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:3: a: a checkpoint would have two tensors 'a.weight'");
    weights_free(&c);
    mpt_ctx_destroy(ctx);
}

static void test_model_when_its_prefix_is_no_root_then_refused(void **s) {
    (void)s;
    static const char *const rows[][2] = {
        {MODEL("prefix = 3, ", "x") "return recipe { model = m 's' }",
         "r.lua:1: model.prefix: cannot be a number; write prefix = \"transformer.\""},
        {MODEL("prefix = 'model', ", "x") "return recipe { model = m 's' }",
         "r.lua:1: model.prefix: cannot be a text; write prefix = \"transformer.\""},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        mpt_lua_refuse(rows[i][0], rows[i][1]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_map_when_gpt2_124m_then_as_on_the_hub),
        cmocka_unit_test(test_map_when_llama_8b_then_as_on_the_hub),
        cmocka_unit_test(test_map_when_values_go_out_and_in_then_the_same),
        cmocka_unit_test(test_map_when_parts_are_transposed_then_parted_by_columns),
        cmocka_unit_test(test_map_when_experts_then_one_by_one),
        cmocka_unit_test(test_map_when_parts_are_not_split_then_alike_or_refused),
        cmocka_unit_test(test_map_when_two_tensors_have_one_name_then_refused),
        cmocka_unit_test(test_model_when_its_prefix_is_no_root_then_refused),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
