/* How a quantized copy lies in a device's memory: its codes, turned round once more where a
 * product asks for that, and the scales of its blocks in the order that cuBLASLt reads.
 *
 * The quantized orientation is [rows, k], k along the dot product: for a row copy that of x,
 * for a column copy its transpose. Codes lie as in mpt_quantize_job.codes: rows of whole bytes,
 * 4-bit codes two a byte with the even one low, codes of 5 to 8 bits one a byte, longer ones as
 * little-endian numbers. A wide format is its own code. The factor of the tensor, or of each
 * row, is a value of its own and not in here.
 *
 * Scales, where there is more than one: E8M0 and E4M3 bytes, one for each row and block along k
 * (rows of one block have equal ones), in tiles (numerics_layout.h; what pads them is zero).
 * FP32 decode scales of 1 x n blocks as [blocks along k][rows padded to 4], those of taller
 * blocks as [rows of blocks][blocks along k padded to 4] (cuBLASLt 13, "Data types usage":
 * 1x128 and 128x128 scales). */
#ifndef MPT_KERNELS_PACKED_H
#define MPT_KERNELS_PACKED_H

#include "kernels/kernel.h"
#include "kernels/numerics_layout.h"

typedef struct mpt_packed {
    mpt_quantizer q;
    bool column;                   /* rows and k are the columns and rows of x */
    int64_t rows, k;               /* k as padded for the rotation */
    int64_t blocks_rows, blocks_k; /* how many blocks either way; 1 x 1: one scale, or none */
    int64_t code_row;              /* bytes of a row of codes */
    int64_t scale_ld;              /* see mpt_packed_scale */
    size_t turned; /* where codes as [k, rows] begin; 0: there are none. Only of one scale */
    size_t scales; /* where scales begin, 256-byte aligned; 0: there are none */
    size_t bytes;  /* all of it */
} mpt_packed;

/* The layout of one copy of x [x_rows, x_cols]; `k` is its padded extent along the dot product
 * (mpt_quantizer_extent). turned: codes both ways. */
mpt_packed mpt_packed_of(const mpt_quantizer *q, bool column, int64_t x_rows, int64_t x_cols,
                         bool turned);

/* How a value is kept on a device: where it is packed, `out` is filled in. `turned` of a packed
 * value says whether a product reads it across its dot product, too. */
mpt_storage mpt_storage_of(const mpt_graph *graph, mpt_value_id value, bool turned,
                           mpt_packed *out);

/* Whether scales are bytes, else floats. */
MPT_NUMERIC bool mpt_packed_byte_scales(const mpt_packed *p) {
    return p->q.scale_format >= MPT_SCALE_E8M0;
}

/* Index of the scale of row r and block b along k, counted in scales from packed->scales on. */
MPT_NUMERIC int64_t mpt_packed_scale(const mpt_packed *p, int64_t r, int64_t b) {
    if (mpt_packed_byte_scales(p))
        return mpt_swizzled(r, b, p->scale_ld);
    if (p->q.block_rows == 1)
        return b * p->scale_ld + r;
    return (p->q.block_rows > 0 ? r / p->q.block_rows : 0) * p->scale_ld + b;
}

/* Bytes of one value that is not packed. */
static inline size_t mpt_storage_bytes(mpt_storage storage) {
    return storage == MPT_STORAGE_HOST ? 4 : 2;
}

/* From a device's bytes to the host's floats, in the layout of x, and back. Packed copies are
 * decoded without the tensor's factor, as the host has them; they are not written back. */
void mpt_unpack(mpt_storage storage, const mpt_packed *packed, const void *bytes, int64_t n,
                float *out);
void mpt_pack(mpt_storage storage, const float *x, int64_t n, void *out);

#endif
