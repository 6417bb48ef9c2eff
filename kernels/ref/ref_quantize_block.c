/* ref.quantize, the last step: block by block the scale, and each element's code.
 *
 * Here a value is rounded, packed, decoded and counted. What scale a block has is said by
 * quantize_formulas.h, or chosen in ref_quantize_choice.c. */
#include "kernels/quantize_job.h"

/* What a block's elements need, beside their values. */
typedef struct block_run {
    const mpt_quantize_job *job;
    const mpt_quantize_shape *shape;
    const mpt_tensor_scale *tensor;
    mpt_block_factors factors;
    mpt_quantize_counts *counts; /* NULL: not wanted */
} block_run;

/* ---- outputs ---- */

static void put_code(const block_run *b, int64_t r, int64_t k, uint32_t code) {
    const mpt_quantize_job *job = b->job;
    int bits = mpt_code_bits(job->q->format);
    if (bits == 4) {
        uint8_t *byte = &job->codes[r * ((b->shape->k + 1) / 2) + k / 2];
        *byte = (uint8_t)(k % 2 ? *byte | code << 4 : code);
        return;
    }
    int64_t bytes = bits / 8;
    for (int64_t i = 0; i < bytes; i++)
        job->codes[(r * b->shape->k + k) * bytes + i] = (uint8_t)(code >> 8 * i);
}

static void put(const block_run *b, int64_t r, int64_t k, uint32_t code, float value) {
    const mpt_quantize_job *job = b->job;
    if (job->decoded && k < job->decoded_k) {
        int64_t at = job->column ? k * job->cols + r : r * job->decoded_k + k;
        job->decoded[at] = b->shape->one_scale ? value : value * b->factors.decode;
    }
    if (job->codes)
        put_code(b, r, k, code);
    if (job->stands_for)
        job->stands_for[r * b->shape->k + k] = value * b->factors.restore;
}

static void encode_area(const block_run *b, mpt_quantize_area a) {
    const mpt_quantizer *q = b->job->q;
    bool stochastic = q->rounding == MPT_ROUNDING_STOCHASTIC;
    bool visible = b->shape->one_scale && b->tensor->propagate;
    uint32_t bits[MPT_RANDOM_GROUP] = {0};
    for (int64_t r = a.r0; r < a.r1; r++)
        for (int64_t k = a.k0; k < a.k1; k++) {
            float x = mpt_quantize_value(b->job, b->shape, r, k), y = x * b->factors.encode;
            if (stochastic && (k == a.k0 || k % MPT_RANDOM_GROUP == 0))
                mpt_quantize_draw(&b->job->key, q->format,
                                  (uint64_t)(r * b->shape->groups + k / MPT_RANDOM_GROUP),
                                  bits);
            uint32_t code = mpt_quantize_code_of(q, &b->tensor->format, visible, x, y,
                                                 bits[k % MPT_RANDOM_GROUP]);
            float value = mpt_decode(q->format, code);
            put(b, r, k, code, value);
            if (b->counts)
                mpt_quantize_count(b->counts, &b->tensor->format, x, y, value,
                                   b->factors.restore);
        }
}

/* ---- blocks ---- */

static void block(block_run *b, mpt_quantize_area a) {
    const mpt_quantize_job *job = b->job;
    const mpt_quantizer *q = job->q;
    mpt_quantize_amax seen = {0, false, false};
    for (int64_t r = a.r0; r < a.r1; r++)
        for (int64_t k = a.k0; k < a.k1; k++)
            mpt_quantize_amax_see(&seen, mpt_quantize_value(job, b->shape, r, k));
    float amax = mpt_quantize_block_amax(b->tensor->propagate, seen);
    if (q->scale_rule.kind == MPT_RULE_FOUR_OVER_SIX)
        b->factors = mpt_quantize_block_of_code(
            q, b->tensor, mpt_quantize_four_over_six(job, b->shape, b->tensor, a, amax));
    else
        b->factors = mpt_quantize_block_scale(q, b->tensor, amax);
    int64_t at = a.r0 / b->shape->block_rows * b->shape->blocks_k + a.k0 / b->shape->block_k;
    if (job->scales && q->scale_format <= MPT_SCALE_POW2)
        ((float *)job->scales)[at] = b->factors.decode;
    else if (job->scales)
        ((uint8_t *)job->scales)[at] = (uint8_t)b->factors.code;
    if (b->counts)
        b->counts->capped += b->factors.capped;
    encode_area(b, a);
}

/* The second-level scale of one row, and its outputs. */
static mpt_tensor_scale row_scale(const block_run *b, const mpt_tensor_scale *tensor,
                                  int64_t r) {
    const mpt_quantize_job *job = b->job;
    mpt_quantize_range row = {r, r + 1};
    mpt_quantize_amax seen = mpt_quantize_amax_rows(job, row);
    mpt_tensor_scale t =
        mpt_quantize_row_scale(tensor, mpt_quantize_own_amax(tensor->propagate, seen));
    if (job->amax)
        job->amax[r] = t.amax;
    if (job->factor)
        job->factor[r] = t.amax;
    if (b->counts)
        b->counts->capped += t.capped;
    return t;
}

void mpt_quantize_block_rows(const mpt_quantize_job *job, const mpt_tensor_scale *tensor,
                             mpt_quantize_range rows, mpt_quantize_counts *counts) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    mpt_tensor_scale own = *tensor;
    block_run b = {job, &s, &own, {0}, job->counts ? counts : NULL};
    if (s.one_scale) {
        b.factors.encode = tensor->scale;
        b.factors.restore = tensor->decode;
        encode_area(&b, (mpt_quantize_area){rows.first, rows.last, 0, s.k});
        return;
    }
    for (int64_t r = rows.first; r < rows.last; r += s.block_rows) {
        if (job->q->outer == MPT_OUTER_ROW)
            own = row_scale(&b, tensor, r);
        for (int64_t k = 0; k < s.k; k += s.block_k) {
            mpt_quantize_area a = {r, r + s.block_rows, k, k + s.block_k};
            a.r1 = a.r1 < rows.last ? a.r1 : rows.last;
            a.k1 = a.k1 < s.k ? a.k1 : s.k;
            block(&b, a);
        }
    }
}
