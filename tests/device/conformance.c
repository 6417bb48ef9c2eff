/* Quantizers: the bytes of the GPU against the bytes of the CPU.
 *
 * Case P68: a compiler's fault may strike one lane, one range of inputs or one tail. So every
 * BF16 number goes through every quantizer at every place modulo 16, in rows of 1 to 33
 * elements too, and so do the numbers at the edges between two codes in FP32. A difference
 * names the input, its place and both codes. */
#include <stdlib.h>
#include <string.h>

#include "../any_quantizer.h"
#include "rig.h"

enum { LANES = 16, LONGEST = 33, EVERY = 65536 };

/* ---- inputs ---- */

typedef struct input {
    char name[64];
    mpt_dtype dtype;
    mpt_storage storage;
    int64_t rows, cols;
    float *x;
} input;

static float bf16_number(uint32_t code) {
    return mpt_bits_float((code & 0xFFFFu) << 16);
}

/* Which code stands at place i: neighbours, which share blocks with their like; strewn, which
 * meet all others; tame, strewn over 2^-17 ... 2^3, so that one scale suits them all. */
static uint32_t code_at(int order, uint32_t i) {
    static const uint32_t odd = 40503;
    uint32_t strewn = i * odd & 0xFFFFu;
    if (order == 0)
        return i & 0xFFFFu;
    if (order == 1)
        return strewn;
    return (strewn & 0x807Fu) | (110u + (strewn >> 7 & 255u) % 20u) << 7;
}

/* At least every BF16 number, the first of them `offset` places from the left. */
static input every_bf16(int order, int64_t cols, int offset) {
    static const char *const names[] = {"every bf16", "every bf16, strewn", "tame bf16"};
    input in = {.dtype = MPT_DTYPE_BF16, .storage = MPT_STORAGE_BF16, .cols = cols};
    in.rows = (EVERY + cols - 1) / cols;
    in.x = rig_host((size_t)(in.rows * cols) * sizeof *in.x);
    for (int64_t i = 0; i < in.rows * cols; i++)
        in.x[i] = bf16_number(code_at(order, (uint32_t)(i - offset)));
    snprintf(in.name, sizeof in.name, "%s, rows of %lld, offset %d", names[order],
             (long long)cols, offset);
    return in;
}

/* Every number of the format, what lies between two of them, and the float32 on either side;
 * both signs. One FP32 scale of 1 leaves them where they are. */
static input edges(mpt_dtype format, int offset) {
    mpt_format f = mpt_format_of(format);
    int64_t n = (int64_t)(f.max_code + 1u) * 12, cols = 96;
    input in = {.dtype = MPT_DTYPE_FP32, .storage = MPT_STORAGE_HOST, .cols = cols};
    in.rows = n / cols + 1;
    in.x = rig_host((size_t)(in.rows * cols) * sizeof *in.x);
    for (int64_t i = 0; i < n; i++) {
        uint32_t code = (uint32_t)(i / 12), which = (uint32_t)(i % 12);
        float low = mpt_decode(format, code);
        float high = code < f.max_code ? mpt_decode(format, code + 1) : low * 1.125f;
        float at = which % 2 ? low + (high - low) / 2 : low;
        uint32_t bits = mpt_float_bits(at) + which / 2 % 3;
        bits = bits > 0 ? bits - 1 : bits;
        in.x[(i + offset) % (in.rows * cols)] =
            mpt_bits_float(bits | (which >= 6 ? 0x80000000u : 0u));
    }
    snprintf(in.name, sizeof in.name, "edges of %s, offset %d", mpt_dtype_name(format), offset);
    return in;
}

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

/* ---- one copy ---- */

typedef struct copy {
    bool column;
    mpt_quantize_job job;
    case_result expected;
    rig_tensor data, factor;
} copy;

static float number_at(const input *in, const mpt_packed *p, int64_t r, int64_t k) {
    int64_t row = p->column ? k : r, col = p->column ? r : k;
    return row < in->rows && col < in->cols ? in->x[row * in->cols + col] : 0.0f;
}

static void compare_codes(rig *r, const input *in, const copy *c, const uint8_t *got,
                          const char *name) {
    const mpt_packed *p = &c->data.packed;
    int bits = mpt_code_bits(p->q.format);
    int64_t at = 0, n = p->rows * p->code_row;
    while (at < n && got[at] == c->expected.codes[at])
        at++;
    int64_t row = at / p->code_row, k = at % p->code_row * 8 / bits;
    rig_check(r, at == n,
              "%s, %s: input %a at row %lld, element %lld (lane %lld): code 0x%02x, not 0x%02x",
              name, in->name, at == n ? 0.0 : (double)number_at(in, p, row, k), (long long)row,
              (long long)k, (long long)(k % LANES), at == n ? 0 : got[at],
              at == n ? 0 : c->expected.codes[at]);
}

