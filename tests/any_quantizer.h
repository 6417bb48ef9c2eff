/* Any quantizer: one drawn from all that may be written, and a run of any job with guarded
 * outputs.
 *
 * The generator follows the table of legal combinations; what it draws is what property tests,
 * benchmarks and comparisons of backends walk over. Every buffer of a run has a margin on both
 * sides that any_free checks, and the input is allocated to the byte, for AddressSanitizer. */
#ifndef MPT_TESTS_ANY_QUANTIZER_H
#define MPT_TESTS_ANY_QUANTIZER_H

#include "quantize_case.h"

static inline uint32_t any_below(uint64_t *state, uint32_t n) {
    return case_random(state) % n;
}

static inline mpt_dtype any_narrow(uint64_t *state) {
    static const mpt_dtype narrow[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E5M6,
                                       MPT_DTYPE_E3M2, MPT_DTYPE_E2M3, MPT_DTYPE_E2M1,
                                       MPT_DTYPE_INT8};
    return narrow[any_below(state, MPT_COUNT(narrow))];
}

static inline void any_block(uint64_t *state, mpt_quantizer *q) {
    static const int32_t block[][2] = {{0, 0},   {1, 0},   {1, 16},  {1, 32},
                                       {1, 128}, {16, 16}, {32, 32}, {128, 128}};
    uint32_t first = q->scale_format == MPT_SCALE_E4M3;
    uint32_t n = q->outer == MPT_OUTER_ROW ? 5u : (uint32_t)MPT_COUNT(block);
    uint32_t i = first + any_below(state, n - first);
    q->block_rows = block[i][0];
    q->block_cols = block[i][1];
}

/* The scales of one block or tensor: their format, rule, outer scale and source. */
static inline void any_scale(uint64_t *state, mpt_quantizer *q) {
    static const mpt_scale_rule_kind e8m0[] = {MPT_RULE_UP, MPT_RULE_FLOOR, MPT_RULE_CEIL,
                                               MPT_RULE_EVEN};
    q->scale.kind = MPT_SCALING_CURRENT;
    q->scale_format = (mpt_scale_format)any_below(state, 4);
    if (q->scale_format == MPT_SCALE_E4M3)
        q->outer = (mpt_outer)any_below(state, 3);
    any_block(state, q);
    if (q->scale_format == MPT_SCALE_POW2)
        q->scale_rule.kind = MPT_RULE_UP;
    if (q->scale_format == MPT_SCALE_E8M0)
        q->scale_rule.kind = e8m0[any_below(state, 4)];
    bool one = q->block_rows == 0 && q->block_cols == 0 && q->scale_format <= MPT_SCALE_POW2;
    if (one)
        q->scale.kind = (mpt_scaling)(MPT_SCALING_CURRENT + (int)any_below(state, 3));
    if (q->scale.kind == MPT_SCALING_STATIC)
        q->scale.value = any_below(state, 2) ? 1.0 : 0.37;
    if (q->scale.kind == MPT_SCALING_DELAYED)
        q->scale.history = 4;
}

/* A narrow quantizer: every field drawn, and every combination allowed. */
static inline mpt_quantizer any_quantizer(uint64_t *state) {
    static const double headroom[] = {1, 1, 1, 1, 0.75, 16.0 / 17.0, 0.0625, 16};
    mpt_quantizer q = {.name = "any", .format = any_narrow(state), .headroom = 1};
    q.hadamard.seed = -1;
    any_scale(state, &q);
    q.nonfinite = (mpt_nonfinite)any_below(state, 2);
    q.source = (mpt_copy_source)any_below(state, 2);
    if (q.outer != MPT_OUTER_NONE && q.format == MPT_DTYPE_E2M1 && any_below(state, 2)) {
        q.scale_rule = (mpt_scale_rule){.kind = MPT_RULE_FOUR_OVER_SIX,
                                        .error = (mpt_choice_error)any_below(state, 2),
                                        .bound = any_below(state, 2) ? 256 : 448};
        return q;
    }
    q.headroom = headroom[any_below(state, MPT_COUNT(headroom))];
    q.rounding = (mpt_rounding)any_below(state, 4);
    if (any_below(state, 3) == 0) {
        q.hadamard.size = 2 << any_below(state, 7);
        q.hadamard.signs = (mpt_signs)any_below(state, 3);
    }
    return q;
}

/* One line of a quantizer's fields, for messages. */
static inline const char *any_text(const mpt_quantizer *q, char *text, size_t bytes) {
    snprintf(
        text, bytes,
        "format %d block %d,%d scale %d scale_format %d rule %d error %d bound %d outer %d "
        "headroom %g rounding %d hadamard %d signs %d nonfinite %d source %d",
        (int)q->format, q->block_rows, q->block_cols, (int)q->scale.kind, (int)q->scale_format,
        (int)q->scale_rule.kind, (int)q->scale_rule.error, q->scale_rule.bound, (int)q->outer,
        q->headroom, (int)q->rounding, q->hadamard.size, (int)q->hadamard.signs,
        (int)q->nonfinite, (int)q->source);
    return text;
}

