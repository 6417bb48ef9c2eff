/* From a quantize node of the graph to the jobs of its two copies: keys, formats, the state of
 * delayed scaling, outputs, counts. */
#include "kernels/quantize_job.h"
#include "kernels/tensor.h"

enum { ALIGN = 64 };

mpt_quantize_job mpt_quantize_job_of(const mpt_node *node, bool column, const mpt_tensor *x) {
    mpt_quantize_job job = {0};
    job.q = column ? &node->attrs.col : &node->attrs.row;
    job.x = x->data;
    job.rows = x->dims[0];
    job.cols = x->dims[1];
    job.column = column;
    /* What norms put out in 8 bits comes here as the BF16 numbers that they are. */
    job.bf16 = x->dtype == MPT_DTYPE_BF16 || mpt_dtype_bits(x->dtype) == 8;
    job.fp16 = x->dtype == MPT_DTYPE_FP16;
    return job;
}

/* Keys of what is random: the stream of the elements, the signs of the rotation. */
static void set_keys(mpt_quantize_job *job, const mpt_node *node, const mpt_run_env *env) {
    const mpt_attrs *a = &node->attrs;
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    /* Weights are quantized once a step, before the micro-batches. */
    uint64_t micro_batch = node->pass == MPT_PASS_PREPARE ? 0 : env->micro_batch;
    job->key =
        mpt_quantize_key(env->seed, env->step, job->column ? a->col_operand : a->row_operand,
                         micro_batch, s.rows * s.groups);
    if (job->q->hadamard.size)
        mpt_hadamard_signs(&job->q->hadamard, &job->key,
                           job->column ? a->col_scope : a->row_scope, job->signs);
}

/* Whether the copy was made before in this micro-batch: it is seen and counted once. */
static bool is_again(const mpt_node *node, bool column) {
    return column ? node->attrs.col_again : node->attrs.row_again;
}

/* A whole job: an evaluation reads the delayed scale, but leaves no trace in the history. */
static mpt_quantize_job fill_job(const mpt_kernel_args *args, bool column) {
    int in = column ? 3 : 1, out = column ? 2 : 0;
    mpt_quantize_job job = mpt_quantize_job_of(args->node, column, &args->in[0]);
    set_keys(&job, args->node, args->env);
    job.scale = mpt_arg_in(args, in);
    bool records = !args->env->evaluating && !is_again(args->node, column);
    if (in + 1 < args->node->n_in && records)
        job.amax_history = args->in[in + 1].data;
    job.scratch = args->scratch;
    job.decoded = args->out[out].data;
    job.decoded_k = args->out[out].dims[column ? 0 : 1];
    job.factor = args->out[out + 1].data;
    return job;
}

/* Bytes of a job's scratch, such that another's may follow. A job that counts may take a slower
 * path with more of it, and any step may be counted. */
