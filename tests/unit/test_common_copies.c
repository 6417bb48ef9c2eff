/* Common subexpressions of stage 5: an activation is quantized once for all layers that read it
 * with the same quantizer, a weight once an optimizer step for all micro-batches and all layers
 * that share it; what differs in one field that changes bytes has a copy of its own. */
#include "mpt_test.h"

#include "models.h"
#include "recipe/schema_store.h"
#include "train_rig.h"

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

/* ---- models ---- */

typedef mpt_status (*draw_fn)(mpt_graph *graph);

/* Unfused q, k and v, and a layer of another block that reads the same norm no more. */
static mpt_status draw_attention(mpt_graph *graph) {
    test_hybrid shape = small_hybrid;
    shape.pattern = "*-";
    return draw_nemotron(graph, &shape);
}

/* Two layers on one weight, the second behind an activation. */
static mpt_status draw_tied(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 16);
    draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", 0));
    mpt_nn_args tied = {.name = "second", .n_in = 1, .tied = "layers.0.first.weight"};
    tied.in[0] = draw1(&d, MPT_OP_silu, NULL, draw_linear(&d, "first", x, 16, false));
    x = draw_add(&d, x, draw(&d, MPT_OP_linear, tied));
    draw_note(&d, mpt_nn_block_end(&d.nn));
    x = draw(&d, MPT_OP_linear,
             (mpt_nn_args){.name = "lm_head", .n_in = 1, .in = {x}, .head = true});
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

/* ---- graphs ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_graph *graph;
} fixture;

/* What all linear layers say, and what one of them says of one slot instead. */
typedef struct choice {
    mpt_quantizer all, other;
    const char *path; /* NULL: none says anything else */
    mpt_slot slot;
} choice;

static void choose(const void *ud, const mpt_graph *graph, int phase, mpt_policy *policies) {
    const choice *c = ud;
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++)
        for (int s = 0; graph->layers[i].kind == MPT_LAYER_LINEAR && s < MPT_SLOT_COUNT; s++)
            policies[i].slot[s] = c->all;
    if (c->path)
        policies[rig_layer(graph, c->path)].slot[c->slot] = c->other;
}

static void setup(fixture *f, draw_fn model, const choice *c) {
    rig_options o = rig_defaults();
    mpt_train train = rig_train(&o);
    o.choose = choose;
    o.choose_ud = c;
    f->ctx = mpt_test_ctx();
    assert_mpt_ok(f->ctx, mpt_graph_create(f->ctx, 2, 16, RIG_VOCAB, &f->graph));
    assert_mpt_ok(f->ctx, model(f->graph));
    assert_mpt_ok(f->ctx, mpt_graph_autodiff(f->graph));
    assert_mpt_ok(f->ctx, mpt_graph_append_update(f->graph, &train));
    rig_make_precise(f->ctx, &o, 0, f->graph);
    assert_mpt_ok(f->ctx, mpt_graph_prune(f->graph));
}

