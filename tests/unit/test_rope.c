/* rope against its formula: pairs of halves, every kind of scaling, positions far out; what
 * rotations keep; and the words of a model that ask for it. */
#include "mpt_test.h"

#include <math.h>

#include "graph/nn.h"
#include "kernels/rope.h"
#include "lua_test.h"
#include "op_cases.h"

#define PLAIN(base, n)                                                                         \
    (mpt_rope) {                                                                               \
        .theta = (base), .dims = (n)                                                           \
    }

static const mpt_kernel *const tables[] = {mpt_kernels_ref, mpt_kernels_cpu};

static op_case rope_case(mpt_op op, int64_t tokens, int heads, int dim, mpt_rope rope) {
    op_case c = {.op = op};
    c.attrs = (mpt_attrs){
        .batch = 1, .sequence = tokens, .heads = heads, .head_dim = dim, .rope = rope};
    op_in(&c, OP_REAL, tokens, (int64_t)heads * dim, -1, 1);
    op_out(&c, OP_REAL, tokens, (int64_t)heads * dim);
    op_fill(&c, 3);
    return c;
}

static void run_on(op_case *c, const mpt_kernel *table) {
    op_run(c, op_kernel(table, c->op), false, 2);
}

static double largest_difference(const op_tensor *a, const op_tensor *b) {
    double most = 0;
    for (int64_t i = 0; i < op_elements(a); i++)
        most = fmax(most, fabs(a->data[i] - b->data[i]));
    return most;
}

/* ---- the formula ---- */

/* 29 tokens of three heads, of each of which 6 numbers of 10 turn. */
static void test_rope_when_29_tokens_then_halves_turn_by_the_formula(void **state) {
    (void)state;
    enum { TOKENS = 29, HEADS = 3, DIM = 10, DIMS = 6 };
    for (size_t k = 0; k < MPT_COUNT(tables); k++) {
        op_case c = rope_case(MPT_OP_rope, TOKENS, HEADS, DIM, PLAIN(10000.0f, DIMS));
        run_on(&c, tables[k]);
        for (int t = 0; t < TOKENS; t++)
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < DIM; i++) {
                    const double *x = c.in[0].data + (t * HEADS + h) * DIM;
                    double angle = t * pow(10000.0, -2.0 * (i % (DIMS / 2)) / DIMS), want;
                    if (i < DIMS / 2)
                        want = x[i] * cos(angle) - x[i + DIMS / 2] * sin(angle);
                    else if (i < DIMS)
                        want = x[i] * cos(angle) + x[i - DIMS / 2] * sin(angle);
                    else
                        want = x[i];
                    double found = c.out[0].data[(t * HEADS + h) * DIM + i];
                    assert_true(fabs(found - want) < 2e-7);
                }
        op_free(&c);
    }
}

/* Positions count anew in each sequence. */
static void test_rope_when_two_sequences_then_each_starts_at_0(void **state) {
    (void)state;
    for (size_t k = 0; k < MPT_COUNT(tables); k++) {
        op_case c = rope_case(MPT_OP_rope, 14, 1, 8, PLAIN(100.0f, 8));
        c.attrs.batch = 2;
        c.attrs.sequence = 7;
        memcpy(c.in[0].data + 56, c.in[0].data, 56 * sizeof(double));
        run_on(&c, tables[k]);
        assert_memory_equal(c.out[0].data, c.out[0].data + 56, 56 * sizeof(double));
        assert_memory_equal(c.out[0].data, c.in[0].data, 8 * sizeof(double)); /* token 0 */
        op_free(&c);
    }
}

/* Numbers of transformers' llama3 rule for Llama-3.2-1B, whose slow pairs turn 32 times slower,
 * the fast ones as they are. */
static void test_frequency_when_llama3_then_as_the_published_rule(void **state) {
    (void)state;
    static const struct {
        int pair;
        double frequency;
    } rows[] = {{0, 1.0},
                {1, 0.6636012376960885},
                {14, 0.0032114459947525913},
                {15, 0.001290547928209264},
                {16, 0.00042955679655936815},
                {17, 9.70828780262767e-05},
                {18, 1.9461638184831125e-05},
                {31, 9.418306725434909e-08}};
    mpt_rope rope = {500000.0f, 64, MPT_ROPE_LLAMA3, 32.0f, 1.0f, 4.0f, 8192};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        double f = mpt_rope_frequency(&rope, rows[i].pair);
        assert_true(fabs(f / rows[i].frequency - 1) < 1e-12);
    }
    rope.scaling = MPT_ROPE_LINEAR;
    assert_true(fabs(mpt_rope_frequency(&rope, 1) * 32 / 0.6636012376960885 - 1) < 1e-12);
    rope.scaling = MPT_ROPE_DEFAULT;
    assert_true(fabs(mpt_rope_frequency(&rope, 16) / 0.001414213562373095 - 1) < 1e-12);
}

