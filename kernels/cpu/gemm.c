/* The three GEMMs of a linear layer, through oneDNN: the only file that knows the library.
 *
 * A product is cut into blocks whose sizes depend on its shape alone, and each block is one
 * call on one thread: the library would otherwise split the inner dimension by the number of
 * threads, and with it the order of the sums. Measured on 2 cores, this costs nothing. */
#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

/* For the case that the library is out of memory: kernels do not fail. */
static void gemm_plain(const mpt_sgemm *g) {
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += (g->transpose_a ? g->a[k * g->lda + i] : g->a[i * g->lda + k]) *
                       (g->transpose_b ? g->b[j * g->ldb + k] : g->b[k * g->ldb + j]);
            float *c = &g->c[i * g->ldc + j];
            *c = g->alpha * sum + (g->beta == 0.0f ? 0.0f : g->beta * *c);
        }
    }
}

void mpt_cpu_sgemm(const mpt_sgemm *g) {
    dnnl_status_t status =
        dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n, g->k,
                   g->alpha, g->a, g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
    if (status != dnnl_success)
        gemm_plain(g);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows or columns of a block: an eighth, but not so few that packing outweighs the product. */
static int64_t block_of(int64_t n, int64_t least) {
    int64_t eighth = mpt_cpu_round_up((n + 7) / 8);
    return eighth > least ? eighth : least;
}

MPT_CLONES static void add_bias(const float *bias, float *c, int64_t ldc, int64_t m,
                                int64_t n) {
    for (int64_t i = 0; i < m; i++) {
        float *row = c + i * ldc;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            row[j] += bias[j];
    }
}

static void gemm_block(const mpt_sgemm *g, const float *bias, int64_t i, int64_t j,
                       int64_t rows, int64_t cols) {
    mpt_sgemm block = *g;
    block.m = smaller(rows, g->m - i);
    block.n = smaller(cols, g->n - j);
    block.a += g->transpose_a ? i : i * g->lda;
    block.b += g->transpose_b ? j * g->ldb : j;
    block.c += i * g->ldc + j;
    mpt_cpu_sgemm(&block);
    if (bias)
        add_bias(bias + j, block.c, g->ldc, block.m, block.n);
}

/* All blocks of a product, in parallel. The bias, one number a column, may be NULL. Blocks of
 * wide results stay large: in small ones the library reads B where it lies, and rows 4 KiB
 * apart then share one cache set (measured at 1024 columns: 28 against 70 GFLOP/s a core). */
static void gemm_blocks(const mpt_sgemm *g, const float *bias) {
    int64_t rows = block_of(g->m, g->n >= 1024 ? 512 : 32), cols = block_of(g->n, 1024);
    int64_t n_across = (g->n + cols - 1) / cols;
    int64_t n_blocks = (g->m + rows - 1) / rows * n_across;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < n_blocks; b++)
        gemm_block(g, bias, b / n_across * rows, b % n_across * cols, rows, cols);
}

static float factor_of(const mpt_kernel_args *args) {
    const float *first = mpt_arg_in(args, 3), *second = mpt_arg_in(args, 4);
    float f = 1.0f;
    if (first)
        f *= first[0];
    if (second)
        f *= second[0];
    return f * args->node->attrs.alpha;
}

void mpt_cpu_linear(const mpt_kernel_args *args) {
    int64_t n_in = mpt_tensor_cols(&args->in[0]), n_out = mpt_tensor_cols(&args->out[0]);
    mpt_sgemm g = {.transpose_b = true,
                   .m = mpt_tensor_rows(&args->out[0]),
                   .n = n_out,
                   .k = n_in,
                   .alpha = factor_of(args),
                   .a = args->in[0].data,
                   .lda = n_in,
                   .b = args->in[1].data,
                   .ldb = n_in,
                   .c = args->out[0].data,
                   .ldc = n_out};
    gemm_blocks(&g, mpt_arg_in(args, 2));
}

void mpt_cpu_linear_dgrad(const mpt_kernel_args *args) {
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->out[0]);
    mpt_sgemm g = {.m = mpt_tensor_rows(&args->out[0]),
                   .n = n_in,
                   .k = n_out,
                   .alpha = factor_of(args),
                   .a = args->in[0].data,
                   .lda = n_out,
                   .b = args->in[1].data,
                   .ldb = n_in,
                   .c = args->out[0].data,
                   .ldc = n_in};
    gemm_blocks(&g, NULL);
}

void mpt_cpu_linear_wgrad(const mpt_kernel_args *args) {
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->in[1]);
    mpt_sgemm g = {.transpose_a = true,
                   .m = n_out,
                   .n = n_in,
                   .k = mpt_tensor_rows(&args->in[0]),
                   .alpha = factor_of(args),
                   .a = args->in[0].data,
                   .lda = n_out,
                   .b = args->in[1].data,
                   .ldb = n_in,
                   .beta = 1.0f,
                   .c = args->out[0].data,
                   .ldc = n_in};
    gemm_blocks(&g, NULL);
}
