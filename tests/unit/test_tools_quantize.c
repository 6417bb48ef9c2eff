/* Files quantized: the bytes are those of the definition, called directly; what is written and
 * what is not; what a user is told. */
#include "tools_fixture.h"

#include "recipe/schema.h"

#define NVFP4                                                                                  \
    .format = MPT_DTYPE_E2M1, .block_rows = 1, .block_cols = 16,                               \
    .scale.kind = MPT_SCALING_CURRENT, .scale_format = MPT_SCALE_E4M3,                         \
    .outer = MPT_OUTER_TENSOR

static const mpt_tool_format formats[] = {
    {"nvfp4", {NVFP4}},
    {"stochastic", {NVFP4, .rounding = MPT_ROUNDING_STOCHASTIC}},
    {"fixed signs", {NVFP4, .hadamard = {.size = 16, .seed = -1}}},
    {"random signs",
     {NVFP4, .hadamard = {.size = 32,
                          .signs = MPT_SIGNS_RANDOM,
                          .scope = MPT_SCOPE_LAYER,
                          .redraw = MPT_REDRAW_STEP,
                          .seed = -1}}},
    {"square",
     {.format = MPT_DTYPE_E2M1,
      .block_rows = 16,
      .block_cols = 16,
      .scale.kind = MPT_SCALING_CURRENT,
      .scale_format = MPT_SCALE_E4M3,
      .outer = MPT_OUTER_TENSOR}},
    {"row",
     {.format = MPT_DTYPE_E2M1,
      .block_rows = 1,
      .block_cols = 16,
      .scale.kind = MPT_SCALING_CURRENT,
      .scale_format = MPT_SCALE_E4M3,
      .outer = MPT_OUTER_ROW}},
    {"mxfp6",
     {.format = MPT_DTYPE_E3M2,
      .block_rows = 1,
      .block_cols = 32,
      .scale.kind = MPT_SCALING_CURRENT,
      .scale_format = MPT_SCALE_E8M0,
      .scale_rule.kind = MPT_RULE_UP}},
    {"fp8_block",
     {.format = MPT_DTYPE_E4M3,
      .block_rows = 1,
      .block_cols = 128,
      .scale.kind = MPT_SCALING_CURRENT}},
    {"e4m3", {.format = MPT_DTYPE_E4M3, .scale.kind = MPT_SCALING_CURRENT}},
    {"e5m6", {.format = MPT_DTYPE_E5M6, .scale.kind = MPT_SCALING_CURRENT}},
    {"delayed", {.format = MPT_DTYPE_E5M2, .scale.kind = MPT_SCALING_DELAYED}},
    {"bf16", {.format = MPT_DTYPE_BF16}},
};

static const mpt_tool_format *format(const char *text) {
    for (size_t i = 0; i < MPT_COUNT(formats); i++)
        if (strcmp(formats[i].text, text) == 0)
            return &formats[i];
    fail_msg("no format %s", text);
    return NULL;
}

static mpt_quantize_options options_of(bool columnwise, mpt_device device, int n_threads) {
    mpt_quantize_options o = MPT_QUANTIZE_OPTIONS_INIT;
    o.columnwise = columnwise;
    o.seed = 11;
    o.step = 3;
    o.device = device;
    o.n_threads = n_threads;
    return o;
}

static mpt_quantize_summary quantize(const rig *r, const mpt_tool_format *q,
                                     const mpt_quantize_options *o) {
    mpt_quantize_summary summary;
    assert_mpt_ok(r->ctx, mpt_tool_quantize(r->ctx, q, r->folder.file, r->out, o, &summary));
    return summary;
}

/* ---- the bytes ---- */

enum { ROOM = 1 << 14 };

/* What the definition makes of one tensor. */
typedef struct expected {
    float x[ROOM], scratch[ROOM], dequantized[ROOM], amax[64], factor[64];
    uint8_t codes[ROOM];
    float scales[ROOM];
} expected;

static void same(const mpt_safetensors *out, const char *name, const char *suffix,
                 const void *wanted) {
    const mpt_stored_tensor *t = find(out, name, suffix);
    if (t && memcmp(t->data, wanted, t->bytes) != 0)
        fail_msg("%s%s is not what the definition gives", name, suffix);
}

