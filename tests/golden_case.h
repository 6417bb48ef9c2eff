/* What the tests over golden vectors share: cases of inputs.safetensors, and one check of all
 * that a job puts out, on every backend.
 *
 * A wanted tensor without data is not checked. Decoded tensors are known by their FNV-1a hash
 * only, in `deq*_fnv`; those of E2M1 as if their zeros had no sign. */
#ifndef MPT_TESTS_GOLDEN_CASE_H
#define MPT_TESTS_GOLDEN_CASE_H

#include <math.h>

#include "quantize_case.h"
#include "safetensors.h"

typedef void (*golden_run)(const mpt_quantize_job *);
#ifndef GOLDEN_BACKENDS /* a test of a device names its own */
#define GOLDEN_BACKENDS mpt_ref_quantize_operand, mpt_quantize_operand
#endif
static const golden_run golden_backends[] = {GOLDEN_BACKENDS};

typedef struct golden_want {
    const mpt_quantizer *q;
    golden_tensor codes, scales;
    golden_tensor amax, factor;
    golden_tensor hash;   /* of the dequantized values, in the layout of deq */
    bool in_layout_of_x;  /* codes, scales and deq of a column copy are not transposed */
    bool scales_repeated; /* once a row instead of once a block */
    bool positive_zeros;  /* E2M1: the file has 0 where a negative value became zero */
} golden_want;

/* The quantized orientation of one job, and where the golden files keep its parts. */
typedef struct golden_shape {
    int64_t rows, k, block_rows, block_k, blocks_k;
    bool swap; /* the file has (k, r) */
} golden_shape;

static inline golden_shape golden_shape_of(const mpt_quantize_job *job,
                                           const golden_want *want) {
    golden_shape s;
    s.rows = job->column ? job->cols : job->rows;
    s.k = job->column ? job->rows : job->cols;
    s.block_rows = job->q->block_rows ? job->q->block_rows : s.rows;
    s.block_k = job->q->block_cols ? job->q->block_cols : s.k;
    s.blocks_k = case_ceil(s.k, s.block_k);
    s.swap = job->column && want->in_layout_of_x;
    return s;
}

static inline uint32_t golden_code(const mpt_quantize_job *job, const void *codes, int64_t at) {
    const uint8_t *byte = codes;
    if (job->q->format == MPT_DTYPE_E2M1)
        return byte[at / 2] >> 4 * (at % 2) & 15u;
    return byte[at];
}

/* Element (r, k) of the golden codes. */
static inline uint32_t golden_code_at(const mpt_quantize_job *job, const golden_shape *s,
                                      golden_tensor codes, int64_t r, int64_t k) {
    return golden_code(job, codes.data, s->swap ? k * s->rows + r : r * s->k + k);
}

/* Scale of the block at (r, k) as the file has it: bytes that a job must put out. */
static inline const void *golden_scale_at(const golden_want *want, const golden_shape *s,
                                          int64_t r, int64_t k) {
    int64_t row = want->scales_repeated ? r : r / s->block_rows;
    int64_t rows = want->scales_repeated ? s->rows : case_ceil(s->rows, s->block_rows);
    int64_t at = s->swap ? k / s->block_k * rows + row : row * s->blocks_k + k / s->block_k;
    size_t size = want->q->scale_format <= MPT_SCALE_POW2 ? sizeof(float) : 1;
    return (const char *)want->scales.data + (size_t)at * size;
}

/* What a block's codes are multiplied by for `decoded`. */
static inline float golden_decode(const mpt_quantizer *q, const void *scale) {
    float value;
    if (q->scale_format > MPT_SCALE_POW2)
        return mpt_decode(q->scale_format == MPT_SCALE_E8M0 ? MPT_DTYPE_E8M0 : MPT_DTYPE_E4M3,
                          *(const uint8_t *)scale);
    memcpy(&value, scale, sizeof value);
    return value;
}

static inline void golden_check_element(const char *name, const mpt_quantize_job *job,
                                        const golden_want *want, const case_result *r,
                                        int64_t at[2]) {
    golden_shape s = golden_shape_of(job, want);
    int64_t i = at[0], k = at[1];
    uint32_t code = golden_code_at(job, &s, want->codes, i, k);
    uint32_t own = golden_code(job, r->codes, i * s.k + k);
    if (want->positive_zeros && code == 0 && own == 8)
        code = own;
    if (job->codes && own != code)
        fail_msg("%s, column %d: code (%d, %d) is %x, not %x", name, job->column, (int)i,
                 (int)k, own, code);
    float value = mpt_decode(job->q->format, code);
    if (want->scales.data) {
        const char *scale = golden_scale_at(want, &s, i, k);
        size_t size = want->q->scale_format <= MPT_SCALE_POW2 ? sizeof(float) : 1;
        int64_t block = i / s.block_rows * s.blocks_k + k / s.block_k;
        if (job->scales && memcmp(r->scales + (size_t)block * size, scale, size) != 0)
            fail_msg("%s, column %d: scale of (%d, %d)", name, job->column, (int)i, (int)k);
        value *= golden_decode(want->q, scale);
    }
    float got = r->decoded[job->column ? k * s.rows + i : i * s.k + k];
    bool zeros = want->positive_zeros && got == 0.0f && value == 0.0f;
    if (mpt_float_bits(got) != mpt_float_bits(value) && !zeros)
        fail_msg("%s, column %d: decoded (%d, %d) is %a, not %a", name, job->column, (int)i,
                 (int)k, (double)got, (double)value);
}