static void compare_image(rig *r, const input *in, const copy *c, const uint8_t *got,
                          const char *name) {
    const mpt_packed *p = &c->data.packed;
    uint8_t *image = rig_host(p->bytes);
    size_t turned_end = p->scales ? p->scales : p->bytes, at;
    if (p->turned)
        turn(p, c->expected.codes, image + p->turned);
    if (p->scales)
        place_scales(p, c->expected.scales, image);
    for (at = p->turned ? p->turned : turned_end; at < turned_end && got[at] == image[at];)
        at++;
    rig_check(r, at >= turned_end, "%s, %s: byte %zu of the turned codes is 0x%02x, not 0x%02x",
              name, in->name, at - p->turned, at < p->bytes ? got[at] : 0,
              at < p->bytes ? image[at] : 0);
    for (at = p->scales ? p->scales : p->bytes; at < p->bytes && got[at] == image[at];)
        at++;
    rig_check(r, at >= p->bytes, "%s, %s: byte %zu of the scales is 0x%02x, not 0x%02x", name,
              in->name, at - p->scales, at < p->bytes ? got[at] : 0,
              at < p->bytes ? image[at] : 0);
    free(image);
}

static bool same_number(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void compare_copy(rig *r, const input *in, const copy *c, const char *name) {
    uint8_t *got = rig_host(c->data.bytes);
    float *factor = rig_host(c->factor.bytes);
    rig_bytes(r, &c->data, got, name);
    rig_bytes(r, &c->factor, factor, "a factor");
    compare_codes(r, in, c, got, name);
    compare_image(r, in, c, got, name);
    for (int64_t i = 0; i < c->factor.at.dims[0]; i++)
        if (!rig_check(r, same_number(factor[i], c->expected.row_factor[i]),
                       "%s, %s: factor %lld is %a, not %a", name, in->name, (long long)i,
                       (double)factor[i], (double)c->expected.row_factor[i]))
            break;
    free(got);
    free(factor);
}

/* The job as a node's would be: keys, the signs of the rotation. */
static copy copy_of(rig *r, const input *in, const mpt_quantizer *q, bool column) {
    copy c = {.column = column};
    c.job = (mpt_quantize_job){.q = q, .x = in->x, .rows = in->rows, .cols = in->cols};
    c.job.column = column;
    c.job.bf16 = in->dtype == MPT_DTYPE_BF16;
    c.job.key = (mpt_random_key){.seed = r->env.seed,
                                 .operand = column ? 0x1357u : 0x2468u,
                                 .step = r->env.step};
    if (q->hadamard.size)
        mpt_hadamard_signs(&q->hadamard, &c.job.key, column ? 5 : 6, c.job.signs);
    c.expected = case_result_for(&c.job);
    c.job = case_job(c.job, &c.expected, CASE_CODES | CASE_DECODED);
    mpt_packed packed = mpt_packed_of(q, column, in->rows, in->cols, true);
    c.data = rig_packed(r, &packed);
    int64_t factors = q->outer == MPT_OUTER_ROW ? packed.rows : 1;
    c.factor = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, factors, 0, NULL);
    return c;
}

static void copy_free(rig *r, copy *c) {
    rig_tensor_free(r, &c->data);
    rig_tensor_free(r, &c->factor);
    case_free(&c->expected);
}

static void run_on_host(copy *row, copy *col) {
    row->job.scratch = case_buffer(mpt_quantize_scratch(&row->job));
    col->job.scratch = case_buffer(mpt_quantize_both_scratch(&row->job, &col->job));
    mpt_quantize_both(&row->job, &col->job);
    free(row->job.scratch);
    free(col->job.scratch);
}

/* Both copies of one input by one quantizer, here and there. */
static void compare_input(rig *r, const mpt_quantizer *q, input in) {
    copy row = copy_of(r, &in, q, false), col = copy_of(r, &in, q, true);
    rig_tensor x = rig_tensor_of(r, in.dtype, in.storage, in.rows, in.cols, in.x);
    rig_call call = {.node = {.op = MPT_OP_quantize, .n_in = 5, .n_out = 4},
                     .in = {&x},
                     .out = {&row.data, &row.factor, &col.data, &col.factor}};
    mpt_attrs *a = &call.node.attrs;
    a->has_row = a->has_col = true;
    a->row = a->col = *q;
    a->row_operand = row.job.key.operand;
    a->col_operand = col.job.key.operand;
    a->row_scope = 6;
    a->col_scope = 5;
    if (rig_prepare(r, &call)) {
        char name[400], text[360];
        rig_launch(r, &call);
        run_on_host(&row, &col);
        any_text(q, text, sizeof text);
        snprintf(name, sizeof name, "row copy by %s (%s)", q->name, text);
        compare_copy(r, &in, &row, name);
        snprintf(name, sizeof name, "column copy by %s (%s)", q->name, text);
        compare_copy(r, &in, &col, name);
        rig_done(r, &call);
    }
    rig_tensor_free(r, &x);
    copy_free(r, &row);
    copy_free(r, &col);
    free(in.x);
}
