/* precision.lift: what it names is BF16 over all rules and phases, nothing is made narrower,
 * and the recipe's hash and `explain` know of it. What a sweep can lift; what can be compared.
 */
#include "mpt_test.h"

#include "lua_test.h"
#include "mpt/compare.h"
#include "recipe/use.h"
#include "runtime/pipeline.h"
#include "writers.h"

#define MODEL                                                                                  \
    "local m = model { name = 'm', root = 'layers', sizes = { s = { w = 16 }, l = { w = 32 } " \
    "},\n  graph = function(nn, size)\n"                                                       \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  for i = 0, 1 do x = nn.block(i, function()\n"                                           \
    "    return nn.add(x, nn.linear { 'up', nn.rmsnorm { 'norm', x }, out = size.w }) end) "   \
    "end\n  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

#define TRAIN                                                                                  \
    "train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3 } }, data = "  \
    "synthetic { vocab = 32 }, allow = { 'no-warmup', 'all-fp4' }"

#define ROTATED                                                                                \
    "precision = { base = fp32, rules = { rule { '*.up', use = gemm { weight = nvfp4, "        \
    "activation = nvfp4, gradient = nvfp4, wgrad = { hadamard = hadamard { size = 16 } } } } " \
    "} },"

typedef struct lifted {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} lifted;

static mpt_status try_open(lifted *l, const char *fields, const char *const *lifts) {
    char text[4096];
    l->program = NULL;
    snprintf(text, sizeof text, MODEL "return recipe { model = m 's', %s " TRAIN " }", fields);
    l->recipe = mpt_lua_load(l->ctx, text);
    for (; lifts && *lifts; lifts++)
        MPT_TRY(mpt_recipe_set(l->recipe, "precision.lift", *lifts));
    return mpt_compile(l->recipe, NULL, &l->program);
}

static void open_lifted(lifted *l, const char *fields, const char *lift) {
    const char *const lifts[] = {lift, NULL};
    l->ctx = mpt_test_ctx();
    assert_mpt_ok(l->ctx, try_open(l, fields, lifts));
}

static void close_lifted(lifted *l) {
    mpt_program_destroy(l->program);
    mpt_lua_finish(l->ctx, l->recipe);
}

/* The slots of a layer as formats: "nvfp4 bf16 ...". */
static void expect_slots(const lifted *l, int phase, const char *path, const char *expected) {
    const mpt_graph *graph = l->program->phases[phase]->graph;
    char text[128] = "";
    for (int i = 0; i < graph->n_layers; i++)
        if (strcmp(graph->layers[i].path, path) == 0)
            for (int s = 0; s < MPT_SLOT_COUNT; s++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", s ? " " : "",
                         l->program->phases[phase]->policies[i].slot[s].name);
    assert_string_equal(text, expected);
}

static void test_lift_when_of_a_layer_then_that_alone_is_bf16(void **s) {
    (void)s;
    lifted l;
    open_lifted(&l, ROTATED, "layers.1.up");
    expect_slots(&l, 0, "layers.0.up", "nvfp4 nvfp4 nvfp4 nvfp4 nvfp4 nvfp4");
    expect_slots(&l, 0, "layers.1.up", "bf16 bf16 bf16 bf16 bf16 bf16");
    close_lifted(&l);
}

static void test_lift_when_something_is_wider_already_then_it_stays(void **s) {
    (void)s;
    lifted l;
    open_lifted(&l, ROTATED, "*");
    expect_slots(&l, 0, "layers.0.up", "bf16 bf16 bf16 bf16 bf16 bf16");
    expect_slots(&l, 0, "head", "fp32 fp32 fp32 fp32 fp32 fp32");
    close_lifted(&l);
}

static void test_lift_when_of_an_operand_then_the_other_loses_its_rotation(void **s) {
    (void)s;
    lifted l;
    open_lifted(&l, ROTATED, "wgrad.x");
    expect_slots(&l, 0, "layers.0.up", "nvfp4 nvfp4 nvfp4 nvfp4 nvfp4 bf16");
    const mpt_graph *graph = l.program->phases[0]->graph;
    for (int i = 0; i < graph->n_layers; i++)
        assert_int_equal(
            l.program->phases[0]->policies[i].slot[MPT_SLOT_WGRAD_DY].hadamard.size, 0);
    close_lifted(&l);
}