static void check_tensor(const mpt_tool_format *f, const mpt_stored_tensor *t,
                         const mpt_safetensors *out, bool columnwise) {
    static expected e;
    uint64_t hash = mpt_hash(t->name, strlen(t->name));
    memset(&e, 0, sizeof e);
    assert_true(mpt_stored_tensor_floats(t, 0, t->elements, e.x));
    mpt_quantize_job job = {.q = &f->q, .x = e.x, .column = columnwise};
    job.cols = t->rank ? t->dims[t->rank - 1] : 1;
    job.rows = t->elements / job.cols;
    job.bf16 = t->type == MPT_TENSOR_BF16;
    job.fp16 = t->type == MPT_TENSOR_F16;
    job.key = (mpt_random_key){.seed = 11, .operand = (uint32_t)hash & 0x7FFFFFFFu, .step = 3};
    mpt_random_signs(11, (uint32_t)hash, 3, job.signs);
    assert_true(mpt_quantize_scratch(&job) <= sizeof e.scratch);
    job.scratch = e.scratch;
    job.amax = e.amax;
    job.factor = e.factor;
    if (f->q.scale.kind == MPT_SCALING_NONE) {
        job.decoded = e.dequantized;
        job.decoded_k = columnwise ? job.rows : job.cols;
        mpt_ref_quantize_operand(&job);
    } else {
        job.codes = e.codes;
        job.scales = e.scales;
        mpt_ref_quantize_operand(&job);
        mpt_dequantize(&job, e.dequantized);
        assert_non_null(find(out, t->name, ".codes"));
        assert_non_null(find(out, t->name, ".scales"));
    }
    assert_non_null(find(out, t->name, ".dequantized"));
    same(out, t->name, ".codes", e.codes);
    same(out, t->name, ".scales", e.scales);
    same(out, t->name, ".amax", e.amax);
    same(out, t->name, ".dequantized", e.dequantized);
}

static void
test_quantize_when_any_format_is_taken_then_the_bytes_are_the_definitions(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_safetensors *in = open_file(r.ctx, r.folder.file);
    for (size_t i = 0; i < 2 * MPT_COUNT(formats); i++) {
        const mpt_tool_format *f = &formats[i / 2];
        bool columnwise = i % 2;
        mpt_quantize_options o = options_of(columnwise, MPT_DEVICE_AUTO, 2);
        mpt_quantize_summary summary = quantize(&r, f, &o);
        assert_int_equal(summary.n_tensors, CHECKPOINT_FLOATS);
        assert_int_equal(summary.n_skipped, CHECKPOINT_OTHERS);
        mpt_safetensors *out = open_file(r.ctx, r.out);
        int n = 0;
        for (const mpt_stored_tensor *t; (t = mpt_safetensors_at(in, n)) != NULL; n++)
            if (t->type != MPT_TENSOR_I64 && t->elements > 0)
                check_tensor(f, t, out, columnwise);
        mpt_safetensors_close(out);
    }
    mpt_safetensors_close(in);
    rig_end(&r);
}

static file_bytes written(const rig *r, const mpt_tool_format *q, mpt_device device,
                          int n_threads) {
    mpt_quantize_options o = options_of(false, device, n_threads);
    quantize(r, q, &o);
    return bytes_read(r->out);
}

static void test_quantize_when_device_or_threads_differ_then_the_file_is_the_same(void **s) {
    (void)s;
    rig r = rig_make();
    file_bytes one = written(&r, format("stochastic"), MPT_DEVICE_CPU, 1);
    file_bytes more = written(&r, format("stochastic"), MPT_DEVICE_CPU, 3);
    file_bytes ref = written(&r, format("stochastic"), MPT_DEVICE_REF, 0);
    assert_int_equal(one.size, more.size);
    assert_int_equal(one.size, ref.size);
    assert_memory_equal(one.data, more.data, one.size);
    assert_memory_equal(one.data, ref.data, one.size);
    bytes_free(&one);
    bytes_free(&more);
    bytes_free(&ref);
    rig_end(&r);
}

static float all_alike(const char *name, int64_t i, float x) {
    (void)name, (void)x;
    return (float)(i % 7) * 0.3f + 0.1f;
}

static void test_quantize_when_two_tensors_are_alike_then_their_random_bits_differ(void **s) {
    (void)s;
    static const mpt_tensor_spec specs[] = {
        {.name = "one", .type = MPT_TENSOR_F32, .rank = 2, .dims = {8, 32}},
        {.name = "two", .type = MPT_TENSOR_F32, .rank = 2, .dims = {8, 32}},
    };
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    checkpoint_write(r.ctx, r.folder.file, specs, 2, all_alike);
    quantize(&r, format("stochastic"), &o);
    mpt_safetensors *out = open_file(r.ctx, r.out);
    const mpt_stored_tensor *one = find(out, "one", ".codes"),
                            *two = find(out, "two", ".codes");
    assert_memory_not_equal(one->data, two->data, one->bytes);
    assert_memory_equal(find(out, "one", ".scales")->data, find(out, "two", ".scales")->data,
                        16);
    mpt_safetensors_close(out);
    rig_end(&r);
}

