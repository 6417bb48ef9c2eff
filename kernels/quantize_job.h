/* Between the backends' quantizers: the shape of a job, its scales, the steps of the
 * definition, and the node's way to jobs.
 *
 * A job runs in three steps with nothing but a few numbers between them: rotate; the largest
 * magnitudes, which give the tensor's scale; blocks. Each step takes ranges of rows of the
 * quantized orientation, in any order and on any thread, and gives the same bytes. The pieces
 * that mpt_quantize_piece() cuts are such ranges; sums of doubles are added piece by piece. */
#ifndef MPT_KERNELS_QUANTIZE_JOB_H
#define MPT_KERNELS_QUANTIZE_JOB_H

#include "kernels/quantize.h"

/* ---- shape ---- */

/* A job as its quantized orientation sees it: `rows` times `k`, blocks and groups along k. */
typedef struct mpt_quantize_shape {
    int64_t rows, k;              /* k padded for the rotation */
    int64_t k_in;                 /* elements along k that x has */
    int64_t row_stride, k_stride; /* of x */
    int64_t block_rows, block_k;
    int64_t blocks_k; /* blocks along k; those at the edges may be smaller */
    bool one_scale;   /* one for the whole tensor, or none */
    int64_t groups;   /* of random bits, a row */
} mpt_quantize_shape;

mpt_quantize_shape mpt_quantize_shape_of(const mpt_quantize_job *job);

/* Rows first ... last - 1, whole blocks; empty where there are fewer blocks than pieces. */
typedef struct mpt_quantize_range {
    int64_t first, last;
} mpt_quantize_range;

enum { MPT_QUANTIZE_PIECES = 64 };
mpt_quantize_range mpt_quantize_piece(const mpt_quantize_shape *shape, int piece);

/* The square blocks of a row copy whose scales a backend may keep in the scratch, two floats
 * each: rows of blocks, and their distance in floats, which is a multiple of MPT_SQUARES and
 * covers columns padded to MPT_SQUARES_COLS. No rows where there are none, where a rotation
 * has the scratch, or where a scale needs more than its block's largest magnitude. */
enum { MPT_SQUARES = 16, MPT_SQUARES_COLS = 128 };
typedef struct mpt_quantize_squares {
    int64_t rows, ld;
} mpt_quantize_squares;

mpt_quantize_squares mpt_quantize_squares_of(const mpt_quantize_job *job);

/* Bytes of the rotated values alone: what the definition needs. */
size_t mpt_quantize_rotated_bytes(const mpt_quantize_job *job);

/* Whether x is a BF16 operand. */
static inline bool mpt_quantize_is_bf16(const mpt_quantize_job *job) {
    return job->bf16 || job->x_bf16;
}

/* The value of x at (r, k) of the quantized orientation. */
static inline float mpt_quantize_input(const mpt_quantize_job *job, const mpt_quantize_shape *s,
                                       int64_t r, int64_t k) {
    int64_t at = r * s->row_stride + k * s->k_stride;
    return job->x_bf16 ? mpt_bits_float((uint32_t)job->x_bf16[at] << 16) : job->x[at];
}

/* The value that is quantized there: where there is a rotation, from the scratch. */
static inline float mpt_quantize_value(const mpt_quantize_job *job, const mpt_quantize_shape *s,
                                       int64_t r, int64_t k) {
    return job->q->hadamard.size ? job->scratch[r * s->k + k]
                                 : mpt_quantize_input(job, s, r, k);
}

/* ---- the largest magnitudes ---- */

/* Whether the tensor's largest magnitudes are asked for at all. */
bool mpt_quantize_needs_amax(const mpt_quantize_job *job);

/* ---- scales ---- */

/* A tensor's scale without what its values decide: constants of the quantizer and the operand.
 */
mpt_tensor_scale mpt_quantize_constants(const mpt_quantize_job *job);

mpt_tensor_scale mpt_quantize_tensor_scale(const mpt_quantize_job *job, mpt_quantize_amax seen);

/* The outputs that hold one number a tensor: amax, factor and scales where they do, history. */
void mpt_quantize_put_tensor(const mpt_quantize_job *job, const mpt_tensor_scale *tensor);

/* ---- the definition, over a range of rows ---- */

/* The signs of the rotation, of whichever sort. */
void mpt_quantize_signs(const mpt_quantize_job *job, uint32_t signs[4]);

void mpt_quantize_rotate_rows(const mpt_quantize_job *job, mpt_quantize_range rows);

mpt_quantize_amax mpt_quantize_amax_rows(const mpt_quantize_job *job, mpt_quantize_range rows);

/* Codes, scales, decoded values, and with outer = "row" amax and factor, of whole rows of
 * blocks. Adds to `counts` where job->counts is wanted. */
void mpt_quantize_block_rows(const mpt_quantize_job *job, const mpt_tensor_scale *tensor,
                             mpt_quantize_range rows, mpt_quantize_counts *counts);

/* Part of a block of the quantized orientation. */
typedef struct mpt_quantize_area {
    int64_t r0, r1, k0, k1;
} mpt_quantize_area;

/* The E4M3 code that Four Over Six chooses for a block. */
uint32_t mpt_quantize_four_over_six(const mpt_quantize_job *job,
                                    const mpt_quantize_shape *shape,
                                    const mpt_tensor_scale *tensor, mpt_quantize_area area,
                                    float amax);

/* ---- jobs ---- */

/* Both copies, each by `run`; `source` = "dequantized" included. */
void mpt_quantize_both_by(const mpt_quantize_job *row, const mpt_quantize_job *col,
                          void (*run)(const mpt_quantize_job *job));

/* What a backend runs jobs with: mpt_quantize_operand, mpt_quantize_both, the scratch that it
 * needs, at most mpt_quantize_scratch, and their like. */
typedef struct mpt_quantize_backend {
    void (*one)(const mpt_quantize_job *job);
    void (*both)(const mpt_quantize_job *row, const mpt_quantize_job *col);
    size_t (*scratch)(const mpt_quantize_job *job);
} mpt_quantize_backend;

/* The job of one copy of a node, without keys and outputs; `x` may lack data where only its
 * shape is known yet. */
mpt_quantize_job mpt_quantize_job_of(const mpt_node *node, bool column, const mpt_tensor *x);

/* The job of a record_amax node: nothing but the history is wanted. */
mpt_quantize_job mpt_quantize_record_job(const mpt_kernel_args *args);
size_t mpt_quantize_record_scratch(const mpt_graph *graph, const mpt_node *node,
                                   size_t (*scratch)(const mpt_quantize_job *job));

/* Runs the row and the column job of a quantize node; the scratch of both. */
void mpt_quantize_node(const mpt_kernel_args *args, const mpt_quantize_backend *backend);
size_t mpt_quantize_node_scratch(const mpt_graph *graph, const mpt_node *node,
                                 const mpt_quantize_backend *backend);

#endif
