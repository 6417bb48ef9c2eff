/* What each GPU multiplies by itself: facts of its tensor cores, as far as a recipe can ask.
 *
 * The plan tells with them which products of a recipe are native on a device and which are
 * emulated there, by decoding both operands and multiplying in a wider format. A scale that is
 * constant along the dot product (one a tensor, one a row, an outer scale) is a factor of the
 * result and asks nothing of the tensor cores; a scale that changes along it does.
 *
 * Sources: the matrix multiply instructions of PTX ISA 9.0, and the modes of cuBLASLt 13 for
 * what a library offers of them. */
#ifndef MPT_RECIPE_TARGET_H
#define MPT_RECIPE_TARGET_H

#include "mpt/mpt.h"
#include "recipe/quantizer.h"

enum { MPT_TARGET_COUNT = MPT_TARGET_SM100 + 1 };

const char *mpt_target_name(mpt_target target); /* "host", "sm90" */

/* One product as its quantizers and its shape say it: [rows, k] times [k, cols]. */
typedef struct mpt_product {
    const mpt_quantizer *a, *b;
    int64_t rows, cols, k;
} mpt_product;

enum { MPT_TARGET_WHY = 128 };

/* Whether the device's tensor cores multiply the codes of both operands as they are. Otherwise
 * `why` says what they lack: "sm90 multiplies no fp4". For the GPUs only. */
bool mpt_target_multiplies(mpt_target target, const mpt_product *product,
                           char why[MPT_TARGET_WHY]);

/* Whether an operand of a native product must lie in memory along the dot product, so that one
 * that two products read along different sides is kept twice. */
bool mpt_target_wants_both(mpt_target target, const mpt_quantizer *q);

/* The rate of a product against BF16's: FP8, FP6 and INT8 2, FP4 4, TF32 1/2, FP32 1/16, and of
 * two operands the wider one's. What a GPU emulates runs at the rate of BF16; for the host no
 * device is asked. */
double mpt_target_rate(mpt_target target, const mpt_product *product);

/* Bytes of one operand in a GPU's memory: its codes without gaps, and its block scales in the
 * layout that the products read. Rows and columns are those of the quantized orientation. */
double mpt_target_bytes(mpt_target target, const mpt_quantizer *q, int64_t rows, int64_t cols);

/* Scratch of the library that multiplies. */
size_t mpt_target_workspace(mpt_target target);

#endif
