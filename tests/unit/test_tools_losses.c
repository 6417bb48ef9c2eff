/* Values that a quantized file cannot give back as numbers: counted in the summary, and told
 * with the tensor's name and the reason. */
#include "tools_fixture.h"

#include <math.h>

#include "recipe/schema.h"
#include "tools/losses.h"

/* The last warning, and what the summary says. */
typedef struct told {
    int n;
    char last[512];
    mpt_quantize_summary summary;
} told;

static void take_note(void *ud, mpt_log_level level, const char *line) {
    told *t = ud;
    assert_int_equal(level, MPT_LOG_WARNING);
    t->n++;
    snprintf(t->last, sizeof t->last, "%s", line);
}

static told quantize(const char *format, const mpt_tensor_spec *spec, const void *data,
                     size_t bytes) {
    rig r = rig_make();
    told t = {.n = 0};
    mpt_tool_format f = {.text = format};
    mpt_quantize_options o = MPT_QUANTIZE_OPTIONS_INIT;
    mpt_safetensors_writer *w;
    o.n_threads = 2;
    assert_true(mpt_quantizer_by_name(format, &f.q));
    assert_mpt_ok(r.ctx, mpt_safetensors_create(r.ctx, r.folder.file, spec, 1, NULL, &w));
    memcpy(mpt_safetensors_data(w, 0), data, bytes);
    assert_mpt_ok(r.ctx, mpt_safetensors_commit(w));
    r.ctx->log = take_note;
    r.ctx->log_ud = &t;
    assert_mpt_ok(r.ctx, mpt_tool_quantize(r.ctx, &f, r.folder.file, r.out, &o, &t.summary));
    rig_end(&r);
    return t;
}

enum { N = 64 };
static const mpt_tensor_spec floats = {
    .name = "w", .type = MPT_TENSOR_F32, .rank = 2, .dims = {2, 32}};

static void fill(float x[N], float value) {
    for (int i = 0; i < N; i++)
        x[i] = value;
}

static void test_losses_when_a_block_holds_nan_then_its_neighbours_count_too(void **s) {
    (void)s;
    float x[N];
    fill(x, 1.0f);
    x[3] = mpt_bits_float(MPT_NAN_BITS);
    told t = quantize("nvfp4", &floats, x, sizeof x);
    assert_int_equal(t.summary.n_nonfinite, 1);
    assert_int_equal(t.summary.n_became_nonfinite, 15);
    assert_string_equal(t.last, "tensor 'w': 1 of its values is NaN or Inf; 15 more became NaN "
                                "or Inf with their blocks");
}

/* NVFP4 decodes by code * scale * amax / (6 * 448): the product is Inf before it is divided. */
static void test_losses_when_decoding_overflows_then_it_is_said_and_counted(void **s) {
    (void)s;
    float x[N];
    fill(x, 3.4e38f);
    told t = quantize("nvfp4", &floats, x, sizeof x);
    assert_int_equal(t.summary.n_nonfinite, 0);
    assert_int_equal(t.summary.n_became_nonfinite, N);
    assert_true(!isfinite(t.summary.sqnr));
    assert_string_equal(t.last,
                        "tensor 'w': 64 of its values are finite, but NaN or Inf as decoded: "
                        "beside its largest value, 3.4e+38, the product of code and scales "
                        "leaves FP32");
    t = quantize("bf16", &floats, x, sizeof x);
    assert_int_equal(t.summary.n_became_nonfinite, N);
    assert_string_equal(t.last,
                        "tensor 'w': 64 of its values are finite, but Inf as rounded: its "
                        "largest value, 3.4e+38, is beyond the format");
}

static void test_losses_when_doubles_are_beyond_fp32_then_they_are_not_called_inf(void **s) {
    (void)s;
    mpt_tensor_spec doubles = floats;
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = i < 2 ? -1e300 : 1.5;
    doubles.type = MPT_TENSOR_F64;
    told t = quantize("e4m3", &doubles, x, sizeof x);
    assert_int_equal(t.summary.n_nonfinite, 2);
    assert_string_equal(t.last, "tensor 'w': 2 of its values are finite, but beyond FP32: Inf");
    x[2] = (double)mpt_bits_float(MPT_INF_BITS);
    t = quantize("e4m3", &doubles, x, sizeof x);
    assert_string_equal(t.last, "tensor 'w': 1 of its values is NaN or Inf; 2 of its values "
                                "are finite, but beyond FP32: Inf");
}

static void test_losses_when_all_come_back_then_nothing_is_said(void **s) {
    (void)s;
    float x[N];
    fill(x, 1e37f);
    told t = quantize("mxfp6", &floats, x, sizeof x);
    assert_int_equal(t.n, 0);
    assert_int_equal(t.summary.n_became_nonfinite, 0);
    assert_true(t.summary.packed_bits == 6.25); /* six, and eight a block of 32 */
    assert_int_equal(t.summary.bytes_out, N + 2);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_losses_when_a_block_holds_nan_then_its_neighbours_count_too),
    cmocka_unit_test(test_losses_when_decoding_overflows_then_it_is_said_and_counted),
    cmocka_unit_test(test_losses_when_doubles_are_beyond_fp32_then_they_are_not_called_inf),
    cmocka_unit_test(test_losses_when_all_come_back_then_nothing_is_said),
};

MPT_TEST_MAIN(cases)
