/* Wrong arguments to the drawing calls of mpt/model.h: the build function that hides one fails
 * all the same, and compiling names the argument. */
#include "api_arguments.h"

typedef struct drawing_case {
    const char *calls;        /* separated by spaces */
    void (*draw)(mpt_nn *nn); /* one wrong call; a builder of NULL is another */
    const char *named;
} drawing_case;

#define DRAW(name, expression)                                                                 \
    static void name(mpt_nn *nn) {                                                             \
        mpt_model_value x = mpt_model_tokens(nn), ids[8] = {0};                                \
        (void)x, (void)ids;                                                                    \
        (void)(expression);                                                                    \
    }
DRAW(draw_prefix, mpt_model_prefix(nn, NULL))
DRAW(draw_prefix_open, mpt_model_prefix(nn, "model"))
DRAW(draw_block, mpt_model_block(nn, NULL, 0))
DRAW(draw_end_block, mpt_model_end_block(nn))
DRAW(draw_embedding, mpt_model_embedding(nn, NULL, x, 0, 8))
DRAW(draw_embedding_of_none, mpt_model_embedding(nn, "e", -1, 0, 8))
DRAW(draw_linear, mpt_model_linear(nn, NULL, x, NULL))
DRAW(draw_linear_size, mpt_model_linear(nn, "l", x, &(mpt_linear){.size = 0}))
DRAW(draw_linear_parts, mpt_model_linear(nn, "l", x, MPT_LINEAR(.out = 4, .n_parts = 2)))
DRAW(draw_linear_part, mpt_model_linear(nn, "l", x,
                                        MPT_LINEAR(.out = 4, .n_parts = 2,
                                                   .parts = (const char *const[]){"a", NULL})))
DRAW(draw_rmsnorm, mpt_model_rmsnorm(nn, NULL, x, 0))
DRAW(draw_layernorm, mpt_model_layernorm(nn, NULL, x, 0, true))
DRAW(draw_gated, mpt_model_gated_rmsnorm(nn, "n", NULL, 1, 0))
DRAW(draw_attention, mpt_model_attention(nn, "a", NULL, 1, 1))
DRAW(draw_conv1d, mpt_model_conv1d(nn, NULL, x, 4, true))
DRAW(draw_scan, mpt_model_ssm_scan(nn, "s", NULL, 1, 1))
DRAW(draw_activation, mpt_model_activation(nn, NULL, x))
DRAW(draw_rope, mpt_model_rope(nn, -1, MPT_ROPE(.heads = 1)))
DRAW(draw_rope_size, mpt_model_rope(nn, x, &(mpt_rope_options){.size = 0}))
DRAW(draw_rope_kind, mpt_model_rope(nn, x, MPT_ROPE(.heads = 1, .kind = (mpt_rope_kind)3)))
DRAW(draw_scale, mpt_model_scale(nn, -1, 2))
DRAW(draw_swiglu, mpt_model_swiglu(nn, x, -1))
DRAW(draw_dropout, mpt_model_dropout(nn, NULL, x, 0.5f))
DRAW(draw_dropout_of_ids, mpt_model_dropout(nn, "d", x, 0))
DRAW(draw_add, mpt_model_add(nn, x, 99))
DRAW(draw_mul, mpt_model_mul(nn, -7, x))
DRAW(draw_split, mpt_model_split(nn, x, NULL, 2, ids))
DRAW(draw_split_out, mpt_model_split(nn, x, (const int64_t[]){4, 4}, 2, NULL))
DRAW(draw_split_none, mpt_model_split(nn, x, (const int64_t[]){4}, -1, ids))
DRAW(draw_concat, mpt_model_concat(nn, NULL, 2))
DRAW(draw_concat_none, mpt_model_concat(nn, ids, -1))
DRAW(draw_concat_many, mpt_model_concat(nn, ids, 9))
DRAW(draw_end, mpt_model_cross_entropy(nn, -1) == MPT_OK)

static void draw_nothing(mpt_nn *nn) {
    (void)mpt_model_positions(nn);
    (void)mpt_model_vocabulary(nn);
    (void)mpt_model_sequence(nn);
    mpt_model_at(nn, NULL, 0);
}

