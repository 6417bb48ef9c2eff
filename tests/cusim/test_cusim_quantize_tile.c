/* The CUDA kernels of the common quantizers against the definition, run by the simulator: BF16
 * operands of whole groups, tiles that are full and tiles that are not, both copies at once. */
#include "device_quantize.h"

#include "kernels/cuda/sim/control.h"

/* ---- quantizers ---- */

static mpt_quantizer fp8(mpt_dtype format, int32_t block_rows, int32_t block_cols,
                         mpt_scale_format scales) {
    mpt_quantizer q = case_fp8(format);
    q.block_rows = block_rows;
    q.block_cols = block_cols;
    q.scale_format = scales;
    q.scale_rule = mpt_scale_format_rule(scales);
    q.headroom = 1;
    return q;
}

static mpt_quantizer rotated(mpt_quantizer q, mpt_signs signs) {
    q = case_rotated(q, 16, signs);
    q.hadamard.seed = -1;
    return q;
}

/* ---- one pair of copies ---- */

/* Copies of one operand; a quantizer without a name is not wanted. */
typedef struct pair {
    mpt_quantizer row, col;
    int64_t rows, cols;
    int kind;      /* of case_fill */
    float delayed; /* the scale of earlier steps */
    bool turned;
} pair;

typedef struct side {
    mpt_quantize_job job;
    any_outputs out;
    bool there;
} side;

static side side_of(const pair *p, const mpt_quantizer *q, const float *x, bool column) {
    side s = {.there = q->name != NULL};
    s.job = (mpt_quantize_job){
        .q = q, .x = x, .rows = p->rows, .cols = p->cols, .column = column, .bf16 = true};
    if (!s.there)
        return s;
    device_key(&s.job, 5, column ? 21 : 20, 3, 0);
    s.out = any_outputs_of(&s.job, false);
    s.job.stands_for = NULL;
    if (q->scale.kind == MPT_SCALING_DELAYED)
        s.job.scale = &p->delayed;
    return s;
}

static void check_side(const pair *p, side *want, side *got, const char *name) {
    if (!want->there)
        return;
    memcpy(got->out.amax.data, want->out.amax.data, want->out.amax.bytes); /* no output */
    const char *what = any_difference(&want->out, &got->out);
    if (what)
        fail_msg("%s of the %s: %dx%d, kind %d, format %d, block %d,%d", what, name,
                 (int)p->rows, (int)p->cols, p->kind, (int)want->job.q->format,
                 want->job.q->block_rows, want->job.q->block_cols);
    any_free(&want->out);
    any_free(&got->out);
}

static void ref_side(side *s) {
    if (!s->there)
        return;
    s->job.scratch = case_buffer(mpt_quantize_scratch(&s->job));
    mpt_ref_quantize_operand(&s->job);
    free(s->job.scratch);
}

static void check_pair(const pair *p) {
    size_t n = (size_t)(p->rows * p->cols);
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    case_fill(x, n, p->kind, 3 + n);
    mpt_ref_round_to(MPT_DTYPE_BF16, x, n);
    side want[2] = {side_of(p, &p->row, x, false), side_of(p, &p->col, x, true)};
    side got[2] = {side_of(p, &p->row, x, false), side_of(p, &p->col, x, true)};
    ref_side(&want[0]);
    ref_side(&want[1]);
    device_run(got[0].there ? &got[0].job : NULL, got[1].there ? &got[1].job : NULL, true,
               p->turned);
    check_side(p, &want[0], &got[0], "row copy");
    check_side(p, &want[1], &got[1], "column copy");
    free(x);
}

/* Full tiles, parts of tiles both ways, and all kinds of values over them. */
static void check_shapes(mpt_quantizer row, mpt_quantizer col, bool turned) {
    static const int64_t shapes[][2] = {{128, 128}, {144, 48}, {16, 272}};
    for (int kind = 0; kind < CASE_KINDS; kind++) {
        const int64_t *s = shapes[kind % (int)MPT_COUNT(shapes)];
        pair p = {row, col, s[0], s[1], kind, 0, turned};
        check_pair(&p);
    }
}

static void check_three(mpt_quantizer q) {
    mpt_quantizer none = {.name = NULL};
    check_shapes(q, q, false);
    check_shapes(q, none, true);
    check_shapes(none, q, true);
}

/* ---- FP8 ---- */

