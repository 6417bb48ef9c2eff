/* Row copies in square blocks, whose scales wait in the scratch: matrices of many lines, bands
 * and panels against ref, on any number of threads, with one scratch for all of them. */
#include <omp.h>

#include "cpu_quantize_case.h"

static mpt_quantizer nvfp4_squares(void) {
    mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, 16, 16, MPT_SCALE_E4M3);
    q.outer = MPT_OUTER_TENSOR;
    return q;
}

static mpt_quantizer fp8_squares(int32_t block) {
    return cpu_case(MPT_DTYPE_E4M3, block, block, MPT_SCALE_FP32);
}

static mpt_quantize_job job_over(const mpt_quantizer *q, float *x, int64_t rows, int64_t cols,
                                 int kind) {
    case_fill(x, (size_t)(rows * cols), kind, 3);
    return (mpt_quantize_job){
        .q = q, .x = x, .rows = rows, .cols = cols, .key = {.seed = 5, .step = 2}};
}

/* Rows and columns end within a block, a line and a band; a panel ends where a thread does. */
static void test_squares_when_threads_share_them_then_ref(void **state) {
    (void)state;
    enum { ROWS = 150, COLS = 1111 };
    mpt_quantizer all[] = {nvfp4_squares(), nvfp4_squares(), fp8_squares(32), fp8_squares(64),
                           fp8_squares(128)};
    all[1].rounding = MPT_ROUNDING_STOCHASTIC;
    float *x = case_buffer(ROWS * COLS * sizeof *x);
    int before = omp_get_max_threads();
    for (size_t i = 0; i < MPT_COUNT(all); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            mpt_quantize_job job = job_over(&all[i], x, ROWS, COLS, (int)i % 3);
            omp_set_num_threads(threads);
            cpu_check_job(job, "shared squares");
        }
    omp_set_num_threads(before);
    free(x);
}

/* Wider than what both passes go over at once where no pass over the matrix comes before. */
static void test_squares_when_wider_than_a_piece_then_ref(void **state) {
    (void)state;
    enum { ROWS = 3, COLS = 17000 };
    mpt_quantizer q = fp8_squares(128);
    float *x = case_buffer(ROWS * COLS * sizeof *x);
    cpu_check_job(job_over(&q, x, ROWS, COLS, 0), "wide squares");
    free(x);
}

/* A bad value sends its piece another way: neighbours and counts are as without it. Scales of
 * tiny values would be Inf, and each is counted once. */
static void test_squares_when_one_value_is_bad_then_ref(void **state) {
    (void)state;
    enum { ROWS = 150, COLS = 1111 };
    mpt_quantizer all[] = {nvfp4_squares(), fp8_squares(32)};
    float *x = case_buffer(ROWS * COLS * sizeof *x);
    for (size_t i = 0; i < MPT_COUNT(all); i++)
        for (int bad = 0; bad < 2; bad++) {
            mpt_quantize_job job = job_over(&all[i], x, ROWS, COLS, 0);
            for (int64_t r = 64; r < ROWS; r++)
                for (int64_t c = 0; c < COLS; c++)
                    x[r * COLS + c] *= 0x1p-140f;
            x[100 * COLS + 1050] = bad ? (float)INFINITY : (float)NAN;
            cpu_check_job(job, "one bad value");
            cpu_chosen = cpu_kernels(0);
            case_result want = case_run(mpt_ref_quantize_operand, job, CASE_COUNTS);
            case_result got = case_run(cpu_run, job, CASE_COUNTS);
            if (i == 1)
                assert_true(want.counts.capped > 0);
            assert_int_equal(want.counts.capped, got.counts.capped);
            assert_int_equal(got.counts.nonfinite, 1);
            case_free(&want);
            case_free(&got);
        }
    free(x);
}

/* The scratch holds what its size says and no more, and nothing of what was there before. */
static void test_squares_when_a_scratch_is_used_again_then_ref(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{150, 1111}, {17, 31}, {33, 1024}, {1, 1}, {150, 1111}};
    mpt_quantizer all[] = {nvfp4_squares(), fp8_squares(32), fp8_squares(128)};
    enum { MOST = 150 * 1111, GUARD = 64 };
    float *x = case_buffer(MOST * sizeof *x);
    uint8_t *scratch = case_buffer(MOST + GUARD);
    memset(scratch, 0xFF, MOST); /* NaN */
    for (int level = 0; (cpu_chosen = cpu_kernels(level)) != NULL; level++)
        for (size_t i = 0; i < MPT_COUNT(all) * MPT_COUNT(shapes); i++) {
            const int64_t *shape = shapes[i % MPT_COUNT(shapes)];
            const mpt_quantizer *q = &all[i / MPT_COUNT(shapes)];
            mpt_quantize_job job = job_over(q, x, shape[0], shape[1], 1);
            size_t bytes = mpt_quantize_scratch(&job);
            assert_in_range(bytes, 1, MOST);
            memset(scratch + bytes, 0xA5, GUARD);
            case_result want = case_run(mpt_ref_quantize_operand, job, CASE_CODES);
            case_result got = case_result_for(&job);
            mpt_quantize_job run = case_job(job, &got, CASE_CODES);
            run.scratch = (void *)scratch;
            cpu_run(&run);
            if (!cpu_same(&want, &got, CASE_CODES))
                fail_msg("%s", cpu_difference(&want, &got, CASE_CODES));
            for (int g = 0; g < GUARD; g++)
                assert_int_equal(scratch[bytes + (size_t)g], 0xA5);
            case_free(&want);
            case_free(&got);
        }
    free(scratch);
    free(x);
}

/* What has no use for kept scales asks for no room: other shapes, the transpose, and scales
 * that need all values of a block. */
static void test_scratch_when_no_scale_is_kept_then_none(void **state) {
    (void)state;
    mpt_quantizer square = nvfp4_squares(), row = square, choice = square, turned = square;
    row.block_rows = 1;
    choice.scale_rule.kind = MPT_RULE_FOUR_OVER_SIX;
    turned.hadamard.size = 16;
    mpt_quantize_job job = {.q = &square, .rows = 40, .cols = 300};
    /* 3 rows of blocks; 300 columns are 384 with padding, so 24 blocks, or 32 of whole vectors
     */
    assert_int_equal(mpt_quantize_scratch(&job), 3 * 32 * 2 * sizeof(float));
    job.column = true;
    assert_int_equal(mpt_quantize_scratch(&job), 0);
    job.column = false;
    job.q = &row;
    assert_int_equal(mpt_quantize_scratch(&job), 0);
    job.q = &choice;
    assert_int_equal(mpt_quantize_scratch(&job), 0);
    job.q = &turned; /* the rotated values instead */
    assert_int_equal(mpt_quantize_scratch(&job), 40 * 304 * sizeof(float));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_squares_when_threads_share_them_then_ref),
    cmocka_unit_test(test_squares_when_wider_than_a_piece_then_ref),
    cmocka_unit_test(test_squares_when_one_value_is_bad_then_ref),
    cmocka_unit_test(test_squares_when_a_scratch_is_used_again_then_ref),
    cmocka_unit_test(test_scratch_when_no_scale_is_kept_then_none),
};

MPT_TEST_MAIN(cases)
