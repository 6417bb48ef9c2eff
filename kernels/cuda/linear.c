/* The rows cuda.linear_lt and cuda.linear_decoded, and those of the two gradients: a linear
 * node by a plan (linear_plan.c) and the library. The first takes the nodes whose operands are
 * multiplied as they are, the second those that are decoded; both run here. */
#include "kernels/cuda/linear.h"

#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/tensor.h"

enum { N_IN = 6 };

/* ---- before a run ---- */

/* A tensor without data. A copy that a product reads across its dot product is taken to lie one
 * way only, for which scratch has to do. */
static mpt_tensor tensor_of(const mpt_graph *graph, mpt_value_id id, mpt_packed *packed) {
    static char there;
    if (id < 0)
        return (mpt_tensor){0};
    const mpt_value *value = &graph->values[id];
    mpt_tensor t = {.data = &there, .dtype = value->dtype, .rank = value->rank};
    memcpy(t.dims, value->dims, sizeof t.dims);
    t.storage = mpt_storage_of(graph, id, false, packed);
    t.packed = t.storage == MPT_STORAGE_PACKED ? packed : NULL;
    return t;
}

static bool plan_of_node(const mpt_graph *graph, const mpt_node *node, linear_plan *out) {
    mpt_packed packed[N_IN];
    linear_view v = {.op = node->op, .target = graph->target, .attrs = &node->attrs};
    char why[MPT_TARGET_WHY];
    if (graph->target == MPT_TARGET_HOST)
        return false;
    for (int i = 0; i < node->n_in && i < N_IN; i++)
        v.in[i] = tensor_of(graph, node->in[i], &packed[i]);
    v.out = tensor_of(graph, node->out[0], &packed[0]);
    return mpt_linear_plan(&v, out, why);
}

bool mpt_cuda_linear_lt_can(const mpt_graph *graph, const mpt_node *node, const char **why) {
    linear_plan plan;
    *why = "its codes are not multiplied as they are: the plan says what is lacking";
    return plan_of_node(graph, node, &plan) && plan.way >= MPT_WAY_E4M3;
}

bool mpt_cuda_linear_decoded_can(const mpt_graph *graph, const mpt_node *node,
                                 const char **why) {
    linear_plan plan;
    *why = "cuBLASLt has no product like it: the plan says what is lacking";
    return plan_of_node(graph, node, &plan);
}

size_t mpt_cuda_linear_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    linear_plan plan;
    (void)n_threads;
    return plan_of_node(graph, node, &plan) ? plan.bytes : 0;
}

/* ---- a run ---- */

static void prepare(const mpt_kernel_args *args, const linear_side *side, mpt_gemm_side *to) {
    uint8_t *at = (uint8_t *)args->scratch + side->at;
    gpu_operand from = side->from;
    if (side->take == LINEAR_AS_IT_LIES)
        return;
    to->data = at;
    if (side->take == LINEAR_REPACKED) {
        to->scales = side->repacked.scales ? at + side->repacked.scales : NULL;
        mpt_cuda_repack(args->gpu, &from, &side->repacked, at);
        return;
    }
    if (side->scaled_after)
        from.scales = NULL;
    mpt_cuda_decode(args->gpu, &from, to->as.format, at);
}

static void finish(const mpt_kernel_args *args, const linear_plan *plan, const float *sums) {
    const linear_side *a = &plan->side[0], *b = &plan->side[1];
    mpt_cuda_finish(args,
                    &(linear_finish){.sums = sums,
                                     .rows = plan->gemm.rows,
                                     .cols = plan->gemm.cols,
                                     .row_scales = a->scaled_after ? a->from.scales : NULL,
                                     .col_scales = b->scaled_after ? b->from.scales : NULL,
                                     .add = args->node->op == MPT_OP_linear_wgrad});
}

void mpt_cuda_linear(const mpt_kernel_args *args) {
    linear_view v = {.op = args->node->op,
                     .target = args->gpu->target,
                     .attrs = &args->node->attrs,
                     .out = args->out[0]};
    linear_plan plan;
    char why[MPT_TARGET_WHY];
    for (int i = 0; i < args->node->n_in && i < N_IN; i++)
        v.in[i] = args->in[i];
    if (!mpt_linear_plan(&v, &plan, why))
        return; /* can() has said no */
    mpt_gpu_gemm gemm = plan.gemm;
    prepare(args, &plan.side[0], &gemm.a);
    prepare(args, &plan.side[1], &gemm.b);
    if (plan.apart)
        gemm.d = (uint8_t *)args->scratch + plan.sums;
    if (plan.on_device) {
        mpt_cuda_alpha(args, gemm.beta, args->scratch);
        gemm.scalars = args->scratch;
    }
    mpt_gemm_run(args->gpu, &gemm);
    if (plan.apart)
        finish(args, &plan, gemm.d);
}
