/* What the quantizer's tests share: quantizers by name, jobs with their buffers, and inputs. */
#ifndef MPT_TESTS_QUANTIZE_CASE_H
#define MPT_TESTS_QUANTIZE_CASE_H

#include <math.h>
#include <stdlib.h>

#include "kernels/quantize.h"
#include "mpt_test.h"

static inline mpt_quantizer case_cast(mpt_dtype format) {
    return (mpt_quantizer){.name = "cast", .format = format, .scale_format = MPT_SCALE_FP32};
}

static inline mpt_quantizer case_fp8(mpt_dtype format) {
    return (mpt_quantizer){.name = "fp8",
                           .format = format,
                           .scale.kind = MPT_SCALING_CURRENT,
                           .scale_format = MPT_SCALE_FP32};
}

static inline mpt_quantizer case_nvfp4(int32_t block_rows) {
    return (mpt_quantizer){.name = "nvfp4",
                           .format = MPT_DTYPE_E2M1,
                           .block_rows = block_rows,
                           .block_cols = 16,
                           .scale.kind = MPT_SCALING_CURRENT,
                           .scale_format = MPT_SCALE_E4M3,
                           .outer = MPT_OUTER_TENSOR};
}

static inline mpt_quantizer case_rotated(mpt_quantizer q, int32_t size, mpt_signs signs) {
    q.hadamard = (mpt_hadamard){.size = size, .signs = signs};
    return q;
}

static inline mpt_quantizer case_stochastic(mpt_quantizer q) {
    q.rounding = MPT_ROUNDING_STOCHASTIC;
    return q;
}

/* All outputs of one job; buffers are filled with a pattern first, so that what is not written
 * shows. */
typedef struct case_result {
    float *decoded, *stands_for;
    uint8_t *codes, *scales;
    float amax, factor;           /* of the tensor, or of the first row */
    float *row_amax, *row_factor; /* one a row with outer = "row", else one */
    size_t decoded_bytes, codes_bytes, scales_bytes, row_bytes;
    mpt_quantize_counts counts;
} case_result;

static inline void *case_buffer(size_t bytes) {
    void *p = malloc(bytes + 16);
    assert_non_null(p);
    memset(p, 0x5A, bytes + 16);
    return p;
}

static inline void case_free(case_result *r) {
    free(r->decoded);
    free(r->stands_for);
    free(r->codes);
    free(r->scales);
    free(r->row_amax);
    free(r->row_factor);
}

static inline int64_t case_ceil(int64_t n, int64_t by) {
    return by ? (n + by - 1) / by : 0;
}

/* Bytes of the scales output. */
static inline size_t case_scales_bytes(const mpt_quantizer *q, int64_t rows, int64_t k) {
    if (q->scale.kind == MPT_SCALING_NONE)
        return 0;
    int64_t blocks = case_ceil(rows, q->block_rows ? q->block_rows : rows) *
                     case_ceil(k, q->block_cols ? q->block_cols : k);
    return (size_t)blocks * (q->scale_format <= MPT_SCALE_POW2 ? sizeof(float) : 1);
}

static inline case_result case_result_for(const mpt_quantize_job *job) {
    case_result r = {0};
    int64_t rows = job->column ? job->cols : job->rows;
    int64_t k = mpt_quantizer_extent(job->q, job->column ? job->rows : job->cols);
    int bits = mpt_code_bits(job->q->format);
    r.decoded_bytes = (size_t)(rows * k) * 4;
    r.codes_bytes = (size_t)rows * (size_t)((k * bits + 7) / 8);
    r.scales_bytes = case_scales_bytes(job->q, rows, k);
    r.row_bytes = (size_t)(job->q->outer == MPT_OUTER_ROW ? rows : 1) * sizeof(float);
    r.decoded = case_buffer(r.decoded_bytes);
    r.stands_for = case_buffer(r.decoded_bytes);
    r.codes = case_buffer(r.codes_bytes);
    r.scales = case_buffer(r.scales_bytes);
    r.row_amax = case_buffer(r.row_bytes);
    r.row_factor = case_buffer(r.row_bytes);
    memset(&r.counts, 0x5A, sizeof r.counts);
    return r;
}

