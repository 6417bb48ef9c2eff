/* What both backends need to know of a quantizer: padding, scratch, the shape of a job and its
 * pieces, both copies of one operand, counts.
 *
 * The formulas of the scales are in quantize_formulas.h, the steps of the definition in
 * ref/ref_quantize.c; how a graph node becomes jobs in quantize_node.c. */
#include "kernels/quantize_job.h"

#include <math.h>
#include <string.h>

int64_t mpt_quantizer_extent(const mpt_quantizer *q, int64_t k) {
    int64_t n = q->hadamard.size;
    return n ? (k + n - 1) / n * n : k;
}

size_t mpt_quantize_rotated_bytes(const mpt_quantize_job *job) {
    if (job->q->hadamard.size == 0)
        return 0;
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    return (size_t)s.rows * (size_t)s.k * sizeof(float);
}

mpt_quantize_squares mpt_quantize_squares_of(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    int64_t block = q->block_rows;
    bool keeps = block > 1 && block == q->block_cols && MPT_SQUARES_COLS % block == 0 &&
                 q->outer != MPT_OUTER_ROW && q->scale.kind != MPT_SCALING_NONE &&
                 q->scale_rule.kind != MPT_RULE_FOUR_OVER_SIX && q->hadamard.size == 0;
    if (!keeps || job->column || mpt_is_wide(q->format))
        return (mpt_quantize_squares){0, 0};
    int64_t cols = (job->cols + MPT_SQUARES_COLS - 1) / MPT_SQUARES_COLS * MPT_SQUARES_COLS;
    int64_t ld = (cols / block + MPT_SQUARES - 1) / MPT_SQUARES * MPT_SQUARES;
    return (mpt_quantize_squares){(job->rows + block - 1) / block, ld};
}

size_t mpt_quantize_scratch(const mpt_quantize_job *job) {
    mpt_quantize_squares s = mpt_quantize_squares_of(job);
    size_t blocks = mpt_size_mul((size_t)s.rows, (size_t)s.ld);
    size_t rotated = mpt_quantize_rotated_bytes(job);
    size_t kept = mpt_size_mul(blocks, 2 * sizeof(float)); /* encode and decode */
    return rotated > kept ? rotated : kept;
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
    s.blocks_k = s.block_k ? (s.k + s.block_k - 1) / s.block_k : 0;
    s.one_scale = mpt_quantizer_is_one_scale(q);
    s.groups = (s.k + MPT_RANDOM_GROUP - 1) / MPT_RANDOM_GROUP;
    return s;
}

mpt_quantize_range mpt_quantize_piece(const mpt_quantize_shape *shape, int piece) {
    int64_t block = shape->one_scale ? 1 : shape->block_rows;
    int64_t blocks = block ? (shape->rows + block - 1) / block : 0;
    mpt_quantize_range r;
    r.first = blocks * piece / MPT_QUANTIZE_PIECES * block;
    r.last = blocks * (piece + 1) / MPT_QUANTIZE_PIECES * block;
    r.last = r.last < shape->rows ? r.last : shape->rows;
    return r;
}

/* ---- both copies ---- */

static size_t stands_for_bytes(const mpt_quantize_job *row) {
    return (size_t)row->rows * (size_t)mpt_quantizer_extent(row->q, row->cols) * sizeof(float);
}

size_t mpt_quantize_both_scratch(const mpt_quantize_job *row, const mpt_quantize_job *col) {
    size_t own = mpt_quantize_scratch(col);
    return col->q->source == MPT_SOURCE_DEQUANTIZED ? own + stands_for_bytes(row) : own;
}

/* What the row copy stands for becomes an operand like x: rotated back, without padding. */
static void rotate_back(const mpt_quantize_job *row, float *x) {
    int n = row->q->hadamard.size;
    int64_t k = mpt_quantizer_extent(row->q, row->cols);
    uint32_t signs[4];
    mpt_quantize_signs(row, signs);
    for (int64_t r = 0; r < row->rows; r++) {
        for (int64_t i = 0; i < k; i += n)
            mpt_hadamard_unrotate(x + r * k + i, n, signs);
        memmove(x + r * row->cols, x + r * k, (size_t)row->cols * sizeof *x);
    }
}

void mpt_quantize_both_by(const mpt_quantize_job *row, const mpt_quantize_job *col,
                          void (*run)(const mpt_quantize_job *job)) {
    if (col->q->source == MPT_SOURCE_ORIGINAL) {
        run(row);
        run(col);
        return;
    }
    mpt_quantize_job first = *row, second = *col;
    first.stands_for = col->scratch;
    run(&first);
    if (row->stands_for)
        memcpy(row->stands_for, col->scratch, stands_for_bytes(row));
    if (row->q->hadamard.size)
        rotate_back(row, col->scratch);
    second.bf16 = mpt_quantize_is_bf16(col);
    if (second.bf16)
        mpt_ref_round_to(MPT_DTYPE_BF16, col->scratch, (size_t)(row->rows * row->cols));
    second.x = col->scratch;
    second.x_bf16 = NULL;
    second.scratch = col->scratch + stands_for_bytes(row) / sizeof(float);
    run(&second);
}

/* ---- counts ---- */

double mpt_quantize_sqnr(const mpt_quantize_counts *counts) {
    if (!(counts->signal > 0))
        return (double)NAN;
    return counts->noise == 0 ? (double)INFINITY : 10.0 * log10(counts->signal / counts->noise);
}
