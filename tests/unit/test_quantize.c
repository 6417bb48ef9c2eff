/* The quantizer: cpu against ref over shapes, kinds of input and threads; the graph node. */
#include "quantize_case.h"

#include <omp.h>

#include "kernels/cpu/quantize.h"

/* ---- cpu = ref ---- */

static void check_same(mpt_quantize_job job, const char *what) {
    case_result ref = case_run(mpt_ref_quantize_operand, job, CASE_DECODED | CASE_CODES);
    for (int outputs = 0; outputs <= (CASE_DECODED | CASE_CODES); outputs++) {
        case_result cpu = case_run(mpt_quantize_operand, job, outputs);
        bool same =
            memcmp(&ref.factor, &cpu.factor, 4) == 0 && memcmp(&ref.amax, &cpu.amax, 4) == 0;
        if (outputs & CASE_DECODED)
            same &= memcmp(ref.decoded, cpu.decoded, ref.decoded_bytes + 16) == 0;
        if (outputs & CASE_CODES)
            same &= memcmp(ref.codes, cpu.codes, ref.codes_bytes + 16) == 0 &&
                    memcmp(ref.scales, cpu.scales, ref.scales_bytes + 16) == 0;
        if (!same)
            fail_msg("%s, %s of %dx%d, column %d, bf16 %d, outputs %d: cpu is not ref", what,
                     job.q->name, (int)job.rows, (int)job.cols, job.column, job.bf16, outputs);
        case_free(&cpu);
    }
    case_free(&ref);
}

static void check_all_kinds(mpt_quantizer q) {
    static const int64_t shapes[][2] = {{1, 1},   {3, 5},    {16, 16},  {17, 31},
                                        {40, 24}, {15, 130}, {130, 15}, {33, 140}};
    for (size_t s = 0; s < MPT_COUNT(shapes); s++) {
        size_t n = (size_t)(shapes[s][0] * shapes[s][1]);
        float *x = case_buffer(n * 4);
        for (int kind = 0; kind < CASE_KINDS; kind++)
            for (int side = 0; side < 4; side++) {
                char what[32];
                snprintf(what, sizeof what, "kind %d", kind);
                case_fill(x, n, kind, 77 + s);
                mpt_quantize_job job = {.q = &q,
                                        .x = x,
                                        .rows = shapes[s][0],
                                        .cols = shapes[s][1],
                                        .column = side & 1,
                                        .bf16 = side & 2};
                /* The group's index carries into its upper word. */
                job.key = (mpt_random_key){0x123456789abcdefu, 7, 42, 0xfffffff0u};
                if (job.bf16)
                    mpt_ref_round_to(MPT_DTYPE_BF16, x, n);
                check_same(job, what);
            }
        free(x);
    }
}

static void test_cpu_when_format_is_wide_then_ref(void **state) {
    (void)state;
    check_all_kinds(case_cast(MPT_DTYPE_FP32));
    check_all_kinds(case_cast(MPT_DTYPE_BF16));
    check_all_kinds(case_cast(MPT_DTYPE_FP16));
    check_all_kinds(case_stochastic(case_cast(MPT_DTYPE_BF16)));
}

static void test_cpu_when_fp8_then_ref(void **state) {
    (void)state;
    check_all_kinds(case_fp8(MPT_DTYPE_E4M3));
    check_all_kinds(case_fp8(MPT_DTYPE_E5M2));
    check_all_kinds(case_stochastic(case_fp8(MPT_DTYPE_E5M2)));
    check_all_kinds(case_rotated(case_fp8(MPT_DTYPE_E4M3), 32, MPT_SIGNS_FIXED));
}

static void test_cpu_when_nvfp4_then_ref(void **state) {
    (void)state;
    for (int32_t rows = 1; rows <= 16; rows += 15) {
        check_all_kinds(case_nvfp4(rows));
        check_all_kinds(case_stochastic(case_nvfp4(rows)));
    }
}

