/* What the quantizer's tests share: quantizers by name, jobs with their buffers, and inputs. */
#ifndef MPT_TESTS_QUANTIZE_CASE_H
#define MPT_TESTS_QUANTIZE_CASE_H

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
    float *decoded;
    uint8_t *codes, *scales;
    float amax, factor;
    size_t decoded_bytes, codes_bytes, scales_bytes;
} case_result;

static inline void *case_buffer(size_t bytes) {
    void *p = malloc(bytes + 16);
    assert_non_null(p);
    memset(p, 0x5A, bytes + 16);
    return p;
}

static inline void case_free(case_result *r) {
    free(r->decoded);
    free(r->codes);
    free(r->scales);
}

enum { CASE_DECODED = 1, CASE_CODES = 2 };

/* Runs a job; `what` says which outputs are asked for beside factor and amax. */
static inline case_result case_run(void (*run)(const mpt_quantize_job *), mpt_quantize_job job,
                                   int what) {
    case_result r = {0};
    int64_t rows = job.column ? job.cols : job.rows;
    int64_t k = mpt_quantizer_extent(job.q, job.column ? job.rows : job.cols);
    int64_t br = job.q->block_rows ? job.q->block_rows : rows;
    int64_t bk = job.q->block_cols ? job.q->block_cols : k;
    size_t blocks = (size_t)((rows + br - 1) / br * ((k + bk - 1) / bk));
    r.decoded_bytes = (size_t)(rows * k) * 4;
    r.codes_bytes = (size_t)rows * (size_t)((k * mpt_dtype_bits(job.q->format) + 7) / 8);
    r.scales_bytes = job.q->scale_format == MPT_SCALE_E4M3 ? blocks : 0;
    r.decoded = case_buffer(r.decoded_bytes);
    r.codes = case_buffer(r.codes_bytes);
    r.scales = case_buffer(r.scales_bytes);
    if (what & CASE_DECODED) {
        job.decoded = r.decoded;
        job.decoded_k = k;
    }
    if (what & CASE_CODES) {
        job.codes = r.codes;
        job.scales = r.scales;
    }
    job.factor = &r.factor;
    bool wants_amax = job.q->scale.kind != MPT_SCALING_NONE;
    job.amax = wants_amax ? &r.amax : NULL;
    job.scratch = case_buffer(mpt_quantize_scratch(&job));
    run(&job);
    free(job.scratch);
    return r;
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
