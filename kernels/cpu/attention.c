/* attention: causal, grouped-query, by tiles of scores that never leave the cache.
 *
 * Forward: a tile of queries walks over the tiles of keys before it, keeping the running
 * maximum, sum and output of each row. Backward: the tile's probabilities are rebuilt from the
 * log-sum-exp. One sequence and key head is one piece of work in the backward pass, so that the
 * sums over its query heads have one order. Where probabilities are rounded to a format, the
 * rows' largest scores are found in a pass of their own first: what is rounded must not depend
 * on the tiles. Formulas as in kernels/ref/ref_attention.c. */
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/vector.h"

enum { TILE = 64 };

/* What a thread needs: two tiles of scores and a number a row. */
typedef struct tile_room {
    float score[TILE * TILE], grad[TILE * TILE];
    float most[TILE], sum[TILE], delta[TILE];
} tile_room;

/* One head of one sequence, rows `stride` apart. */
typedef struct head {
    const float *q, *k, *v, *o, *lse, *dout;
    float *y, *y_lse, *dq, *dk, *dv;
    int64_t q_stride, k_stride, n_heads, dim, sequence;
    float scale;
    mpt_dtype softmax; /* of the probabilities; FP32: not rounded */
} head;

/* One tile of scores: queries first_q ..., keys first_k ... */
typedef struct tile {
    int64_t first_q, n_q, first_k, n_k;
    bool diagonal;
} tile;

static tile tile_at(int64_t sequence, int64_t q, int64_t k) {
    tile t = {.first_q = q * TILE, .first_k = k * TILE, .diagonal = q == k};
    t.n_q = sequence - t.first_q < TILE ? sequence - t.first_q : TILE;
    t.n_k = sequence - t.first_k < TILE ? sequence - t.first_k : TILE;
    return t;
}

static void tile_scores(const head *h, const tile *t, float *score) {
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_b = true,
                               .m = t->n_q,
                               .n = t->n_k,
                               .k = h->dim,
                               .alpha = h->scale,
                               .a = h->q + t->first_q * h->q_stride,
                               .lda = h->q_stride,
                               .b = h->k + t->first_k * h->k_stride,
                               .ldb = h->k_stride,
                               .c = score,
                               .ldc = TILE});
}

/* How many keys of a tile query i of it may see; the others are above the diagonal. */
MPT_ALWAYS_INLINE int64_t tile_seen(const tile *t, int64_t i) {
    return t->diagonal ? i + 1 : t->n_k;
}

/* x[i] *= factor. */
MPT_ALWAYS_INLINE void scale_row(float *x, int64_t n, float factor) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* What a query must not see: `with`, from there to the end of the tile's row. Rows are computed
 * whole, because loops of a fixed length have no remainder. */
MPT_ALWAYS_INLINE void fill_unseen(float *row, int64_t seen, float with) {
    for (int64_t j = seen; j < TILE; j++)
        row[j] = with;
}

/* Scores to exponentials over the running maximum; older output is scaled down to it. */
MPT_CLONES static void tile_softmax(const head *h, const tile *t, tile_room *room) {
    for (int64_t i = 0; i < t->n_q; i++) {
        float *s = room->score + i * TILE, sum = 0;
        fill_unseen(s, tile_seen(t, i), -INFINITY);
        float most = mpt_largest(s, TILE, room->most[i]);
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < TILE; j++) {
            s[j] = mpt_expf(s[j] - most); /* 0 of -inf */
            sum += s[j];
        }
        float shrink = mpt_expf(room->most[i] - most);
        if (t->first_k > 0 && shrink != 1.0f)
            scale_row(h->y + (t->first_q + i) * h->q_stride, h->dim, shrink);
        room->most[i] = most;
        room->sum[i] = room->sum[i] * shrink + sum;
    }
}

/* Rounds the exponentials of a tile to the softmax's format. */
static void tile_round(const head *h, const tile *t, float *score) {
    const mpt_quantize_kernels *kernels = mpt_quantize_kernels_of(mpt_quantize_best_level());
    for (int64_t i = 0; h->softmax != MPT_DTYPE_FP32 && i < t->n_q; i++)
        kernels->round(h->softmax, score + i * TILE, score + i * TILE, (size_t)t->n_k);
}

/* The largest score of each query of a tile, over all its keys; -inf without a format, where it
 * is not needed ahead. */
static void tile_largest(const head *h, int64_t q, tile_room *room) {
    for (int64_t i = 0; i < TILE; i++)
        room->most[i] = -INFINITY;
    for (int64_t k = 0; h->softmax != MPT_DTYPE_FP32 && k <= q; k++) {
        tile t = tile_at(h->sequence, q, k);
        tile_scores(h, &t, room->score);
        for (int64_t i = 0; i < t.n_q; i++)
            room->most[i] =
                mpt_largest(room->score + i * TILE, t.diagonal ? i + 1 : t.n_k, room->most[i]);
    }
}

