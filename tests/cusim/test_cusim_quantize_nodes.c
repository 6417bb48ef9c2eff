/* Nodes of quantizers on a device, in the simulator: both copies in turn, what is recorded and
 * counted and what is not, states of the optimizer, the window of delayed scaling. */
#include "device_quantize.h"

#include <stdlib.h>

#include "kernels/ref/optim.h"

/* ---- the column copy of what the row copy stands for ---- */

typedef struct both {
    mpt_quantize_job row, col;
    any_outputs row_out, col_out;
} both;

static both both_of(const mpt_quantizer *row, const mpt_quantizer *col, const float *x,
                    bool bf16) {
    both b = {.row = {.q = row, .x = x, .rows = 40, .cols = 52, .bf16 = bf16}};
    b.col = b.row;
    b.col.q = col;
    b.col.column = true;
    device_key(&b.row, 9, 1, 2, 0);
    device_key(&b.col, 9, 2, 2, 0);
    b.row_out = any_outputs_of(&b.row, row->outer == MPT_OUTER_ROW);
    b.col_out = any_outputs_of(&b.col, col->outer == MPT_OUTER_ROW);
    b.row.stands_for = b.col.stands_for = NULL;
    return b;
}

/* Counts have their place only now that the pair does not move any more. */
static void count(both *b) {
    b->row.counts = &b->row_out.counts;
    b->col.counts = &b->col_out.counts;
}

static void run_ref(both *b) {
    b->row.scratch = case_buffer(mpt_quantize_scratch(&b->row));
    b->col.scratch = case_buffer(mpt_quantize_both_scratch(&b->row, &b->col));
    mpt_ref_quantize_both(&b->row, &b->col);
    free(b->row.scratch);
    free(b->col.scratch);
}

static void check_same(any_outputs *want, any_outputs *got, const mpt_quantizer *q) {
    memcpy(got->amax.data, want->amax.data, want->amax.bytes); /* no output of a device */
    const char *what = any_difference(want, got);
    if (what)
        fail_msg("%s, format %d", what, (int)q->format);
    assert_true(case_same_counts(&want->counts, &got->counts, false));
    any_free(want);
    any_free(got);
}

static void check_both(mpt_quantizer row, mpt_quantizer col, bool bf16) {
    float x[40 * 52];
    for (int kind = 0; kind < CASE_KINDS; kind += 2) {
        case_fill(x, 40 * 52, kind, 5);
        if (bf16)
            mpt_ref_round_to(MPT_DTYPE_BF16, x, 40 * 52);
        both want = both_of(&row, &col, x, bf16), got = both_of(&row, &col, x, bf16);
        count(&want);
        count(&got);
        run_ref(&want);
        device_run(&got.row, &got.col, true, false);
        check_same(&want.row_out, &got.row_out, &row);
        check_same(&want.col_out, &got.col_out, &col);
    }
}

static void test_column_copy_when_made_of_the_row_copy_then_ref(void **state) {
    (void)state;
    mpt_quantizer row = case_nvfp4(1), col = case_stochastic(case_nvfp4(1));
    col.source = MPT_SOURCE_DEQUANTIZED;
    check_both(row, col, true);
    check_both(row, col, false);
    check_both(case_rotated(row, 32, MPT_SIGNS_RANDOM), col, true);
    row = case_fp8(MPT_DTYPE_E4M3);
    col.hadamard = (mpt_hadamard){.size = 16, .signs = MPT_SIGNS_FIXED};
    check_both(row, col, true);
}

/* ---- what leaves a trace ---- */

typedef struct traced {
    float history;
    mpt_quantize_counts counts;
} traced;

