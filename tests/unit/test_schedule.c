/* sched/: kernel choice with reasons, order, memory of whole graphs, hash, and the dumps
 * verbatim. */
#include "mpt_test.h"

#include "golden_text.h"
#include "recipe/schema.h"
#include "sched/program.h"
#include "small_net.h"

enum { MANY_LAYERS = 32 };

static const small_net tiny = {
    .width = 32, .hidden = 64, .vocab = 48, .n_blocks = 1, .n_readers = 1};
static const small_net deep = {
    .width = 32, .hidden = 64, .vocab = 48, .n_blocks = 5, .n_readers = 3};

/* ---- a table that takes everything and one that is particular ---- */

static void run_nothing(const mpt_kernel_args *args) {
    (void)args;
}

static size_t scratch_of_threads(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph;
    (void)node;
    return 100 * (size_t)n_threads;
}

static bool only_wide(const mpt_graph *graph, const mpt_node *node, const char **why) {
    *why = "it multiplies no quantized operands";
    return graph->values[node->in[0]].dtype == MPT_DTYPE_BF16;
}

static bool never(const mpt_graph *graph, const mpt_node *node, const char **why) {
    (void)graph;
    (void)node;
    *why = "this machine has no tensor cores";
    return false;
}

static const mpt_kernel fast_kernels[] = {
    {MPT_OP_linear, "fast.linear_core", never, run_nothing, NULL},
    {MPT_OP_linear, "fast.linear_wide", only_wide, run_nothing, scratch_of_threads},
    {0, NULL, NULL, NULL, NULL},
};

