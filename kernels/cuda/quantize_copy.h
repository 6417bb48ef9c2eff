/* One copy of one operand on a device: what its kernels are launched with, and what they leave
 * for each other in scratch.
 *
 * quantize.cu makes a quantize_copy of a node's side; quantize_amax.cu rotates and finds the
 * largest magnitudes and settles the tensor's scale; quantize_block.cu makes scales and codes
 * of any quantizer. Steps follow each other on the stream, so that a kernel finds all that the
 * ones before it have written. As on the host, positions are those of the quantized
 * orientation: row r, k along the dot product, groups of 16 along k. */
#ifndef MPT_KERNELS_CUDA_QUANTIZE_COPY_H
#define MPT_KERNELS_CUDA_QUANTIZE_COPY_H

#include "kernels/cuda/values.h"
extern "C" {
#include "kernels/quantize_job.h"
}

/* What is known of a tensor once its values were seen; one a copy, in scratch. */
struct quantize_found {
    unsigned finite, inf, nan; /* bits and flags of mpt_quantize_amax */
    unsigned capped;           /* blocks and rows whose scale was */
    mpt_tensor_scale tensor;
    mpt_random_key key;
    uint32_t signs[4];
};

/* A block's numbers, in scratch: amax first, then the factors made of it. */
struct quantize_block {
    uint32_t amax; /* bits of mpt_quantize_block_amax */
    uint32_t code;
    float encode, restore;
};

struct quantize_copy {
    mpt_quantizer q;
    mpt_tensor_scale constants;
    mpt_quantize_shape shape;
    mpt_packed packed;
    gpu_tensor x; /* [rows, cols] without gaps */
    bool bf16;    /* of a BF16 operand */
    bool records; /* the history is raised */
    bool once;    /* quantized once a step, not once a micro-batch */
    bool late;    /* where there is a delayed scale, the amax is found while codes are made */
    uint32_t operand, scope;
    /* In and out; NULL: absent. */
    const mpt_run_env *env;
    const float *delayed; /* the scale of earlier steps */
    const float *skip;    /* nothing is written where it is NaN */
    float *history;
    uint8_t *codes; /* the whole of the packed copy */
    float *factor;
    float *stands_for; /* [rows, k], or as x where it is that of a state */
    mpt_quantize_counts *counts;
    /* Scratch. */
    quantize_found *found;
    float *rotated;            /* [rows, k] */
    uint32_t *row_amax;        /* of each row: bits of mpt_quantize_own_amax */
    quantize_block *blocks;    /* [rows of blocks, blocks_k] */
    float *errors;             /* [rows, blocks_k, 2] of Four Over Six */
    mpt_quantize_counts *part; /* one a block of threads */
};

/* ---- elements and groups ---- */

static inline int64_t quantize_groups(const quantize_copy &c) {
    return c.shape.rows * c.shape.groups;
}

static inline int64_t quantize_rows_of_blocks(const quantize_copy &c) {
    int64_t block = c.shape.block_rows;
    return block > 0 ? (c.shape.rows + block - 1) / block : 0;
}

static inline unsigned quantize_grid(int64_t n) {
    return (unsigned)(n > 0 ? (n + GPU_THREADS - 1) / GPU_THREADS : 1);
}

static __device__ __forceinline__ float quantize_value(const quantize_copy &c, int64_t r,
                                                       int64_t k) {
    if (c.rotated)
        return c.rotated[r * c.shape.k + k];
    return gpu_get(c.x, r * c.shape.row_stride + k * c.shape.k_stride);
}

/* Item i of rows x n: neighbours are neighbours in the memory that is read. */
static __device__ __forceinline__ void quantize_place(const quantize_copy &c, int64_t i,
                                                      int64_t n, int64_t *r, int64_t *at) {
    if (c.rotated || c.shape.k_stride == 1) {
        *r = i / n;
        *at = i - *r * n;
    } else {
        *at = i / c.shape.rows;
        *r = i - *at * c.shape.rows;
    }
}

static __device__ __forceinline__ int64_t quantize_block_at(const quantize_copy &c, int64_t r,
                                                            int64_t k) {
    return r / c.shape.block_rows * c.shape.blocks_k + k / c.shape.block_k;
}

/* Whether the amax is still to be found where codes are made. */
static __device__ __forceinline__ bool quantize_is_late(const quantize_copy &c) {
    return c.late && *c.delayed != 0.0f;
}

/* Brings what the threads have seen into `found`: over a warp, then one atomic each. All
 * threads of the warp call it. */
static __device__ __forceinline__ void quantize_publish(quantize_found *found,
                                                        mpt_quantize_amax seen) {
    unsigned flags = (seen.inf ? 1u : 0u) | (seen.nan ? 2u : 0u), finite = seen.finite;
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        unsigned other = __shfl_xor_sync(0xFFFFFFFFu, finite, lanes);
        finite = other > finite ? other : finite;
        flags |= __shfl_xor_sync(0xFFFFFFFFu, flags, lanes);
    }
    if (threadIdx.x % 32 != 0)
        return;
    if (finite)
        atomicMax(&found->finite, finite);
    if (flags & 1u)
        atomicMax(&found->inf, 1u);
    if (flags & 2u)
        atomicMax(&found->nan, 1u);
}

/* ---- the steps ---- */

void quantize_begin(const quantize_copy &c, mpt_gpu *gpu);  /* scratch and padding to zero */
void quantize_rotate(const quantize_copy &c, mpt_gpu *gpu); /* into `rotated`, amax seen */
/* The tensor's amax, where values are not rotated; `also`, unless NULL, is told it, too. */
void quantize_amax(const quantize_copy &c, quantize_found *also, mpt_gpu *gpu);
void quantize_settle(const quantize_copy &c, mpt_gpu *gpu); /* tensor, factor, history */
void quantize_raise(const quantize_copy &c, mpt_gpu *gpu);  /* the history of a late copy */
void quantize_blocks(const quantize_copy &c, mpt_gpu *gpu); /* scales and codes, counts */

/* Instead of quantize_blocks, where quantize_tile.cu has a kernel of the common quantizers for
 * the copy: one copy with its turned codes, or both copies, in one read of x where that is
 * possible. */
bool quantize_tile_takes(const quantize_copy &c, bool column);
/* The amax of a rotated column copy that it takes; `plain` that of x itself, unless NULL. */
void quantize_tile_amax(const quantize_copy &col, quantize_found *plain, mpt_gpu *gpu);
void quantize_tile(const quantize_copy &c, bool column, mpt_gpu *gpu);
void quantize_tile_both(const quantize_copy &row, const quantize_copy &col, mpt_gpu *gpu);

/* What a row copy stands for becomes an operand y [rows, cols] like x: rotated back, rounded to
 * BF16 where x is a BF16 operand. */
void quantize_unrotate(const quantize_copy &c, float *y, mpt_gpu *gpu);

#endif