static void tile_output(const head *h, const tile *t, const float *score) {
    mpt_cpu_sgemm(&(mpt_sgemm){.m = t->n_q,
                               .n = h->dim,
                               .k = t->n_k,
                               .alpha = 1.0f,
                               .a = score,
                               .lda = TILE,
                               .b = h->v + t->first_k * h->k_stride,
                               .ldb = h->k_stride,
                               .beta = t->first_k > 0 ? 1.0f : 0.0f,
                               .c = h->y + t->first_q * h->q_stride,
                               .ldc = h->q_stride});
}

MPT_CLONES static void attend_tile(const head *h, int64_t q, tile_room *room) {
    tile t = tile_at(h->sequence, q, 0);
    tile_largest(h, q, room);
    for (int64_t i = 0; i < t.n_q; i++)
        room->sum[i] = 0;
    for (int64_t k = 0; k <= q; k++) {
        t = tile_at(h->sequence, q, k);
        tile_scores(h, &t, room->score);
        tile_softmax(h, &t, room);
        tile_round(h, &t, room->score);
        tile_output(h, &t, room->score);
    }
    for (int64_t i = 0; i < t.n_q; i++) {
        float *y = h->y + (t.first_q + i) * h->q_stride, scale = 1.0f / room->sum[i];
        scale_row(y, h->dim, scale);
        h->y_lse[(t.first_q + i) * h->n_heads] = room->most[i] + logf(room->sum[i]);
    }
}

/* Views of query head `index` in sequence b; gradients only where the node has them. */
static head head_of(const mpt_kernel_args *args, int64_t b, int64_t index) {
    const mpt_attrs *a = &args->node->attrs;
    head h = {.n_heads = a->heads,
              .dim = a->head_dim,
              .sequence = a->sequence,
              .scale = a->scale,
              .softmax = a->softmax,
              .q_stride = (int64_t)a->heads * a->head_dim,
              .k_stride = (int64_t)a->kv_heads * a->head_dim};
    int64_t j = index / (a->heads / a->kv_heads), row = b * a->sequence;
    int64_t at_q = row * h.q_stride + index * h.dim, at_k = row * h.k_stride + j * h.dim;
    int64_t at_lse = row * h.n_heads + index;
    h.q = (const float *)args->in[0].data + at_q;
    h.k = (const float *)args->in[1].data + at_k;
    h.v = (const float *)args->in[2].data + at_k;
    if (args->node->op == MPT_OP_attention) {
        h.y = (float *)args->out[0].data + at_q;
        h.y_lse = (float *)args->out[1].data + at_lse;
        return h;
    }
    h.o = (const float *)args->in[3].data + at_q;
    h.lse = (const float *)args->in[4].data + at_lse;
    h.dout = (const float *)args->in[5].data + at_q;
    h.dq = (float *)args->out[0].data + at_q;
    h.dk = (float *)args->out[1].data + at_k;
    h.dv = (float *)args->out[2].data + at_k;
    return h;
}

size_t mpt_cpu_attention_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph, (void)node;
    return (size_t)n_threads * sizeof(tile_room);
}

void mpt_cpu_attention(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    tile_room *rooms = args->scratch;
    int64_t n_tiles = (a->sequence + TILE - 1) / TILE, n = a->batch * a->heads * n_tiles;
/* Late tiles are long: small shares even the work out. */
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t item = 0; item < n; item++) {
        int64_t at = item / n_tiles;
        head h = head_of(args, at / a->heads, at % a->heads);
        attend_tile(&h, n_tiles - 1 - item % n_tiles, &rooms[omp_get_thread_num()]);
    }
}

/* grad = do v^T. */
static void tile_dscores(const head *h, const tile *t, float *grad) {
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_b = true,
                               .m = t->n_q,
                               .n = t->n_k,
                               .k = h->dim,
                               .alpha = 1.0f,
                               .a = h->dout + t->first_q * h->q_stride,
                               .lda = h->q_stride,
                               .b = h->v + t->first_k * h->k_stride,
                               .ldb = h->k_stride,
                               .c = grad,
                               .ldc = TILE});
}

/* score: P from the scores; grad: scale P (dP - delta). Zero above the diagonal. */
MPT_CLONES static void tile_probabilities(const head *h, const tile *t, tile_room *room) {
    for (int64_t i = 0; i < t->n_q; i++) {
        float *s = room->score + i * TILE, *g = room->grad + i * TILE;
        float lse = h->lse[(t->first_q + i) * h->n_heads], delta = room->delta[i];
        float scale = h->scale;
        int64_t n = tile_seen(t, i);
        fill_unseen(s, n, 0);
        fill_unseen(g, n, 0);
#pragma omp simd
        for (int64_t j = 0; j < TILE; j++) {
            s[j] = mpt_expf(s[j] - lse);
            g[j] = scale * s[j] * (g[j] - delta);
        }
        fill_unseen(s, n, 0);
        fill_unseen(g, n, 0);
    }
}

