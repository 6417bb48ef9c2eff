/* The quantizer and the casts, as plain functions over matrices.
 *
 * The graph's quantize and cast nodes call these, and tools that quantize files will. Each
 * exists twice: mpt_ref_* is the definition, one element after the other; the fast one gives
 * the same bytes for any number of threads. None allocates, prints or fails. */
#ifndef MPT_KERNELS_QUANTIZE_H
#define MPT_KERNELS_QUANTIZE_H

#include <stddef.h>

#include "kernels/kernel.h"
#include "kernels/quantize_formulas.h"

/* ---- casts ---- */

/* Rounds n values to a floating format in place: the executor does so after each kernel whose
 * output is not FP32. FP32 leaves them as they are. */
void mpt_ref_round_to(mpt_dtype dtype, float *x, size_t n);
void mpt_round_to(mpt_dtype dtype, float *x, size_t n);

/* The same from x to y, which may be one buffer. */
void mpt_ref_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n);
void mpt_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n);

/* The largest magnitude, Inf included; NaN has none, and 0 is that of no values. */
float mpt_amax_of(const float *x, size_t n);

/* The kernels of the op `cast`: the output's dtype tells the format. */
void mpt_ref_cast(const mpt_kernel_args *args);
void mpt_cpu_cast(const mpt_kernel_args *args);

/* ---- quantizers ---- */

/* Elements along the dot product that k elements become: a rotation pads them with zeros to a
 * multiple of its size, and the rotated padding carries part of the values. */
int64_t mpt_quantizer_extent(const mpt_quantizer *q, int64_t k);

/* 10 log10(signal / noise); +Inf where nothing is lost, NaN where there is no signal. */
double mpt_quantize_sqnr(const mpt_quantize_counts *counts);

/* One copy of one operand: a matrix x [rows, cols] in, any of the outputs out.
 *
 * The row copy has its blocks, rotation and random groups along the columns; the column copy is
 * the quantized transpose, with all of them down the rows. R below is the count of the other
 * dimension, K the padded count along the dot product. Values that are not finite stay visible:
 * they make their block's scale NaN, and with one scale a tensor they stay NaN (or Inf in
 * E5M2); they never enter the tensor's amax. nonfinite = "saturate" gives Transformer Engine's
 * bytes. */
typedef struct mpt_quantize_job {
    const mpt_quantizer *q;
    const float *x;
    const uint16_t *x_bf16; /* instead of x: its codes in BF16 */
    int64_t rows, cols;
    bool column; /* the column copy */
    bool bf16;   /* x is a BF16 operand: rotated values are rounded to BF16 */
    bool fp16;   /* x is an FP16 operand: its range caps the scales of blocks */
    mpt_random_key key;
    uint32_t signs[4];  /* of a rotation with random signs: mpt_random_signs */
    const float *scale; /* delayed: the encode scale from earlier steps; 0 there, or NULL: there
                           is none yet, and the current one is taken */
    const mpt_quantize_amax
        *whole;     /* of the tensor, where x is a range of its rows; NULL: x is all */
    float *scratch; /* mpt_quantize_scratch() bytes */
    /* Outputs, NULL where not wanted. */
    float *decoded; /* code times block scale without the tensor's factor, in the layout of x */
    int64_t decoded_k; /* its extent along the dot product, at most K */
    uint8_t *codes;    /* [R, K], rows whole bytes; 4-bit codes two a byte, the even one low;
                          6-bit ones a byte each, 12-bit ones two bytes, low first */
    void *scales;  /* [ceil(R / block), ceil(K / block)]: bytes for E8M0 and E4M3, else float
                      decode scales; [1, 1] with one scale a tensor, none for wide formats */
    float *amax;   /* of the tensor, after the rotation; with outer = row, [R] */
    float *factor; /* [1]; with outer = row, [R] */
    float *amax_history; /* delayed: raised to the amax of x where that is larger (and NaN or
                            Inf once the values hold one) */
    mpt_quantize_counts *counts;
    float *stands_for; /* [R, K]: what each code stands for, as mpt_dequantize; rotated values
                          stay rotated */
} mpt_quantize_job;

/* The factor is what data is multiplied by for the value: 1 for wide formats, fl(1/scale) for
 * one scale a tensor, and the amax for an outer scale: there the constant 1/(bound * max)
 * belongs to the product that uses it (mpt_quantizer_constant), so that its alpha is multiplied
 * up as Transformer Engine does. */
float mpt_quantizer_constant(const mpt_quantizer *q);

size_t mpt_quantize_scratch(const mpt_quantize_job *job);
void mpt_ref_quantize_operand(const mpt_quantize_job *job);
void mpt_quantize_operand(const mpt_quantize_job *job);

/* Both copies of one operand, reading x once: two jobs over the same x, each with a scratch of
 * its own. Where col's quantizer has source = "dequantized", the column copy is made from what
 * the row copy stands for, rotated back and, for a BF16 operand, rounded to BF16; col's scratch
 * is then mpt_quantize_both_scratch() bytes. */
size_t mpt_quantize_both_scratch(const mpt_quantize_job *row, const mpt_quantize_job *col);
void mpt_ref_quantize_both(const mpt_quantize_job *row, const mpt_quantize_job *col);
void mpt_quantize_both(const mpt_quantize_job *row, const mpt_quantize_job *col);

/* What codes and scales stand for, in the order of operations of Transformer Engine (numerics
 * sections 2.2, 6.2 and 6.7). Reads the outputs codes, scales, amax and factor of a job that
 * has run, writes rows * cols values in the layout of x: padding is cut, rotated values stay
 * rotated. */
void mpt_dequantize(const mpt_quantize_job *job, float *y);

/* A master or a moment brought to the format that it is kept in, in place: n values become what
 * their codes stand for. A vector is one row; a tensor of more than two dimensions has a row
 * for each of its first. Stochastic rounding takes its bits from the key's stream. */
void mpt_ref_quantize_state_values(const mpt_quantizer *q, const mpt_tensor *t,
                                   const mpt_random_key *key);
void mpt_quantize_state_values(const mpt_quantizer *q, const mpt_tensor *t,
                               const mpt_random_key *key);

/* The kernels of the op `quantize`, and their scratch. Outputs are row data, row factor,
 * column data, column factor; those not wanted have no data. */
void mpt_ref_quantize(const mpt_kernel_args *args);
void mpt_cpu_quantize(const mpt_kernel_args *args);
size_t mpt_ref_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);
size_t mpt_cpu_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);

/* The kernels of the op `record_amax`, and their scratch. */
void mpt_ref_record_amax(const mpt_kernel_args *args);
void mpt_cpu_record_amax(const mpt_kernel_args *args);
size_t mpt_ref_record_amax_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);
size_t mpt_cpu_record_amax_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);

#endif
