/* Quantized copies as the CPU makes them, and as the device keeps them. See copies.h. */
#include "copies.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the CPU gives, as the device keeps it ---- */

/* Codes once more as [k, rows]. */
static void turn(const mpt_packed *p, const uint8_t *codes, uint8_t *out) {
    int bits = mpt_code_bits(p->q.format);
    size_t each = (size_t)bits / 8, row = (size_t)((p->rows * bits + 7) / 8);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t k = 0; k < p->k; k++) {
            const uint8_t *from = codes + r * p->code_row;
            uint8_t *to = out + (size_t)k * row;
            if (bits == 4)
                to[r / 2] |= (uint8_t)((from[k / 2] >> (k % 2 * 4) & 15) << (r % 2 * 4));
            else
                memcpy(to + (size_t)r * each, from + (size_t)k * each, each);
        }
}

static void place_scales(const mpt_packed *p, const uint8_t *scales, uint8_t *image) {
    size_t each = p->q.scale_format >= MPT_SCALE_E8M0 ? 1 : sizeof(float);
    int64_t tall = p->q.block_rows > 0 ? p->q.block_rows : p->rows;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t b = 0; b < p->blocks_k; b++)
            memcpy(image + p->scales + (size_t)mpt_packed_scale(p, r, b) * each,
                   scales + (size_t)(r / tall * p->blocks_k + b) * each, each);
}

void copy_image(const copy *c, uint8_t *image) {
    const mpt_packed *p = &c->data.packed;
    memcpy(image, c->expected.codes, (size_t)(p->rows * p->code_row));
    if (p->turned)
        turn(p, c->expected.codes, image + p->turned);
    if (p->scales)
        place_scales(p, c->expected.scales, image);
}

/* ---- both copies of an input ---- */

/* The job as a node's would be: keys, the signs of the rotation. */
copy copy_of(rig *r, const mpt_quantize_job *job, bool column) {
    const mpt_quantizer *q = job->q;
    copy c = {.job = *job};
    c.job.column = column;
    c.job.key = (mpt_random_key){.seed = r->env.seed,
                                 .operand = column ? COPY_COL_OPERAND : COPY_ROW_OPERAND,
                                 .step = r->env.step};
    if (q->hadamard.size)
        mpt_hadamard_signs(&q->hadamard, &c.job.key, column ? COPY_COL_SCOPE : COPY_ROW_SCOPE,
                           c.job.signs);
    c.expected = case_result_for(&c.job);
    c.job = case_job(c.job, &c.expected, CASE_CODES | CASE_DECODED);
    mpt_packed packed = mpt_packed_of(q, column, job->rows, job->cols, true);
    c.data = rig_packed(r, &packed);
    int64_t factors = q->outer == MPT_OUTER_ROW ? packed.rows : 1;
    c.factor = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, factors, 0, NULL);
    return c;
}

void copy_free(rig *r, copy *c) {
    rig_tensor_free(r, &c->data);
    rig_tensor_free(r, &c->factor);
    case_free(&c->expected);
}

void copy_run_both(copy *row, copy *col) {
    row->job.scratch = case_buffer(mpt_quantize_scratch(&row->job));
    col->job.scratch = case_buffer(mpt_quantize_both_scratch(&row->job, &col->job));
    mpt_quantize_both(&row->job, &col->job);
    free(row->job.scratch);
    free(col->job.scratch);
}
