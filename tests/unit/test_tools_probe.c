/* Probes: the figures are the quantizer's own counts, in the order of the damage, as a table
 * that fits a terminal and as JSON. */
#include "tools_fixture.h"

#include <jansson.h>
#include <math.h>

#include "recipe/schema.h"

static const mpt_tool_format nvfp4 = {"nvfp4",
                                      {.format = MPT_DTYPE_E2M1,
                                       .block_rows = 1,
                                       .block_cols = 16,
                                       .scale.kind = MPT_SCALING_CURRENT,
                                       .scale_format = MPT_SCALE_E4M3,
                                       .outer = MPT_OUTER_TENSOR}};
static const mpt_tool_format e4m3 = {
    "e4m3", {.format = MPT_DTYPE_E4M3, .scale.kind = MPT_SCALING_CURRENT}};
/* A scale that is far too large: half of all weights saturate. */
static const mpt_tool_format loud = {
    "e4m3 { scale = static(2000) }",
    {.format = MPT_DTYPE_E4M3, .scale = {.kind = MPT_SCALING_STATIC, .value = 2000}}};

static void probe(const rig *r, const mpt_tool_format *formats, int n, bool json,
                  mpt_str *out) {
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    o.json = json;
    o.n_threads = 1;
    mpt_str_init(out, r->ctx);
    assert_mpt_ok(r->ctx, mpt_tool_probe(r->ctx, formats, n, r->folder.file, &o, out));
    assert_false(out->failed);
}

static mpt_quantize_counts counts_of(const mpt_safetensors *file, const char *name,
                                     const mpt_quantizer *q) {
    static float x[1024];
    mpt_quantize_counts counts = {.elements = 0};
    const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
    assert_true(mpt_stored_tensor_floats(t, 0, t->elements, x));
    mpt_quantize_job job = {.q = q, .x = x, .counts = &counts};
    job.cols = t->dims[t->rank - 1];
    job.rows = t->elements / job.cols;
    job.bf16 = t->type == MPT_TENSOR_BF16;
    job.fp16 = t->type == MPT_TENSOR_F16;
    mpt_ref_quantize_operand(&job);
    return counts;
}

static void near(double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("wanted %.12g, got %.12g", wanted, got);
}

static void check_cell(json_t *cell, const mpt_tool_format *format,
                       const mpt_quantize_counts *c) {
    double n = (double)c->elements;
    assert_string_equal(json_string_value(json_object_get(cell, "format")), format->text);
    near(json_number_value(json_object_get(cell, "sqnr_db")), mpt_quantize_sqnr(c));
    near(json_number_value(json_object_get(cell, "zeros")), (double)c->zeros / n);
    near(json_number_value(json_object_get(cell, "underflow")), (double)c->underflow / n);
    near(json_number_value(json_object_get(cell, "saturated")), (double)c->overflow / n);
    assert_int_equal(json_integer_value(json_object_get(cell, "nonfinite")), c->nonfinite);
}

static void test_probe_when_json_then_the_figures_are_the_quantizers_counts(void **s) {
    (void)s;
    const mpt_tool_format formats[] = {nvfp4, loud};
    rig r = rig_make();
    mpt_str text;
    probe(&r, formats, 2, true, &text);
    json_t *list = json_loads(text.data, 0, NULL);
    assert_int_equal(json_array_size(list), 4); /* vectors, integers, nothing: skipped */
    mpt_safetensors *file = open_file(r.ctx, r.folder.file);
    double before = 0;
    for (size_t i = 0; i < 4; i++) {
        json_t *line = json_array_get(list, i), *cells = json_object_get(line, "formats");
        const char *name = json_string_value(json_object_get(line, "tensor"));
        assert_int_equal(json_array_size(cells), 2);
        for (size_t f = 0; f < 2; f++) {
            mpt_quantize_counts c = counts_of(file, name, &formats[f].q);
            check_cell(json_array_get(cells, f), &formats[f], &c);
            near(json_number_value(json_object_get(line, "amax")), (double)c.amax);
        }
        double db = json_number_value(json_object_get(json_array_get(cells, 0), "sqnr_db"));
        assert_true(db >= before);
        before = db;
    }
    mpt_safetensors_close(file);
    json_decref(list);
    mpt_str_deinit(&text);
    rig_end(&r);
}

static void test_probe_when_json_then_bits_are_those_of_the_format_with_its_scales(void **s) {
    (void)s;
    static const mpt_tensor_spec spec = {
        .name = "w", .type = MPT_TENSOR_F32, .rank = 3, .dims = {2, 32, 64}};
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, &spec, 1, NULL);
    probe(&r, &nvfp4, 1, true, &text);
    json_t *list = json_loads(text.data, 0, NULL), *line = json_array_get(list, 0);
    json_t *shape = json_object_get(line, "shape");
    assert_int_equal(json_array_size(shape), 3);
    assert_int_equal(json_integer_value(json_array_get(shape, 2)), 64);
    json_t *cell = json_array_get(json_object_get(line, "formats"), 0);
    near(json_number_value(json_object_get(cell, "bits_per_weight")),
         4 + 8.0 / 16 + 32.0 / 4096);
    json_decref(list);
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* ---- the table ---- */

static void want(const mpt_str *text, const char *part) {
    if (!strstr(text->data, part))
        fail_msg("wanted '%s' in\n%s", part, text->data);
}