static const drawing_case drawings[] = {
    {"mpt_model_prefix", draw_prefix, "mpt_model_prefix: prefix is NULL"},
    {"mpt_model_prefix", draw_prefix_open, "'model' does not end in a dot"},
    {"mpt_model_block", draw_block, "mpt_model_block: root is NULL"},
    {"mpt_model_end_block", draw_end_block, "no block is open"},
    {"mpt_model_embedding", draw_embedding, "needs a name"},
    {"mpt_model_embedding", draw_embedding_of_none, "is no value"},
    {"mpt_model_linear", draw_linear, "needs a name"},
    {"mpt_model_linear", draw_linear_size, "the options have size 0"},
    {"mpt_model_linear", draw_linear_parts, "2 parts, but the array is NULL"},
    {"mpt_model_linear", draw_linear_part, "parts[1] is NULL"},
    {"mpt_model_rmsnorm", draw_rmsnorm, "needs a name"},
    {"mpt_model_layernorm", draw_layernorm, "needs a name"},
    {"mpt_model_gated_rmsnorm", draw_gated, "x_z is NULL"},
    {"mpt_model_attention", draw_attention, "q_k_v is NULL"},
    {"mpt_model_conv1d", draw_conv1d, "needs a name"},
    {"mpt_model_ssm_scan", draw_scan, "x_b_c_dt is NULL"},
    {"mpt_model_activation", draw_activation, "kind is NULL"},
    {"mpt_model_rope", draw_rope, "is no value"},
    {"mpt_model_rope", draw_rope_size, "the options have size 0"},
    {"mpt_model_rope", draw_rope_kind, "options.kind is 3"},
    {"mpt_model_scale", draw_scale, "is no value"},
    {"mpt_model_swiglu", draw_swiglu, "is no value"},
    {"mpt_model_dropout", draw_dropout, "needs a name"},
    {"mpt_model_dropout", draw_dropout_of_ids, "expected a floating format"},
    {"mpt_model_add", draw_add, "is no value"},
    {"mpt_model_mul", draw_mul, "is no value"},
    {"mpt_model_split", draw_split, "widths is NULL"},
    {"mpt_model_split", draw_split_out, "out_parts is NULL"},
    {"mpt_model_split", draw_split_none, ""},
    {"mpt_model_concat", draw_concat, "parts is NULL"},
    {"mpt_model_concat", draw_concat_none, "-1 inputs"},
    {"mpt_model_concat", draw_concat_many, "9 inputs"},
    {"mpt_model_cross_entropy", draw_end, "is no value"},
    {"mpt_model_tokens mpt_model_positions mpt_model_vocabulary mpt_model_sequence "
     "mpt_model_at",
     draw_nothing, "has no loss"},
};

/* What the build function of a test gives back, after one wrong call or none. */
typedef struct wish {
    void (*draw)(mpt_nn *nn);
    int status;
} wish;

static mpt_status build_wish(void *ud, mpt_nn *nn, bool proxy) {
    const wish *w = ud;
    (void)proxy;
    if (w->draw)
        w->draw(nn);
    return (mpt_status)w->status;
}

static void expect_build(wish w, mpt_status expected, const char *named) {
    mpt_program *program = NULL;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = make_recipe(ctx, build_wish, &w);
    mpt_status status = mpt_compile(recipe, NULL, &program);
    if (status != expected || !strstr(mpt_ctx_error(ctx)->message, named))
        fail_msg("expected '%s', got %s: %s", named, mpt_status_name(status),
                 mpt_ctx_error(ctx)->message);
    assert_int_equal(mpt_ctx_error(ctx)->code, expected);
    assert_null(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
}

/* The build function hides the failure, so the builder itself must have kept it. */
static void test_drawing_when_arguments_are_wrong_then_compiling_names_them(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(drawings); i++) {
        drawings[i].draw(NULL);
        expect_build((wish){drawings[i].draw, MPT_OK}, MPT_INVALID, drawings[i].named);
    }
}

static void test_build_when_its_status_says_nothing_then_that_is_said(void **state) {
    (void)state;
    expect_build((wish){NULL, 77}, MPT_INVALID,
                 "the model's build function returned 77, which is no status");
    expect_build((wish){NULL, -1}, MPT_INVALID, "returned -1, which is no status");
    expect_build((wish){NULL, MPT_IO}, MPT_IO, "returned MPT_IO and named no fault");
    expect_build((wish){draw_activation, 77}, MPT_INVALID, "which is no status");
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **state) {
    (void)state;
    assert_header("model.h", drawings);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_drawing_when_arguments_are_wrong_then_compiling_names_them),
    cmocka_unit_test(test_build_when_its_status_says_nothing_then_that_is_said),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};
MPT_TEST_MAIN(cases)
