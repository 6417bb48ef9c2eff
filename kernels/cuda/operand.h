/* One operand of a product as its kernels read it: a matrix whose element (i, k) is the k-th of
 * the i-th dot product, plain or packed, whichever way it lies.
 *
 * The struct is C, made on the host and passed to launches by value. gpu_operand_get gives any
 * element by itself; decode.cu has the fast way for whole operands. */
#ifndef MPT_KERNELS_CUDA_OPERAND_H
#define MPT_KERNELS_CUDA_OPERAND_H

#include "kernels/numerics.h"
#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/packed.h"

typedef struct gpu_operand {
    const void *data; /* values, or codes */
    mpt_dtype format; /* of the codes */
    mpt_storage storage;
    int64_t outer, k; /* dot products, and elements of each */
    int64_t row;      /* elements, or of codes bytes, from one stored row to the next */
    bool across;      /* a stored row has one element of each dot product */
    /* Packed: scales of blocks, NULL where there are none. They are counted in the quantized
     * orientation, which for a copy that is read across is not the product's. */
    const void *scales;
    mpt_scale_format scale_format;
    int64_t block_rows, block_cols; /* 0: the whole extent */
    int64_t scale_ld;
} gpu_operand;

/* Operand of a product: t's dot products run along its columns, or with `by_rows` along its
 * rows. */
gpu_operand mpt_gpu_operand(const mpt_tensor *t, bool by_rows);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus)
#include "kernels/cuda/gpu.h"

/* Row and column of element (i, k) as it is stored. */
static __device__ __forceinline__ int64_t gpu_stored_row(const gpu_operand &o, int64_t i,
                                                         int64_t k) {
    return o.across ? k : i;
}

static __device__ __forceinline__ int64_t gpu_stored_col(const gpu_operand &o, int64_t i,
                                                         int64_t k) {
    return o.across ? i : k;
}

static __device__ __forceinline__ uint32_t gpu_code(const gpu_operand &o, int64_t r,
                                                    int64_t c) {
    const uint8_t *row = (const uint8_t *)o.data + r * o.row;
    switch (mpt_code_bits(o.format)) {
    case 4:
        return row[c / 2] >> (c % 2 * 4) & 15u;
    case 8:
        return row[c];
    case 16:
        return ((const uint16_t *)row)[c];
    default:
        return ((const uint32_t *)row)[c];
    }
}

/* Where the scale of stored row r and column c is, counted in scales. */
static __device__ __forceinline__ int64_t gpu_scale_index(const gpu_operand &o, int64_t r,
                                                          int64_t c) {
    int64_t block = o.block_cols > 0 ? c / o.block_cols : 0;
    if (o.scale_format >= MPT_SCALE_E8M0)
        return mpt_swizzled(r, block, o.scale_ld);
    if (o.block_rows == 1)
        return block * o.scale_ld + r;
    return (o.block_rows > 0 ? r / o.block_rows : 0) * o.scale_ld + block;
}

static __device__ __forceinline__ float gpu_scale(const gpu_operand &o, int64_t r, int64_t c) {
    if (!o.scales)
        return 1.0f;
    int64_t at = gpu_scale_index(o, r, c);
    if (o.scale_format < MPT_SCALE_E8M0)
        return ((const float *)o.scales)[at];
    uint32_t code = ((const uint8_t *)o.scales)[at];
    return o.scale_format == MPT_SCALE_E8M0 ? mpt_decode_e8m0(code)
                                            : mpt_decode(MPT_DTYPE_E4M3, code);
}

/* The number that element (i, k) stands for, without the operand's factor. */
static __device__ __forceinline__ float gpu_operand_get(const gpu_operand &o, int64_t i,
                                                        int64_t k) {
    int64_t r = gpu_stored_row(o, i, k), c = gpu_stored_col(o, i, k);
    if (o.storage == MPT_STORAGE_HOST)
        return ((const float *)o.data)[r * o.row + c];
    if (o.storage == MPT_STORAGE_PACKED)
        return mpt_decode(o.format, gpu_code(o, r, c)) * gpu_scale(o, r, c);
    uint32_t code = ((const uint16_t *)o.data)[r * o.row + c];
    return o.storage == MPT_STORAGE_BF16 ? mpt_bits_float(code << 16)
                                         : mpt_decode(MPT_DTYPE_FP16, code);
}
#endif

#endif