static inline uint64_t golden_fnv(const void *data, size_t bytes) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
    return h;
}

/* mpt_dequantize, and stands_for, which is the same in the quantized orientation. */
static inline void golden_check_values(const char *name, const mpt_quantize_job *job,
                                       const golden_want *want) {
    size_t n = (size_t)(job->rows * job->cols);
    golden_shape s = golden_shape_of(job, want);
    float *y = case_buffer(n * 4), *turned = case_buffer(n * 4);
    mpt_dequantize(job, y);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t k = 0; k < s.k; k++)
            turned[r * s.k + k] = y[job->column ? k * s.rows + r : r * s.k + k];
    assert_memory_equal(turned, job->stands_for, n * 4);
    for (size_t i = 0; job->q->format == MPT_DTYPE_E2M1 && i < n; i++)
        turned[i] = turned[i] == 0.0f ? 0.0f : turned[i];
    if (want->hash.data) {
        uint64_t hash = golden_fnv(s.swap ? y : turned, n * 4);
        if (memcmp(&hash, want->hash.data, sizeof hash) != 0)
            fail_msg("%s, column %d: dequantized values differ", name, job->column);
    }
    free(y);
    free(turned);
}

static inline void golden_check_run(const char *name, mpt_quantize_job job,
                                    const golden_want *want, golden_run run, int what) {
    case_result r = case_result_for(&job);
    job = case_job(job, &r, what);
    job.scratch = case_buffer(mpt_quantize_scratch(&job));
    run(&job);
    if (want->amax.data)
        assert_memory_equal(r.row_amax, want->amax.data, r.row_bytes);
    if (want->factor.data)
        assert_memory_equal(r.row_factor, want->factor.data, r.row_bytes);
    golden_shape s = golden_shape_of(&job, want);
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t k = 0; k < s.k; k++)
            golden_check_element(name, &job, want, &r, (int64_t[]){i, k});
    if (what & CASE_CODES)
        golden_check_values(name, &job, want);
    free(job.scratch);
    case_free(&r);
}

/* Every backend, with all outputs and with the decoded ones only, which fast paths take; a BF16
 * operand as its codes too. */
static inline void golden_check(const char *name, mpt_quantize_job job,
                                const golden_want *want) {
    job.q = want->q;
    int all = CASE_DECODED | CASE_CODES | CASE_STANDS_FOR;
    for (size_t b = 0; b < MPT_COUNT(golden_backends); b++) {
        golden_check_run(name, job, want, golden_backends[b], all);
        golden_check_run(name, job, want, golden_backends[b], CASE_DECODED);
        if (!job.bf16)
            continue;
        size_t n = (size_t)(job.rows * job.cols);
        uint16_t *codes = case_buffer(n * sizeof *codes);
        for (size_t i = 0; i < n; i++)
            codes[i] = (uint16_t)mpt_encode(MPT_DTYPE_BF16, job.x[i]);
        mpt_quantize_job coded = job;
        coded.x = NULL;
        coded.x_bf16 = codes;
        golden_check_run(name, coded, want, golden_backends[b], CASE_DECODED);
        free(codes);
    }
}

/* ---- cases ---- */

/* The input of a case, whose name may go on after an '@'. */
static inline mpt_quantize_job golden_input(const golden_file *inputs, const char *name) {
    char input[128];
    snprintf(input, sizeof input, "%.*s", (int)strcspn(name, "@"), name);
    golden_tensor x = golden_get(inputs, input, "x");
    mpt_quantize_job job = {.x = x.data, .rows = x.rows, .cols = x.cols};
    job.bf16 = *(const uint8_t *)golden_get(inputs, input, "is_bf16").data;
    return job;
}

typedef struct golden_files {
    golden_file inputs, file;
} golden_files;

/* Calls back for every case of `name`.safetensors that has `tensor`; gives how many. */
typedef void (*golden_each)(const golden_files *files, const char *name, const void *with);

static inline int golden_for_each(const char *name, const char *tensor, golden_each each,
                                  const void *with) {
    golden_files files = {golden_open("inputs"), golden_open(name)};
    const char *key;
    json_t *entry;
    int n = 0;
    json_object_foreach(files.file.header, key, entry) {
        const char *slash = strrchr(key, '/');
        if (!slash || strcmp(slash + 1, tensor) != 0)
            continue;
        char one[128];
        snprintf(one, sizeof one, "%.*s", (int)(slash - key), key);
        each(&files, one, with);
        n++;
    }
    golden_close(&files.inputs);
    golden_close(&files.file);
    return n;
}

#endif