static size_t scratch_of(const mpt_quantize_backend *backend, const mpt_quantize_job *job) {
    mpt_quantize_counts any;
    mpt_quantize_job counting = *job;
    counting.counts = &any;
    size_t bytes = backend->scratch(&counting);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* What the whole tensor was multiplied by; 0 where only its blocks or rows have scales. */
static float scale_of(const mpt_quantize_job *job) {
    if (!job->factor && job->q->scale.kind != MPT_SCALING_STATIC)
        return 0;
    return mpt_quantize_counted_scale(
        job->q, mpt_quantizer_is_one_scale(job->q), mpt_quantizer_constant(job->q),
        job->scale ? *job->scale : 0, job->factor ? *job->factor : 1);
}

/* Adds what a job has counted to the operand's counts. */
static void keep_counts(const mpt_kernel_args *args, const mpt_quantize_job *job) {
    const mpt_attrs *a = &args->node->attrs;
    if (!job->counts)
        return;
    mpt_quantize_counts *counts = &args->env->counts[job->column ? a->col_index : a->row_index];
    mpt_quantize_counts_add(counts, job->counts);
    counts->scale = scale_of(job);
}

void mpt_quantize_node(const mpt_kernel_args *args, const mpt_quantize_backend *backend) {
    const mpt_attrs *a = &args->node->attrs;
    mpt_quantize_counts counts[2] = {{0}, {0}};
    mpt_quantize_job row = {0}, col = {0};
    if (a->has_row)
        row = fill_job(args, false);
    if (a->has_col)
        col = fill_job(args, true);
    bool counting = args->env->counts != NULL;
    row.counts = counting && a->has_row && !a->row_again ? &counts[0] : NULL;
    col.counts = counting && a->has_col && !a->col_again ? &counts[1] : NULL;
    if (a->has_row && a->has_col) {
        size_t own = scratch_of(backend, &row) / sizeof *col.scratch;
        col.scratch = own > 0 ? row.scratch + own : col.scratch;
        backend->both(&row, &col);
    } else {
        backend->one(a->has_row ? &row : &col);
    }
    keep_counts(args, &row);
    keep_counts(args, &col);
}

/* ---- states ---- */

static mpt_quantize_job state_job(const mpt_quantizer *q, const mpt_tensor *t,
                                  const mpt_random_key *key) {
    mpt_quantize_job job = {.q = q, .x = t->data, .stands_for = t->data, .key = *key};
    int64_t n = mpt_tensor_elements(t);
    job.rows = t->rank > 1 ? t->dims[0] : 1;
    job.cols = job.rows ? n / job.rows : 0;
    return job;
}

void mpt_ref_quantize_state_values(const mpt_quantizer *q, const mpt_tensor *t,
                                   const mpt_random_key *key) {
    mpt_quantize_job job = state_job(q, t, key);
    mpt_ref_quantize_operand(&job);
}

void mpt_quantize_state_values(const mpt_quantizer *q, const mpt_tensor *t,
                               const mpt_random_key *key) {
    mpt_quantize_job job = state_job(q, t, key);
    mpt_quantize_operand(&job);
}

/* ---- scratch ---- */

/* A tensor without data, of a value whose shape is all that is known yet. */
static mpt_tensor shape_of(const mpt_value *value) {
    mpt_tensor x = {.dtype = value->dtype, .rank = value->rank};
    for (int i = 0; i < value->rank; i++)
        x.dims[i] = value->dims[i];
    return x;
}

mpt_quantize_job mpt_quantize_record_job(const mpt_kernel_args *args) {
    mpt_quantize_job job =
        mpt_quantize_job_of(args->node, args->node->attrs.has_col, &args->in[1]);
    set_keys(&job, args->node, args->env);
    job.scratch = args->scratch;
    job.amax_history = args->in[0].data;
    return job;
}

size_t mpt_quantize_record_scratch(const mpt_graph *graph, const mpt_node *node,
                                   size_t (*scratch)(const mpt_quantize_job *job)) {
    mpt_tensor x = shape_of(&graph->values[node->in[1]]);
    mpt_quantize_job job = mpt_quantize_job_of(node, node->attrs.has_col, &x);
    return scratch(&job);
}

size_t mpt_quantize_node_scratch(const mpt_graph *graph, const mpt_node *node,
                                 const mpt_quantize_backend *backend) {
    const mpt_attrs *a = &node->attrs;
    mpt_tensor x = shape_of(&graph->values[node->in[0]]);
    mpt_quantize_job row = mpt_quantize_job_of(node, false, &x),
                     col = mpt_quantize_job_of(node, true, &x);
    size_t bytes = a->has_row ? scratch_of(backend, &row) : 0;
    if (!a->has_col)
        return bytes;
    size_t own = scratch_of(backend, &col), both = 0;
    if (a->has_row && col.q->source == MPT_SOURCE_DEQUANTIZED)
        both = mpt_quantize_both_scratch(&row, &col); /* and what the row copy stands for */
    return bytes + (own > both ? own : both);
}