static void test_cpu_when_nvfp4_is_rotated_then_ref(void **state) {
    (void)state;
    mpt_quantizer q = case_nvfp4(1);
    check_all_kinds(case_rotated(q, 16, MPT_SIGNS_FIXED));
    check_all_kinds(case_rotated(q, 16, MPT_SIGNS_NONE));
    check_all_kinds(case_stochastic(case_rotated(q, 16, MPT_SIGNS_FIXED)));
}

static void test_cpu_when_rotation_is_not_16_then_ref(void **state) {
    (void)state;
    for (int n = 2; n <= MPT_HADAMARD_MAX; n *= 8)
        check_all_kinds(case_stochastic(case_rotated(case_nvfp4(1), n, MPT_SIGNS_FIXED)));
}

static void test_cpu_when_threads_differ_then_same_bytes(void **state) {
    (void)state;
    mpt_quantizer qs[] = {case_nvfp4(16), case_stochastic(case_nvfp4(1)),
                          case_stochastic(case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED)),
                          case_fp8(MPT_DTYPE_E5M2), case_cast(MPT_DTYPE_BF16)};
    size_t n = 300 * 520;
    float *x = case_buffer(n * 4);
    case_fill(x, n, 1, 5);
    int before = omp_get_max_threads();
    for (size_t i = 0; i < MPT_COUNT(qs); i++)
        for (int column = 0; column < 2; column++) {
            mpt_quantize_job job = {
                .q = &qs[i], .x = x, .rows = 300, .cols = 520, .column = column, .bf16 = true};
            omp_set_num_threads(1);
            case_result one = case_run(mpt_quantize_operand, job, CASE_DECODED);
            omp_set_num_threads(2);
            case_result two = case_run(mpt_quantize_operand, job, CASE_DECODED);
            omp_set_num_threads(3);
            case_result three = case_run(mpt_quantize_operand, job, CASE_DECODED | CASE_CODES);
            assert_memory_equal(one.decoded, two.decoded, one.decoded_bytes);
            assert_memory_equal(one.decoded, three.decoded, one.decoded_bytes);
            assert_memory_equal(&one.factor, &two.factor, 4);
            case_free(&one);
            case_free(&two);
            case_free(&three);
        }
    omp_set_num_threads(before);
    free(x);
}

/* ---- the graph node ---- */

typedef struct node_case {
    mpt_node node;
    mpt_run_env env;
    mpt_tensor in, out[4];
} node_case;

static mpt_tensor matrix(float *data, mpt_dtype dtype, int64_t rows, int64_t cols) {
    return (mpt_tensor){.data = data, .dtype = dtype, .rank = 2, .dims = {rows, cols}};
}

static void run_node(node_case *c, void (*kernel)(const mpt_kernel_args *), float *x,
                     int64_t rows, int64_t cols) {
    c->in = matrix(x, MPT_DTYPE_BF16, rows, cols);
    mpt_kernel_args args = {&c->node, &c->in, c->out, NULL, &c->env, NULL};
    args.scratch = case_buffer((size_t)((rows + 16) * (cols + 16)) * 4);
    kernel(&args);
    free(args.scratch);
}

