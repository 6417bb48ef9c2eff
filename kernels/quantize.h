/* The quantizer and the casts, as plain functions over matrices.
 *
 * The graph's quantize and cast nodes call these, and tools that quantize files will. Each
 * exists twice: mpt_ref_* is the definition, one element after the other; the fast one gives
 * the same bytes for any number of threads. None allocates, prints or fails. */
#ifndef MPT_KERNELS_QUANTIZE_H
#define MPT_KERNELS_QUANTIZE_H

#include <stddef.h>

#include "kernels/kernel.h"
#include "kernels/numerics.h"

/* ---- casts ---- */

/* Rounds n values to a floating format in place: the executor does so after each kernel whose
 * output is not FP32. FP32 leaves them as they are. */
void mpt_ref_round_to(mpt_dtype dtype, float *x, size_t n);
void mpt_round_to(mpt_dtype dtype, float *x, size_t n);

/* The same from x to y, which may be one buffer. */
void mpt_ref_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n);
void mpt_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n);

/* The kernels of the op `cast`: the output's dtype tells the format. */
void mpt_ref_cast(const mpt_kernel_args *args);
void mpt_cpu_cast(const mpt_kernel_args *args);

/* ---- quantizers ---- */

/* Elements along the dot product that k elements become: a rotation pads them with zeros to a
 * multiple of its size, and the rotated padding carries part of the values. */
int64_t mpt_quantizer_extent(const mpt_quantizer *q, int64_t k);

/* One operand: a float matrix x [rows, cols] in, any of the outputs out.
 *
 * The row copy has its blocks, rotation and random groups along the columns; the column copy
 * is the quantized transpose, with all of them down the rows. R below is the count of the
 * other dimension, K the padded count along the dot product. Values that are not finite stay
 * visible: they make their block's scale NaN, and with one scale a tensor they stay NaN (or
 * Inf in E5M2); they never enter the tensor's amax. */
typedef struct mpt_quantize_job {
    const mpt_quantizer *q;
    const float *x;
    int64_t rows, cols;
    bool column; /* the column copy */
    bool bf16;   /* x is a BF16 operand: rotated values are rounded to BF16 */
    mpt_random_key key;
    float *scratch; /* mpt_quantize_scratch() bytes */
    /* Outputs, NULL where not wanted. */
    float *decoded; /* code times block scale without the tensor's factor, in the layout of x */
    int64_t decoded_k; /* its extent along the dot product, at most K */
    uint8_t *codes;    /* [R, K], rows whole bytes; 4-bit codes two a byte, the even one low */
    uint8_t *scales;   /* [ceil(R / block), ceil(K / block)]: E4M3 codes; none without blocks */
    float *amax;       /* of the tensor, after the rotation */
    float *factor;
} mpt_quantize_job;

/* The factor is 1 for wide formats, fl(1/scale) for one scale a tensor, and the tensor's amax
 * for an outer scale: there the constant 1/(448 * 6) belongs to the product that uses it, so
 * that its alpha is multiplied up as Transformer Engine does. */
size_t mpt_quantize_scratch(const mpt_quantize_job *job);
void mpt_ref_quantize_operand(const mpt_quantize_job *job);
void mpt_quantize_operand(const mpt_quantize_job *job);

/* The kernels of the op `quantize`, and their scratch. Outputs are row data, row factor,
 * column data, column factor; those not wanted have no data. */
void mpt_ref_quantize(const mpt_kernel_args *args);
void mpt_cpu_quantize(const mpt_kernel_args *args);
size_t mpt_ref_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);
size_t mpt_cpu_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);

#endif
