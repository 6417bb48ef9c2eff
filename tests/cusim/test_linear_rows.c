/* Which row of the CUDA table a linear node gets, and the scratch that it asks for before there
 * is data; products of experts. */
#include "packed_case.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/linear.h"

/* ---- selection ---- */

/* y = x w^T of 24 x 48 x 256, both quantized by copies of the graph's, or not where NULL. */
static mpt_graph *make_graph(mpt_ctx *ctx, const char *x, const char *w, mpt_target target,
                             mpt_dtype accumulate) {
    mpt_graph *graph;
    mpt_node node = mpt_node_make(MPT_OP_linear, MPT_PASS_FORWARD, -1);
    const char *names[] = {x, w};
    int at;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 24, 32, &graph));
    graph->target = target;
    for (int i = 0; i < 2; i++) {
        int64_t dims[] = {i == 0 ? 24 : 48, 256};
        node.in[i] = mpt_graph_value(graph, i ? "w" : "x", MPT_VALUE_ACTIVATION, MPT_DTYPE_BF16,
                                     2, dims);
        if (!names[i])
            continue;
        mpt_node quantize = mpt_node_make(MPT_OP_quantize, MPT_PASS_FORWARD, -1);
        quantize.in[0] = node.in[i];
        quantize.attrs.has_row = true;
        assert_true(mpt_quantizer_by_name(names[i], &quantize.attrs.row));
        assert_mpt_ok(ctx, mpt_graph_append(graph, &quantize, &at));
        node.in[i] = graph->nodes[at].out[0];
        node.in[3 + i] = graph->nodes[at].out[1];
    }
    node.attrs.sum.accumulate = accumulate;
    assert_mpt_ok(ctx, mpt_graph_append(graph, &node, &at));
    return graph;
}

static const mpt_kernel *selected(const mpt_graph *graph) {
    const mpt_node *node = &graph->nodes[graph->n_nodes - 1];
    const char *why;
    for (const mpt_kernel *k = mpt_kernels_cuda; k->run; k++)
        if (k->op == node->op && (!k->can || k->can(graph, node, &why)))
            return k;
    return NULL;
}

static void test_row_when_operands_vary_then_the_best_that_takes_them(void **state) {
    (void)state;
    static const struct {
        const char *x, *w;
        mpt_target target;
        mpt_dtype accumulate;
        const char *row;
        size_t scratch; /* alpha in 256 bytes; decoded operands */
    } rows[] = {
        {"e4m3", "e4m3", MPT_TARGET_SM90, MPT_DTYPE_FP32, "cuda.linear_lt", 256},
        {NULL, NULL, MPT_TARGET_SM80, MPT_DTYPE_FP32, "cuda.linear_lt", 256},
        {"e4m3", "e4m3", MPT_TARGET_SM80, MPT_DTYPE_FP32, "cuda.linear_decoded",
         256 + (24 + 48) * 256 * 2},
        {"nvfp4", "nvfp4", MPT_TARGET_SM90, MPT_DTYPE_FP32, "cuda.linear_decoded",
         256 + (24 + 48) * 256 * 2},
        {"nvfp4", NULL, MPT_TARGET_SM100, MPT_DTYPE_FP32, "cuda.linear_decoded",
         256 + 24 * 256 * 2},
        {"e4m3", "e4m3", MPT_TARGET_SM90, MPT_DTYPE_BF16, "cuda.linear_plain", 0},
        {"e4m3", "e4m3", MPT_TARGET_HOST, MPT_DTYPE_FP32, "cuda.linear_plain", 0},
    };
    mpt_ctx *ctx = mpt_test_ctx();
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_graph *graph =
            make_graph(ctx, rows[i].x, rows[i].w, rows[i].target, rows[i].accumulate);
        const mpt_node *node = &graph->nodes[graph->n_nodes - 1];
        const mpt_kernel *row = selected(graph);
        assert_string_equal(row->name, rows[i].row);
        size_t scratch = row->scratch ? row->scratch(graph, node, 1) : 0;
        if (scratch != rows[i].scratch)
            fail_msg("case %d: %d bytes of scratch, not %d", (int)i, (int)scratch,
                     (int)rows[i].scratch);
        mpt_graph_destroy(graph);
    }
    mpt_ctx_destroy(ctx);
}

/* ---- experts ---- */

enum { EXPERTS = 3, TOKENS = 70, IN = 11, OUT = 9 };

/* The middle expert has none, and the last rows belong to nobody. */
static const int32_t offsets[EXPERTS + 1] = {0, 65, 65, 68};

typedef struct shape2 {
    int64_t rows, cols;
} shape2;

static mpt_tensor matrix(shape2 s, uint64_t seed) {
    mpt_tensor t = {.dtype = MPT_DTYPE_FP32, .rank = 2, .dims = {s.rows, s.cols}};
    float *x = op_calloc((size_t)(s.rows * s.cols), sizeof *x);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        x[i] = (float)(op_random(&seed) - 0.5);
    t.data = x;
    return t;
}

static void check_experts(mpt_op op, const char *name, shape2 a, shape2 b, shape2 y) {
    mpt_gpu gpu = {.target = MPT_TARGET_SM90};
    mpt_run_env env = {.n_threads = 1};
    mpt_node node = mpt_node_make(op, MPT_PASS_FORWARD, -1);
    mpt_tensor in[6] = {matrix(a, 1), matrix(b, 2)}, out = matrix(y, 3),
               expected = matrix(y, 3);
    in[5] = (mpt_tensor){
        .data = (void *)offsets, .dtype = MPT_DTYPE_I32, .rank = 1, .dims = {EXPERTS + 1}};
    node.n_in = 6;
    node.n_out = 1;
    node.attrs.alpha = 1;
    mpt_kernel_args host = {&node, in, &expected, NULL, &env, NULL};
    mpt_kernel_args device = {&node, in, &out, NULL, &env, &gpu};
    op_kernel(mpt_kernels_ref, op)->run(&host);
    const mpt_kernel *row = mpt_kernels_cuda;
    while (strcmp(row->name, name) != 0)
        row++;
    row->run(&device);
    assert_memory_equal(out.data, expected.data, (size_t)(y.rows * y.cols) * sizeof(float));
    free(in[0].data);
    free(in[1].data);
    free(out.data);
    free(expected.data);
}

static void test_experts_when_rows_are_the_devices_then_refs_bits(void **state) {
    (void)state;
    shape2 x = {TOKENS, IN}, y = {TOKENS, OUT}, w = {EXPERTS * OUT, IN};
    check_experts(MPT_OP_linear, "cuda.linear_plain", x, w, y);
    check_experts(MPT_OP_linear_dgrad, "cuda.linear_dgrad_plain", y, w, x);
    check_experts(MPT_OP_linear_wgrad, "cuda.linear_wgrad_plain", y, x, w);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_row_when_operands_vary_then_the_best_that_takes_them),
    cmocka_unit_test(test_experts_when_rows_are_the_devices_then_refs_bits),
};
MPT_TEST_MAIN(cases)