/* One delayed FP8 copy of three values; as its node says. */
static traced trace(mpt_attrs attrs, bool evaluating, bool counting) {
    float x[16] = {1, -3, 2}, scale = 2, factor = 0;
    traced t = {.history = 0.5f};
    uint8_t codes[64];
    mpt_packed packed;
    mpt_node node = {.op = MPT_OP_quantize, .n_in = 5, .n_out = 4, .attrs = attrs};
    node.attrs.row = case_fp8(MPT_DTYPE_E4M3);
    node.attrs.row.scale.kind = MPT_SCALING_DELAYED;
    node.attrs.has_row = true;
    packed = mpt_packed_of(&node.attrs.row, false, 1, 16, false);
    mpt_tensor in[5] = {{.data = x, .rank = 2, .dims = {1, 16}},
                        {.data = &scale, .rank = 1, .dims = {1}},
                        {.data = &t.history, .rank = 1, .dims = {1}}};
    mpt_tensor out[4] = {
        {.data = codes, .rank = 2, .storage = MPT_STORAGE_PACKED, .packed = &packed},
        {.data = &factor, .rank = 1, .dims = {1}}};
    mpt_run_env env = {.evaluating = evaluating};
    mpt_gpu gpu = {.n_multiprocessors = 2, .env = &env, .counting = counting};
    gpu.counts = &t.counts;
    device_node d = {.node = node};
    mpt_kernel_args args = {.in = in, .out = out, .env = &env, .gpu = &gpu};
    device_launch(&d, &args, mpt_cuda_quantize, mpt_cuda_quantize_scratch);
    assert_true(factor == 0.5f);
    assert_int_equal(codes[1], mpt_encode(MPT_DTYPE_E4M3, -6));
    return t;
}

static void test_history_when_training_then_raised_and_counted(void **state) {
    (void)state;
    traced t = trace((mpt_attrs){0}, false, true);
    assert_true(t.history == 3);
    assert_int_equal(t.counts.elements, 16);
    assert_true(t.counts.scale == 2);
    assert_true(t.counts.signal == 14);
}

static void test_history_when_evaluating_then_left(void **state) {
    (void)state;
    assert_true(trace((mpt_attrs){0}, true, true).history == 0.5f);
}

static void test_copy_when_made_again_then_neither_seen_nor_counted(void **state) {
    (void)state;
    traced t = trace((mpt_attrs){.row_again = true}, false, true);
    assert_true(t.history == 0.5f);
    assert_int_equal(t.counts.elements, 0);
    assert_int_equal(trace((mpt_attrs){0}, false, false).counts.elements, 0);
}

static void test_record_amax_when_run_then_as_the_copy_would(void **state) {
    (void)state;
    float x[20 * 24], history;
    mpt_quantizer q = case_rotated(case_fp8(MPT_DTYPE_E4M3), 16, MPT_SIGNS_FIXED);
    q.scale.kind = MPT_SCALING_DELAYED;
    for (int kind = 0; kind < CASE_KINDS; kind++)
        for (int column = 0; column < 2; column++) {
            case_fill(x, 20 * 24, kind, 3);
            mpt_quantize_job job = {.q = &q, .x = x, .rows = 20, .cols = 24, .bf16 = true};
            mpt_ref_round_to(MPT_DTYPE_BF16, x, 20 * 24);
            job.column = column;
            history = 0.25f;
            job.amax_history = &history;
            case_result r = case_run(mpt_ref_quantize_operand, job, CASE_CODES);
            case_free(&r);
            float got = device_recorded(&job, 0.25f);
            assert_memory_equal(&got, &history, sizeof got);
        }
}

/* ---- the micro-batch ---- */

/* Two micro-batches of 16 rows have the bits of one of 32; what is quantized once a step has
 * the same bits in all of them. */
static void test_stream_when_micro_batches_then_groups_follow_on(void **state) {
    (void)state;
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    float x[32 * 48];
    case_fill(x, 32 * 48, 0, 8);
    for (int i = 0; i < 16; i++) /* one amax for both halves */
        x[i * 48] = x[(16 + i) * 48] = 9;
    uint8_t whole[32 * 24], part[16 * 24], scales[32 * 3];
    float factor;
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 32, .cols = 48};
    job.codes = whole;
    job.scales = scales;
    job.factor = &factor;
    device_key(&job, 4, 3, 2, 0);
    device_run(&job, NULL, true, false);
    job.x = x + 16 * 48;
    job.rows = 16;
    job.codes = part;
    device_key(&job, 4, 3, 2, 1);
    device_run(&job, NULL, true, false);
    assert_memory_equal(part, whole + sizeof part, sizeof part);
}

/* ---- states ---- */

