/* From a quantize node of the graph to the jobs of its two copies: keys, formats, outputs. */
#include "kernels/quantize_job.h"

/* The job of one copy; `x` may lack data where only its shape is known yet. */
static mpt_quantize_job job_of(const mpt_node *node, bool column, const mpt_tensor *x) {
    mpt_quantize_job job = {0};
    job.q = column ? &node->attrs.col : &node->attrs.row;
    job.x = x->data;
    job.rows = x->dims[0];
    job.cols = x->dims[1];
    job.column = column;
    job.bf16 = x->dtype == MPT_DTYPE_BF16;
    return job;
}

void mpt_quantize_node(const mpt_kernel_args *args, void (*run)(const mpt_quantize_job *job)) {
    const mpt_node *node = args->node;
    const mpt_run_env *env = args->env;
    for (int side = 0; side < 2; side++) {
        const mpt_tensor *data = &args->out[2 * side], *factor = &args->out[2 * side + 1];
        if (!(side ? node->attrs.has_col : node->attrs.has_row))
            continue;
        mpt_quantize_job job = job_of(node, side, &args->in[0]);
        mpt_quantize_shape s = mpt_quantize_shape_of(&job);
        job.key.seed = env->seed;
        job.key.step = env->step;
        job.key.operand = side ? node->attrs.col_operand : node->attrs.row_operand;
        /* Weights are quantized once a step, before the micro-batches. */
        uint64_t micro_batch = node->pass == MPT_PASS_PREPARE ? 0 : env->micro_batch;
        job.key.first_group = micro_batch * (uint64_t)s.rows * (uint64_t)s.groups;
        job.scratch = args->scratch;
        job.decoded = data->data;
        job.decoded_k = data->dims[side ? 0 : 1];
        job.factor = factor->data;
        run(&job);
    }
}

size_t mpt_quantize_node_scratch(const mpt_graph *graph, const mpt_node *node,
                                 size_t (*scratch)(const mpt_quantize_job *job)) {
    const mpt_value *value = &graph->values[node->in[0]];
    mpt_tensor x = {.dtype = value->dtype, .rank = value->rank};
    for (int i = 0; i < value->rank; i++)
        x.dims[i] = value->dims[i];
    size_t most = 0;
    for (int side = 0; side < 2; side++) {
        if (!(side ? node->attrs.has_col : node->attrs.has_row))
            continue;
        mpt_quantize_job job = job_of(node, side, &x);
        size_t bytes = scratch(&job);
        most = bytes > most ? bytes : most;
    }
    return most;
}