/* The same where the softmax has a format: score becomes P made of the rounded exponentials
 * that the forward pass multiplied, while grad goes straight through the rounding. */
MPT_CLONES static void tile_rounded_probabilities(const head *h, const tile *t,
                                                  tile_room *room) {
    for (int64_t i = 0; i < t->n_q; i++) {
        float *s = room->score + i * TILE, *g = room->grad + i * TILE;
        float lse = h->lse[(t->first_q + i) * h->n_heads], delta = room->delta[i];
        float scale = h->scale, most = room->most[i];
        int64_t n = tile_seen(t, i);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            g[j] = scale * mpt_expf(s[j] - lse) * (g[j] - delta);
            s[j] = mpt_expf(s[j] - most);
        }
        for (int64_t j = n; j < t->n_k; j++)
            s[j] = g[j] = 0;
    }
    tile_round(h, t, room->score);
    for (int64_t i = 0; i < t->n_q; i++) {
        float *s = room->score + i * TILE;
        float factor = mpt_expf(room->most[i] - h->lse[(t->first_q + i) * h->n_heads]);
#pragma omp simd
        for (int64_t j = 0; j < t->n_k; j++)
            s[j] *= factor;
    }
}

/* out (rows of keys) += tile^T rows of queries. */
static void tile_to_keys(const head *h, const tile *t, const float *score, const float *rows,
                         float *out, bool first) {
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_a = true,
                               .m = t->n_k,
                               .n = h->dim,
                               .k = t->n_q,
                               .alpha = 1.0f,
                               .a = score,
                               .lda = TILE,
                               .b = rows + t->first_q * h->q_stride,
                               .ldb = h->q_stride,
                               .beta = first ? 0.0f : 1.0f,
                               .c = out + t->first_k * h->k_stride,
                               .ldc = h->k_stride});
}

static void tile_to_queries(const head *h, const tile *t, const float *grad) {
    mpt_cpu_sgemm(&(mpt_sgemm){.m = t->n_q,
                               .n = h->dim,
                               .k = t->n_k,
                               .alpha = 1.0f,
                               .a = grad,
                               .lda = TILE,
                               .b = h->k + t->first_k * h->k_stride,
                               .ldb = h->k_stride,
                               .beta = t->first_k > 0 ? 1.0f : 0.0f,
                               .c = h->dq + t->first_q * h->q_stride,
                               .ldc = h->q_stride});
}

/* delta = sum of do o, a number a query. */
MPT_CLONES static void tile_delta(const head *h, const tile *t, float *delta) {
    for (int64_t i = 0; i < t->n_q; i++) {
        const float *o = h->o + (t->first_q + i) * h->q_stride;
        const float *dout = h->dout + (t->first_q + i) * h->q_stride;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < h->dim; c++)
            sum += o[c] * dout[c];
        delta[i] = sum;
    }
}

/* One query head. A tile of keys is first reached by its own queries, on the diagonal: there
 * the first head of the group writes, and all else adds. */
static void attend_grad_head(const head *h, bool first_head, tile_room *room) {
    int64_t n_tiles = (h->sequence + TILE - 1) / TILE;
    for (int64_t q = 0; q < n_tiles; q++) {
        tile_largest(h, q, room);
        for (int64_t k = 0; k <= q; k++) {
            tile t = tile_at(h->sequence, q, k);
            if (k == 0)
                tile_delta(h, &t, room->delta);
            tile_scores(h, &t, room->score);
            tile_dscores(h, &t, room->grad);
            if (h->softmax == MPT_DTYPE_FP32)
                tile_probabilities(h, &t, room);
            else
                tile_rounded_probabilities(h, &t, room);
            tile_to_keys(h, &t, room->score, h->dout, h->dv, first_head && t.diagonal);
            tile_to_keys(h, &t, room->grad, h->q, h->dk, first_head && t.diagonal);
            tile_to_queries(h, &t, room->grad);
        }
    }
}

size_t mpt_cpu_attention_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                      int n_threads) {
    (void)graph, (void)node;
    return (size_t)n_threads * sizeof(tile_room);
}

void mpt_cpu_attention_grad(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    tile_room *rooms = args->scratch;
    int64_t group = a->heads / a->kv_heads, n = a->batch * a->kv_heads;
#pragma omp parallel for schedule(static)
    for (int64_t item = 0; item < n; item++) {
        for (int64_t i = 0; i < group; i++) {
            head h = head_of(args, item / a->kv_heads, item % a->kv_heads * group + i);
            attend_grad_head(&h, i == 0, &rooms[omp_get_thread_num()]);
        }
    }
}