static void check_state(mpt_quantizer q, int rank, float factor) {
    enum { N = 6 * 50 };
    float want[N], got[N];
    case_fill(want, N, 0, 2);
    memcpy(got, want, sizeof got);
    mpt_node node = {.op = MPT_OP_quantize_state, .n_in = 2, .n_out = 1};
    node.attrs.row = q;
    node.attrs.row_operand = 12;
    mpt_run_env env = {.seed = 3, .step = 7, .micro_batch = 5};
    mpt_gpu gpu = {.n_multiprocessors = 2, .env = &env};
    for (int device = 0; device < 2; device++) {
        mpt_tensor t = {.data = device ? got : want, .rank = rank};
        memcpy(t.dims, rank == 1 ? (int64_t[4]){N} : (int64_t[4]){6, 10, 5}, sizeof t.dims);
        mpt_tensor in[2] = {t, {.data = &factor, .rank = 1, .dims = {1}}};
        mpt_kernel_args args = {.node = &node, .in = in, .out = &t, .env = &env};
        args.gpu = &gpu;
        device_node d = {.node = node};
        if (device)
            device_launch(&d, &args, mpt_cuda_quantize_state, mpt_cuda_quantize_state_scratch);
        else
            mpt_ref_quantize_state(&args);
    }
    assert_memory_equal(want, got, sizeof want);
}

static void test_state_when_quantized_then_ref(void **state) {
    (void)state;
    mpt_quantizer bf16 = case_stochastic(case_cast(MPT_DTYPE_BF16));
    mpt_quantizer mx = case_fp8(MPT_DTYPE_E4M3);
    mx.block_rows = 1;
    mx.block_cols = 32;
    mx.scale_format = MPT_SCALE_E8M0;
    mx.scale_rule.kind = MPT_RULE_UP;
    for (int rank = 1; rank <= 3; rank += 2) {
        check_state(bf16, rank, 1);
        check_state(mx, rank, 1);
        check_state(case_stochastic(case_fp8(MPT_DTYPE_E5M2)), rank, 1);
        check_state(mx, rank, NAN); /* a skipped step leaves it as it is */
    }
}

/* ---- the window ---- */

static void check_update(mpt_amax_algo algo, int64_t n, const float *history) {
    float want[600], got[600], scale[2] = {3, 3};
    memcpy(want, history, (size_t)n * sizeof *want);
    memcpy(got, history, (size_t)n * sizeof *got);
    mpt_node node = {.op = MPT_OP_scale_update, .n_in = 2, .n_out = 1};
    node.attrs.row = case_fp8(MPT_DTYPE_E4M3);
    node.attrs.row.scale = (mpt_scale_source){
        .kind = MPT_SCALING_DELAYED, .history = (int32_t)n, .algo = algo, .margin = 1};
    mpt_run_env env = {0};
    mpt_gpu gpu = {.n_multiprocessors = 2, .env = &env};
    for (int device = 0; device < 2; device++) {
        mpt_tensor in[2] = {{.data = &scale[device], .rank = 1, .dims = {1}},
                            {.data = device ? got : want, .rank = 1, .dims = {n}}};
        mpt_kernel_args args = {.node = &node, .in = in, .out = in, .env = &env};
        args.gpu = &gpu;
        (device ? mpt_cuda_scale_update : mpt_ref_scale_update)(&args);
    }
    assert_memory_equal(want, got, (size_t)n * sizeof *want);
    assert_memory_equal(&scale[0], &scale[1], sizeof scale[0]);
}

static void test_scale_update_when_any_window_then_ref(void **state) {
    (void)state;
    static const float first[] = {0, 2, 0x1p-149f, 1e38f, INFINITY, NAN};
    static const int64_t lengths[] = {1, 2, 3, 16, 257, 600};
    float history[600];
    for (size_t l = 0; l < MPT_COUNT(lengths); l++)
        for (size_t f = 0; f < MPT_COUNT(first); f++)
            for (int bad = 0; bad < 2; bad++) {
                case_fill(history, 600, 0, f + 1);
                for (int i = 0; i < 600; i++)
                    history[i] = fabsf(history[i]);
                history[0] = first[f];
                history[1] = bad ? NAN : history[1];
                check_update(MPT_AMAX_MAX, lengths[l], history);
                check_update(MPT_AMAX_MOST_RECENT, lengths[l], history);
            }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_column_copy_when_made_of_the_row_copy_then_ref),
    cmocka_unit_test(test_history_when_training_then_raised_and_counted),
    cmocka_unit_test(test_history_when_evaluating_then_left),
    cmocka_unit_test(test_copy_when_made_again_then_neither_seen_nor_counted),
    cmocka_unit_test(test_record_amax_when_run_then_as_the_copy_would),
    cmocka_unit_test(test_stream_when_micro_batches_then_groups_follow_on),
    cmocka_unit_test(test_state_when_quantized_then_ref),
    cmocka_unit_test(test_scale_update_when_any_window_then_ref),
};

MPT_TEST_MAIN(cases)
