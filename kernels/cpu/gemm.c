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
 * 1024 columns: 28 against 70 GFLOP/s a core). */
static int64_t rows_of(int64_t m, int64_t n) {
    return block_of(m, n >= 1024 ? 512 : 32);
}

static int64_t cols_of(int64_t n) {
    return block_of(n, 1024);
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

/* Products that a node consists of: one, or one an expert. */
typedef struct products {
    const mpt_kernel_args *args;
    const int32_t *offsets; /* rows of experts; NULL: one product over all rows */
    int64_t n;
    int64_t rows, n_in, n_out; /* rows of all; columns of x and y */
} products;

static products products_of(const mpt_kernel_args *args, int64_t rows, int64_t n_in,
                            int64_t n_out) {
    const int32_t *offsets = mpt_arg_in(args, 5);
    return (products){args, offsets, offsets ? args->in[5].dims[0] - 1 : 1, rows, n_in, n_out};
}

/* One factor goes into alpha, many are kept for the blocks, those of this product alone; all
 * are where the sum is one that the library does not make. `skip` are the rows and columns of
 * all products that stand before this one's. */
static void set_factors(const mpt_kernel_args *args, const int64_t skip[2], product *p) {
    p->first = p->second = 1.0f;
    for (int i = 3; i < 5; i++) {
        const float *factors = mpt_arg_in(args, i);
        if (factors && args->in[i].dims[0] > 1)
            *(i == 3 ? &p->row_factors : &p->col_factors) = factors + skip[i - 3];
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

/* Rows of product e, and where its weights begin. */
static mpt_piece rows_of_product(const products *all, int64_t e) {
    if (!all->offsets)
        return (mpt_piece){0, all->rows};
    return (mpt_piece){all->offsets[e], all->offsets[e + 1]};
}

static product fprop_of(const products *all, int64_t e) {
    const mpt_kernel_args *args = all->args;
    mpt_piece rows = rows_of_product(all, e);
    int64_t skip[2] = {rows.first, e * all->n_out};
    product p = {.g = {.transpose_b = true,
                       .m = rows.end - rows.first,
                       .n = all->n_out,
                       .k = all->n_in,
                       .a = (const float *)args->in[0].data + rows.first * all->n_in,
                       .lda = all->n_in,
                       .b = (const float *)args->in[1].data + skip[1] * all->n_in,
                       .ldb = all->n_in,
                       .c = (float *)args->out[0].data + rows.first * all->n_out,
                       .ldc = all->n_out},
                 .bias = mpt_arg_in(args, 2)};
    set_factors(args, skip, &p);
    return p;
}

static product dgrad_of(const products *all, int64_t e) {
    const mpt_kernel_args *args = all->args;
    mpt_piece rows = rows_of_product(all, e);
    int64_t skip[2] = {rows.first, 0};
    product p = {.g = {.m = rows.end - rows.first,
                       .n = all->n_in,
                       .k = all->n_out,
                       .a = (const float *)args->in[0].data + rows.first * all->n_out,
                       .lda = all->n_out,
                       .b = (const float *)args->in[1].data + e * all->n_out * all->n_in,
                       .ldb = all->n_in,
                       .c = (float *)args->out[0].data + rows.first * all->n_in,
                       .ldc = all->n_in}};
    set_factors(args, skip, &p);
    return p;
}

static product wgrad_of(const products *all, int64_t e) {
    const mpt_kernel_args *args = all->args;
    mpt_piece rows = rows_of_product(all, e);
    const int64_t skip[2] = {0, 0};
    product p = {.g = {.transpose_a = true,
                       .m = all->n_out,
                       .n = all->n_in,
                       .k = rows.end - rows.first,
                       .a = (const float *)args->in[0].data + rows.first * all->n_out,
                       .lda = all->n_out,
                       .b = (const float *)args->in[1].data + rows.first * all->n_in,
                       .ldb = all->n_in,
                       .beta = 1.0f,
                       .c = (float *)args->out[0].data + e * all->n_out * all->n_in,
                       .ldc = all->n_in},
                 .scratch = args->scratch};
    set_factors(args, skip, &p);
    return p;
}

/* Blocks of a product; none where it has no rows, as an expert without tokens. */
static int64_t n_blocks_of(const product *p) {
    int64_t rows = rows_of(p->g.m, p->g.n), cols = cols_of(p->g.n);
    return p->g.k == 0 ? 0 : (p->g.m + rows - 1) / rows * ((p->g.n + cols - 1) / cols);
}

/* Block b of a product. */
static void run_block(const product *p, int64_t b) {
    int64_t rows = rows_of(p->g.m, p->g.n), cols = cols_of(p->g.n);
    int64_t n_across = (p->g.n + cols - 1) / cols;
    gemm_block(p, b / n_across * rows, b % n_across * cols);
}

/* All blocks of all products, in parallel. Those of experts differ in size, so that threads
 * take them as they come; each block is one thread's, whoever it is. */
static void gemm_blocks(const products *all, product (*product_of)(const products *, int64_t)) {
    if (all->n == 1) {
        product p = product_of(all, 0);
        int64_t n_blocks = n_blocks_of(&p);
#pragma omp parallel for schedule(static)
        for (int64_t b = 0; b < n_blocks; b++)
            run_block(&p, b);
        return;
    }
#pragma omp parallel
    for (int64_t e = 0; e < all->n; e++) {
        product p = product_of(all, e);
        int64_t n_blocks = n_blocks_of(&p);
#pragma omp for schedule(dynamic) nowait
        for (int64_t b = 0; b < n_blocks; b++)
            run_block(&p, b);
    }
}

/* Rows behind those of the last expert are zero. */
static void clear_rest(const products *all, float *out, int64_t width) {
    int64_t end = all->offsets ? all->offsets[all->n] : all->rows;
    memset(out + end * width, 0, mpt_cpu_floats((all->rows - end) * width));
}

void mpt_cpu_linear(const mpt_kernel_args *args) {
    int64_t n_in = mpt_tensor_cols(&args->in[0]), n_out = mpt_tensor_cols(&args->out[0]);
    products all = products_of(args, mpt_tensor_rows(&args->out[0]), n_in, n_out);
    gemm_blocks(&all, fprop_of);
    clear_rest(&all, args->out[0].data, n_out);
}

void mpt_cpu_linear_dgrad(const mpt_kernel_args *args) {
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->out[0]);
    products all = products_of(args, mpt_tensor_rows(&args->out[0]), n_in, n_out);
    gemm_blocks(&all, dgrad_of);
    clear_rest(&all, args->out[0].data, n_in);
}

void mpt_cpu_linear_wgrad(const mpt_kernel_args *args) {
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->in[1]);
    products all = products_of(args, mpt_tensor_rows(&args->in[0]), n_in, n_out);
    gemm_blocks(&all, wgrad_of);
}

/* A block a thread, where factors differ or sums are special: dw is added to, so it cannot hold
 * the bare product. */
size_t mpt_cpu_linear_wgrad_scratch(const mpt_graph *graph, const mpt_node *node,
                                    int n_threads) {
    int64_t k = graph->values[node->in[0]].dims[0];
    bool many = mpt_cpu_is_summed(&node->attrs.sum, k);
    for (int i = 3; i < 5 && i < node->n_in; i++)
        many = many || (node->in[i] >= 0 && graph->values[node->in[i]].dims[0] > 1);
    if (!many)
        return 0;
    int64_t m = graph->values[node->in[0]].dims[1], n = graph->values[node->in[1]].dims[1];
    return mpt_cpu_floats(n_threads * rows_of(m, n) * cols_of(n));
}
