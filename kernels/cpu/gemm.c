/* The three GEMMs of a linear layer, or of the experts in it, through oneDNN: the only file
 * that knows the library.
 *
 * A product is cut into blocks whose sizes depend on its shape alone, and each block is one
 * call on one thread: the library would otherwise split the inner dimension by the number of
 * threads, and with it the order of the sums. Measured on 2 cores, this costs nothing. */
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "kernels/numerics_cast.h"

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

/* A product with what is done to it beside the library: factors that differ between its rows or
 * columns, and a bias, one number a column. All may be NULL. */
typedef struct product {
    mpt_sgemm g;
    const float *row_factors, *col_factors;
    bool apart; /* two factors of one each, whose product is beyond the largest number: */
    float first, second;     /* they are kept, else they are in alpha */
    const mpt_gemm_sum *sum; /* NULL: one call sums up all products */
    const float *bias;
    float *scratch; /* of products that are added to c apart: a block a thread */
} product;

/* c = f * from, or with `add` c += f * from, f = (row factor * column factor) * alpha; one
 * after the other, alpha first, where f is beyond the largest number, so that 0 stays 0. */
MPT_CLONES static void apply_factors(const product *p, mpt_sgemm *block, const float *from,
                                     int64_t ld, int64_t i0, int64_t j0) {
    bool add = p->g.beta != 0.0f;
    const float alpha = p->g.alpha, second = p->second;
    for (int64_t i = 0; i < block->m; i++) {
        float row = p->row_factors ? p->row_factors[i0 + i] : p->first;
        float *c = block->c + i * block->ldc;
        const float *x = from + i * ld;
        const float *cols = p->col_factors ? p->col_factors + j0 : NULL;
#pragma omp simd
        for (int64_t j = 0; j < block->n; j++) {
            float col = cols ? cols[j] : second, f = row * col * alpha;
            float y = mpt_is_finite(f) ? f * x[j] : x[j] * alpha * row * col;
            c[j] = add ? c[j] + y : y;
        }
    }
}

/* A block whose factors are applied here: the bare product, into c or, where that is added to,
 * into `beside`, then the factors. */
static void factored_block(const product *p, mpt_sgemm *block, int64_t i, int64_t j,
                           float *beside) {
    mpt_sgemm bare = *block;
    bare.alpha = 1.0f;
    bare.beta = 0.0f;
    if (p->g.beta != 0.0f) {
        bare.c = beside;
        bare.ldc = block->n;
    }
    if (p->sum)
        mpt_cpu_sum(p->sum, &bare);
    else
        mpt_cpu_sgemm(&bare);
    apply_factors(p, block, bare.c, bare.ldc, i, j);
}

enum { TILE = 64 };

/* The same in tiles that the stack holds: for factors kept apart, which nobody foresaw when
 * scratch was laid out. */
static void tiled_block(const product *p, const mpt_sgemm *block, int64_t i0, int64_t j0) {
    float beside[TILE * TILE];
    for (int64_t i = 0; i < block->m; i += TILE)
        for (int64_t j = 0; j < block->n; j += TILE) {
            mpt_sgemm tile = mpt_sgemm_tile(block, i, j, TILE, TILE);
            factored_block(p, &tile, i0 + i, j0 + j, beside);
        }
}

/* Rows and columns of the blocks of a product. Blocks of wide results stay large: in small ones
 * the library reads B where it lies, and rows 4 KiB apart then share one cache set (measured at
 * 1024 columns: 28 against 70 GFLOP/s a core). Columns are shared out evenly, because one
 * narrow block would be such a small one. */
static int64_t rows_of(int64_t m, int64_t n) {
    return block_of(m, n >= 1024 ? 512 : 32);
}

static int64_t cols_of(int64_t n) {
    int64_t across = (n + 512) / 1024;
    across = across < 1 ? 1 : across > 8 ? 8 : across;
    return mpt_cpu_round_up((n + across - 1) / across);
}

static void gemm_block(const product *p, int64_t i, int64_t j) {
    const mpt_sgemm *g = &p->g;
    int64_t rows = rows_of(g->m, g->n), cols = cols_of(g->n);
    mpt_sgemm block = mpt_sgemm_tile(g, i, j, rows, cols);
    if (p->apart)
        tiled_block(p, &block, i, j);
    else if (p->row_factors || p->col_factors || p->sum)
        factored_block(p, &block, i, j, p->scratch + omp_get_thread_num() * rows * cols);
    else
        mpt_cpu_sgemm(&block);
    if (p->bias)
        add_bias(p->bias + j, block.c, g->ldc, block.m, block.n);
}