static void check_one_scale(mpt_dtype format, mpt_scaling kind, float delayed) {
    mpt_quantizer q = fp8(format, 0, 0, MPT_SCALE_FP32), none = {.name = NULL};
    q.scale = (mpt_scale_source){.kind = kind, .history = 4, .value = 3};
    for (int nonfinite = 0; nonfinite < 2; nonfinite++)
        for (int i = 0; i < CASE_KINDS; i++) {
            q.nonfinite = (mpt_nonfinite)nonfinite;
            pair p = {i % 2 ? none : q, i % 3 ? q : none, 144, 48, i, delayed, i % 2};
            if (p.row.name || p.col.name)
                check_pair(&p);
        }
}

static void test_tile_when_fp8_has_one_scale_then_ref(void **state) {
    (void)state;
    check_one_scale(MPT_DTYPE_E4M3, MPT_SCALING_CURRENT, 0);
    check_one_scale(MPT_DTYPE_E5M2, MPT_SCALING_CURRENT, 0);
    check_one_scale(MPT_DTYPE_E5M2, MPT_SCALING_STATIC, 0);
    check_three(fp8(MPT_DTYPE_E4M3, 0, 0, MPT_SCALE_POW2));
}

/* The amax of a late copy is found while codes are made, and only then in the history. */
static void test_tile_when_fp8_is_delayed_then_ref(void **state) {
    (void)state;
    check_one_scale(MPT_DTYPE_E4M3, MPT_SCALING_DELAYED, 100.7f);
    check_one_scale(MPT_DTYPE_E5M2, MPT_SCALING_DELAYED, 0.03f);
    check_one_scale(MPT_DTYPE_E4M3, MPT_SCALING_DELAYED, 0); /* none yet */
}

static void test_tile_when_fp8_has_blocks_then_ref(void **state) {
    (void)state;
    check_three(fp8(MPT_DTYPE_E4M3, 1, 128, MPT_SCALE_FP32));
    check_three(fp8(MPT_DTYPE_E5M2, 1, 128, MPT_SCALE_POW2));
    check_three(fp8(MPT_DTYPE_E4M3, 128, 128, MPT_SCALE_FP32));
    check_three(fp8(MPT_DTYPE_E5M2, 128, 128, MPT_SCALE_POW2));
}

static void test_tile_when_mxfp8_then_ref(void **state) {
    (void)state;
    check_three(fp8(MPT_DTYPE_E4M3, 1, 32, MPT_SCALE_E8M0));
    mpt_quantizer q = fp8(MPT_DTYPE_E5M2, 1, 32, MPT_SCALE_E8M0);
    q.scale_rule.kind = MPT_RULE_EVEN;
    q.nonfinite = MPT_NONFINITE_SATURATE;
    check_three(q);
}

/* ---- NVFP4 ---- */

static void test_tile_when_nvfp4_then_ref(void **state) {
    (void)state;
    mpt_quantizer q = case_nvfp4(1), saturated = q;
    saturated.nonfinite = MPT_NONFINITE_SATURATE;
    check_three(q);
    check_three(saturated);
    check_shapes(q, rotated(q, MPT_SIGNS_FIXED), false);
    check_shapes(q, rotated(saturated, MPT_SIGNS_RANDOM), false);
    check_three(case_nvfp4(16));
}

static void test_tile_when_nvfp4_is_stochastic_then_ref(void **state) {
    (void)state;
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    check_shapes(q, rotated(q, MPT_SIGNS_FIXED), false);
    check_shapes(q, q, false);
    check_shapes(case_nvfp4(1), q, false);
}

/* ---- the order of threads ---- */

static void test_tile_when_threads_are_shuffled_then_same_bytes(void **state) {
    (void)state;
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    for (uint64_t seed = 1; seed < 4; seed++) {
        cusim_shuffle(seed);
        check_shapes(q, rotated(q, MPT_SIGNS_FIXED), false);
        check_three(fp8(MPT_DTYPE_E4M3, 1, 128, MPT_SCALE_FP32));
        check_one_scale(MPT_DTYPE_E4M3, MPT_SCALING_DELAYED, 1.5f);
    }
    cusim_shuffle(0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_tile_when_fp8_has_one_scale_then_ref),
    cmocka_unit_test(test_tile_when_fp8_is_delayed_then_ref),
    cmocka_unit_test(test_tile_when_fp8_has_blocks_then_ref),
    cmocka_unit_test(test_tile_when_mxfp8_then_ref),
    cmocka_unit_test(test_tile_when_nvfp4_then_ref),
    cmocka_unit_test(test_tile_when_nvfp4_is_stochastic_then_ref),
    cmocka_unit_test(test_tile_when_threads_are_shuffled_then_same_bytes),
};

MPT_TEST_MAIN(cases)
