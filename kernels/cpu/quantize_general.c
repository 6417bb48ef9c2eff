/* The definition's steps on every thread: for what the CPU's kernels have no plan.
 *
 * The pieces are ref's, and sums of doubles are added in their order, so neither the threads
 * nor the backend show in any byte. */
#include "kernels/cpu/quantize.h"

enum { SMALL = 16384 }; /* values: below it one thread is faster */

mpt_tensor_scale mpt_quantize_general_scale(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    bool parallel = s.rows * s.k > SMALL;
    if (job->q->hadamard.size) {
#pragma omp parallel for schedule(static) if (parallel)
        for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
            mpt_quantize_rotate_rows(job, mpt_quantize_piece(&s, i));
    }
    mpt_quantize_amax most = {0, false, false}, seen[MPT_QUANTIZE_PIECES] = {{0}};
    if (mpt_quantize_needs_amax(job)) {
#pragma omp parallel for schedule(static) if (parallel)
        for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
            seen[i] = mpt_quantize_amax_rows(job, mpt_quantize_piece(&s, i));
    }
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_amax_merge(&most, seen[i]);
    mpt_tensor_scale tensor = mpt_quantize_tensor_scale(job, most);
    mpt_quantize_put_tensor(job, &tensor);
    return tensor;
}

void mpt_quantize_general(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    bool parallel = s.rows * s.k > SMALL;
    mpt_tensor_scale tensor = mpt_quantize_general_scale(job);
    mpt_quantize_counts total = {.capped = tensor.capped}, part[MPT_QUANTIZE_PIECES] = {{0}};
#pragma omp parallel for schedule(static) if (parallel)
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_block_rows(job, &tensor, mpt_quantize_piece(&s, i), &part[i]);
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_counts_add(&total, &part[i]);
    if (job->counts)
        *job->counts = total;
}
