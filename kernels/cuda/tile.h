/* Products of small matrices on tensor cores, with float32 results from operands of any
 * storage.
 *
 * A block of four warps keeps its operands in shared memory as BF16: one plane of them where
 * the tensor is BF16, else three, since a float32 number is the sum of three BF16 numbers that
 * are its significand cut in three. Of the products of planes those below 2^-24 are left out,
 * so a product of float32 numbers is as good as one by float32 arithmetic. An infinite number
 * that is cut becomes NaN.
 *
 * A warp makes 16 rows of the result. Its lane l holds, of each 8 columns, columns 2 (l % 4)
 * and the next of rows l / 4 and l / 4 + 8 ("cells": [columns / 8][4]), which is how mma.sync
 * m16n8k16 of the PTX ISA gives them. Cells are what an operand of the next product is made
 * from, without a way through memory. The portable twin of the instruction keeps the same
 * layout, so all index arithmetic runs in the simulator. */
#ifndef MPT_KERNELS_CUDA_TILE_H
#define MPT_KERNELS_CUDA_TILE_H

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/values.h"

#if defined(__CUDA_ARCH__)
#define TILE_ROLL _Pragma("unroll 1") /* keeps the code small where no register is indexed */
#else
#define TILE_ROLL
#endif

#if defined(__CUDACC__)
#define TILE_APART __noinline__ /* rare and long: one copy of it is enough */
#else
#define TILE_APART __attribute__((noinline))
#endif

enum {
    TILE_WARPS = 4,
    TILE_THREADS = 32 * TILE_WARPS,
    TILE_ROWS = 16 * TILE_WARPS,
    TILE_PAD = 8 /* a row of a plane starts 4 banks after the one before: no conflicts */
};

static __device__ __forceinline__ int tile_lane() {
    return (int)gpu_lane();
}

static __device__ __forceinline__ int tile_warp() {
    return (int)gpu_warp_id();
}

/* Row and column of cell e of 8 columns, within the warp's 16 rows. */
static __device__ __forceinline__ int tile_cell_row(int e) {
    return tile_lane() / 4 + 8 * (e >> 1);
}

static __device__ __forceinline__ int tile_cell_col(int e) {
    return tile_lane() % 4 * 2 + (e & 1);
}