static void test_node_when_both_copies_then_as_two_jobs(void **state) {
    (void)state;
    float x[40 * 24], row[40 * 24], col[48 * 24], factor[2] = {0};
    case_fill(x, 40 * 24, 0, 4);
    mpt_ref_round_to(MPT_DTYPE_BF16, x, 40 * 24);
    node_case c = {.node = {.op = MPT_OP_quantize, .pass = MPT_PASS_BACKWARD}};
    c.node.attrs.has_row = c.node.attrs.has_col = true;
    c.node.attrs.row = case_stochastic(case_nvfp4(1));
    c.node.attrs.col = case_stochastic(case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED));
    c.node.attrs.row_operand = 11;
    c.node.attrs.col_operand = 12;
    c.env = (mpt_run_env){.seed = 5, .step = 9, .micro_batch = 3};
    c.out[0] = matrix(row, MPT_DTYPE_E2M1, 40, 24);
    c.out[1] = (mpt_tensor){.data = &factor[0], .rank = 1, .dims = {1}};
    c.out[2] = matrix(col, MPT_DTYPE_E2M1, 48, 24);
    c.out[3] = (mpt_tensor){.data = &factor[1], .rank = 1, .dims = {1}};
    for (int backend = 0; backend < 2; backend++) {
        run_node(&c, backend ? mpt_cpu_quantize : mpt_ref_quantize, x, 40, 24);
        for (int side = 0; side < 2; side++) {
            mpt_quantize_job job = {.q = side ? &c.node.attrs.col : &c.node.attrs.row,
                                    .x = x,
                                    .rows = 40,
                                    .cols = 24,
                                    .column = side,
                                    .bf16 = true};
            uint64_t groups = side ? 24 * 3 : 40 * 2;
            job.key = (mpt_random_key){5, side ? 12 : 11, 9, 3 * groups};
            case_result r = case_run(mpt_ref_quantize_operand, job, CASE_DECODED);
            assert_memory_equal(side ? col : row, r.decoded, r.decoded_bytes);
            assert_true(factor[side] == r.factor);
            case_free(&r);
        }
    }
}

static void test_node_when_a_copy_is_not_wanted_then_it_is_left_alone(void **state) {
    (void)state;
    float x[16 * 16], col[16 * 16];
    case_fill(x, 256, 0, 4);
    node_case c = {.node = {.op = MPT_OP_quantize}};
    c.node.attrs.has_col = true;
    c.node.attrs.col = case_fp8(MPT_DTYPE_E5M2);
    c.out[2] = matrix(col, MPT_DTYPE_E5M2, 16, 16);
    run_node(&c, mpt_cpu_quantize, x, 16, 16);
    for (int i = 0; i < 256; i++)
        assert_true(col[i] == mpt_round(MPT_DTYPE_E5M2, col[i]));
}

/* One batch of 2R rows and two micro-batches of R share one stream. */
static void test_node_when_micro_batches_then_their_groups_follow_on(void **state) {
    (void)state;
    float x[32 * 48], whole[32 * 48], part[16 * 48], factor = 0;
    case_fill(x, 16 * 48, 0, 4);
    memcpy(x + 16 * 48, x, 16 * 48 * 4); /* the same amax in both */
    node_case c = {.node = {.op = MPT_OP_quantize, .pass = MPT_PASS_BACKWARD}};
    c.node.attrs.has_row = true;
    c.node.attrs.row = case_stochastic(case_nvfp4(1));
    c.out[0] = matrix(whole, MPT_DTYPE_E2M1, 32, 48);
    c.out[1] = (mpt_tensor){.data = &factor, .rank = 1, .dims = {1}};
    run_node(&c, mpt_cpu_quantize, x, 32, 48);
    assert_memory_not_equal(whole, whole + 16 * 48, 16 * 48 * 4);
    c.out[0] = matrix(part, MPT_DTYPE_E2M1, 16, 48);
    c.env.micro_batch = 1;
    run_node(&c, mpt_cpu_quantize, x + 16 * 48, 16, 48);
    assert_memory_equal(part, whole + 16 * 48, 16 * 48 * 4);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_cpu_when_format_is_wide_then_ref),
    cmocka_unit_test(test_cpu_when_fp8_then_ref),
    cmocka_unit_test(test_cpu_when_nvfp4_then_ref),
    cmocka_unit_test(test_cpu_when_nvfp4_is_rotated_then_ref),
    cmocka_unit_test(test_cpu_when_rotation_is_not_16_then_ref),
    cmocka_unit_test(test_cpu_when_threads_differ_then_same_bytes),
    cmocka_unit_test(test_node_when_both_copies_then_as_two_jobs),
    cmocka_unit_test(test_node_when_a_copy_is_not_wanted_then_it_is_left_alone),
    cmocka_unit_test(test_node_when_micro_batches_then_their_groups_follow_on),
};

MPT_TEST_MAIN(cases)
