/* Kernels of the cpu backend, named by table.c, and how they divide work.
 *
 * All of them split their work into pieces that do not depend on the number of threads and add
 * partial sums in the order of the pieces, so that one thread and many give the same bits. */
#ifndef MPT_KERNELS_CPU_CPU_H
#define MPT_KERNELS_CPU_CPU_H

#include "kernels/kernel.h"
#include "kernels/tensor.h"

/* Rows that end in sums over tokens are cut into this many pieces. */
enum { MPT_CPU_PIECES = 16 };

typedef struct mpt_piece {
    int64_t first, end;
} mpt_piece;

static inline mpt_piece mpt_cpu_piece(int64_t n, int64_t n_pieces, int64_t i) {
    return (mpt_piece){n * i / n_pieces, n * (i + 1) / n_pieces};
}

/* Starts each 64 bytes, so that no two threads write one cache line. */
static inline int64_t mpt_cpu_round_up(int64_t n_floats) {
    return (n_floats + 15) / 16 * 16;
}

static inline size_t mpt_cpu_floats(int64_t n) {
    return (size_t)n * sizeof(float);
}

/* out[i] += partial[0][i] + partial[1][i] + ..., MPT_CPU_PIECES rows of `stride` floats. */
void mpt_cpu_fold(const float *partial, int64_t stride, int64_t n, float *out);

/* C = alpha op(A) op(B) + beta C, row-major; op transposes where asked. */
typedef struct mpt_sgemm {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha;
    const float *a;
    int64_t lda;
    const float *b;
    int64_t ldb;
    float beta;
    float *c;
    int64_t ldc;
} mpt_sgemm;

static inline int64_t mpt_cpu_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The product of which the rows from i and the columns from j of C are made, at most so many.
 */
static inline mpt_sgemm mpt_sgemm_tile(const mpt_sgemm *g, int64_t i, int64_t j, int64_t rows,
                                       int64_t cols) {
    mpt_sgemm tile = *g;
    tile.m = mpt_cpu_smaller(rows, g->m - i);
    tile.n = mpt_cpu_smaller(cols, g->n - j);
    tile.a += g->transpose_a ? i : i * g->lda;
    tile.b += g->transpose_b ? j * g->ldb : j;
    tile.c += i * g->ldc + j;
    return tile;
}

/* On the calling thread; call it inside a parallel region only, or the library takes threads of
 * its own and the sums another order. */
void mpt_cpu_sgemm(const mpt_sgemm *gemm);

/* C = op(A) op(B), alpha and beta unread, summed up as `how` says: in FP32 by calls of the
 * library, each for the products between two promotions; in another format with the very bits
 * of ref. As mpt_cpu_sgemm, on the calling thread. sums.c. */
void mpt_cpu_sum(const mpt_gemm_sum *how, const mpt_sgemm *gemm);

/* Whether a product over k numbers is summed up in another way than by one call. */
static inline bool mpt_cpu_is_summed(const mpt_gemm_sum *how, int64_t k) {
    return how->accumulate != MPT_DTYPE_FP32 || (how->promote > 0 && how->promote < k);
}

#define MPT_CPU_KERNEL(op) void mpt_cpu_##op(const mpt_kernel_args *args);
#define MPT_CPU_SCRATCH(op)                                                                    \
    size_t mpt_cpu_##op##_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);

/* gemm.c */
MPT_CPU_KERNEL(linear)
MPT_CPU_KERNEL(linear_dgrad)
MPT_CPU_KERNEL(linear_wgrad)
MPT_CPU_SCRATCH(linear_wgrad)
/* elementwise.c */
MPT_CPU_KERNEL(add)
MPT_CPU_KERNEL(mul)
MPT_CPU_KERNEL(gelu)
MPT_CPU_KERNEL(silu)
MPT_CPU_KERNEL(relu2)
MPT_CPU_KERNEL(gelu_grad)
MPT_CPU_KERNEL(silu_grad)
MPT_CPU_KERNEL(relu2_grad)
MPT_CPU_KERNEL(softplus)
MPT_CPU_KERNEL(softplus_grad)
MPT_CPU_KERNEL(swiglu)
MPT_CPU_KERNEL(swiglu_grad)
MPT_CPU_KERNEL(scale)
/* softmax.c */
MPT_CPU_KERNEL(softmax)
MPT_CPU_KERNEL(softmax_grad)
/* dropout.c */
MPT_CPU_KERNEL(dropout)
/* rope.c */
MPT_CPU_KERNEL(rope)
MPT_CPU_SCRATCH(rope)
MPT_CPU_KERNEL(rope_grad)
MPT_CPU_SCRATCH(rope_grad)
/* columns.c */
MPT_CPU_KERNEL(split)
MPT_CPU_KERNEL(concat)
MPT_CPU_KERNEL(bias_grad)
MPT_CPU_SCRATCH(bias_grad)
/* norm.c */
MPT_CPU_KERNEL(rmsnorm)
MPT_CPU_KERNEL(layernorm)
MPT_CPU_KERNEL(rmsnorm_grad)
MPT_CPU_SCRATCH(rmsnorm_grad)
MPT_CPU_KERNEL(layernorm_grad)
MPT_CPU_SCRATCH(layernorm_grad)
/* gated_norm.c */
MPT_CPU_KERNEL(gated_rmsnorm)
MPT_CPU_KERNEL(gated_rmsnorm_grad)
MPT_CPU_SCRATCH(gated_rmsnorm_grad)
/* conv.c */
MPT_CPU_KERNEL(conv1d)
MPT_CPU_SCRATCH(conv1d)
MPT_CPU_KERNEL(conv1d_grad)
MPT_CPU_SCRATCH(conv1d_grad)
/* embed.c */
MPT_CPU_KERNEL(embedding)
MPT_CPU_KERNEL(embedding_grad)
/* moe.c */
MPT_CPU_KERNEL(moe_dispatch)
MPT_CPU_KERNEL(moe_dispatch_grad)
MPT_CPU_KERNEL(moe_combine)
MPT_CPU_KERNEL(moe_combine_grad)
/* loss.c */
MPT_CPU_KERNEL(cross_entropy)
MPT_CPU_SCRATCH(cross_entropy)
MPT_CPU_KERNEL(cross_entropy_grad)
/* attention.c */
MPT_CPU_KERNEL(attention)
MPT_CPU_SCRATCH(attention)
MPT_CPU_KERNEL(attention_grad)
MPT_CPU_SCRATCH(attention_grad)
/* ssm.c */
MPT_CPU_KERNEL(ssm_scan)
MPT_CPU_SCRATCH(ssm_scan)
MPT_CPU_KERNEL(ssm_scan_grad)
MPT_CPU_SCRATCH(ssm_scan_grad)
/* ssm_chunk.c, ssm_chunk_grad.c: for large states; both passes take the same nodes. */
bool mpt_cpu_ssm_scan_chunked_can(const mpt_graph *graph, const mpt_node *node,
                                  const char **why);
MPT_CPU_KERNEL(ssm_scan_chunked)
MPT_CPU_SCRATCH(ssm_scan_chunked)
MPT_CPU_KERNEL(ssm_scan_grad_chunked)
MPT_CPU_SCRATCH(ssm_scan_grad_chunked)

#endif