/* The table of cpu goes on by adding angles: far out it must still be that of ref. */
static void test_rope_when_positions_are_far_then_cpu_is_ref_to_a_rounding(void **state) {
    (void)state;
    static const mpt_rope kinds[] = {
        {.theta = 10000.0f, .dims = 140},
        {500000.0f, 64, MPT_ROPE_LLAMA3, 32.0f, 1.0f, 4.0f, 8192},
        {.theta = 10000.0f, .dims = 2, .scaling = MPT_ROPE_LINEAR, .factor = 0.5f}};
    for (size_t k = 0; k < MPT_COUNT(kinds); k++) {
        op_case ref = rope_case(MPT_OP_rope, 5003, 1, kinds[k].dims, kinds[k]);
        op_case cpu = rope_case(MPT_OP_rope, 5003, 1, kinds[k].dims, kinds[k]);
        run_on(&ref, tables[0]);
        run_on(&cpu, tables[1]);
        assert_true(largest_difference(&ref.out[0], &cpu.out[0]) <= 0x1p-23);
        op_free(&ref);
        op_free(&cpu);
    }
}

/* ---- what a rotation keeps ---- */

static void test_rope_when_turned_back_then_it_is_where_it_was(void **state) {
    (void)state;
    for (size_t k = 0; k < MPT_COUNT(tables); k++) {
        op_case there = rope_case(MPT_OP_rope, 300, 2, 16, PLAIN(10000.0f, 12));
        op_case back = rope_case(MPT_OP_rope_grad, 300, 2, 16, PLAIN(10000.0f, 12));
        run_on(&there, tables[k]);
        memcpy(back.in[0].data, there.out[0].data, 300 * 32 * sizeof(double));
        run_on(&back, tables[k]);
        assert_true(largest_difference(&back.out[0], &there.in[0]) < 3e-7);
        op_free(&there);
        op_free(&back);
    }
}

/* The product of a turned query and a turned key depends on their distance alone. */
static void test_rope_when_all_tokens_are_equal_then_products_depend_on_distance(void **state) {
    (void)state;
    enum { TOKENS = 40, DIM = 16 };
    for (size_t k = 0; k < MPT_COUNT(tables); k++) {
        op_case c = rope_case(MPT_OP_rope, TOKENS, 2, DIM, PLAIN(10000.0f, DIM));
        for (int i = 2 * DIM; i < TOKENS * 2 * DIM; i++)
            c.in[0].data[i] = c.in[0].data[i % (2 * DIM)];
        run_on(&c, tables[k]);
        for (int t = 5; t < TOKENS; t++) {
            double dot[2] = {0};
            for (int i = 0; i < DIM; i++) {
                dot[0] += c.out[0].data[5 * 2 * DIM + i] * c.out[0].data[DIM + i];
                dot[1] +=
                    c.out[0].data[t * 2 * DIM + i] * c.out[0].data[(t - 5) * 2 * DIM + DIM + i];
            }
            assert_true(fabs(dot[0] - dot[1]) < 2e-6);
        }
        op_free(&c);
    }
}

/* ---- the word ---- */

/* Draws a model of one rope; gives its status. */
static mpt_status draw(mpt_ctx *ctx, const char *rope, mpt_rope *out) {
    char text[1024];
    mpt_recipe *recipe = NULL;
    mpt_graph *graph = NULL;
    snprintf(text, sizeof text,
             "local m = model { name = 'm', sizes = { s = { scaling = { rope_type = 'linear', "
             "factor = 2 } } },\ngraph = function(nn, size)\n"
             "local x = nn.embedding { 'e', nn.tokens(), out = 8 }\n"
             "x = nn.rope { x, %s }\n"
             "nn.cross_entropy(nn.linear { 'h', x, head = true })\nend }\n"
             "return recipe { model = m 's' }",
             rope);
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "m.lua", text, strlen(text), NULL, &recipe));
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 4, 8, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    mpt_status status = recipe->source.build(recipe->source.ud, &nn, false);
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == MPT_OP_rope)
            *out = graph->nodes[i].attrs.rope;
    mpt_graph_destroy(graph);
    mpt_recipe_destroy(recipe);
    return status;
}