static void test_lift_when_phases_have_rules_then_it_wins_over_them(void **s) {
    (void)s;
    lifted l;
    open_lifted(&l,
                "phases = { phase { 'a' }, phase { 'b', from = 2, rules = { rule { 'linear', "
                "use = e4m3 } } } },",
                "fprop");
    expect_slots(&l, 1, "layers.0.up", "bf16 bf16 e4m3 e4m3 e4m3 e4m3");
    close_lifted(&l);
}

static void test_lift_when_set_twice_then_both_count_and_the_hash_changes(void **s) {
    (void)s;
    static const char *const both[] = {"layers.0.up fprop.x", "layers.1.up wgrad", NULL};
    lifted plain, l = {.ctx = mpt_test_ctx()};
    assert_mpt_ok(l.ctx, try_open(&l, ROTATED, both));
    expect_slots(&l, 0, "layers.0.up", "bf16 nvfp4 nvfp4 nvfp4 nvfp4 nvfp4");
    expect_slots(&l, 0, "layers.1.up", "nvfp4 nvfp4 nvfp4 nvfp4 bf16 bf16");
    plain.ctx = mpt_test_ctx();
    assert_mpt_ok(plain.ctx, try_open(&plain, ROTATED, NULL));
    assert_string_not_equal(plain.program->recipe_hash, l.program->recipe_hash);
    close_lifted(&plain);
    close_lifted(&l);
}

static void test_lift_when_explained_then_it_is_named(void **s) {
    (void)s;
    lifted l;
    mpt_str text;
    open_lifted(&l, ROTATED, "wgrad.x");
    mpt_str_init(&text, l.ctx);
    assert_mpt_ok(l.ctx, mpt_program_explain(l.program, "layers.0.up", NULL, keep, &text));
    assert_non_null(strstr(text.data, "precision.lift"));
    mpt_str_deinit(&text);
    close_lifted(&l);
}

static void test_lift_when_it_lifts_nothing_then_a_warning(void **s) {
    (void)s;
    lifted l;
    mpt_warning_view warning;
    open_lifted(&l, ROTATED, "head");
    assert_true(mpt_program_warning(l.program, 0, &warning));
    assert_string_equal(warning.name, "no-effect");
    assert_string_equal(warning.text, "precision.lift: nothing that it names is quantized");
    close_lifted(&l);
}