static void check_width(const mpt_str *text) {
    for (const char *line = text->data; *line;) {
        size_t n = strcspn(line, "\n");
        if (n > 100 || (n > 0 && line[n - 1] == ' '))
            fail_msg("a line of %d columns: '%.*s'", (int)n, (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* One matrix of noise among such that lose nothing. */
static float mostly_exact(const char *name, int64_t i, float x) {
    return strcmp(name, "model.layers.1.up_proj.weight") == 0 ? x : (float)(i % 2 ? 1 : -1);
}

static void test_probe_when_one_matrix_is_worse_then_a_rule_is_proposed(void **s) {
    (void)s;
    static const mpt_tensor_spec specs[] = {
        {.name = "model.layers.0.up_proj.weight",
         .type = MPT_TENSOR_F32,
         .rank = 2,
         .dims = {4, 32}},
        {.name = "model.layers.1.up_proj.weight",
         .type = MPT_TENSOR_F32,
         .rank = 2,
         .dims = {4, 32}},
        {.name = "model.layers.2.up_proj.weight",
         .type = MPT_TENSOR_F32,
         .rank = 2,
         .dims = {4, 32}},
    };
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, specs, 3, mostly_exact);
    probe(&r, &e4m3, 1, false, &text);
    want(&text, "e4m3: 1 tensor loses more than 6 dB against the median (exact dB)");
    want(&text, "\n  rule { \"layers.1.up_proj\", use = bf16 },\n");
    check_width(&text);
    assert_true(strstr(text.data, "layers.1.") < strstr(text.data, "layers.0."));
    mpt_str_deinit(&text);
    rig_end(&r);
}

static float spoilt(const char *name, int64_t i, float x) {
    if (strcmp(name, "g.weight") == 0)
        return 0;
    return strcmp(name, "a.weight") == 0 && i == 3 ? mpt_bits_float(MPT_INF_BITS) : x;
}

static void test_probe_when_a_matrix_is_zero_or_infinite_then_it_is_shown(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, checkpoint_specs, MPT_COUNT(checkpoint_specs),
                     spoilt);
    probe(&r, &nvfp4, 1, false, &text);
    want(&text, "NaN or Inf: 1 values of a.weight");
    want(&text, "Skipped: 2 vectors and 2 tensors not of a floating type, or empty.");
    assert_non_null(strstr(strstr(text.data, "\ng.weight"), "      -     0\n"));
    mpt_str_deinit(&text);
    probe(&r, &nvfp4, 1, true, &text);
    want(&text, "\"sqnr_db\": null");
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* Formats that do not fit beside each other stand below each other; long names lose their
 * middle. */
static void test_probe_when_there_is_much_to_show_then_no_line_is_too_long(void **s) {
    (void)s;
    static const mpt_tensor_spec spec = {
        .name = "backbone.layers.31.mixer.a_rather_long_name_of_a_projection_layer.weight",
        .type = MPT_TENSOR_F32,
        .rank = 2,
        .dims = {16, 64}};
    mpt_tool_format formats[8];
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, &spec, 1, NULL);
    for (int i = 0; i < 8; i++)
        formats[i] = i % 2 ? loud : e4m3;
    probe(&r, formats, 8, false, &text);
    const char *second = strstr(text.data + 1, "\ntensor ");
    assert_non_null(second);
    assert_non_null(strstr(second + 1, "\ntensor "));
    want(&text, "..");
    char *summary = strstr(text.data, "     format ");
    assert_non_null(summary);
    *summary = 0; /* its last column is the whole name */
    check_width(&text);
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* ---- the list of formats ---- */

typedef struct split_case {
    const char *text;
    int n; /* 0: refused */
    const char *pieces[3];
} split_case;

static void test_split_when_commas_stand_in_brackets_then_they_do_not_cut(void **s) {
    (void)s;
    static const split_case table[] = {
        {"nvfp4", 1, {"nvfp4"}},
        {" nvfp4 ,e4m3", 2, {"nvfp4", "e4m3"}},
        {"nvfp4 { block = {16, 16} }, mxfp8 { format = e5m2 },e4m3",
         3,
         {"nvfp4 { block = {16, 16} }", "mxfp8 { format = e5m2 }", "e4m3"}},
        {"e4m3 { block = \"a,{b\" }, e5m2", 2, {"e4m3 { block = \"a,{b\" }", "e5m2"}},
        {"", 0, {NULL}},
        {"e4m3,", 0, {NULL}},
        {",e4m3", 0, {NULL}},
        {"e4m3, ,e5m2", 0, {NULL}},
        {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", 0, {NULL}},
    };
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    for (size_t i = 0; i < MPT_COUNT(table); i++) {
        const char *pieces[MPT_TOOL_FORMATS];
        int n;
        mpt_status status = mpt_tool_split(&arena, table[i].text, pieces, &n);
        assert_int_equal(status, table[i].n ? MPT_OK : MPT_INVALID);
        for (int k = 0; k < table[i].n; k++)
            assert_string_equal(pieces[k], table[i].pieces[k]);
        if (table[i].n)
            assert_int_equal(n, table[i].n);
    }
    mpt_arena_deinit(&arena);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_probe_when_json_then_the_figures_are_the_quantizers_counts),
    cmocka_unit_test(test_probe_when_json_then_bits_are_those_of_the_format_with_its_scales),
    cmocka_unit_test(test_probe_when_one_matrix_is_worse_then_a_rule_is_proposed),
    cmocka_unit_test(test_probe_when_a_matrix_is_zero_or_infinite_then_it_is_shown),
    cmocka_unit_test(test_probe_when_there_is_much_to_show_then_no_line_is_too_long),
    cmocka_unit_test(test_split_when_commas_stand_in_brackets_then_they_do_not_cut),
};

MPT_TEST_MAIN(cases)