/* The format lets a header be of any length, and the values behind it lie anywhere. */
static void test_quantize_when_values_lie_unaligned_then_the_bytes_are_the_same(void **s) {
    (void)s;
    static const char header[] = "{\"w\":{\"dtype\":\"BF16\",\"shape\":[4,20],\"data_offsets\":"
                                 "[0,160]},\"x\":{\"dtype\":\"F32\",\"shape\":[10],"
                                 "\"data_offsets\":[160,200]}}        ";
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    file_bytes first = {NULL, 0};
    for (size_t cut = 0; cut < 4; cut++) {
        char shorter[sizeof header] = "";
        memcpy(shorter, header, sizeof header - 1 - cut);
        header_write(r.folder.file, shorter, 200);
        quantize(&r, format("nvfp4"), &o);
        file_bytes got = bytes_read(r.out);
        if (cut == 0) {
            first = got;
            continue;
        }
        assert_int_equal(got.size, first.size);
        assert_memory_equal(got.data, first.data, first.size);
        bytes_free(&got);
    }
    bytes_free(&first);
    rig_end(&r);
}

/* source = "dequantized": the transpose is made from what the row copy stands for. */
static void test_quantize_when_the_source_is_dequantized_then_rows_come_first(void **s) {
    (void)s;
    enum { ROWS = 32, COLS = 48 };
    static const mpt_tensor_spec spec = {
        .name = "w", .type = MPT_TENSOR_F32, .rank = 2, .dims = {ROWS, COLS}};
    static float scratch[4 * ROWS * COLS];
    static uint8_t codes[ROWS * COLS], scales[ROWS * COLS];
    float amax, factor;
    rig r = rig_make();
    mpt_tool_format f = *format("nvfp4");
    mpt_quantize_options o = options_of(true, MPT_DEVICE_AUTO, 1);
    f.q.source = MPT_SOURCE_DEQUANTIZED;
    checkpoint_write(r.ctx, r.folder.file, &spec, 1, NULL);
    quantize(&r, &f, &o);
    mpt_safetensors *in = open_file(r.ctx, r.folder.file), *out = open_file(r.ctx, r.out);
    mpt_quantize_job row = {
        .q = &f.q, .x = mpt_safetensors_find(in, "w")->data, .rows = ROWS, .cols = COLS};
    mpt_quantize_job column = row;
    column.column = true;
    column.codes = codes;
    column.scales = scales;
    column.amax = &amax;
    column.factor = &factor;
    column.scratch = scratch;
    assert_true(mpt_quantize_both_scratch(&row, &column) <= sizeof scratch);
    mpt_ref_quantize_both(&row, &column);
    same(out, "w", ".codes", codes);
    same(out, "w", ".scales", scales);
    same(out, "w", ".amax", &amax);
    mpt_safetensors_close(in);
    mpt_safetensors_close(out);
    rig_end(&r);
}

/* ---- what is written ---- */

static mpt_safetensors *result(const rig *r, const char *name, bool columnwise) {
    mpt_quantize_options o = options_of(columnwise, MPT_DEVICE_AUTO, 1);
    quantize(r, format(name), &o);
    return open_file(r->ctx, r->out);
}

static void test_quantize_when_blocks_are_scaled_then_shapes_are_of_blocks(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_safetensors *out = result(&r, "nvfp4", false);
    have(out, "a.weight.codes", MPT_TENSOR_U8, 2, 6, 20);
    have(out, "a.weight.scales", MPT_TENSOR_U8, 2, 6, 3);
    have(out, "a.weight.amax", MPT_TENSOR_F32, 1, 1, 0);
    have(out, "a.weight.dequantized", MPT_TENSOR_F32, 2, 6, 40);
    have(out, "b.weight.codes", MPT_TENSOR_U8, 2, 3, 18); /* 35 nibbles: rows are whole bytes */
    have(out, "c.weight.codes", MPT_TENSOR_U8, 2, 4, 10);
    have(out, "c.weight.dequantized", MPT_TENSOR_F32, 3, 2, 2);
    have(out, "d.bias.codes", MPT_TENSOR_U8, 2, 1, 12);
    have(out, "d.bias.dequantized", MPT_TENSOR_F32, 1, 24, 0);
    have(out, "e.scalar.codes", MPT_TENSOR_U8, 2, 1, 1);
    have(out, "e.scalar.dequantized", MPT_TENSOR_F32, 0, 0, 0);
    assert_null(mpt_safetensors_find(out, "f.ids.codes"));
    assert_null(mpt_safetensors_find(out, "h.empty.codes"));
    assert_string_equal(mpt_safetensors_metadata(out, "quantizer"), "nvfp4");
    mpt_safetensors_close(out);
    out = result(&r, "square", true);
    have(out, "a.weight.codes", MPT_TENSOR_U8, 2, 40, 3);
    have(out, "a.weight.scales", MPT_TENSOR_U8, 2, 3, 1);
    have(out, "a.weight.dequantized", MPT_TENSOR_F32, 2, 6, 40);
    mpt_safetensors_close(out);
    rig_end(&r);
}

