/* The layout of quantized copies in a device's memory, and the way back to the host's floats.
 */
#include "kernels/packed.h"

#include <string.h>

#include "kernels/numerics.h"
#include "kernels/quantize.h"

enum { SCALES_ALIGN = 256 };

static int64_t up_to(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static int64_t blocks(int64_t extent, int64_t block) {
    return block > 0 ? (extent + block - 1) / block : 1;
}

static size_t bytes_of_row(mpt_dtype format, int64_t n) {
    return (size_t)((n * mpt_code_bits(format) + 7) / 8);
}

/* Scales begin behind the codes; those of one scale a tensor are the factor, a value. */
static void place_scales(mpt_packed *p) {
    bool bytes = mpt_packed_byte_scales(p);
    size_t size = bytes ? 1 : sizeof(float);
    int64_t n;
    p->scales = (size_t)up_to((int64_t)p->bytes, SCALES_ALIGN);
    if (bytes) {
        p->scale_ld = p->blocks_k;
        n = mpt_swizzled_bytes(p->rows, p->blocks_k);
    } else if (p->q.block_rows == 1) {
        p->scale_ld = up_to(p->rows, 4);
        n = p->scale_ld * p->blocks_k;
    } else {
        p->scale_ld = up_to(p->blocks_k, 4);
        n = p->scale_ld * p->blocks_rows;
    }
    p->bytes = p->scales + (size_t)n * size;
}

mpt_packed mpt_packed_of(const mpt_quantizer *q, bool column, int64_t x_rows, int64_t x_cols,
                         bool turned) {
    mpt_packed p = {.q = *q, .column = column, .blocks_rows = 1, .blocks_k = 1};
    p.rows = column ? x_cols : x_rows;
    p.k = mpt_quantizer_extent(q, column ? x_rows : x_cols);
    p.code_row = (int64_t)bytes_of_row(q->format, p.k);
    p.bytes = (size_t)p.rows * (size_t)p.code_row;
    if (turned && mpt_quantizer_is_one_scale(q)) {
        p.turned = (size_t)up_to((int64_t)p.bytes, SCALES_ALIGN);
        p.bytes = p.turned + (size_t)p.k * bytes_of_row(q->format, p.rows);
    }
    if (mpt_quantizer_is_one_scale(q))
        return p;
    p.blocks_rows = blocks(p.rows, q->block_rows);
    p.blocks_k = blocks(p.k, q->block_cols);
    place_scales(&p);
    return p;
}

static bool is_copy(const mpt_graph *graph, mpt_value_id value, bool *out_column) {
    int32_t producer = graph->values[value].producer;
    const mpt_node *node = producer >= 0 ? &graph->nodes[producer] : NULL;
    if (!node || node->op != MPT_OP_quantize)
        return false;
    *out_column = node->out[2] == value;
    return *out_column || node->out[0] == value;
}

mpt_storage mpt_storage_of(const mpt_graph *graph, mpt_value_id value, bool turned,
                           mpt_packed *out) {
    const mpt_value *v = &graph->values[value];
    bool column;
    if (is_copy(graph, value, &column)) {
        const mpt_node *node = &graph->nodes[v->producer];
        const mpt_value *x = &graph->values[node->in[0]];
        *out = mpt_packed_of(column ? &node->attrs.col : &node->attrs.row, column, x->dims[0],
                             x->dims[1], turned);
        return MPT_STORAGE_PACKED;
    }
    if (v->kept)
        return MPT_STORAGE_HOST;
    return v->dtype == MPT_DTYPE_BF16   ? MPT_STORAGE_BF16
           : v->dtype == MPT_DTYPE_FP16 ? MPT_STORAGE_FP16
                                        : MPT_STORAGE_HOST;
}

/* ---- to the host and back ---- */

static uint32_t code_at(const mpt_packed *p, const uint8_t *codes, int64_t r, int64_t k) {
    const uint8_t *row = codes + r * p->code_row;
    int bits = mpt_code_bits(p->q.format);
    uint32_t code = 0;
    if (bits == 4)
        return row[k / 2] >> (k % 2 * 4) & 15u;
    memcpy(&code, row + k * (bits / 8), (size_t)(bits / 8)); /* little-endian hosts alone */
    return code;
}

static float scale_at(const mpt_packed *p, const uint8_t *bytes, int64_t r, int64_t k) {
    const uint8_t *scales = bytes + p->scales;
    if (!p->scales)
        return 1;
    int64_t at = mpt_packed_scale(p, r, p->q.block_cols > 0 ? k / p->q.block_cols : 0);
    if (p->q.scale_format == MPT_SCALE_E8M0)
        return mpt_decode(MPT_DTYPE_E8M0, scales[at]);
    if (p->q.scale_format == MPT_SCALE_E4M3)
        return mpt_decode(MPT_DTYPE_E4M3, scales[at]);
    float scale;
    memcpy(&scale, scales + (size_t)at * sizeof scale, sizeof scale);
    return scale;
}

static void unpack_copy(const mpt_packed *p, const uint8_t *bytes, float *out) {
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t k = 0; k < p->k; k++) {
            float value = mpt_decode(p->q.format, code_at(p, bytes, r, k));
            out[p->column ? k * p->rows + r : r * p->k + k] = value * scale_at(p, bytes, r, k);
        }
}

void mpt_unpack(mpt_storage storage, const mpt_packed *packed, const void *bytes, int64_t n,
                float *out) {
    mpt_dtype dtype = storage == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16;
    if (storage == MPT_STORAGE_PACKED)
        unpack_copy(packed, bytes, out);
    else if (storage == MPT_STORAGE_HOST)
        memcpy(out, bytes, (size_t)n * sizeof *out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = mpt_decode(dtype, ((const uint16_t *)bytes)[i]);
}

void mpt_pack(mpt_storage storage, const float *x, int64_t n, void *out) {
    mpt_dtype dtype = storage == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16;
    if (storage == MPT_STORAGE_HOST)
        memcpy(out, x, (size_t)n * sizeof *x);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = (uint16_t)mpt_encode(dtype, x[i]);
}