static void teardown(fixture *f) {
    mpt_graph_destroy(f->graph);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

static const mpt_node *gemm(const fixture *f, mpt_op op, const char *path) {
    int layer = rig_layer(f->graph, path);
    for (int i = 0; i < f->graph->n_nodes; i++)
        if (f->graph->nodes[i].op == op && f->graph->nodes[i].layer == layer)
            return &f->graph->nodes[i];
    fail_msg("no such GEMM");
    return NULL;
}

/* Quantize nodes of the tensor that a GEMM's operand was made from. */
static int count_copies(const fixture *f, mpt_op op, const char *path, int operand) {
    const mpt_graph *graph = f->graph;
    const mpt_node *reader = gemm(f, op, path);
    int32_t maker = graph->values[reader->in[operand]].producer;
    mpt_value_id tensor = graph->nodes[maker].in[0];
    int n = 0;
    assert_int_equal(graph->nodes[maker].op, MPT_OP_quantize);
    for (int i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == MPT_OP_quantize && graph->nodes[i].in[0] == tensor;
    return n;
}

/* ---- an activation ---- */

static const char *const qkv[] = {"layers.0.mixer.q_proj", "layers.0.mixer.k_proj",
                                  "layers.0.mixer.v_proj"};

static void test_activation_when_q_k_v_are_unfused_then_quantized_once(void **state) {
    (void)state;
    static const char *const formats[] = {"nvfp4", "mxfp8", "e4m3"};
    for (size_t k = 0; k < MPT_COUNT(formats); k++) {
        fixture f;
        choice c = {.all = named(formats[k])};
        setup(&f, draw_attention, &c);
        assert_int_equal(count_copies(&f, MPT_OP_linear, qkv[0], 0), 1);
        for (size_t i = 1; i < MPT_COUNT(qkv); i++) {
            assert_int_equal(gemm(&f, MPT_OP_linear, qkv[i])->in[0],
                             gemm(&f, MPT_OP_linear, qkv[0])->in[0]);
            assert_int_equal(gemm(&f, MPT_OP_linear_wgrad, qkv[i])->in[1],
                             gemm(&f, MPT_OP_linear_wgrad, qkv[0])->in[1]);
        }
        teardown(&f);
    }
}

/* A value of every field of a quantizer that the base has not, and whether bytes change. */
static const struct {
    const char *field, *value;
    bool bytes;
} differences[] = {
    {"format", "e5m2", true},        {"block", "1x128", true},
    {"scale", "delayed", true},      {"scale_format", "pow2", true},
    {"scale_rule", "floor", true},   {"outer", "row", true},
    {"headroom", "0.75", true},      {"rounding", "toward_zero", true},
    {"hadamard.size", "16", true},   {"nonfinite", "saturate", true},
    {"source", "dequantized", true}, {"pad", "error", false},
};

static mpt_quantizer with(mpt_ctx *ctx, mpt_quantizer q, const char *path, const char *value) {
    mpt_slot_use use = {.has_format = true, .q = q};
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    assert_mpt_ok(ctx, mpt_record_set_path(ctx, &arena, mpt_record_find("quantizer"), &use,
                                           path, value, MPT_NOWHERE));
    mpt_arena_deinit(&arena);
    return use.q;
}

/* wgrad.x of k_proj differs from that of q_proj in one field: then it has its own copy, and
 * all else is shared as before. */
static void test_activation_when_one_field_differs_then_it_has_its_own_copy(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(differences); i++) {
        fixture f;
        mpt_ctx *ctx = mpt_test_ctx();
        choice c = {.all = named("fp8_block"), .path = qkv[1], .slot = MPT_SLOT_WGRAD_X};
        c.all.block_rows = 1;
        c.all.block_cols = 32;
        c.other = with(ctx, c.all, differences[i].field, differences[i].value);
        mpt_ctx_destroy(ctx);
        setup(&f, draw_attention, &c);
        bool shared = gemm(&f, MPT_OP_linear_wgrad, qkv[0])->in[1] ==
                      gemm(&f, MPT_OP_linear_wgrad, qkv[1])->in[1];
        if (shared == differences[i].bytes)
            fail_msg("%s = %s: the copy is %s", differences[i].field, differences[i].value,
                     shared ? "shared" : "not shared");
        assert_int_equal(gemm(&f, MPT_OP_linear_wgrad, qkv[0])->in[1],
                         gemm(&f, MPT_OP_linear_wgrad, qkv[2])->in[1]);
        assert_int_equal(gemm(&f, MPT_OP_linear, qkv[0])->in[0],
                         gemm(&f, MPT_OP_linear, qkv[1])->in[0]);
        teardown(&f);
    }
}

/* So that a new field finds its way into the list above. */
static void test_differences_when_listed_then_every_field_is_there(void **state) {
    (void)state;
    const mpt_record *record = mpt_record_find("quantizer");
    for (int i = 0; i < record->n_fields; i++) {
        bool listed = false;
        size_t n = strlen(record->fields[i].name);
        for (size_t k = 0; k < MPT_COUNT(differences); k++)
            listed = listed || (strncmp(differences[k].field, record->fields[i].name, n) == 0 &&
                                strchr(".", differences[k].field[n]));
        if (!listed)
            fail_msg("no difference in %s", record->fields[i].name);
    }
}

/* ---- a weight ---- */

static void test_weight_when_two_layers_share_it_then_quantized_once(void **state) {
    (void)state;
    fixture f;
    choice c = {.all = named("nvfp4")};
    setup(&f, draw_tied, &c);
    static const mpt_op ops[] = {MPT_OP_linear, MPT_OP_linear_dgrad};
    for (size_t i = 0; i < MPT_COUNT(ops); i++) {
        const mpt_node *first = gemm(&f, ops[i], "layers.0.first");
        assert_int_equal(first->in[1], gemm(&f, ops[i], "layers.0.second")->in[1]);
        assert_int_equal(f.graph->nodes[f.graph->values[first->in[1]].producer].pass,
                         MPT_PASS_PREPARE);
    }
    assert_int_equal(count_copies(&f, MPT_OP_linear, "layers.0.first", 1), 1);
    teardown(&f);
}

static void
test_weight_when_its_layers_differ_in_one_slot_then_only_that_is_apart(void **state) {
    (void)state;
    fixture f;
    choice c = {.all = named("nvfp4"), .path = "layers.0.second", .slot = MPT_SLOT_FPROP_W};
    c.other = c.all;
    c.other.headroom = 0.75;
    setup(&f, draw_tied, &c);
    assert_int_not_equal(gemm(&f, MPT_OP_linear, "layers.0.first")->in[1],
                         gemm(&f, MPT_OP_linear, "layers.0.second")->in[1]);
    assert_int_equal(gemm(&f, MPT_OP_linear_dgrad, "layers.0.first")->in[1],
                     gemm(&f, MPT_OP_linear_dgrad, "layers.0.second")->in[1]);
    assert_int_equal(count_copies(&f, MPT_OP_linear, "layers.0.first", 1), 2);
    teardown(&f);
}

/* Random bits belong to one operand of one layer. */
static void test_weight_when_stochastic_then_each_layer_draws_its_own(void **state) {
    (void)state;
    fixture f;
    choice c = {.all = named("nvfp4")};
    c.all.rounding = MPT_ROUNDING_STOCHASTIC;
    setup(&f, draw_tied, &c);
    assert_int_not_equal(gemm(&f, MPT_OP_linear, "layers.0.first")->in[1],
                         gemm(&f, MPT_OP_linear, "layers.0.second")->in[1]);
    teardown(&f);
}

static uint64_t elements_of(const rig *r, const char *operand) {
    mpt_operand_view view;
    for (int i = 0; mpt_trainer_operand(r->trainer, i, &view); i++)
        if (strcmp(view.name, operand) == 0)
            return view.elements;
    fail_msg("no operand %s", operand);
    return 0;
}

/* Counted where it is done: elements quantized in one step of four micro-batches. */
static void test_weight_when_there_are_micro_batches_then_quantized_once_a_step(void **state) {
    (void)state;
    for (int every = 0; every < 2; every++) {
        rig r;
        choice c = {.all = named("nvfp4")};
        rig_options o = rig_defaults();
        o.draw = draw_attention;
        o.choose = choose;
        o.choose_ud = &c;
        o.micro_batch = 1;
        o.recompute = every;
        rig_init(&r, &o);
        mpt_trainer_count_next(r.trainer);
        (void)rig_step(&r);
        const int64_t width = 16, tokens = 4 * 16;
        /* A copy is named after its first reader: in backward that is the last layer. */
        assert_int_equal(elements_of(&r, "layers.0.mixer.q_proj.fprop.w"), width * width);
        assert_int_equal(elements_of(&r, "layers.0.mixer.q_proj.fprop.x"), tokens * width);
        assert_int_equal(elements_of(&r, "layers.0.mixer.v_proj.wgrad.x"), tokens * width);
        rig_deinit(&r);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_activation_when_q_k_v_are_unfused_then_quantized_once),
    cmocka_unit_test(test_activation_when_one_field_differs_then_it_has_its_own_copy),
    cmocka_unit_test(test_differences_when_listed_then_every_field_is_there),
    cmocka_unit_test(test_weight_when_two_layers_share_it_then_quantized_once),
    cmocka_unit_test(test_weight_when_its_layers_differ_in_one_slot_then_only_that_is_apart),
    cmocka_unit_test(test_weight_when_stochastic_then_each_layer_draws_its_own),
    cmocka_unit_test(test_weight_when_there_are_micro_batches_then_quantized_once_a_step),
};

MPT_TEST_MAIN(cases)