static void test_word_when_scaling_is_config_json_s_then_all_of_it_is_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        mpt_rope rope;
    } rows[] = {
        {"heads = 2", {.theta = 10000.0f, .dims = 4}},
        {"head_dim = 8, rotary_dim = 6, theta = 5e5", {.theta = 500000.0f, .dims = 6}},
        {"heads = 1, scaling = { rope_type = 'default', rope_theta = 100 }",
         {.theta = 100.0f, .dims = 8}},
        {"heads = 1, theta = 50, scaling = { rope_theta = 100 }", {.theta = 50.0f, .dims = 8}},
        {"heads = 1, scaling = { type = 'linear', factor = 4 }",
         {.theta = 10000.0f, .dims = 8, .scaling = MPT_ROPE_LINEAR, .factor = 4}},
        {"heads = 1, scaling = size.scaling",
         {.theta = 10000.0f, .dims = 8, .scaling = MPT_ROPE_LINEAR, .factor = 2}},
        {"heads = 1, scaling = { rope_type = 'llama3', factor = 32.0, low_freq_factor = 1.0, "
         "high_freq_factor = 4.0, original_max_position_embeddings = 8192 }",
         {10000.0f, 8, MPT_ROPE_LLAMA3, 32, 1, 4, 8192}},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_rope rope = {0};
        const mpt_rope *want = &rows[i].rope;
        assert_mpt_ok(ctx, draw(ctx, rows[i].text, &rope));
        assert_true(rope.theta == want->theta && rope.factor == want->factor);
        assert_true(rope.low_freq_factor == want->low_freq_factor &&
                    rope.high_freq_factor == want->high_freq_factor);
        assert_int_equal(rope.dims, want->dims);
        assert_int_equal(rope.scaling, want->scaling);
        assert_int_equal(rope.original_positions, want->original_positions);
        mpt_ctx_destroy(ctx);
    }
}

static void test_word_when_it_is_wrong_then_the_message_says_where(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"heads = 1, scaling = 4", "m.lua:4: nn.rope.scaling: cannot be 4"},
        {"heads = 1, scaling = { 4 }",
         "m.lua:4: nn.rope.scaling: a number stands here without a name"},
        {"heads = 1, scaling = { rope_type = 'yarn' }",
         "m.lua:4: nn.rope.scaling.rope_type: cannot be yarn"},
        {"heads = 1, scaling = { rope_type = 3 }",
         "m.lua:4: nn.rope.scaling.rope_type: cannot be a number"},
        {"heads = 1, scaling = { beta = 3 }", "m.lua:4: nn.rope.scaling.beta: no field 'beta'"},
        {"heads = 1, scaling = { factor = 0 }",
         "m.lua:4: nn.rope.scaling.factor: cannot be 0; give a number above 0"},
        {"heads = 1, scaling = { factor = 0/0 }",
         "m.lua:4: nn.rope.scaling.factor: cannot be NaN"},
        {"heads = 1, scaling = { original_max_position_embeddings = 1e10 }",
         "m.lua:4: nn.rope.scaling.original_max_position_embeddings: cannot be 10000000000"},
        {"heads = 1, scaling = { factor = 4 }",
         "m.lua:4: nn.rope.scaling: a factor without its rope_type"},
        {"heads = 1, scaling = { rope_type = 'linear' }",
         "m.lua:4: nn.rope.scaling: factor is missing"},
        {"heads = 1, theta = 1e40", "m.lua:4: nn.rope.theta: cannot be 1e+40"},
        {"theta = 10", "m.lua:4: rope: neither heads nor head_dim is given"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_rope rope;
        assert_int_equal(draw(ctx, rows[i][0], &rope), MPT_INVALID);
        if (strncmp(mpt_ctx_error(ctx)->message, rows[i][1], strlen(rows[i][1])) != 0)
            fail_msg("expected '%s', got '%s'", rows[i][1], mpt_ctx_error(ctx)->message);
        mpt_ctx_destroy(ctx);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rope_when_29_tokens_then_halves_turn_by_the_formula),
    cmocka_unit_test(test_rope_when_two_sequences_then_each_starts_at_0),
    cmocka_unit_test(test_frequency_when_llama3_then_as_the_published_rule),
    cmocka_unit_test(test_rope_when_positions_are_far_then_cpu_is_ref_to_a_rounding),
    cmocka_unit_test(test_rope_when_turned_back_then_it_is_where_it_was),
    cmocka_unit_test(test_rope_when_all_tokens_are_equal_then_products_depend_on_distance),
    cmocka_unit_test(test_word_when_scaling_is_config_json_s_then_all_of_it_is_read),
    cmocka_unit_test(test_word_when_it_is_wrong_then_the_message_says_where),
};

MPT_TEST_MAIN(cases)