static void test_lift_when_wrong_then_the_way_out_is_named(void **s) {
    (void)s;
    static const struct {
        const char *lift, *message;
    } cases[] = {
        {"layers.0.pu", "precision.lift: no layer matches 'layers.0.pu'"},
        {"", "precision.lift: the text is empty, so nothing is lifted; name layers"},
        {"  ", "precision.lift: the text is empty"},
        {"norm", "precision.lift"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        const char *const lifts[] = {cases[i].lift, NULL};
        lifted l = {.ctx = mpt_test_ctx()};
        assert_int_equal(try_open(&l, ROTATED, lifts), MPT_INVALID);
        if (!strstr(mpt_ctx_error(l.ctx)->message, cases[i].message))
            fail_msg("%s", mpt_ctx_error(l.ctx)->message);
        close_lifted(&l);
    }
}

/* ---- what there is to lift ---- */

static void test_lifts_when_listed_then_layers_products_and_operands(void **s) {
    (void)s;
    lifted l;
    mpt_lift_view v;
    open_lifted(&l, ROTATED, "dgrad");
    assert_true(mpt_program_lift(l.program, MPT_LIFT_LAYERS, 0, &v));
    assert_string_equal(v.name, "layers.0.up");
    assert_true(v.quantized);
    assert_true(mpt_program_lift(l.program, MPT_LIFT_LAYERS, 2, &v));
    assert_string_equal(v.name, "head");
    assert_false(v.quantized);
    assert_false(mpt_program_lift(l.program, MPT_LIFT_LAYERS, 3, &v));
    for (int i = 0; i < MPT_GEMM_COUNT; i++) {
        assert_true(mpt_program_lift(l.program, MPT_LIFT_GEMMS, i, &v));
        assert_string_equal(v.name, mpt_gemm_name((mpt_gemm)i));
        assert_int_equal(v.quantized, i != MPT_GEMM_DGRAD);
    }
    assert_false(mpt_program_lift(l.program, MPT_LIFT_GEMMS, MPT_GEMM_COUNT, &v));
    for (int i = 0; i < MPT_SLOT_COUNT; i++) {
        assert_true(mpt_program_lift(l.program, MPT_LIFT_OPERANDS, i, &v));
        assert_int_equal(v.quantized, i != MPT_SLOT_DGRAD_DY && i != MPT_SLOT_DGRAD_W);
    }
    assert_false(mpt_program_lift(l.program, MPT_LIFT_OPERANDS, MPT_SLOT_COUNT, &v));
    close_lifted(&l);
}

/* ---- what can be compared ---- */

static void test_programs_when_compared_then_only_precision_may_differ(void **s) {
    (void)s;
    static const struct {
        const char *fields;
        mpt_status status;
        const char *part; /* of the error, or of the notes; NULL: none */
    } cases[] = {
        {"model = m 's', precision = presets.mxfp8, " TRAIN, MPT_OK, NULL},
        {"model = m 's', train = { steps = 4, batch = 2, sequence = 16, clip = 0.5, lr = "
         "constant "
         "{ peak = 1e-3 } }, data = synthetic { vocab = 32 }, allow = { 'no-warmup' }",
         MPT_OK, "train.clip differs, too: 1 in r, 0.5 in r"},
        {"model = m 'l', " TRAIN, MPT_INVALID, "cannot be compared with"},
        {"model = m 's', train = { steps = 5, batch = 2, sequence = 16, lr = constant { peak = "
         "1e-3 } }, data = synthetic { vocab = 32 }",
         MPT_INVALID, "train.steps: 5 of r cannot be compared with 4 of r"},
        {"model = m 's', train = { steps = 4, batch = 3, sequence = 16, lr = constant { peak = "
         "1e-3 } }, data = synthetic { vocab = 32 }",
         MPT_INVALID, "train.batch: 3"},
        {"model = m 's', train = { steps = 4, batch = 2, sequence = 8, lr = constant { peak = "
         "1e-3 } }, data = synthetic { vocab = 32 }",
         MPT_INVALID, "train.sequence: 8"},
        {"model = m 's', train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = "
         "1e-3 } }, data = synthetic { vocab = 32, seed = 5 }",
         MPT_INVALID, "data.seed"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char text[4096];
        lifted a, b = {.ctx = mpt_test_ctx()};
        mpt_str notes;
        open_lifted(&a, ROTATED, "dgrad");
        snprintf(text, sizeof text, MODEL "return recipe { %s }", cases[i].fields);
        b.recipe = mpt_lua_load(b.ctx, text);
        assert_mpt_ok(b.ctx, mpt_compile(b.recipe, NULL, &b.program));
        mpt_str_init(&notes, a.ctx);
        mpt_status status = mpt_program_comparable(a.program, b.program, keep, &notes);
        const char *said = status == MPT_OK ? notes.data : mpt_ctx_error(a.ctx)->message;
        if (status != cases[i].status ||
            (cases[i].part ? !strstr(said, cases[i].part) : !!said))
            fail_msg("%zu: %s, %s", i, mpt_status_name(status), said ? said : "nothing");
        mpt_str_deinit(&notes);
        close_lifted(&a);
        close_lifted(&b);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_lift_when_of_a_layer_then_that_alone_is_bf16),
    cmocka_unit_test(test_lift_when_something_is_wider_already_then_it_stays),
    cmocka_unit_test(test_lift_when_of_an_operand_then_the_other_loses_its_rotation),
    cmocka_unit_test(test_lift_when_phases_have_rules_then_it_wins_over_them),
    cmocka_unit_test(test_lift_when_set_twice_then_both_count_and_the_hash_changes),
    cmocka_unit_test(test_lift_when_explained_then_it_is_named),
    cmocka_unit_test(test_lift_when_it_lifts_nothing_then_a_warning),
    cmocka_unit_test(test_lift_when_wrong_then_the_way_out_is_named),
    cmocka_unit_test(test_lifts_when_listed_then_layers_products_and_operands),
    cmocka_unit_test(test_programs_when_compared_then_only_precision_may_differ),
};

MPT_TEST_MAIN(cases)