/* Sum over the four lanes that share rows of cells. */
template <typename Number> static __device__ __forceinline__ Number tile_row_sum(Number x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* ---- the instruction ---- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
static __device__ __forceinline__ void tile_mma(float (&c)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
static __device__ __forceinline__ void tile_spread(float *to, uint32_t pair) {
    to[0] = mpt_bits_float(pair << 16);
    to[1] = mpt_bits_float(pair & 0xffff0000u);
}

/* c += a b: the lanes put their registers where the ISA says they belong in a [16][16] and in
 * b^T [8][16], and each sums up its own four cells. */
static inline __device__ void tile_mma(float (&c)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[2]) {
    __shared__ float rows[TILE_WARPS][16][16], cols[TILE_WARPS][8][16];
    int row = tile_lane() / 4, k = tile_lane() % 4 * 2, warp = tile_warp();
    for (int i = 0; i < 4; i++)
        tile_spread(&rows[warp][row + 8 * (i & 1)][k + 8 * (i >> 1)], a[i]);
    for (int i = 0; i < 2; i++)
        tile_spread(&cols[warp][row][k + 8 * i], b[i]);
    __syncwarp();
    for (int e = 0; e < 4; e++) {
        const float *x = rows[warp][tile_cell_row(e)], *y = cols[warp][tile_cell_col(e)];
        float part[4] = {};
        for (int i = 0; i < 16; i++)
            part[i % 4] += x[i] * y[i];
        c[e] += (part[0] + part[1]) + (part[2] + part[3]);
    }
    __syncwarp();
}
#endif

/* ---- cutting numbers ---- */

/* The leading BF16 parts of two numbers, the first in the low half; leaves what is left. */
static __device__ __forceinline__ uint32_t tile_cut(float &low, float &high) {
    uint32_t a = mpt_float_bits(low) & 0xffff0000u, b = mpt_float_bits(high) & 0xffff0000u;
    low -= mpt_bits_float(a);
    high -= mpt_bits_float(b);
    return a >> 16 | b;
}

/* ---- operands ---- */

/* A matrix within a tensor. */
struct tile_source {
    gpu_tensor t;
    int64_t first, stride; /* of element (0, 0), and from row to row */
    int64_t rows, cols;
    bool vectors; /* its rows can be read 8 numbers at a time */
};

static __device__ __forceinline__ tile_source tile_source_of(const gpu_tensor &t, int64_t first,
                                                             int64_t stride, int64_t rows,
                                                             int64_t cols) {
    bool vectors = (uintptr_t)t.data % 16 == 0 && first % 8 == 0 && stride % 8 == 0;
    return {t, first, stride, rows, cols, vectors};
}

static __device__ TILE_APART float tile_half(uint32_t code) {
    return mpt_decode(MPT_DTYPE_FP16, code);
}

static __device__ __forceinline__ float tile_get(const tile_source &s, int64_t row,
                                                 int64_t col) {
    if (row >= s.rows || col >= s.cols)
        return 0.0f;
    int64_t at = s.first + row * s.stride + col;
    if (s.t.storage == MPT_STORAGE_HOST)
        return ((const float *)s.t.data)[at];
    uint32_t code = ((const uint16_t *)s.t.data)[at];
    return s.t.storage == MPT_STORAGE_BF16 ? mpt_bits_float(code << 16) : tile_half(code);
}

/* How a matrix of `rows` rows and WIDTH columns lies in shared memory, in 16-bit units. */
template <int WIDTH, int PLANES> struct tile_layout {
    enum { STRIDE = WIDTH + TILE_PAD };
    static __host__ __device__ constexpr int size(int rows) { return PLANES * rows * STRIDE; }
};

/* Eight numbers of a row; zeros outside of the matrix. */
static __device__ __forceinline__ void tile_read(const tile_source &s, int64_t row, int64_t col,
                                                 float (&x)[8]) {
    if (s.vectors && row < s.rows && col + 8 <= s.cols && s.t.storage == MPT_STORAGE_HOST) {
        const float4 *from =
            (const float4 *)((const float *)s.t.data + s.first + row * s.stride + col);
        float4 a = from[0], b = from[1];
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = tile_get(s, row, col + i);
}

/* Rows row ... row + ROWS - 1 and columns col ... col + WIDTH - 1 to shared memory, by the
 * whole block; zeros outside of the matrix. */
template <int WIDTH, int PLANES, int ROWS>
static __device__ void tile_stage(const tile_source &s, int64_t row, int64_t col,
                                  uint16_t *to) {
    enum { GROUPS = WIDTH / 8, STRIDE = tile_layout<WIDTH, PLANES>::STRIDE };
    for (int i = (int)threadIdx.x; i < ROWS * GROUPS; i += TILE_THREADS) {
        int r = i / GROUPS, c = i % GROUPS * 8;
        uint4 *at = (uint4 *)(to + r * STRIDE + c);
        if (PLANES == 1 && s.vectors && row + r < s.rows && col + c + 8 <= s.cols) {
            *at = *(const uint4 *)((const uint16_t *)s.t.data + s.first + (row + r) * s.stride +
                                   col + c);
            continue;
        }
        float x[8];
        tile_read(s, row + r, col + c, x);
        GPU_UNROLL
        for (int p = 0; p < PLANES; p++) {
            uint4 v;
            v.x = tile_cut(x[0], x[1]);
            v.y = tile_cut(x[2], x[3]);
            v.z = tile_cut(x[4], x[5]);
            v.w = tile_cut(x[6], x[7]);
            at[p * (ROWS * STRIDE / 8)] = v;
        }
    }
}

/* ---- products ---- */

/* Planes are multiplied where the sum of their numbers is below this. */
enum { TILE_ORDERS = 3 };

/* cells += A B^T over columns 0 ... depth - 1 of both. a: the warp's 16 rows, in a tile of ROWS
 * rows; b: 8 N rows. */
template <int WIDTH, int PA, int PB, int ROWS, int N>
static __device__ __forceinline__ void tile_rows(float (&cells)[N][4], const uint16_t *a,
                                                 const uint16_t *b, int depth) {
    enum { STRIDE = WIDTH + TILE_PAD };
    const uint16_t *my_a = a + tile_lane() / 4 * STRIDE + tile_lane() % 4 * 2;
    const uint16_t *my_b = b + tile_lane() / 4 * STRIDE + tile_lane() % 4 * 2;
    TILE_ROLL
    for (int k = 0; k < depth; k += 16) {
        uint32_t fa[PA][4];
        GPU_UNROLL
        for (int i = 0; i < PA * 4; i++)
            fa[i / 4][i % 4] = *(const uint32_t *)(my_a + i / 4 * ROWS * STRIDE +
                                                   (i & 1) * 8 * STRIDE + k + (i & 2) * 4);
        GPU_UNROLL
        for (int n = 0; n < N; n++) {
            GPU_UNROLL
            for (int pb = 0; pb < PB; pb++) {
                const uint16_t *at = my_b + (pb * N + n) * 8 * STRIDE + k;
                uint32_t fb[2] = {*(const uint32_t *)at, *(const uint32_t *)(at + 8)};
                GPU_UNROLL
                for (int pa = 0; pa < PA && pa + pb < TILE_ORDERS; pa++)
                    tile_mma(cells[n], fa[pa], fb);
            }
        }
    }
}

/* 16 rows of 16 columns of a tile as two second factors, of the first 8 columns and the others:
 * rows are what is summed over, so pairs of them make a register. ldmatrix.trans does it at
 * once, lane l giving the address of row l % 16, of the second columns from lane 16 on. */
static __device__ __forceinline__ void tile_turned(uint32_t (&to)[2][2], const uint16_t *from,
                                                   int stride) {
#if defined(__CUDA_ARCH__)
    const uint16_t *row = from + tile_lane() % 16 * stride + tile_lane() / 16 * 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[1][0]), "=r"(to[1][1])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)));
