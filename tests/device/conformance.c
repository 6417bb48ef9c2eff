/* Quantizers: the bytes of the GPU against the bytes of the CPU.
 *
 * Case P68: a compiler's fault may strike one lane, one range of inputs or one tail. So every
 * BF16 number goes through every quantizer at every place modulo 16, in rows of 1 to 33
 * elements too, and so do the numbers at the edges between two codes in FP32. A difference
 * names the input, its place and both codes. */
#include <stdlib.h>
#include <string.h>

#include "copies.h"

enum { LANES = 16, LONGEST = 33, EVERY = 65536, SOME = 1024 };

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

/* At least every BF16 number, the first of them `offset` places from the left; in the simulator
 * every 64th. */
static input every_bf16(const rig *r, int order, int64_t cols, int offset) {
    static const char *const names[] = {"every bf16", "every bf16, strewn", "tame bf16"};
    input in = {.dtype = MPT_DTYPE_BF16, .storage = MPT_STORAGE_BF16, .cols = cols};
    int64_t n = r->simulated ? SOME : EVERY;
    in.rows = (n + cols - 1) / cols;
    in.x = rig_host((size_t)(in.rows * cols) * sizeof *in.x);
    for (int64_t i = 0; i < in.rows * cols; i++)
        in.x[i] = bf16_number(code_at(order, (uint32_t)((i - offset) * (EVERY / n))));
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

/* ---- one copy ---- */

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

/* Bytes from...to of what the device has, against those of the CPU. */
static void compare_part(rig *r, const uint8_t *got, const uint8_t *image, size_t from,
                         size_t to, const char *what) {
    size_t at = from;
    while (at < to && got[at] == image[at])
        at++;
    rig_check(r, at >= to, "%s: byte %zu is 0x%02x, not 0x%02x", what, at - from,
              at < to ? got[at] : 0, at < to ? image[at] : 0);
}

static void compare_image(rig *r, const input *in, const copy *c, const uint8_t *got,
                          const char *name) {
    const mpt_packed *p = &c->data.packed;
    uint8_t *image = rig_host(p->bytes);
    char what[600];
    copy_image(c, image);
    snprintf(what, sizeof what, "%s, %s, turned codes", name, in->name);
    if (p->turned)
        compare_part(r, got, image, p->turned, p->bytes, what);
    snprintf(what, sizeof what, "%s, %s, scales", name, in->name);
    if (p->scales)
        compare_part(r, got, image, p->scales, p->bytes, what);
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

/* A node that makes both copies of x. */
static rig_call call_of(rig_tensor *x, copy *row, copy *col) {
    rig_call call = {.node = {.op = MPT_OP_quantize, .n_in = 5, .n_out = 4},
                     .in = {x},
                     .out = {&row->data, &row->factor, &col->data, &col->factor}};
    mpt_attrs *a = &call.node.attrs;
    a->has_row = a->has_col = true;
    a->row = *row->job.q;
    a->col = *col->job.q;
    a->row_operand = COPY_ROW_OPERAND;
    a->col_operand = COPY_COL_OPERAND;
    a->row_scope = COPY_ROW_SCOPE;
    a->col_scope = COPY_COL_SCOPE;
    return call;
}

/* Both copies of one input by one quantizer, here and there. */
static void compare_input(rig *r, const mpt_quantizer *q, input in) {
    mpt_quantize_job job = {.q = q, .x = in.x, .rows = in.rows, .cols = in.cols};
    job.bf16 = in.dtype == MPT_DTYPE_BF16;
    copy row = copy_of(r, &job, false), col = copy_of(r, &job, true);
    rig_tensor x = rig_tensor_of(r, in.dtype, in.storage, in.rows, in.cols, in.x);
    rig_call call = call_of(&x, &row, &col);
    if (rig_prepare(r, &call)) {
        char name[400], text[320];
        rig_launch(r, &call);
        copy_run_both(&row, &col);
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

/* ---- all of them ---- */

static void test_P68_every_input(rig *r, const mpt_quantizer *q) {
    const int offsets = r->simulated ? 2 : LANES, longest = r->simulated ? 2 : LONGEST;
    for (int offset = 0; offset < offsets; offset++)
        for (int order = 0; order < 3; order++)
            compare_input(r, q, every_bf16(r, order, 256, r->simulated ? offset * 7 : offset));
    for (int length = 1; length <= longest; length++)
        compare_input(r, q, every_bf16(r, 2, r->simulated ? 16 * length + 1 : length, 0));
    for (int offset = 0; offset < offsets; offset++)
        compare_input(r, q, edges(q->format, offset));
}

/* Shapes, kinds of numbers and quantizers by chance. */
static void test_P68_any_quantizer(rig *r, uint64_t seed) {
    any_case any = any_case_of(seed, false);
    input in = {.dtype = MPT_DTYPE_FP32, .storage = MPT_STORAGE_HOST};
    in.rows = any.job.rows;
    in.cols = any.job.cols;
    in.x = any.x;
    snprintf(in.name, sizeof in.name, "seed %llu, %lldx%lld", (unsigned long long)seed,
             (long long)in.rows, (long long)in.cols);
    if (any.q.scale.kind == MPT_SCALING_DELAYED)
        any.q.scale.kind = MPT_SCALING_CURRENT; /* as in its first step */
    compare_input(r, &any.q, in);
}

void rig_quantizers(rig *r) {
    mpt_quantizer q;
    for (int i = 0; rig_quantizer(i, &q) && !(r->planted && i > 1); i++) {
        long long checks = r->checks, faults = r->faults;
        test_P68_every_input(r, &q);
        fprintf(r->out, "%-28s %lld comparisons, %lld differ\n", q.name, r->checks - checks,
                r->faults - faults);
        fflush(r->out);
    }
    int seeds = r->planted ? 1 : r->simulated ? 12 : 2000;
    long long checks = r->checks, faults = r->faults;
    for (int seed = 0; seed < seeds; seed++)
        test_P68_any_quantizer(r, (uint64_t)seed);
    fprintf(r->out, "%-28s %lld comparisons, %lld differ\n", "any quantizer",
            r->checks - checks, r->faults - faults);
}
