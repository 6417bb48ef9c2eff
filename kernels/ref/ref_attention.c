/* attention: causal softmax(scale q k^T) v, grouped-query, one row of scores at a time.
 *
 * q and o are [tokens, heads * head_dim], k and v [tokens, kv_heads * head_dim]; query head h
 * reads key head h div (heads / kv_heads). The second output is the log-sum-exp of each row of
 * scores, [tokens, heads], from which the backward pass rebuilds the probabilities.
 *
 * Where the softmax has a format (attrs.softmax, else FP32), what multiplies v is the
 * exponential over the row's largest score, exp(s - largest), rounded to that format; the sum
 * that it is divided by is of exponentials that are not. Backward multiplies do by the same
 * rounded numbers in dv, and goes straight through the rounding in ds. */
#include "kernels/ref/real.h"

#include "kernels/numerics_cast.h"

typedef struct attention_dims {
    int64_t batch, sequence, heads, kv_heads, dim;
    mpt_real scale;
    mpt_dtype softmax;
} attention_dims;

static attention_dims attention_dims_of(const mpt_attrs *a) {
    return (attention_dims){a->batch,    a->sequence,        a->heads,  a->kv_heads,
                            a->head_dim, (mpt_real)a->scale, a->softmax};
}

static mpt_real attention_round(const attention_dims *d, mpt_real e) {
    return d->softmax == MPT_DTYPE_FP32 ? e : (mpt_real)mpt_round(d->softmax, (float)e);
}

/* Offset of a head's vector of token t in sequence b. */
static int64_t attention_at(const attention_dims *d, int64_t b, int64_t t, int64_t n_heads,
                            int64_t h) {
    return ((b * d->sequence + t) * n_heads + h) * d->dim;
}

static mpt_real attention_dot(const mpt_real *a, const mpt_real *b, int64_t n) {
    mpt_real sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The largest score of a query against keys 0 ... t. */
static mpt_real attention_largest(const attention_dims *d, const mpt_real *q, const mpt_real *k,
                                  int64_t b, int64_t j, int64_t t) {
    mpt_real most = -INFINITY;
    for (int64_t i = 0; i <= t; i++) {
        mpt_real s =
            d->scale * attention_dot(q, k + attention_at(d, b, i, d->kv_heads, j), d->dim);
        if (s > most)
            most = s;
    }
    return most;
}

/* One query: o and the log-sum-exp of its scores against keys 0 ... t. */
static void attention_row(const mpt_kernel_args *args, const attention_dims *d, int64_t b,
                          int64_t h, int64_t t) {
    const mpt_real *k = args->in[1].data, *v = args->in[2].data;
    int64_t j = h / (d->heads / d->kv_heads);
    const mpt_real *q = (const mpt_real *)args->in[0].data + attention_at(d, b, t, d->heads, h);
    mpt_real *o = (mpt_real *)args->out[0].data + attention_at(d, b, t, d->heads, h);
    mpt_real *lse = args->out[1].data;
    mpt_real most = attention_largest(d, q, k, b, j, t), sum = 0;
    for (int64_t c = 0; c < d->dim; c++)
        o[c] = 0;
    for (int64_t i = 0; i <= t; i++) {
        int64_t at = attention_at(d, b, i, d->kv_heads, j);
        mpt_real e = exp(d->scale * attention_dot(q, k + at, d->dim) - most);
        sum += e;
        e = attention_round(d, e);
        for (int64_t c = 0; c < d->dim; c++)
            o[c] += e * v[at + c];
    }
    for (int64_t c = 0; c < d->dim; c++)
        o[c] /= sum;
    lse[(b * d->sequence + t) * d->heads + h] = most + log(sum);
}

void MPT_REF(attention)(const mpt_kernel_args *args) {
    attention_dims d = attention_dims_of(&args->node->attrs);
    for (int64_t b = 0; b < d.batch; b++)
        for (int64_t h = 0; h < d.heads; h++)
            for (int64_t t = 0; t < d.sequence; t++)
                attention_row(args, &d, b, h, t);
}

/* dP = do v^T, dS = scale P (dP - do o); dq += dS k, dk += dS q, dv += P do. */
static void attention_grad_row(const mpt_kernel_args *args, const attention_dims *d, int64_t b,
                               int64_t h, int64_t t) {
    int64_t j = h / (d->heads / d->kv_heads), row = attention_at(d, b, t, d->heads, h);
    const mpt_real *q = (const mpt_real *)args->in[0].data + row;
    const mpt_real *k = args->in[1].data, *v = args->in[2].data;
    const mpt_real *o = (const mpt_real *)args->in[3].data + row, *lse = args->in[4].data;
    const mpt_real *dout = (const mpt_real *)args->in[5].data + row;
    mpt_real *dq = (mpt_real *)args->out[0].data + row;
    mpt_real *dk = args->out[1].data, *dv = args->out[2].data;
    mpt_real delta = attention_dot(dout, o, d->dim), most = 0;
    mpt_real row_lse = lse[(b * d->sequence + t) * d->heads + h];
    if (d->softmax != MPT_DTYPE_FP32)
        most = attention_largest(d, q, k, b, j, t);
    for (int64_t i = 0; i <= t; i++) {
        int64_t at = attention_at(d, b, i, d->kv_heads, j);
        mpt_real s = d->scale * attention_dot(q, k + at, d->dim);
        mpt_real p = exp(s - row_lse);
        mpt_real ds = d->scale * p * (attention_dot(dout, v + at, d->dim) - delta);
        if (d->softmax != MPT_DTYPE_FP32)
            p = attention_round(d, exp(s - most)) * exp(most - row_lse);
        for (int64_t c = 0; c < d->dim; c++) {
            dq[c] += ds * k[at + c];
            dk[at + c] += ds * q[c];
            dv[at + c] += p * dout[c];
        }
    }
}

void MPT_REF(attention_grad)(const mpt_kernel_args *args) {
    attention_dims d = attention_dims_of(&args->node->attrs);
    for (int i = 0; i < 3; i++) {
        mpt_real *out = args->out[i].data;
        int64_t n = mpt_tensor_elements(&args->out[i]);
        for (int64_t at = 0; at < n; at++)
            out[at] = 0;
    }
    for (int64_t b = 0; b < d.batch; b++)
        for (int64_t h = 0; h < d.heads; h++)
            for (int64_t t = 0; t < d.sequence; t++)
                attention_grad_row(args, &d, b, h, t);
}
