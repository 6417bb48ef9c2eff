/* A stored tensor as the matrix that a quantizer takes, and the job made of it.
 *
 * Shared by quantize_file.c and probe.c. Dimensions but the last are flattened into rows;
 * vectors and scalars are one row. */
#ifndef MPT_TOOLS_MATRIX_H
#define MPT_TOOLS_MATRIX_H

#include "io/safetensors.h"
#include "kernels/quantize.h"
#include "tools/tools.h"

/* Whether the values are floating numbers that the reader decodes, and there are any. */
bool mpt_tool_takes(const mpt_stored_tensor *tensor);

/* What keys random bits; `column` is the copy of the transpose. */
typedef struct mpt_tool_key {
    uint64_t seed;
    uint32_t step;
    bool column;
} mpt_tool_key;

/* A job over the tensor: shape, operand type, keys. x and the outputs are the caller's. */
mpt_quantize_job mpt_tool_job(const mpt_quantizer *q, const mpt_stored_tensor *tensor,
                              const mpt_tool_key *key);

/* The quantizer that the tensor really gets: `bf16` instead of q where a block or a rotation
 * cannot be cut and pad = "bf16". MPT_DATA where pad = "error". */
mpt_status mpt_tool_fit(mpt_ctx *ctx, const mpt_tool_format *format,
                        const mpt_stored_tensor *tensor, bool column, mpt_quantizer *out);

/* The values, where they lie in the file or decoded: one of the two is NULL. */
typedef struct mpt_tool_values {
    const float *x;
    const uint16_t *bf16;
} mpt_tool_values;

/* Bytes of room that decoding n values takes; 0 where they can be read where they lie. */
size_t mpt_tool_room(const mpt_stored_tensor *tensor, int64_t n);

/* Values first to first + n - 1, decoded into `room`, which is mpt_tool_room() bytes. */
mpt_tool_values mpt_tool_load(const mpt_stored_tensor *tensor, int64_t first, int64_t n,
                              float *room);

static inline float mpt_tool_value(const mpt_tool_values *values, int64_t i) {
    return values->x ? values->x[i] : mpt_bits_float((uint32_t)values->bf16[i] << 16);
}

/* The largest magnitudes, and how many values are NaN or Inf. */
typedef struct mpt_tool_seen {
    mpt_quantize_amax most;
    uint64_t nonfinite;
} mpt_tool_seen;

/* Adds n values to what was seen of a tensor. */
void mpt_tool_see(const mpt_tool_values *values, int64_t n, mpt_tool_seen *seen);

/* What one copy takes up. Codes have whole bytes a row; those of 6 bits a byte each, those of
 * 12 bits two bytes. */
typedef struct mpt_tool_layout {
    int64_t rows, k;                /* of the codes, elements; k is padded for a rotation */
    int64_t row_bytes;              /* of the codes; 0: there are none, the format is wide */
    int64_t scale_rows, scale_cols; /* 0: none */
    int scale_bytes;                /* of one scale */
    int64_t n_amax;                 /* 0: none stored */
} mpt_tool_layout;

mpt_tool_layout mpt_tool_layout_of(const mpt_quantize_job *job);

/* Bits an element in codes without gaps, and in scales. */
double mpt_tool_bits(const mpt_quantize_job *job);

/* Sets the threads that the kernels use (0: all cores), and gives those of the host, which the
 * caller puts back. */
int mpt_tool_set_threads(int n_threads);

#endif
