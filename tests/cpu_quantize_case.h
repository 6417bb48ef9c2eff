/* What the tests of the CPU's quantizer share: one quantizer over shapes, inputs, outputs and
 * kernels, each against ref.
 *
 * The kernels are those of every level that can run here, or the one that a test defines
 * CPU_KERNELS as before it includes this. */
#ifndef MPT_TESTS_CPU_QUANTIZE_CASE_H
#define MPT_TESTS_CPU_QUANTIZE_CASE_H

#include "kernels/cpu/quantize.h"
#include "quantize_case.h"

static inline mpt_quantizer cpu_case(mpt_dtype format, int32_t block_rows, int32_t block_cols,
                                     mpt_scale_format scales) {
    return (mpt_quantizer){.name = "case",
                           .format = format,
                           .block_rows = block_rows,
                           .block_cols = block_cols,
                           .scale.kind = MPT_SCALING_CURRENT,
                           .scale_format = scales};
}

/* Those of index i; NULL behind the last. */
static inline const mpt_quantize_kernels *cpu_kernels(int i) {
#ifdef CPU_KERNELS
    return i == 0 ? &CPU_KERNELS : NULL;
#else
    bool can = i <= (int)mpt_quantize_best_level();
    return can ? mpt_quantize_kernels_of((mpt_quantize_level)i) : NULL;
#endif
}

/* What cpu_run runs; only the thread of the test changes it. */
static const mpt_quantize_kernels *cpu_chosen;

static inline void cpu_run(const mpt_quantize_job *job) {
    mpt_quantize_operand_with(cpu_chosen, job);
}

static inline bool cpu_same(const case_result *a, const case_result *b, int what) {
    bool same = memcmp(a->row_amax, b->row_amax, a->row_bytes + 16) == 0 &&
                memcmp(a->row_factor, b->row_factor, a->row_bytes + 16) == 0;
    if (what & CASE_DECODED)
        same &= memcmp(a->decoded, b->decoded, a->decoded_bytes + 16) == 0;
    if (what & CASE_CODES)
        same &= memcmp(a->codes, b->codes, a->codes_bytes + 16) == 0 &&
                memcmp(a->scales, b->scales, a->scales_bytes + 16) == 0;
    if (what & CASE_STANDS_FOR)
        same &= memcmp(a->stands_for, b->stands_for, a->decoded_bytes + 16) == 0;
    if (what & CASE_COUNTS)
        same &= case_same_counts(&a->counts, &b->counts, false);
    return same;
}

/* Where two results differ first, for the message. */
static inline const char *cpu_difference(const case_result *a, const case_result *b, int what) {
    static char text[160];
    size_t i = 0;
    if (what & CASE_CODES && memcmp(a->scales, b->scales, a->scales_bytes + 16) != 0) {
        for (; a->scales[i] == b->scales[i]; i++)
            ;
        snprintf(text, sizeof text, "scale byte %zu is %02x, not %02x", i, b->scales[i],
                 a->scales[i]);
    } else if (what & CASE_CODES && memcmp(a->codes, b->codes, a->codes_bytes + 16) != 0) {
        for (; a->codes[i] == b->codes[i]; i++)
            ;
        snprintf(text, sizeof text, "code byte %zu is %02x, not %02x", i, b->codes[i],
                 a->codes[i]);
    } else if (what & CASE_DECODED) {
        for (; i + 1 < a->decoded_bytes / 4 && memcmp(a->decoded + i, b->decoded + i, 4) == 0;
             i++)
            ;
        snprintf(text, sizeof text, "value %zu is %a, not %a", i, (double)b->decoded[i],
                 (double)a->decoded[i]);
    } else if (what & CASE_COUNTS) {
        snprintf(text, sizeof text, "counts: %d zeros, signal %a, noise %a, not %d, %a, %a",
                 (int)b->counts.zeros, b->counts.signal, b->counts.noise, (int)a->counts.zeros,
                 a->counts.signal, a->counts.noise);
    } else {
        snprintf(text, sizeof text, "amax %a, factor %a, not %a, %a", (double)*b->row_amax,
                 (double)*b->row_factor, (double)*a->row_amax, (double)*a->row_factor);
    }
    return text;
}

/* All kernels and outputs against ref. */
static inline void cpu_check_job(mpt_quantize_job job, const char *what) {
    float history[3] = {0.25f, 0, 0};
    mpt_quantize_plan plan;
    bool by_column = job.column && job.q->outer == MPT_OUTER_ROW;
    assert_true(mpt_quantize_plan_of(&job, &plan) != by_column);
    job.amax_history = job.q->scale.kind == MPT_SCALING_DELAYED ? history : NULL;
    int all = CASE_DECODED | CASE_CODES;
    case_result ref =
        case_run(mpt_ref_quantize_operand, job, all | CASE_COUNTS | CASE_STANDS_FOR);
    float raised = history[0];
    for (int level = 0; (cpu_chosen = cpu_kernels(level)) != NULL; level++)
        for (int pass = 0; pass < 2; pass++) {
            int outputs = 1 << ((int)job.rows + level) % 3;
            if (pass)
                outputs = all | (job.cols % 2 ? CASE_COUNTS : 0) |
                          (job.rows % 2 ? CASE_STANDS_FOR : 0);
            history[0] = 0.25f;
            case_result cpu = case_run(cpu_run, job, outputs);
            if (!cpu_same(&ref, &cpu, outputs) || memcmp(&raised, history, 4) != 0)
                fail_msg(
                    "level %d, format %d, block %dx%d, rounding %d, %s of %dx%d, column %d, "
                    "bf16 %d, outputs %d: %s",
                    level, job.q->format, job.q->block_rows, job.q->block_cols, job.q->rounding,
                    what, (int)job.rows, (int)job.cols, job.column, job.bf16, outputs,
                    cpu_difference(&ref, &cpu, outputs));
            case_free(&cpu);
        }
    case_free(&ref);
}

