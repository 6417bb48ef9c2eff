/* What both backends need to know of a quantizer: its padding, its scratch, and how a graph
 * node becomes two jobs. The numbers are in ref/ref_quantize.c. */
#include "kernels/quantize_job.h"

int64_t mpt_quantizer_extent(const mpt_quantizer *q, int64_t k) {
    int64_t n = q->hadamard.size;
    return n ? (k + n - 1) / n * n : k;
}

size_t mpt_quantize_scratch(const mpt_quantize_job *job) {
    if (job->q->hadamard.size == 0)
        return 0;
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    return (size_t)s.rows * (size_t)s.k * sizeof(float);
}

mpt_quantize_shape mpt_quantize_shape_of(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    mpt_quantize_shape s;
    s.rows = job->column ? job->cols : job->rows;
    s.k_in = job->column ? job->rows : job->cols;
    s.k = mpt_quantizer_extent(q, s.k_in);
    s.row_stride = job->column ? 1 : job->cols;
    s.k_stride = job->column ? job->cols : 1;
    s.block_rows = q->block_rows ? q->block_rows : s.rows;
    s.block_k = q->block_cols ? q->block_cols : s.k;
    s.one_scale = q->scaling == MPT_SCALING_NONE || (q->block_rows == 0 && q->block_cols == 0 &&
                                                     q->scale_format == MPT_DTYPE_FP32);
    s.groups = (s.k + MPT_RANDOM_GROUP - 1) / MPT_RANDOM_GROUP;
    return s;
}

/* ---- the graph node ---- */

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