static const mpt_kernel all_kernels[] = {
#define MPT_OP(name, n_in, n_out, flags, summary)                                              \
    {MPT_OP_##name, "all." #name, NULL, run_nothing, NULL},
#include "graph/ops.def"
#undef MPT_OP
    {0, NULL, NULL, NULL, NULL},
};

static const mpt_kernel *const both_tables[] = {fast_kernels, all_kernels, NULL};
static const mpt_kernel *const fast_only[] = {fast_kernels, NULL};

/* ---- programs ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_phase_program *program;
    mpt_policy policies[MANY_LAYERS];
} fixture;

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

static void set_policy(mpt_policy *p, const mpt_layer *layer, const char *linear) {
    bool is_linear = layer->kind == MPT_LAYER_LINEAR;
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        p->slot[s] = named(is_linear ? linear : "bf16");
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        p->output[g] = MPT_DTYPE_BF16;
    p->compute = MPT_DTYPE_BF16;
    if (layer->kind == MPT_LAYER_HEAD)
        p->output[MPT_GEMM_FPROP] = MPT_DTYPE_FP32;
    if (is_linear) {
        p->n_decided = 1;
        p->decided_by[0] = (mpt_where){"folder/recipe.lua", 12};
    }
}

static mpt_train some_training(void) {
    return (mpt_train){
        .steps = 10,
        .batch = 2,
        .sequence = 16,
        .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
        .clip = 1.0};
}

/* A whole graph after stage 5, its linear layers in the format of this name. */
static void setup(fixture *f, const small_net *net, const char *linear) {
    mpt_train train = some_training();
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    mpt_graph *graph = small_graph(f->ctx, net, 2, 16, true);
    assert_true(graph->n_layers <= MANY_LAYERS);
    for (int i = 0; i < graph->n_layers; i++)
        set_policy(&f->policies[i], &graph->layers[i], linear);
    assert_mpt_ok(f->ctx, mpt_graph_append_update(graph, &train));
    mpt_precision_options options = {
        .base = MPT_DTYPE_BF16, .residual = MPT_DTYPE_BF16, .policies = f->policies};
    assert_mpt_ok(f->ctx, mpt_graph_apply_precision(graph, &options));
    assert_mpt_ok(f->ctx, mpt_phase_program_create(graph, "main", &f->program));
    f->program->policies = f->policies;
}

static void schedule(fixture *f, int n_threads) {
    mpt_schedule_options options = {.tables = both_tables, .n_threads = n_threads};
    assert_mpt_ok(f->ctx, mpt_schedule_select(f->program, &options));
    assert_mpt_ok(f->ctx, mpt_schedule_order(f->program));
    assert_mpt_ok(f->ctx, mpt_schedule_plan_memory(f->program));
}

static void teardown(fixture *f) {
    mpt_phase_program_destroy(f->program);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

/* The step of an op in a layer. */
static const mpt_step *step_of(const fixture *f, mpt_op op, const char *path) {
    const mpt_graph *graph = f->program->graph;
    for (int s = 0; s < f->program->n_steps; s++) {
        const mpt_node *node = &graph->nodes[f->program->steps[s].node];
        if (node->op == op && node->layer >= 0 &&
            strcmp(graph->layers[node->layer].path, path) == 0)
            return &f->program->steps[s];
    }
    fail_msg("no step of %s", path);
    return NULL;
}

/* ---- stage 6 ---- */

static void test_select_when_a_better_kernel_refuses_then_the_next_is_taken(void **state) {
    (void)state;
    fixture f;
    setup(&f, &tiny, "nvfp4");
    schedule(&f, 1);
    assert_string_equal(step_of(&f, MPT_OP_linear, "lm_head")->kernel->name,
                        "fast.linear_wide");
    assert_string_equal(step_of(&f, MPT_OP_linear, "layers.0.up")->kernel->name, "all.linear");
    assert_int_equal(f.program->n_refusals, 5); /* core by all three, wide by two */
    assert_string_equal(f.program->refusals[0].kernel, "fast.linear_core");
    assert_string_equal(f.program->refusals[1].why, "it multiplies no quantized operands");
    teardown(&f);
}

static void test_select_when_no_kernel_takes_a_node_then_refused_with_reason(void **state) {
    (void)state;
    fixture f;
    setup(&f, &tiny, "bf16");
    f.program->graph->n_nodes = 1; /* a cast of a weight, which the fast table lacks */
    mpt_schedule_options options = {.tables = fast_only, .n_threads = 1};
    assert_int_equal(mpt_schedule_select(f.program, &options), MPT_UNSUPPORTED);
    assert_string_equal(mpt_ctx_error(f.ctx)->message,
                        "folder/recipe.lua:12: layers.0.up: cast: this device has no kernel "
                        "that takes it; the device 'ref' has a kernel for every op");
    teardown(&f);
}

static void test_select_when_kernels_need_scratch_then_the_largest_is_planned(void **state) {
    (void)state;
    fixture f;
    setup(&f, &tiny, "bf16");
    schedule(&f, 3);
    assert_int_equal(step_of(&f, MPT_OP_linear, "layers.0.up")->scratch_bytes, 300);
    assert_int_equal(f.program->bytes[MPT_MEMORY_WORKSPACE], 320);
    assert_int_equal(f.program->scratch_offset + 320, f.program->arena_bytes);
    teardown(&f);
}

/* ---- stage 7 ---- */

static void test_order_when_sorted_then_passes_are_segments_and_nodes_keep_order(void **state) {
    (void)state;
    fixture f;
    setup(&f, &deep, "nvfp4");
    schedule(&f, 1);
    const mpt_phase_program *p = f.program;
    assert_int_equal(p->segment[0], 0);
    assert_int_equal(p->segment[MPT_PASS_COUNT], p->graph->n_nodes);
    for (int pass = 0; pass < MPT_PASS_COUNT; pass++) {
        assert_true(p->segment[pass] < p->segment[pass + 1]);
        for (int s = p->segment[pass]; s < p->segment[pass + 1]; s++) {
            assert_int_equal(p->graph->nodes[p->steps[s].node].pass, pass);
            if (s > p->segment[pass])
                assert_true(p->steps[s].node > p->steps[s - 1].node);
        }
    }
    teardown(&f);
}

static void test_order_when_a_step_reads_what_comes_later_then_internal_fault(void **state) {
    (void)state;
    fixture f;
    setup(&f, &tiny, "bf16");
    mpt_schedule_options options = {.tables = both_tables, .n_threads = 1};
    for (int i = 0; i < f.program->graph->n_nodes; i++)
        if (f.program->graph->nodes[i].op == MPT_OP_relu2)
            f.program->graph->nodes[i].pass = MPT_PASS_BACKWARD;
    assert_mpt_ok(f.ctx, mpt_schedule_select(f.program, &options));
    assert_int_equal(mpt_schedule_order(f.program), MPT_INTERNAL);
    teardown(&f);
}

/* ---- stage 8 ---- */

static bool share(const mpt_placement *a, const mpt_placement *b) {
    bool in_time = a->first <= b->last && b->first <= a->last;
    bool in_space = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
    return in_time && in_space;
}

static void test_memory_when_planned_then_no_two_live_values_share_a_byte(void **state) {
    (void)state;
    fixture f;
    setup(&f, &deep, "nvfp4");
    schedule(&f, 2);
    const mpt_phase_program *p = f.program;
    for (int a = 0; a < p->graph->n_values; a++) {
        const mpt_placement *x = &p->placement[a];
        if (x->state || x->last < 0)
            continue;
        assert_true(x->offset + x->bytes <= p->scratch_offset);
        assert_int_equal(x->bytes, 4 * mpt_value_elements(&p->graph->values[a]));
        for (int b = 0; b < a; b++) {
            const mpt_placement *y = &p->placement[b];
            if (!y->state && y->last >= 0 && share(x, y))
                fail_msg("%s and %s share memory", p->graph->values[a].name,
                         p->graph->values[b].name);
        }
    }
    teardown(&f);
}

static void test_memory_when_made_in_prepare_then_it_lives_all_step(void **state) {
    (void)state;
    fixture f;
    setup(&f, &tiny, "nvfp4");
    schedule(&f, 1);
    const mpt_phase_program *p = f.program;
    int n = 0;
    for (int v = 0; v < p->graph->n_values; v++) {
        mpt_value_kind kind = p->graph->values[v].kind;
        if (kind != MPT_VALUE_WORKING && kind != MPT_VALUE_STATUS && kind != MPT_VALUE_INPUT)
            continue;
        n++;
        assert_int_equal(p->placement[v].first, 0);
        assert_int_equal(p->placement[v].last, p->n_steps - 1);
    }
    assert_true(n > 8);
    teardown(&f);
}

static void test_memory_when_read_in_backward_then_it_lives_until_there(void **state) {
    (void)state;
    fixture f;
    setup(&f, &tiny, "nvfp4");
    schedule(&f, 1);
    const mpt_phase_program *p = f.program;
    const mpt_node *wgrad =
        &p->graph->nodes[step_of(&f, MPT_OP_linear_wgrad, "layers.0.up")->node];
    const mpt_placement *x = &p->placement[wgrad->in[1]]; /* x's column copy */
    assert_true(x->first < p->segment[MPT_PASS_BACKWARD]);
    assert_true(x->last > p->segment[MPT_PASS_BACKWARD]);
    teardown(&f);
}

static void test_memory_when_counted_then_classes_add_up(void **state) {
    (void)state;
    fixture f;
    setup(&f, &deep, "nvfp4");
    schedule(&f, 2);
    const mpt_phase_program *p = f.program;
    size_t params = 0;
    for (int i = 0; i < p->graph->n_params; i++)
        params += (size_t)mpt_value_elements(&p->graph->values[p->graph->params[i].value]);
    assert_int_equal(p->bytes[MPT_MEMORY_MASTER], 4 * params);
    assert_int_equal(p->bytes[MPT_MEMORY_GRADIENT], 4 * params);
    assert_int_equal(p->bytes[MPT_MEMORY_OPTIMIZER], 8 * params);
    assert_int_equal(p->bytes[MPT_MEMORY_WORKING_WEIGHTS] + p->bytes[MPT_MEMORY_ACTIVATIONS] +
                         p->bytes[MPT_MEMORY_WORKSPACE],
                     p->arena_bytes);
    teardown(&f);
}

/* ---- the hash ---- */

static void hash_of(const small_net *net, const char *linear, void (*change)(mpt_policy *),
                    char out[17]) {
    fixture f;
    mpt_train train = some_training();
    f.ctx = mpt_test_ctx();
    memset(f.policies, 0, sizeof f.policies);
    mpt_graph *graph = small_graph(f.ctx, net, 2, 16, true);
    for (int i = 0; i < graph->n_layers; i++) {
        set_policy(&f.policies[i], &graph->layers[i], linear);
        if (change && graph->layers[i].kind == MPT_LAYER_LINEAR)
            change(&f.policies[i]);
    }
    assert_mpt_ok(f.ctx, mpt_graph_append_update(graph, &train));
    mpt_precision_options options = {
        .base = MPT_DTYPE_BF16, .residual = MPT_DTYPE_BF16, .policies = f.policies};
    assert_mpt_ok(f.ctx, mpt_graph_apply_precision(graph, &options));
    mpt_schedule_hash(graph, out);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(f.ctx);
}

static void make_stochastic(mpt_policy *p) {
    p->slot[MPT_SLOT_DGRAD_DY].rounding = MPT_ROUNDING_STOCHASTIC;
}
static void make_rotated(mpt_policy *p) {
    p->slot[MPT_SLOT_WGRAD_DY].hadamard.size = p->slot[MPT_SLOT_WGRAD_X].hadamard.size = 16;
}
static void make_square(mpt_policy *p) {
    p->slot[MPT_SLOT_FPROP_W].block_rows = p->slot[MPT_SLOT_DGRAD_W].block_rows = 16;
}
static void make_wide_output(mpt_policy *p) {
    p->output[MPT_GEMM_DGRAD] = MPT_DTYPE_FP32;
}
static void rename_quantizer(mpt_policy *p) {
    p->slot[MPT_SLOT_FPROP_X].name = "another word for it";
}

static void test_hash_when_anything_that_rounds_changes_then_it_changes(void **state) {
    (void)state;
    char hash[7][17];
    hash_of(&tiny, "nvfp4", NULL, hash[0]);
    hash_of(&tiny, "e4m3", NULL, hash[1]);
    hash_of(&tiny, "nvfp4", make_stochastic, hash[2]);
    hash_of(&tiny, "nvfp4", make_rotated, hash[3]);
    hash_of(&tiny, "nvfp4", make_square, hash[4]);
    hash_of(&tiny, "nvfp4", make_wide_output, hash[5]);
    hash_of(&deep, "nvfp4", NULL, hash[6]);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(strlen(hash[i]), 16);
        assert_int_equal(strspn(hash[i], "0123456789abcdef"), 16);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(hash[i], hash[j]);
    }
}

static void test_hash_when_only_names_or_repetition_differ_then_it_stays(void **state) {
    (void)state;
    char a[17], b[17], c[17];
    hash_of(&tiny, "nvfp4", NULL, a);
    hash_of(&tiny, "nvfp4", NULL, b);
    hash_of(&tiny, "nvfp4", rename_quantizer, c);
    assert_string_equal(a, b);
    assert_string_equal(a, c);
}

/* ---- the dumps ---- */

static void check_dump(const char *linear, const char *file,
                       void (*print)(const mpt_phase_program *, mpt_str *)) {
    fixture f;
    mpt_str text;
    setup(&f, &tiny, linear);
    schedule(&f, 1);
    mpt_str_init(&text, f.ctx);
    print(f.program, &text);
    assert_golden(&text, file);
    mpt_str_deinit(&text);
    teardown(&f);
}

static void test_print_when_bf16_then_schedule_is_the_golden_one(void **state) {
    (void)state;
    check_dump("bf16", "schedule_bf16.txt", mpt_schedule_print);
}

static void test_print_when_nvfp4_then_schedule_is_the_golden_one(void **state) {
    (void)state;
    check_dump("nvfp4", "schedule_nvfp4.txt", mpt_schedule_print);
}

static void test_print_when_selection_then_reasons_are_the_golden_ones(void **state) {
    (void)state;
    check_dump("nvfp4", "selection_nvfp4.txt", mpt_schedule_print_selection);
}

static void test_print_when_memory_then_table_is_the_golden_one(void **state) {
    (void)state;
    check_dump("nvfp4", "memory_nvfp4.txt", mpt_schedule_print_memory);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_select_when_a_better_kernel_refuses_then_the_next_is_taken),
    cmocka_unit_test(test_select_when_no_kernel_takes_a_node_then_refused_with_reason),
    cmocka_unit_test(test_select_when_kernels_need_scratch_then_the_largest_is_planned),
    cmocka_unit_test(test_order_when_sorted_then_passes_are_segments_and_nodes_keep_order),
    cmocka_unit_test(test_order_when_a_step_reads_what_comes_later_then_internal_fault),
    cmocka_unit_test(test_memory_when_planned_then_no_two_live_values_share_a_byte),
    cmocka_unit_test(test_memory_when_made_in_prepare_then_it_lives_all_step),
    cmocka_unit_test(test_memory_when_read_in_backward_then_it_lives_until_there),
    cmocka_unit_test(test_memory_when_counted_then_classes_add_up),
    cmocka_unit_test(test_hash_when_anything_that_rounds_changes_then_it_changes),
    cmocka_unit_test(test_hash_when_only_names_or_repetition_differ_then_it_stays),
    cmocka_unit_test(test_print_when_bf16_then_schedule_is_the_golden_one),
    cmocka_unit_test(test_print_when_nvfp4_then_schedule_is_the_golden_one),
    cmocka_unit_test(test_print_when_selection_then_reasons_are_the_golden_ones),
    cmocka_unit_test(test_print_when_memory_then_table_is_the_golden_one),
};

MPT_TEST_MAIN(cases)