/* ---- shapes ---- */

/* A job as its quantized orientation sees it, worked out here anew. */
typedef struct any_shape {
    int64_t rows, k, k_in; /* k is padded for the rotation */
    int64_t block_rows, block_k, scale_rows, scale_cols;
    size_t code_bytes; /* of one row */
} any_shape;

static inline any_shape any_shape_of(const mpt_quantize_job *job) {
    any_shape s;
    const mpt_quantizer *q = job->q;
    int64_t n = q->hadamard.size ? q->hadamard.size : 1;
    s.rows = job->column ? job->cols : job->rows;
    s.k_in = job->column ? job->rows : job->cols;
    s.k = (s.k_in + n - 1) / n * n;
    s.block_rows = q->block_rows ? q->block_rows : s.rows;
    s.block_k = q->block_cols ? q->block_cols : s.k;
    s.scale_rows = (s.rows + s.block_rows - 1) / s.block_rows;
    s.scale_cols = (s.k + s.block_k - 1) / s.block_k;
    size_t k = (size_t)s.k;
    s.code_bytes = q->format == MPT_DTYPE_E2M1   ? (k + 1) / 2
                   : q->format == MPT_DTYPE_E5M6 ? 2 * k
                                                 : k;
    return s;
}

/* The code at row r of the quantized orientation, element k along the dot product. */
static inline uint32_t any_code(const mpt_quantizer *q, const any_shape *s,
                                const uint8_t *codes, int64_t r, int64_t k) {
    const uint8_t *row = codes + (size_t)r * s->code_bytes;
    if (q->format == MPT_DTYPE_E2M1)
        return row[k / 2] >> 4 * (k % 2) & 15u;
    if (q->format == MPT_DTYPE_E5M6)
        return row[2 * k] | (uint32_t)row[2 * k + 1] << 8;
    return row[k];
}

/* ---- guarded runs ---- */

enum { ANY_MARGIN = 64, ANY_FILL = 0x5A };

typedef struct any_buffer {
    uint8_t *data; /* 64 bytes into its allocation */
    size_t bytes;
} any_buffer;

static inline any_buffer any_buffer_of(size_t bytes) {
    uint8_t *p = malloc(bytes + 2 * ANY_MARGIN);
    assert_non_null(p);
    memset(p, ANY_FILL, bytes + 2 * ANY_MARGIN);
    return (any_buffer){p + ANY_MARGIN, bytes};
}

static inline void any_buffer_free(any_buffer *b) {
    for (size_t i = 0; i < ANY_MARGIN; i++) {
        assert_int_equal(b->data[i - ANY_MARGIN], ANY_FILL);
        assert_int_equal(b->data[b->bytes + i], ANY_FILL);
    }
    free(b->data - ANY_MARGIN);
}

/* All outputs of one job. */
typedef struct any_outputs {
    any_buffer decoded, codes, scales, amax, factor, history, dequantized, stands_for;
    mpt_quantize_counts counts;
} any_outputs;

static inline any_outputs any_outputs_of(mpt_quantize_job *job, bool row_outer) {
    any_shape s = any_shape_of(job);
    size_t one = job->q->scale_format <= MPT_SCALE_POW2 ? 4 : 1;
    size_t levels = row_outer ? (size_t)s.rows * 4 : 4;
    any_outputs o = {.decoded = any_buffer_of((size_t)(s.rows * s.k) * 4),
                     .codes = any_buffer_of((size_t)s.rows * s.code_bytes),
                     .scales = any_buffer_of((size_t)(s.scale_rows * s.scale_cols) * one),
                     .amax = any_buffer_of(levels),
                     .factor = any_buffer_of(levels),
                     .history = any_buffer_of(4),
                     .dequantized = any_buffer_of((size_t)(s.rows * s.k_in) * 4),
                     .stands_for = any_buffer_of((size_t)(s.rows * s.k) * 4)};
    memset(o.history.data, 0, 4);
    job->decoded = (void *)o.decoded.data;
    job->decoded_k = s.k;
    job->codes = o.codes.data;
    job->scales = o.scales.data;
    job->amax = (void *)o.amax.data;
    job->factor = (void *)o.factor.data;
    job->stands_for = (void *)o.stands_for.data;
    if (job->q->scale.kind == MPT_SCALING_DELAYED)
        job->amax_history = (void *)o.history.data;
    return o;
}

/* Runs a job and dequantizes what comes out. Counts and `stands_for` may send a backend
 * another way than the outputs of training do, so a run is with them or without. */
