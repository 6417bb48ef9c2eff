/* ref.quantize: the definition of every quantizer.
 *
 * Over the quantized orientation (for the column copy, the transpose): rotate into scratch
 * where there is a rotation; the largest magnitudes of the tensor and its scale
 * (kernels/quantize_scale.c); then block by block, in ref_quantize_block.c. The pieces are run
 * in their order here; a backend may run them side by side. */
#include "kernels/quantize_job.h"

void mpt_quantize_signs(const mpt_quantize_job *job, uint32_t signs[4]) {
    for (int i = 0; i < 4; i++)
        signs[i] = job->q->hadamard.signs == MPT_SIGNS_RANDOM ? job->signs[i] : 0;
    if (job->q->hadamard.signs == MPT_SIGNS_FIXED)
        mpt_fixed_signs(signs);
}

void mpt_quantize_rotate_rows(const mpt_quantize_job *job, mpt_quantize_range rows) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    int n = job->q->hadamard.size;
    bool bf16 = mpt_quantize_is_bf16(job);
    uint32_t signs[4];
    mpt_quantize_signs(job, signs);
    float v[MPT_HADAMARD_MAX];
    for (int64_t r = rows.first; r < rows.last; r++)
        for (int64_t k = 0; k < s.k; k += n) {
            for (int i = 0; i < n; i++)
                v[i] = k + i < s.k_in ? mpt_quantize_input(job, &s, r, k + i) : 0.0f;
            mpt_hadamard_rotate(v, n, signs);
            for (int i = 0; i < n; i++)
                job->scratch[r * s.k + k + i] = bf16 ? mpt_round(MPT_DTYPE_BF16, v[i]) : v[i];
        }
}

mpt_quantize_amax mpt_quantize_amax_rows(const mpt_quantize_job *job, mpt_quantize_range rows) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    mpt_quantize_amax most = {0, false, false};
    for (int64_t r = rows.first; r < rows.last; r++)
        for (int64_t k = 0; k < s.k; k++)
            mpt_quantize_amax_see(&most, mpt_quantize_value(job, &s, r, k));
    return most;
}

/* The tensor's largest magnitudes, where they are needed, and the outputs that they give. */
static mpt_tensor_scale settle_tensor(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    for (int i = 0; job->q->hadamard.size && i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_rotate_rows(job, mpt_quantize_piece(&s, i));
    mpt_quantize_amax most = {0, false, false};
    for (int i = 0; mpt_quantize_needs_amax(job) && i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_amax_merge(&most, mpt_quantize_amax_rows(job, mpt_quantize_piece(&s, i)));
    mpt_tensor_scale tensor = mpt_quantize_tensor_scale(job, most);
    mpt_quantize_put_tensor(job, &tensor);
    return tensor;
}

void mpt_ref_quantize_operand(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    mpt_tensor_scale tensor = settle_tensor(job);
    mpt_quantize_counts total = {.capped = tensor.capped};
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++) {
        mpt_quantize_counts part = {0};
        mpt_quantize_block_rows(job, &tensor, mpt_quantize_piece(&s, i), &part);
        mpt_quantize_counts_add(&total, &part);
    }
    if (job->counts)
        *job->counts = total;
}

void mpt_ref_quantize_both(const mpt_quantize_job *row, const mpt_quantize_job *col) {
    mpt_quantize_both_by(row, col, mpt_ref_quantize_operand);
}

static const mpt_quantize_backend backend = {mpt_ref_quantize_operand, mpt_ref_quantize_both,
                                             mpt_quantize_rotated_bytes};

void mpt_ref_quantize(const mpt_kernel_args *args) {
    mpt_quantize_node(args, &backend);
}

void mpt_ref_record_amax(const mpt_kernel_args *args) {
    mpt_quantize_job job = mpt_quantize_record_job(args);
    if (!args->env->evaluating)
        (void)settle_tensor(&job);
}

size_t mpt_ref_record_amax_scratch(const mpt_graph *graph, const mpt_node *node,
                                   int n_threads) {
    (void)n_threads;
    return mpt_quantize_record_scratch(graph, node, mpt_quantize_rotated_bytes);
}

size_t mpt_ref_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    return mpt_quantize_node_scratch(graph, node, &backend);
}