static void test_quantize_when_scales_differ_then_their_types_and_amaxes_do(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_safetensors *out = result(&r, "row", false);
    have(out, "a.weight.amax", MPT_TENSOR_F32, 1, 6, 0);
    mpt_safetensors_close(out);
    out = result(&r, "mxfp6", false);
    have(out, "a.weight.codes", MPT_TENSOR_U8, 2, 6, 40);
    have(out, "a.weight.scales", MPT_TENSOR_U8, 2, 6, 2);
    assert_null(mpt_safetensors_find(out, "a.weight.amax"));
    mpt_safetensors_close(out);
    out = result(&r, "fp8_block", false);
    have(out, "a.weight.scales", MPT_TENSOR_F32, 2, 6, 1);
    assert_null(mpt_safetensors_find(out, "a.weight.amax"));
    mpt_safetensors_close(out);
    out = result(&r, "e5m6", false);
    have(out, "a.weight.codes", MPT_TENSOR_U16, 2, 6, 40);
    have(out, "a.weight.scales", MPT_TENSOR_F32, 2, 1, 1);
    have(out, "a.weight.amax", MPT_TENSOR_F32, 1, 1, 0);
    mpt_safetensors_close(out);
    out = result(&r, "bf16", false);
    have(out, "a.weight.dequantized", MPT_TENSOR_F32, 2, 6, 40);
    assert_int_equal(mpt_safetensors_count(out), CHECKPOINT_FLOATS);
    mpt_safetensors_close(out);
    rig_end(&r);
}

/* A rotation pads the dot product: the codes keep the padding, the values do not. */
static void test_quantize_when_a_rotation_pads_then_only_the_codes_are_wider(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_safetensors *out = result(&r, "fixed signs", false);
    have(out, "b.weight.codes", MPT_TENSOR_U8, 2, 3, 24); /* 35 becomes 48 */
    have(out, "b.weight.scales", MPT_TENSOR_U8, 2, 3, 3);
    have(out, "b.weight.dequantized", MPT_TENSOR_F32, 2, 3, 35);
    mpt_safetensors_close(out);
    rig_end(&r);
}

/* ---- the summary ---- */

static void test_quantize_when_done_then_the_summary_adds_up(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    mpt_quantize_summary sum = quantize(&r, format("e4m3"), &o);
    assert_int_equal(sum.n_elements, 240 + 105 + 80 + 24 + 1 + 64);
    assert_int_equal(sum.bytes_in, 4 * 240 + 2 * 105 + 2 * 80 + 4 * 24 + 4 + 64);
    assert_int_equal(sum.bytes_out, sum.n_elements + 8 * CHECKPOINT_FLOATS);
    assert_true(sum.sqnr > 25 && sum.sqnr < 40);
    assert_int_equal(sum.n_nonfinite, 0);
    rig_end(&r);
}

typedef struct notes {
    int n;
    char last[256];
} notes;

static void take_note(void *ud, mpt_log_level level, const char *line) {
    notes *n = ud;
    assert_int_equal(level, MPT_LOG_WARNING);
    n->n++;
    snprintf(n->last, sizeof n->last, "%s", line);
}

static float two_nans(const char *name, int64_t i, float x) {
    return strcmp(name, "b.weight") == 0 && (i == 5 || i == 77) ? mpt_bits_float(MPT_NAN_BITS)
                                                                : x;
}

static void test_quantize_when_a_tensor_holds_nan_then_it_is_named(void **s) {
    (void)s;
    rig r = rig_make();
    notes heard = {.n = 0};
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    checkpoint_write(r.ctx, r.folder.file, checkpoint_specs, MPT_COUNT(checkpoint_specs),
                     two_nans);
    r.ctx->log = take_note;
    r.ctx->log_ud = &heard;
    assert_int_equal(quantize(&r, format("nvfp4"), &o).n_nonfinite, 2);
    assert_int_equal(heard.n, 1);
    assert_string_equal(
        heard.last, "tensor 'b.weight': 2 of its values are NaN or Inf; 30 more became NaN or "
                    "Inf with their blocks");
    rig_end(&r);
}