/* Shapes around the sizes of blocks, vectors, strips and panels. */
static const int64_t cpu_shapes[][2] = {{1, 1},    {3, 5},    {16, 16},  {17, 31},
                                        {31, 130}, {130, 17}, {32, 256}, {129, 64},
                                        {5, 511},  {257, 3},  {144, 300}};

/* One input of a shape: kind, side and operand type follow from `i`. */
static inline void cpu_check_input(const mpt_quantizer *q, size_t shape, int i, float *x,
                                   uint16_t *codes) {
    float scale = 0.75f;
    mpt_quantize_job job = {.q = q, .rows = cpu_shapes[shape][0], .cols = cpu_shapes[shape][1]};
    size_t n = (size_t)(job.rows * job.cols);
    int kind = (int)(shape + (size_t)i) % CASE_KINDS;
    char what[32];
    snprintf(what, sizeof what, "kind %d", kind);
    case_fill(x, n, kind, 77 + shape);
    job.column = i % 2;
    job.bf16 = i % 3 == 0;
    job.fp16 = i % 3 == 1;
    job.scale = q->scale.kind == MPT_SCALING_DELAYED && kind != 5 ? &scale : NULL;
    /* The group's index carries into its upper word. */
    job.key = (mpt_random_key){0x123456789abcdefu, 7, 42, 0xfffffff0u};
    mpt_random_signs(5, 0, 0, job.signs);
    if (job.bf16)
        mpt_ref_round_to(MPT_DTYPE_BF16, x, n);
    for (size_t j = 0; j < n; j++)
        codes[j] = (uint16_t)(mpt_float_bits(x[j]) >> 16);
    job.x = job.bf16 && shape % 2 ? NULL : x;
    job.x_bf16 = job.x ? NULL : codes;
    cpu_check_job(job, what);
}

/* Both copies from one call, against ref's. */
static inline void cpu_check_both(const mpt_quantizer *row, const mpt_quantizer *col,
                                  int64_t rows, int64_t cols) {
    size_t n = (size_t)(rows * cols);
    float *x = case_buffer(n * 4), scale = 0.75f;
    for (int kind = 0; kind < CASE_KINDS; kind++) {
        case_fill(x, n, kind, 5);
        mpt_quantize_job job[2] = {{.q = row, .x = x, .rows = rows, .cols = cols}};
        job[0].bf16 = kind % 2;
        job[0].scale = &scale;
        job[0].key = (mpt_random_key){77, 7, 42, 3};
        if (job[0].bf16)
            mpt_ref_round_to(MPT_DTYPE_BF16, x, n);
        job[1] = job[0];
        job[1].q = col;
        job[1].column = true;
        job[1].key.operand = 8;
        case_result want[2], got[2];
        for (int level = -1; level < 0 || (cpu_chosen = cpu_kernels(level)) != NULL; level++) {
            mpt_quantize_job run[2];
            for (int i = 0; i < 2; i++) {
                case_result *r = level < 0 ? &want[i] : &got[i];
                *r = case_result_for(&job[i]);
                run[i] = case_job(job[i], r, CASE_DECODED | CASE_CODES);
                run[i].scratch = case_buffer(mpt_quantize_both_scratch(&run[0], &run[i]));
            }
            if (level < 0)
                mpt_ref_quantize_both(&run[0], &run[1]);
            else
                mpt_quantize_both_with(cpu_chosen, &run[0], &run[1]);
            for (int i = 0; i < 2; i++) {
                free(run[i].scratch);
                if (level < 0)
                    continue;
                if (!cpu_same(&want[i], &got[i], CASE_DECODED | CASE_CODES))
                    fail_msg("both, copy %d, level %d, kind %d of %dx%d: %s", i, level, kind,
                             (int)rows, (int)cols,
                             cpu_difference(&want[i], &got[i], CASE_DECODED | CASE_CODES));
                case_free(&got[i]);
            }
        }
        case_free(&want[0]);
        case_free(&want[1]);
    }
    free(x);
}

static inline void cpu_check(const mpt_quantizer *q) {
    for (size_t s = 0; s < MPT_COUNT(cpu_shapes); s++) {
        size_t n = (size_t)(cpu_shapes[s][0] * cpu_shapes[s][1]);
        float *x = case_buffer(n * 4);
        uint16_t *codes = case_buffer(n * 2);
        int inputs = n > 3000 ? 2 : CASE_KINDS + 1;
        for (int i = 0; i < inputs; i++)
            cpu_check_input(q, s, i, x, codes);
        free(x);
        free(codes);
    }
}

#endif
