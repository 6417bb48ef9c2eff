/* A quantized copy as a device has it, made by the definition on the host: codes and scales of
 * mpt_ref_quantize_operand, put where kernels/packed.h says; and the floats beside it that a
 * host kernel reads. */
#ifndef MPT_TESTS_PACKED_CASE_H
#define MPT_TESTS_PACKED_CASE_H

#include "op_case.h"

#include "kernels/packed.h"
#include "kernels/quantize.h"
#include "recipe/schema.h"

typedef struct packed_copy {
    mpt_packed packed;
    uint8_t *bytes; /* of the device */
    float *decoded; /* of the host, in the layout of x, padded */
    float *factor;  /* n_factor of them */
    int64_t n_factor;
    int64_t dims[2]; /* of the values */
} packed_copy;

static inline uint32_t packed_code(const uint8_t *row, mpt_dtype format, int64_t k) {
    uint32_t code = 0;
    size_t bytes = (size_t)mpt_code_bits(format) / 8;
    if (bytes == 0)
        return row[k / 2] >> (k % 2 * 4) & 15u;
    memcpy(&code, row + (size_t)k * bytes, bytes);
    return code;
}

static inline void packed_put_code(uint8_t *row, mpt_dtype format, int64_t k, uint32_t code) {
    size_t bytes = (size_t)mpt_code_bits(format) / 8;
    if (bytes == 0)
        row[k / 2] |= (uint8_t)(code << (k % 2 * 4));
    else
        memcpy(row + (size_t)k * bytes, &code, bytes);
}

/* Codes once more as [k, rows]. */
static inline void packed_turn(const packed_copy *c) {
    const mpt_packed *p = &c->packed;
    int64_t row = (p->rows * mpt_code_bits(p->q.format) + 7) / 8;
    for (int64_t k = 0; p->turned && k < p->k; k++)
        for (int64_t r = 0; r < p->rows; r++)
            packed_put_code(c->bytes + p->turned + k * row, p->q.format, r,
                            packed_code(c->bytes + r * p->code_row, p->q.format, k));
}

static inline void packed_place_scales(const packed_copy *c, const uint8_t *scales) {
    const mpt_packed *p = &c->packed;
    size_t size = p->q.scale_format >= MPT_SCALE_E8M0 ? 1 : sizeof(float);
    for (int64_t r = 0; p->scales && r < p->rows; r++)
        for (int64_t b = 0; b < p->blocks_k; b++) {
            int64_t block = p->q.block_rows > 0 ? r / p->q.block_rows : 0;
            memcpy(c->bytes + p->scales + (size_t)mpt_packed_scale(p, r, b) * size,
                   scales + (size_t)(block * p->blocks_k + b) * size, size);
        }
}

/* The copy of x [rows, cols]. */
static inline packed_copy packed_make(const mpt_quantizer *q, bool column, const float *x,
                                      int64_t rows, int64_t cols, bool turned) {
    packed_copy c = {.packed = mpt_packed_of(q, column, rows, cols, turned)};
    const mpt_packed *p = &c.packed;
    c.n_factor = q->outer == MPT_OUTER_ROW ? p->rows : 1;
    c.dims[0] = column ? p->k : rows;
    c.dims[1] = column ? cols : p->k;
    c.bytes = op_calloc(p->bytes + 64, 1);
    c.decoded = op_calloc((size_t)(c.dims[0] * c.dims[1]), sizeof(float));
    c.factor = op_calloc((size_t)c.n_factor, sizeof(float));
    void *scales = op_calloc((size_t)(p->rows * p->k) + 64, sizeof(float));
    mpt_quantize_job job = {.q = q,
                            .x = x,
                            .rows = rows,
                            .cols = cols,
                            .column = column,
                            .codes = c.bytes,
                            .scales = scales,
                            .factor = c.factor,
                            .decoded = c.decoded,
                            .decoded_k = p->k};
    job.scratch = op_calloc(mpt_quantize_scratch(&job) + 64, 1);
    mpt_ref_quantize_operand(&job);
    packed_turn(&c);
    packed_place_scales(&c, scales);
    free(job.scratch);
    free(scales);
    return c;
}

static inline void packed_free(packed_copy *c) {
    free(c->bytes);
    free(c->decoded);
    free(c->factor);
}

/* The copy as a device's tensor, or as a host's. */
static inline mpt_tensor packed_tensor(const packed_copy *c, bool device) {
    mpt_tensor t = {.data = device ? (void *)c->bytes : (void *)c->decoded,
                    .dtype = c->packed.q.format,
                    .rank = 2,
                    .dims = {c->dims[0], c->dims[1]},
                    .storage = device ? MPT_STORAGE_PACKED : MPT_STORAGE_HOST,
                    .packed = device ? &c->packed : NULL};
    return t;
}

static inline mpt_tensor packed_factor(const packed_copy *c) {
    return (mpt_tensor){
        .data = c->factor, .dtype = MPT_DTYPE_FP32, .rank = 1, .dims = {c->n_factor}};
}

#endif
