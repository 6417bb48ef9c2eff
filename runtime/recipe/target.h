/* What each GPU multiplies by itself: facts of its tensor cores, as far as a recipe can ask.
 *
 * The plan tells with them which products of a recipe are native on a device and which are
 * emulated there, by decoding both operands and multiplying in a wider format. A scale that is
 * constant along the dot product (one a tensor, one a row, an outer scale) is a factor of the
 * result and asks nothing of the tensor cores; a scale that changes along it does.
 *
 * What a GPU multiplies is what cuBLASLt takes (lt_support.h). The rest is multiplied by other
 * ways of the same library with the same result but for the order of sums: a format inside
 * E4M3 as E4M3, or both operands decoded to a wide format that holds their numbers exactly. */
#ifndef MPT_RECIPE_TARGET_H
#define MPT_RECIPE_TARGET_H

#include "mpt/mpt.h"
#include "recipe/lt_support.h"
#include "recipe/quantizer.h"

enum { MPT_TARGET_COUNT = MPT_TARGET_SM100 + 1 };

const char *mpt_target_name(mpt_target target); /* "host", "sm90" */

/* One product as its quantizers and its shape say it: [rows, k] times [k, cols]. */
typedef struct mpt_product {
    const mpt_quantizer *a, *b;
    int64_t rows, cols, k;
    bool grouped;         /* one for each expert, whose rows the device alone knows */
    mpt_dtype accumulate; /* the format of its sums */
} mpt_product;

/* How a GPU makes a product, slowest first. */
typedef enum mpt_way {
    MPT_WAY_PLAIN,  /* without tensor cores */
    MPT_WAY_FP32,   /* decoded, with the library's FP32 products */
    MPT_WAY_TF32,   /* decoded: numbers that TF32 holds */
    MPT_WAY_FP16,   /* decoded */
    MPT_WAY_BF16,   /* decoded */
    MPT_WAY_E4M3,   /* codes of 4 and 6 bits rewritten as the same numbers in E4M3 */
    MPT_WAY_NATIVE, /* codes as they are */
    MPT_WAY_COUNT
} mpt_way;

const char *mpt_way_name(mpt_way way); /* "bf16", "native" */

enum { MPT_TARGET_WHY = MPT_LT_WHY };

/* The best way that a GPU has. Where it is none of the last two, the product is emulated, and
 * `why` says what the tensor cores or the library lack: "sm90 multiplies no fp4". A scale of
 * the tensor or of a row stays out of the product in any case. */
mpt_way mpt_target_way(mpt_target target, const mpt_product *product, char why[MPT_TARGET_WHY]);

/* Whether the tensor cores multiply the codes of both operands, as they are or as E4M3. */
bool mpt_target_multiplies(mpt_target target, const mpt_product *product,
                           char why[MPT_TARGET_WHY]);

/* The way where the codes of a product cannot be multiplied after all. */
mpt_way mpt_target_way_to_decode(const mpt_product *product);

/* The formats and scales in which a way, not MPT_WAY_PLAIN, gives both operands to the library.
 */
void mpt_target_operands(mpt_target target, const mpt_product *product, mpt_way way,
                         mpt_lt_operand out[2]);

/* Whether an operand has FP32 scales of rows, which need not enter the product. */
bool mpt_target_has_row_scales(const mpt_quantizer *q);

/* The format that a way multiplies in; a quantizer's own where codes stay as they are. */
mpt_dtype mpt_way_format(mpt_way way, const mpt_quantizer *q);

/* 80 for MPT_TARGET_SM80. */
int mpt_target_capability(mpt_target target);

/* Whether an operand of a native product must lie in memory along the dot product, so that one
 * that two products read along different sides is kept twice. */
bool mpt_target_wants_both(mpt_target target, const mpt_quantizer *q);

/* The rate of a product against BF16's: FP8, FP6 and INT8 2, FP4 4, TF32 1/2, FP32 1/16, and of
 * two operands the wider one's. What a GPU emulates runs at the rate of the format that it is
 * decoded to, without tensor cores at FP32's; for the host no device is asked. */
double mpt_target_rate(mpt_target target, const mpt_product *product);

/* Bytes of one operand in a GPU's memory: its codes, two a byte or in whole bytes, and its
 * block scales in the layout that the products read. Rows and columns are those of the
 * quantized orientation. */
double mpt_target_bytes(mpt_target target, const mpt_quantizer *q, int64_t rows, int64_t cols);

/* Scratch of the library that multiplies. */
size_t mpt_target_workspace(mpt_target target);

#endif