/* All blocks of a product, in parallel. */
static void gemm_blocks(const product *p) {
    int64_t rows = rows_of(p->g.m, p->g.n), cols = cols_of(p->g.n);
    int64_t n_across = (p->g.n + cols - 1) / cols;
    int64_t n_blocks = (p->g.m + rows - 1) / rows * n_across;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < n_blocks; b++)
        gemm_block(p, b / n_across * rows, b % n_across * cols);
}

/* ---- experts: a product each over the rows that it has ---- */

/* Product e of those that `all` stands for, whose weights lie one below the other and whose
 * rows lie between offsets e and e + 1. Only y = x w^T turns b round, only a weight gradient a.
 */
static product expert_of(const product *all, const int32_t *offsets, int64_t e) {
    product p = *all;
    int64_t first = offsets[e], rows = offsets[e + 1] - first;
    p.g.a += first * p.g.lda;
    if (p.g.transpose_a) {
        p.g.b += first * p.g.ldb;
        p.g.c += e * p.g.m * p.g.ldc;
        p.g.k = rows;
        return p;
    }
    p.g.b += e * (p.g.transpose_b ? p.g.n : p.g.k) * p.g.ldb;
    p.g.c += first * p.g.ldc;
    p.g.m = rows;
    if (p.row_factors)
        p.row_factors += first;
    if (p.col_factors && p.g.transpose_b)
        p.col_factors += e * p.g.n;
    return p;
}

/* The products of all experts, in parallel: blocks differ in size, so threads take them as they
 * come. Rows behind those of the last expert are zero. */
static void gemm_experts(const mpt_kernel_args *args, const product *all) {
    const int32_t *offsets = args->in[5].data;
    int64_t n_experts = args->in[5].dims[0] - 1, width = all->g.ldc;
#pragma omp parallel
    for (int64_t e = 0; e < n_experts; e++) {
        product p = expert_of(all, offsets, e);
        int64_t rows = rows_of(p.g.m, p.g.n), cols = cols_of(p.g.n);
        int64_t n_across = (p.g.n + cols - 1) / cols;
        int64_t n_blocks = p.g.k == 0 ? 0 : (p.g.m + rows - 1) / rows * n_across;
#pragma omp for schedule(dynamic) nowait
        for (int64_t b = 0; b < n_blocks; b++)
            gemm_block(&p, b / n_across * rows, b % n_across * cols);
    }
    if (!all->g.transpose_a)
        memset(all->g.c + offsets[n_experts] * width, 0,
               mpt_cpu_floats((all->g.m - offsets[n_experts]) * width));
}

/* ---- weight gradients: many products for few results ---- */

enum { K_PIECES = 4, K_LEAST = 1024 };

/* Into how many pieces the inner dimension of a weight gradient is cut. Where results are few,
 * blocks of them would be so small that the library reads its operands where they lie (its
 * rule: 1/m + 1/n of at least 0.0038), across all tokens' rows: 77 against 113 GFLOP/s on 2
 * cores at 1536 x 384. So the tokens are cut instead. */
static int64_t pieces_of(int64_t m, int64_t n, int64_t k) {
    bool packed = 263 * (m + n) < m * n;
    return packed && m * n <= 1 << 20 && k >= K_LEAST ? K_PIECES : 1;
}

/* c[i] += partial[0][i] + partial[1][i] + ..., in this order. */
MPT_CLONES static void add_partials(const float *partial, int64_t stride, int64_t n, float *c) {
    for (int64_t p = 0; p < K_PIECES - 1; p++) {
        const float *from = partial + p * stride;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            c[i] += from[i];
    }
}

/* The first piece goes to c, the others to scratch until all are done. */
static void gemm_pieces(const product *p) {
    int64_t m = p->g.m, n = p->g.n, part = 16 * 1024;
    int64_t n_parts = (m * n + part - 1) / part;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < K_PIECES; i++) {
            mpt_piece k = mpt_cpu_piece(p->g.k, K_PIECES, i);
            mpt_sgemm piece = p->g;
            piece.k = k.end - k.first;
            piece.a += k.first * piece.lda;
            piece.b += k.first * piece.ldb;
            piece.beta = i == 0 ? 1.0f : 0.0f;
            piece.c = i == 0 ? p->g.c : p->scratch + (i - 1) * m * n;
            mpt_cpu_sgemm(&piece);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n_parts; i++)
            add_partials(p->scratch + i * part, m * n, mpt_cpu_smaller(part, m * n - i * part),
                         p->g.c + i * part);
    }
}