/* Which outputs are asked for, beside factor and amax. CODES stands for the scales too. */
enum { CASE_DECODED = 1, CASE_CODES = 2, CASE_COUNTS = 4, CASE_STANDS_FOR = 8 };

/* The job with its outputs in r. */
static inline mpt_quantize_job case_job(mpt_quantize_job job, case_result *r, int what) {
    int64_t k = mpt_quantizer_extent(job.q, job.column ? job.rows : job.cols);
    job.decoded = what & CASE_DECODED ? r->decoded : NULL;
    job.decoded_k = k;
    job.codes = what & CASE_CODES ? r->codes : NULL;
    job.scales = what & CASE_CODES ? r->scales : NULL;
    job.counts = what & CASE_COUNTS ? &r->counts : NULL;
    job.stands_for = what & CASE_STANDS_FOR ? r->stands_for : NULL;
    job.factor = r->row_factor;
    job.amax = job.q->scale.kind != MPT_SCALING_NONE ? r->row_amax : NULL;
    return job;
}

static inline case_result case_run(void (*run)(const mpt_quantize_job *), mpt_quantize_job job,
                                   int what) {
    case_result r = case_result_for(&job);
    job = case_job(job, &r, what);
    job.scratch = case_buffer(mpt_quantize_scratch(&job));
    run(&job);
    free(job.scratch);
    r.amax = job.amax ? *r.row_amax : 0.0f;
    r.factor = *r.row_factor;
    return r;
}

static inline bool case_close(double a, double b) {
    return a == b || fabs(a - b) <= 1e-9 * fabs(b) || (isnan(a) && isnan(b));
}

/* Whether two counts agree: integers and the largest magnitude to the bit, sums as far as the
 * order of their additions lets them, or, where `exact` says so, to the bit too. */
static inline bool case_same_counts(const mpt_quantize_counts *a, const mpt_quantize_counts *b,
                                    bool exact) {
    bool same = a->elements == b->elements && a->overflow == b->overflow &&
                a->underflow == b->underflow && a->zeros == b->zeros &&
                a->nonfinite == b->nonfinite && a->capped == b->capped && a->amax == b->amax;
    if (exact)
        return same && memcmp(&a->signal, &b->signal, sizeof a->signal) == 0 &&
               memcmp(&a->noise, &b->noise, sizeof a->noise) == 0;
    return same && case_close(a->signal, b->signal) && case_close(a->noise, b->noise);
}

static inline uint32_t case_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* Inputs of several kinds: bell-like, wide range, ties and neighbours, any bits (with NaN and
 * Inf), mostly tame with a few bad ones, subnormals, near the end of the range. */
enum { CASE_KINDS = 7 };
static inline void case_fill(float *x, size_t n, int kind, uint64_t seed) {
    static const float edge[] = {.25f, .75f, 1.25f, 1.75f, 2.5f,      3.5f,       5,
                                 6,    0,    -0.f,  448,   0x1p-149f, MPT_FLT_MAX};
    for (size_t i = 0; i < n; i++) {
        uint32_t r = case_random(&seed);
        float g = (float)((int)(r >> 8) - (1 << 23)) * 0x1p-22f;
        uint32_t bits = case_random(&seed);
        switch (kind) {
        case 0:
            x[i] = g * g * g;
            break;
        case 1:
            x[i] = g * mpt_bits_float((97 + bits % 60) << 23);
            break;
        case 2:
            x[i] = mpt_bits_float(mpt_float_bits(edge[r % 13]) + bits % 3 - 1);
            break;
        case 3:
            x[i] = mpt_bits_float(bits);
            break;
        case 4:
            x[i] = bits % 300 ? g : mpt_bits_float(bits & 1024 ? 0x7F800000u : 0xFFFFFFFFu);
            break;
        case 5:
            x[i] = mpt_bits_float(bits & 0x80FFFFFFu);
            break;
        default:
            x[i] = g * (bits % 40 ? 1.0f : 0x1.8p126f);
            break;
        }
    }
}

#endif