#else
    for (int i = 0; i < 4; i++) {
        const uint16_t *at =
            from + (tile_lane() % 4 * 2 + i % 2 * 8) * stride + tile_lane() / 4 + i / 2 * 8;
        to[i / 2][i % 2] = (uint32_t)at[0] | (uint32_t)at[stride] << 16;
    }
#endif
}

/* acc += X B, with X in cells (16 rows of 16 K columns) and B's 16 K rows in shared memory, the
 * first `cols` columns of it. PARTS: how many BF16 parts of X count, 1 where it is BF16. Where
 * B has one plane, what is read of it serves all parts. */
template <int WIDTH, int PARTS, int PB, int K>
static __device__ __forceinline__ void
tile_cols(float (&acc)[WIDTH / 8][4], const float (&x)[2 * K][4], const uint16_t *b, int cols) {
    enum { STRIDE = WIDTH + TILE_PAD, SIZE = 16 * K * STRIDE, CUTS = PB == 1 ? PARTS : 1 };
    GPU_UNROLL
    for (int k = 0; k < K; k++) {
        uint32_t fa[CUTS][4], fb[2][2];
        float rest[8];
        GPU_UNROLL
        for (int i = 0; i < 8; i++)
            rest[i] = x[2 * k + i / 4][i % 4];
        TILE_ROLL
        for (int part = 0; part < PARTS; part += CUTS) {
            GPU_UNROLL
            for (int i = 0; i < CUTS * 4; i++)
                fa[i / 4][i % 4] = tile_cut(rest[i % 4 * 2], rest[i % 4 * 2 + 1]);
            TILE_ROLL
            for (int pb = 0; pb < PB && part + pb < TILE_ORDERS; pb++) {
                GPU_UNROLL
                for (int n = 0; n < WIDTH / 8; n += 2) {
                    if (n % 4 == 0 && 8 * n >= cols)
                        break;
                    tile_turned(fb, b + pb * SIZE + 16 * k * STRIDE + 8 * n, STRIDE);
                    GPU_UNROLL
                    for (int i = 0; i < CUTS * 2; i++)
                        tile_mma(acc[n + i % 2], fa[i / 2], fb[i % 2]);
                }
            }
        }
    }
}

/* ---- long rows ---- */

/* One side of a product of rows: `row` is the first of the tile at `tile`. */
struct tile_operand {
    const tile_source &from; /* in shared memory where registers are short */
    int64_t row;
    uint16_t *tile;
};