/* ---- the three GEMMs ---- */

/* One factor goes into alpha, many are kept for the blocks; all are where the sum is one that
 * the library does not make. */
static void set_factors(const mpt_kernel_args *args, product *p) {
    p->first = p->second = 1.0f;
    for (int i = 3; i < 5; i++) {
        const float *factors = mpt_arg_in(args, i);
        if (factors && args->in[i].dims[0] > 1)
            *(i == 3 ? &p->row_factors : &p->col_factors) = factors;
        else if (factors)
            *(i == 3 ? &p->first : &p->second) = factors[0];
    }
    if (mpt_cpu_is_summed(&args->node->attrs.sum, p->g.k))
        p->sum = &args->node->attrs.sum;
    float alpha = p->first * p->second * args->node->attrs.alpha;
    bool kept = p->row_factors || p->col_factors || p->sum;
    p->apart = !kept && !mpt_is_finite(alpha);
    p->g.alpha = kept || p->apart ? args->node->attrs.alpha : alpha;
}

void mpt_cpu_linear(const mpt_kernel_args *args) {
    int64_t n_in = mpt_tensor_cols(&args->in[0]), n_out = mpt_tensor_cols(&args->out[0]);
    product p = {.g = {.transpose_b = true,
                       .m = mpt_tensor_rows(&args->out[0]),
                       .n = n_out,
                       .k = n_in,
                       .a = args->in[0].data,
                       .lda = n_in,
                       .b = args->in[1].data,
                       .ldb = n_in,
                       .c = args->out[0].data,
                       .ldc = n_out},
                 .bias = mpt_arg_in(args, 2)};
    set_factors(args, &p);
    if (mpt_arg_in(args, 5))
        gemm_experts(args, &p);
    else
        gemm_blocks(&p);
}

void mpt_cpu_linear_dgrad(const mpt_kernel_args *args) {
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->out[0]);
    product p = {.g = {.m = mpt_tensor_rows(&args->out[0]),
                       .n = n_in,
                       .k = n_out,
                       .a = args->in[0].data,
                       .lda = n_out,
                       .b = args->in[1].data,
                       .ldb = n_in,
                       .c = args->out[0].data,
                       .ldc = n_in}};
    set_factors(args, &p);
    if (mpt_arg_in(args, 5))
        gemm_experts(args, &p);
    else
        gemm_blocks(&p);
}

void mpt_cpu_linear_wgrad(const mpt_kernel_args *args) {
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->in[1]);
    product p = {.g = {.transpose_a = true,
                       .m = n_out,
                       .n = n_in,
                       .k = mpt_tensor_rows(&args->in[0]),
                       .a = args->in[0].data,
                       .lda = n_out,
                       .b = args->in[1].data,
                       .ldb = n_in,
                       .beta = 1.0f,
                       .c = args->out[0].data,
                       .ldc = n_in},
                 .scratch = args->scratch};
    set_factors(args, &p);
    bool plain = !p.apart && !p.row_factors && !p.col_factors && !p.sum;
    if (mpt_arg_in(args, 5))
        gemm_experts(args, &p);
    else if (plain && pieces_of(p.g.m, p.g.n, p.g.k) > 1)
        gemm_pieces(&p);
    else
        gemm_blocks(&p);
}

/* Where factors differ or sums are special, a block a thread: dw is added to, so it cannot hold
 * the bare product. Else what the pieces after the first give. */
size_t mpt_cpu_linear_wgrad_scratch(const mpt_graph *graph, const mpt_node *node,
                                    int n_threads) {
    int64_t k = graph->values[node->in[0]].dims[0];
    int64_t m = graph->values[node->in[0]].dims[1], n = graph->values[node->in[1]].dims[1];
    bool many = mpt_cpu_is_summed(&node->attrs.sum, k);
    for (int i = 3; i < 5 && i < node->n_in; i++)
        many = many || (node->in[i] >= 0 && graph->values[node->in[i]].dims[0] > 1);
    if (many)
        return mpt_cpu_floats(n_threads * rows_of(m, n) * cols_of(n));
    bool experts = node->n_in > 5 && node->in[5] >= 0;
    return experts ? 0 : mpt_cpu_floats((pieces_of(m, n, k) - 1) * m * n);
}
