/* Products whose running sum is not plain FP32: gemm{ accumulate, promote }.
 *
 * What is summed up how is in ref_linear.c. Promoted FP32 sums are calls of the library, one
 * for the products between two promotions, added to what is there. A running sum of another
 * format is rounded after each group of products, so its bits depend on the order inside a
 * group: those products are added here, in ref's order, for a row of outputs at a time. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "kernels/quantize.h"

enum { ROWS = 32, COLS = 64 }; /* of a tile: its sums, 16 KiB, stay in the nearest cache */

/* The same product over `n` of the numbers from `from` on. */
static mpt_sgemm part_of(const mpt_sgemm *g, int64_t from, int64_t n) {
    mpt_sgemm part = *g;
    part.k = n;
    part.a += g->transpose_a ? from * g->lda : from;
    part.b += g->transpose_b ? from : from * g->ldb;
    return part;
}

static void promoted_sum(int64_t promote, const mpt_sgemm *g) {
    for (int64_t from = 0; from < g->k; from += promote) {
        mpt_sgemm part = part_of(g, from, mpt_cpu_smaller(promote, g->k - from));
        part.alpha = 1.0f;
        part.beta = from ? 1.0f : 0.0f;
        mpt_cpu_sgemm(&part);
    }
}

/* ---- a running sum of a narrow format ---- */

/* A tile of outputs on its way. */
typedef struct tile {
    float b[MPT_SUM_GROUP][COLS]; /* the group's numbers of B, whichever way they are stored */
    float sum[ROWS][COLS];        /* running sums */
    float total[ROWS][COLS];      /* of those that were promoted */
} tile;

/* The group's numbers of B; columns beyond n are zero. */
MPT_CLONES static void load_group(tile *t, const mpt_sgemm *g) {
    for (int64_t k = 0; k < g->k; k++)
        for (int64_t j = 0; j < COLS; j++)
            t->b[k][j] = j >= g->n        ? 0.0f
                         : g->transpose_b ? g->b[j * g->ldb + k]
                                          : g->b[k * g->ldb + j];
}

/* Adds a group's products to a row of running sums. */
MPT_CLONES static void add_group(tile *t, const mpt_sgemm *g, int64_t row) {
    float part[COLS] = {0}, *sum = t->sum[row];
    for (int64_t k = 0; k < g->k; k++) {
        float a = g->transpose_a ? g->a[k * g->lda + row] : g->a[row * g->lda + k];
        const float *b = t->b[k];
#pragma omp simd
        for (int64_t j = 0; j < COLS; j++)
            part[j] += a * b[j];
    }
#pragma omp simd
    for (int64_t j = 0; j < COLS; j++)
        sum[j] += part[j];
}

/* Ends running sums: they go to the totals and start again. */
static void promote_tile(tile *t, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < COLS; j++) {
            t->total[i][j] += t->sum[i][j];
            t->sum[i][j] = 0.0f;
        }
}

static void narrow_tile(const mpt_gemm_sum *how, const mpt_sgemm *g) {
    tile t;
    memset(&t, 0, sizeof t);
    for (int64_t from = 0; from < g->k; from += MPT_SUM_GROUP) {
        mpt_sgemm group = part_of(g, from, mpt_cpu_smaller(MPT_SUM_GROUP, g->k - from));
        load_group(&t, &group);
        for (int64_t i = 0; i < g->m; i++)
            add_group(&t, &group, i);
        mpt_round_to(how->accumulate, t.sum[0], (size_t)(g->m * COLS));
        if (how->promote && (from + MPT_SUM_GROUP) % how->promote == 0)
            promote_tile(&t, g->m);
    }
    promote_tile(&t, g->m);
    for (int64_t i = 0; i < g->m; i++)
        memcpy(g->c + i * g->ldc, t.total[i], mpt_cpu_floats(g->n));
}

void mpt_cpu_sum(const mpt_gemm_sum *how, const mpt_sgemm *g) {
    if (how->accumulate == MPT_DTYPE_FP32) {
        promoted_sum(how->promote, g);
        return;
    }
    for (int64_t i = 0; i < g->m; i += ROWS)
        for (int64_t j = 0; j < g->n; j += COLS) {
            mpt_sgemm part = mpt_sgemm_tile(g, i, j, ROWS, COLS);
            narrow_tile(how, &part);
        }
}