static inline any_outputs any_run_with(void (*run)(const mpt_quantize_job *),
                                       mpt_quantize_job job, bool counted) {
    any_outputs o = any_outputs_of(&job, job.q->outer == MPT_OUTER_ROW);
    any_buffer scratch = any_buffer_of(mpt_quantize_scratch(&job));
    job.scratch = (void *)scratch.data;
    job.counts = counted ? &o.counts : NULL;
    if (!counted)
        job.stands_for = NULL;
    run(&job);
    mpt_dequantize(&job, (void *)o.dequantized.data);
    if (!counted)
        o.stands_for.bytes = 0;
    any_buffer_free(&scratch);
    return o;
}

static inline any_outputs any_run(void (*run)(const mpt_quantize_job *), mpt_quantize_job job) {
    return any_run_with(run, job, true);
}

enum { ANY_OUTPUTS = 8 };
static inline any_buffer *any_output(any_outputs *o, size_t i) {
    any_buffer *all[ANY_OUTPUTS] = {&o->decoded, &o->codes,   &o->scales,      &o->amax,
                                    &o->factor,  &o->history, &o->dequantized, &o->stands_for};
    return all[i];
}

static inline void any_free(any_outputs *o) {
    for (size_t i = 0; i < ANY_OUTPUTS; i++)
        any_buffer_free(any_output(o, i));
}

/* The name of the first output that both runs have and in which they differ, or NULL. */
static inline const char *any_difference(any_outputs *a, any_outputs *b) {
    static const char *const name[ANY_OUTPUTS] = {
        "decoded", "codes", "scales", "amax", "factor", "history", "dequantized", "stands_for"};
    for (size_t i = 0; i < ANY_OUTPUTS; i++) {
        any_buffer *x = any_output(a, i), *y = any_output(b, i);
        if (x->bytes && y->bytes && memcmp(x->data, y->data, x->bytes) != 0)
            return name[i];
    }
    return NULL;
}

/* ---- random cases ---- */

/* A quantizer, a matrix and a key, all of one seed. */
typedef struct any_case {
    uint64_t seed;
    mpt_quantizer q;
    mpt_quantize_job job; /* lacks q, scale and outputs: any_job() */
    float *x;
    size_t n;
    int kind;     /* of case_fill */
    float encode; /* delayed: the scale of earlier steps, or 0 */
} any_case;

/* From 1 x 1 to 257 x 511, small ones more often, and rarely both large. */
static inline void any_extent(uint64_t *state, int64_t *rows, int64_t *cols) {
    *rows = 1 + any_below(state, any_below(state, 4) ? 40 : 257);
    *cols = 1 + any_below(state, *rows < 41 && any_below(state, 2) == 0 ? 511 : 60);
}

/* `finite` leaves out the kinds of input that hold NaN and Inf. */
static inline any_case any_case_of(uint64_t seed, bool finite) {
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    any_case c = {.seed = seed, .q = any_quantizer(&state)};
    any_extent(&state, &c.job.rows, &c.job.cols);
    c.n = (size_t)(c.job.rows * c.job.cols);
    c.x = malloc(c.n * 4);
    assert_non_null(c.x);
    do
        c.kind = (int)any_below(&state, CASE_KINDS);
    while (finite && (c.kind == 3 || c.kind == 4));
    case_fill(c.x, c.n, c.kind, state);
    c.job.x = c.x;
    c.job.column = any_below(&state, 2);
    c.job.bf16 = any_below(&state, 3) == 0;
    c.job.fp16 = !c.job.bf16 && any_below(&state, 5) == 0;
    if (c.job.bf16)
        mpt_ref_round_to(MPT_DTYPE_BF16, c.x, c.n);
    for (size_t i = 0; finite && i < c.n; i++)
        if (!mpt_is_finite(c.x[i]))
            c.x[i] = 0x1.fep127f;
    c.job.key = (mpt_random_key){state, any_below(&state, 1u << 31), case_random(&state),
                                 (uint64_t)any_below(&state, 3) << 31};
    mpt_random_signs(state, 0, 0, c.job.signs);
    c.encode = any_below(&state, 2) ? 0.0f : 100.7f;
    return c;
}

/* The job, whose pointers lead into the case. */
static inline mpt_quantize_job any_job(const any_case *c) {
    mpt_quantize_job job = c->job;
    job.q = &c->q;
    job.scale = c->q.scale.kind == MPT_SCALING_DELAYED ? &c->encode : NULL;
    return job;
}

static inline void any_case_free(any_case *c) {
    free(c->x);
}

/* Fails with everything that is needed to run the case again. */
static inline void any_fail(const any_case *c, const char *what) {
    char text[256];
    fail_msg("%s: seed %d, %dx%d, column %d, bf16 %d, kind %d, %s", what, (int)c->seed,
             (int)c->job.rows, (int)c->job.cols, c->job.column, c->job.bf16, c->kind,
             any_text(&c->q, text, sizeof text));
}

#endif
