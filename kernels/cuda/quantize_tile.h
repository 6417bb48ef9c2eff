/* A tile of 128 x 128 BF16 values in shared memory, and how copies of both orientations read
 * it. The kernels over it are in quantize_tile.cu. */
#ifndef MPT_KERNELS_CUDA_QUANTIZE_TILE_H
#define MPT_KERNELS_CUDA_QUANTIZE_TILE_H

#include "kernels/cuda/quantize_group.h"

enum { TILE = 128, PITCH = TILE / 2 + 4, GROUPS = TILE / GROUP, PAIRS = TILE / 2 };

struct tile_memory {
    alignas(16) uint32_t x[TILE][PITCH]; /* pairs of BF16 */
    uint32_t block[TILE * GROUPS];       /* amax, then encode, of [blocks along k][rows] */
    uint8_t code[TILE * GROUPS];
};

/* A quantizer, as far as it shapes the code. BLOCK_K 0 is one scale for the tensor. */
template <mpt_dtype FORMAT_, int BLOCK_ROWS_, int BLOCK_K_, bool STOCHASTIC_> struct tile_kind {
    static const mpt_dtype FORMAT = FORMAT_;
    static const bool STOCHASTIC = STOCHASTIC_, ONE = BLOCK_K_ == 0;
    static const int BLOCK_ROWS = ONE ? TILE : BLOCK_ROWS_, BLOCK_K = ONE ? TILE : BLOCK_K_;
    static const int ROWS = TILE / BLOCK_ROWS, KS = TILE / BLOCK_K; /* blocks of a tile */
    static const int BYTES = FORMAT == MPT_DTYPE_E2M1 ? GROUP / 2 : GROUP; /* of a group */
    static __device__ __forceinline__ int block_at(int row, int group) {
        return group * GROUP / BLOCK_K * ROWS + row / BLOCK_ROWS;
    }
};

/* One copy's part of a tile: where it begins, and how much of it there is. */
struct tile_side {
    int64_t r0, k0;
    int rows, groups;
};

static __device__ __forceinline__ int part_of_tile(int64_t extent, int64_t first) {
    int64_t left = extent - first;
    return (int)(left < TILE ? left : (int64_t)TILE);
}

static __device__ __forceinline__ tile_side side_of(const quantize_copy &c, bool column) {
    tile_side s;
    s.r0 = (int64_t)(column ? blockIdx.x : blockIdx.y) * TILE;
    s.k0 = (int64_t)(column ? blockIdx.y : blockIdx.x) * TILE;
    s.rows = part_of_tile(c.shape.rows, s.r0);
    s.groups = part_of_tile(c.shape.k, s.k0) / GROUP;
    return s;
}

/* ---- the tile ---- */

static __device__ void load_tile(tile_memory *m, const void *data, int64_t rows, int64_t cols) {
    const uint8_t *x = (const uint8_t *)data;
    int64_t r0 = (int64_t)blockIdx.y * TILE, c0 = (int64_t)blockIdx.x * TILE;
    for (int i = (int)threadIdx.x; i < TILE * TILE / 8; i += GPU_THREADS) {
        int r = i / (TILE / 8), c = i % (TILE / 8) * 8;
        uint4 v = {0, 0, 0, 0};
        if (r0 + r < rows && c0 + c < cols)
            v = *(const uint4 *)(x + ((r0 + r) * cols + c0 + c) * 2);
        *(uint4 *)&m->x[r][c / 2] = v;
    }
}

static __device__ __forceinline__ void read_row(const tile_memory *m, int row, int group,
                                                float v[GROUP]) {
    GPU_UNROLL
    for (int i = 0; i < GROUP / 8; i++) {
        uint4 w = *(const uint4 *)&m->x[row][group * (GROUP / 2) + i * 4];
        uint32_t word[4] = {w.x, w.y, w.z, w.w};
        GPU_UNROLL
        for (int j = 0; j < 4; j++) {
            v[i * 8 + j * 2] = mpt_bits_float(word[j] << 16);
            v[i * 8 + j * 2 + 1] = mpt_bits_float(word[j] & 0xFFFF0000u);
        }
    }
}

static __device__ __forceinline__ void read_pair(const tile_memory *m, int pair, int group,
                                                 float v[2][GROUP]) {
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++)
        pair_values(m->x[group * GROUP + i][pair], i, v);
}

static __device__ __forceinline__ void write_pair(tile_memory *m, int pair, int group,
                                                  const float v[2][GROUP]) {
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++)
        m->x[group * GROUP + i][pair] = pair_word(v, i);
}

#endif