template <int WIDTH> static __host__ __device__ __forceinline__ int tile_slabs(int64_t cols) {
    return cols > WIDTH ? (int)((cols + WIDTH - 1) / WIDTH) : 1;
}

static __device__ __forceinline__ int tile_width_of(int64_t cols, int64_t at, int most) {
    int64_t n = cols - at;
    return n < most ? (int)n : most;
}

/* cells = A B^T over all columns, by slabs of WIDTH. Stages B, and A too where there is more
 * than one slab; a single one was staged before. Slab `last` of both is there at the end. All
 * threads are past their reading of both tiles when this is called, and past staging after. */
template <int WIDTH, int PA, int PB, int N>
static __device__ __forceinline__ void tile_dot(float (&cells)[N][4], const tile_operand &a,
                                                const tile_operand &b, int last) {
    int n_slabs = tile_slabs<WIDTH>(a.from.cols);
    GPU_UNROLL
    for (int i = 0; i < N * 4; i++)
        cells[i / 4][i % 4] = 0.0f;
    for (int i = 1; i <= n_slabs; i++) {
        int64_t col = (int64_t)((last + i) % n_slabs) * WIDTH;
        if (i > 1)
            __syncthreads();
        if (n_slabs > 1)
            tile_stage<WIDTH, PA, TILE_ROWS>(a.from, a.row, col, a.tile);
        tile_stage<WIDTH, PB, 8 * N>(b.from, b.row, col, b.tile);
        __syncthreads();
        tile_rows<WIDTH, PA, PB, TILE_ROWS>(
            cells, a.tile + tile_warp() * 16 * tile_layout<WIDTH, PA>::STRIDE, b.tile,
            tile_width_of(a.from.cols, col, WIDTH));
    }
}

/* ---- results ---- */

/* Room for a block's results as floats, in 16-bit units. */
template <int WIDTH> static __host__ __device__ constexpr int tile_room() {
    return 2 * TILE_ROWS * (WIDTH + TILE_PAD);
}

/* Puts the warp's cells into shared memory over operands that no one needs any more; gives its
 * 16 rows, WIDTH + TILE_PAD floats apart. Called by the whole block. */
template <int WIDTH>
static __device__ __forceinline__ float *tile_park(const float (&x)[WIDTH / 8][4],
                                                   uint16_t *shared) {
    enum { STRIDE = WIDTH + TILE_PAD };
    float *rows = (float *)shared + tile_warp() * 16 * STRIDE;
    __syncthreads();
    GPU_UNROLL
    for (int i = 0; i < WIDTH / 2; i++)
        rows[tile_cell_row(i % 4) * STRIDE + 8 * (i / 4) + tile_cell_col(i % 4)] =
            x[i / 4][i % 4];
    __syncwarp();
    return rows;
}

/* Writes the warp's 16 rows from `row` on, columns from `col` on, as far as the matrix goes. */
template <int WIDTH>
static __device__ __forceinline__ void tile_store(const tile_source &to, int64_t row,
                                                  int64_t col, const float (&x)[WIDTH / 8][4],
                                                  uint16_t *shared) {
    const float *rows = tile_park<WIDTH>(x, shared);
    int n = tile_width_of(to.cols, col, WIDTH);
    for (int r = 0; r < 16 && row + r < to.rows; r++)
        for (int c = tile_lane(); c < n; c += 32)
            gpu_put(to.t, to.first + (row + r) * to.stride + col + c,
                    rows[r * (WIDTH + TILE_PAD) + c]);
}

/* ---- launches ---- */

/* Dynamic shared memory above 48 KiB has to be asked for. False: the device refuses it, which
 * its error says, and the kernel is not to be launched. */
template <typename Kernel>
[[nodiscard]] static inline bool tile_allow_shared(mpt_gpu *gpu, Kernel kernel, size_t bytes) {
#if defined(__CUDACC__)
    bool allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)bytes) == cudaSuccess;
#else
    bool allowed = ::cusim::allow_shared((const void *)kernel, bytes);
#endif
    if (!allowed && !gpu->error)
        gpu->error = "it refuses a kernel the shared memory that it needs";
    return allowed;
}

#endif