/* ---- what is refused ---- */

static void refused(const rig *r, const mpt_tool_format *q, const char *out,
                    const mpt_quantize_options *o, mpt_status code, const char *named) {
    mpt_status status = mpt_tool_quantize(r->ctx, q, r->folder.file, out, o, NULL);
    if (status != code || !strstr(mpt_ctx_error(r->ctx)->message, named))
        fail_msg("expected '%s', got %s: %s", named, mpt_status_name(status),
                 mpt_ctx_error(r->ctx)->message);
}

static void test_quantize_when_the_output_is_the_input_then_it_is_refused(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    file_bytes before = bytes_read(r.folder.file);
    assert_int_equal(link(r.folder.file, r.out), 0); /* the same file by another name */
    refused(&r, format("e4m3"), r.folder.file, &o, MPT_INVALID, "the output is the input");
    refused(&r, format("e4m3"), r.out, &o, MPT_INVALID, "the output is the input");
    file_bytes after = bytes_read(r.folder.file);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    bytes_free(&before);
    bytes_free(&after);
    rig_end(&r);
}

static void test_quantize_when_nothing_is_floating_then_that_is_said(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    checkpoint_write(r.ctx, r.folder.file, checkpoint_specs + 5, 1, NULL);
    refused(&r, format("e4m3"), r.out, &o, MPT_DATA,
            "its one tensor has no elements of a floating type");
    rig_end(&r);
}

static bool stop_at_c(void *ud, const char *tensor, uint64_t done, uint64_t total) {
    (void)ud;
    assert_true(done < total);
    return strcmp(tensor, "c.weight") != 0;
}

static void test_quantize_when_the_host_stops_it_then_no_file_is_left(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    o.progress = stop_at_c;
    refused(&r, format("e4m3"), r.out, &o, MPT_INTERRUPTED, "stopped by the host");
    assert_int_equal(folder_clear(&r.folder), 1); /* the checkpoint */
    rig_end(&r);
}

static void test_quantize_when_blocks_do_not_divide_then_pad_decides(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_quantize_options o = options_of(false, MPT_DEVICE_AUTO, 1);
    mpt_tool_format q = *format("nvfp4");
    q.q.pad = MPT_PAD_ERROR;
    refused(&r, &q, r.out, &o, MPT_DATA, "tensor 'a.weight' is 6 x 40");
    q.q.pad = MPT_PAD_BF16;
    quantize(&r, &q, &o);
    mpt_safetensors *out = open_file(r.ctx, r.out);
    assert_null(mpt_safetensors_find(out, "a.weight.codes"));
    have(out, "a.weight.dequantized", MPT_TENSOR_F32, 2, 6, 40);
    have(out, "g.weight.codes", MPT_TENSOR_U8, 2, 4, 8);
    mpt_safetensors_close(out);
    rig_end(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_quantize_when_any_format_is_taken_then_the_bytes_are_the_definitions),
    cmocka_unit_test(test_quantize_when_device_or_threads_differ_then_the_file_is_the_same),
    cmocka_unit_test(test_quantize_when_two_tensors_are_alike_then_their_random_bits_differ),
    cmocka_unit_test(test_quantize_when_values_lie_unaligned_then_the_bytes_are_the_same),
    cmocka_unit_test(test_quantize_when_the_source_is_dequantized_then_rows_come_first),
    cmocka_unit_test(test_quantize_when_blocks_are_scaled_then_shapes_are_of_blocks),
    cmocka_unit_test(test_quantize_when_scales_differ_then_their_types_and_amaxes_do),
    cmocka_unit_test(test_quantize_when_a_rotation_pads_then_only_the_codes_are_wider),
    cmocka_unit_test(test_quantize_when_done_then_the_summary_adds_up),
    cmocka_unit_test(test_quantize_when_a_tensor_holds_nan_then_it_is_named),
    cmocka_unit_test(test_quantize_when_the_output_is_the_input_then_it_is_refused),
    cmocka_unit_test(test_quantize_when_nothing_is_floating_then_that_is_said),
    cmocka_unit_test(test_quantize_when_the_host_stops_it_then_no_file_is_left),
    cmocka_unit_test(test_quantize_when_blocks_do_not_divide_then_pad_decides),
};

MPT_TEST_MAIN(cases)
