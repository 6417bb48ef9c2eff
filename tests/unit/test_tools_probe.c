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

static const mpt_tool_format fp16 = {"fp16", {.format = MPT_DTYPE_FP16}};

static void probe_as(const rig *r, const mpt_tool_format *formats, int n,
                     const mpt_probe_options *options, mpt_str *out) {
    mpt_probe_options o = *options;
    o.n_threads = 1;
    mpt_str_init(out, r->ctx);
    assert_mpt_ok(r->ctx, mpt_tool_probe(r->ctx, formats, n, r->folder.file, &o, out));
    assert_false(out->failed);
}

static void probe(const rig *r, const mpt_tool_format *formats, int n, bool json,
                  mpt_str *out) {
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    o.json = json;
    probe_as(r, formats, n, &o, out);
}

static void probe_wide(const rig *r, const mpt_tool_format *formats, int n, int width,
                       mpt_str *out) {
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    o.width = width;
    probe_as(r, formats, n, &o, out);
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

static void want_no(const mpt_str *text, const char *part) {
    if (strstr(text->data, part))
        fail_msg("wanted no '%s' in\n%s", part, text->data);
}

static void check_width(const mpt_str *text, int width) {
    for (const char *line = text->data; *line;) {
        size_t n = strcspn(line, "\n");
        if ((int)n > width || (n > 0 && line[n - 1] == ' '))
            fail_msg("a line of %d columns: '%.*s'", (int)n, (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* Writes three small matrices over the checkpoint, the second with a name of its own. */
static void write_three(const rig *r, const char *name,
                        float (*change)(const char *name, int64_t i, float x)) {
    mpt_tensor_spec specs[] = {
        {"model.layers.0.up_proj.weight", MPT_TENSOR_F32, 2, {4, 32}},
        {name, MPT_TENSOR_F32, 2, {4, 32}},
        {"model.layers.2.up_proj.weight", MPT_TENSOR_F32, 2, {4, 32}},
    };
    checkpoint_write(r->ctx, r->folder.file, specs, 3, change);
}

/* ---- the verdict ---- */

static bool is_usual(const char *name) {
    return strstr(name, ".0.up_proj") || strstr(name, ".2.up_proj");
}

/* One large value, beside which all others become zero: the SQNR does not show it. */
static float outlier(int64_t i) {
    return i == 0 ? 1.0f : 1e-6f;
}

static float one_with_outlier(const char *name, int64_t i, float x) {
    return is_usual(name) ? x : outlier(i);
}

static float all_with_outlier(const char *name, int64_t i, float x) {
    (void)name, (void)x;
    return outlier(i);
}

/* Weights as small as the smallest codes. */
static float one_small(const char *name, int64_t i, float x) {
    (void)i;
    return is_usual(name) ? x : x * 0.01f;
}

static float one_not_exact(const char *name, int64_t i, float x) {
    return is_usual(name) ? (float)(i % 2 ? 1 : -1) : x;
}

typedef struct verdict_case {
    const mpt_tool_format *format;
    float (*change)(const char *name, int64_t i, float x);
    const char *verdict, *rule; /* rule NULL: there is none */
} verdict_case;

static float one_too_large(const char *name, int64_t i, float x) {
    return is_usual(name) || i ? x : 1e6f;
}

static void
test_probe_when_a_matrix_is_worse_than_the_others_then_a_rule_is_proposed(void **s) {
    (void)s;
    static const verdict_case table[] = {
        {&e4m3, one_with_outlier, "e4m3: 1 matrix stands out (median ",
         "\n  rule { \"layers.1.up_proj\", use = bf16 }, -- 99.2% lost\n"},
        {&fp16, one_too_large, "fp16: 1 matrix stands out (median ",
         "\n  rule { \"layers.1.up_proj\", use = bf16 }, -- 1 values become NaN or Inf\n"},
        {&e4m3, all_with_outlier, "e4m3: every matrix loses more than 25%, is below 10 dB",
         NULL},
        {&e4m3, one_not_exact, "e4m3: none needs a rule (median 3", NULL},
        {&e4m3, NULL, "e4m3: none needs a rule (median 3", NULL},
    };
    for (size_t i = 0; i < MPT_COUNT(table); i++) {
        rig r = rig_make();
        mpt_str text;
        write_three(&r, "model.layers.1.up_proj.weight", table[i].change);
        probe(&r, table[i].format, 1, false, &text);
        want(&text, table[i].verdict);
        if (table[i].rule)
            want(&text, table[i].rule);
        else
            want_no(&text, "rule {");
        mpt_str_deinit(&text);
        rig_end(&r);
    }
}

static void test_probe_when_the_noise_stands_out_then_the_rule_says_its_size(void **s) {
    (void)s;
    static const mpt_tool_format unscaled = {
        "e4m3 { scale = static(1) }",
        {.format = MPT_DTYPE_E4M3, .scale = {.kind = MPT_SCALING_STATIC, .value = 1}}};
    rig r = rig_make();
    mpt_str text;
    write_three(&r, "lm_head.weight", one_small);
    probe(&r, &unscaled, 1, false, &text);
    want(&text, ": 1 matrix stands out (median 3");
    want(&text, "  rule { \"lm_head\", use = bf16 }, -- 1");
    want(&text, " dB\nA matrix stands out ");
    mpt_str_deinit(&text);
    rig_end(&r);
}

static void test_probe_when_a_later_format_damages_then_its_line_says_so(void **s) {
    (void)s;
    const mpt_tool_format formats[] = {nvfp4, e4m3};
    rig r = rig_make();
    mpt_str text;
    write_three(&r, "model.layers.1.self_attn.q_proj.weight", one_with_outlier);
    probe(&r, formats, 2, false, &text);
    want(&text, "\ne4m3: 1 matrix stands out (median ");
    want(&text, "; the rules are printed where it is the first format.\n");
    mpt_str_deinit(&text);
    probe(&r, &e4m3, 1, false, &text);
    want(&text, "(A model may compute q_proj, k_proj and v_proj in one product");
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* A name goes into a Lua text, and stands for nothing but itself. */
static void test_probe_when_a_name_is_no_word_then_the_rule_names_it_alone(void **s) {
    (void)s;
    static const char *const table[][2] = {
        {"a\"b\\c.weight", "rule { \"a\\\"b\\\\c\", "},
        {"a\nb.weight", "rule { \"a\\010b\", "},
        {"h.*.{a}[?].weight", "rule { \"h.[*].[{]a}[[][?]]\", "},
        {"linear.weight", "rule { \"[l]inear\", "},
        {".weight", "  -- the tensor without a name: no rule can name it\n"},
    };
    for (size_t i = 0; i < MPT_COUNT(table); i++) {
        rig r = rig_make();
        mpt_str text;
        write_three(&r, table[i][0], one_with_outlier);
        probe(&r, &e4m3, 1, false, &text);
        want(&text, table[i][1]);
        mpt_str_deinit(&text);
        rig_end(&r);
    }
    assert_true(mpt_glob_match("h.[*].[{]a}[[][?]]", "h.*.{a}[?]"));
    assert_false(mpt_glob_match("h.[*].[{]a}[[][?]]", "h.1.{a}[?]"));
}

/* ---- values that are not finite ---- */

static float spoilt(const char *name, int64_t i, float x) {
    if (strcmp(name, "g.weight") == 0)
        return 0;
    if (strcmp(name, "c.weight") == 0)
        return 1;
    return strcmp(name, "a.weight") == 0 && i == 3 ? mpt_bits_float(MPT_INF_BITS) : x;
}

static void test_probe_when_a_value_is_infinite_then_those_it_destroys_are_counted(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, checkpoint_specs, MPT_COUNT(checkpoint_specs),
                     spoilt);
    probe(&r, &nvfp4, 1, false, &text);
    want(&text, "repair it. Such values:\n  a.weight: 1; nvfp4 destroys 15 others (6.2%)\n");
    want(&text, "Skipped: 2 vectors and 2 tensors not of a floating type, or empty.");
    want_no(&text, "rule {");
    assert_non_null(strstr(strstr(text.data, "\na.weight"), "    NaN"));
    assert_non_null(strstr(strstr(text.data, "\nc.weight"), "  exact     0\n"));
    assert_non_null(strstr(strstr(text.data, "\ng.weight"), "   zero     0\n"));
    mpt_str_deinit(&text);
    rig_end(&r);
}

typedef struct state_case {
    const char *tensor, *state, *damage;
    int nonfinite, destroyed;
    bool has_db;
} state_case;

static void test_probe_when_json_then_the_state_says_why_there_is_no_sqnr(void **s) {
    (void)s;
    static const state_case table[] = {{"a.weight", "nonfinite", "input", 1, 15, true},
                                       {"b.weight", "ok", "none", 0, 0, true},
                                       {"c.weight", "exact", "none", 0, 0, false},
                                       {"g.weight", "zero", "none", 0, 0, false}};
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, checkpoint_specs, MPT_COUNT(checkpoint_specs),
                     spoilt);
    probe(&r, &nvfp4, 1, true, &text);
    json_t *list = json_loads(text.data, 0, NULL);
    assert_int_equal(json_array_size(list), MPT_COUNT(table));
    for (size_t i = 0; i < MPT_COUNT(table); i++) {
        json_t *line = json_array_get(list, i);
        json_t *cell = json_array_get(json_object_get(line, "formats"), 0);
        assert_string_equal(json_string_value(json_object_get(line, "tensor")),
                            table[i].tensor);
        assert_string_equal(json_string_value(json_object_get(cell, "state")), table[i].state);
        assert_string_equal(json_string_value(json_object_get(cell, "damage")),
                            table[i].damage);
        assert_int_equal(json_integer_value(json_object_get(cell, "nonfinite")),
                         table[i].nonfinite);
        assert_int_equal(json_integer_value(json_object_get(cell, "destroyed")),
                         table[i].destroyed);
        assert_int_equal(json_is_real(json_object_get(cell, "sqnr_db")), table[i].has_db);
    }
    json_decref(list);
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* ---- strips ---- */

/* The largest value lies in the last rows, which the first ones have to know. */
static float large_at_the_end(const char *name, int64_t i, float x) {
    (void)name;
    return i == 200 * 8192 - 5 ? 440.0f : x;
}

static float infinite_at_the_end(const char *name, int64_t i, float x) {
    (void)name;
    return i == 200 * 8192 - 5 ? mpt_bits_float(MPT_NAN_BITS) : x;
}

static void check_strips(const rig *r, const mpt_tool_format *format, json_t *cell) {
    static float x[200 * 8192];
    mpt_quantize_counts c = {.elements = 0};
    mpt_safetensors *file = open_file(r->ctx, r->folder.file);
    const mpt_stored_tensor *t = mpt_safetensors_find(file, "w");
    assert_true(mpt_stored_tensor_floats(t, 0, t->elements, x));
    mpt_quantize_job job = {.q = &format->q, .x = x, .rows = 200, .cols = 8192, .counts = &c};
    mpt_quantize_operand(&job);
    check_cell(cell, format, &c);
    mpt_safetensors_close(file);
}

static void
test_probe_when_a_matrix_is_large_then_strips_give_the_same_in_less_memory(void **s) {
    (void)s;
    static const mpt_tensor_spec spec = {"w", MPT_TENSOR_F8_E4M3, 2, {200, 8192}};
    const mpt_tool_format formats[] = {nvfp4, e4m3};
    float (*const changes[])(const char *, int64_t, float) = {large_at_the_end,
                                                              infinite_at_the_end};
    for (size_t i = 0; i < MPT_COUNT(changes); i++) {
        rig r = rig_make();
        mpt_str text;
        checkpoint_write(r.ctx, r.folder.file, &spec, 1, changes[i]);
        probe(&r, formats, 2, true, &text);
        json_t *list = json_loads(text.data, 0, NULL);
        json_t *cells = json_object_get(json_array_get(list, 0), "formats");
        for (size_t f = 0; f < 2; f++)
            check_strips(&r, &formats[f], json_array_get(cells, f));
        int destroyed =
            (int)json_integer_value(json_object_get(json_array_get(cells, 0), "destroyed"));
        assert_int_equal(destroyed, i == 1 ? 15 : 0);
        if (!destroyed) /* those are looked for among the decoded values of a strip */
            assert_true(mpt_ctx_memory(r.ctx).peak_bytes < 200 * 8192 * sizeof(float));
        json_decref(list);
        mpt_str_deinit(&text);
        rig_end(&r);
    }
}

/* ---- the width ---- */

#define LONG "a_rather_long_name_of_a_projection_layer"

static void test_probe_when_the_width_has_no_limit_then_nothing_is_cut(void **s) {
    (void)s;
    const mpt_tool_format formats[] = {nvfp4, e4m3, nvfp4, e4m3, nvfp4, e4m3};
    rig r = rig_make();
    mpt_str text;
    write_three(&r, "backbone.layers.31.mixer." LONG ".weight", NULL);
    probe(&r, formats, 6, false, &text);
    want(&text, "\nbackbone.layers.31.mixer." LONG ".weight   4x32 ");
    want(&text, "shape      amax     dB  lost     dB  lost     dB  lost     dB  lost     dB  "
                "lost     dB  lost\n");
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* The shape goes, then the amax, then formats move into a table of their own. */
static void test_probe_when_the_width_is_limited_then_columns_go_before_names(void **s) {
    (void)s;
    typedef struct width_case {
        int width;
        const char *head;
    } width_case;
    static const width_case table[] = {
        {0, "\ntensor                         shape      amax     dB  lost     dB  lost\n"},
        {72, "\ntensor                         shape      amax     dB  lost     dB  lost\n"},
        {71, "\ntensor                             amax     dB  lost     dB  lost\n"},
        {64, "\ntensor                            dB  lost     dB  lost\n"},
        {54, "\ntensor                             amax     dB  lost\n"},
    };
    const mpt_tool_format formats[] = {nvfp4, e4m3};
    for (size_t i = 0; i < MPT_COUNT(table); i++) {
        rig r = rig_make();
        mpt_str text;
        write_three(&r, "model.layers.1.up_proj.weight", NULL);
        probe_wide(&r, formats, 2, table[i].width, &text);
        want(&text, table[i].head);
        want(&text, "\nmodel.layers.0.up_proj.weight ");
        mpt_str_deinit(&text);
        rig_end(&r);
    }
}

static void test_probe_when_names_do_not_fit_then_what_they_differ_in_stays(void **s) {
    (void)s;
    static const mpt_tensor_spec specs[] = {
        {"model." LONG ".layers.0.q_proj.weight", MPT_TENSOR_F32, 2, {4, 32}},
        {"model." LONG ".layers.1.q_proj.weight", MPT_TENSOR_F32, 2, {4, 32}},
        {"model." LONG ".layers.1.k_proj.weight", MPT_TENSOR_F32, 2, {4, 32}}};
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, specs, 3, NULL);
    probe_wide(&r, &e4m3, 1, 60, &text);
    want(&text, "\n..0.q_proj.weight ");
    want(&text, "\n..1.q_proj.weight ");
    want(&text, "\n..1.k_proj.weight ");
    mpt_str_deinit(&text);
    rig_end(&r);
}

/* Formats that do not fit beside each other stand below each other; a name of any length loses
 * its middle. */
static void test_probe_when_there_is_much_to_show_then_no_line_is_too_long(void **s) {
    (void)s;
    char name[1024];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    mpt_tensor_spec spec = {name, MPT_TENSOR_F32, 2, {16, 64}};
    mpt_tool_format formats[8];
    rig r = rig_make();
    mpt_str text;
    checkpoint_write(r.ctx, r.folder.file, &spec, 1, NULL);
    for (int i = 0; i < 8; i++)
        formats[i] = i % 2 ? loud : e4m3;
    probe_wide(&r, formats, 8, 100, &text);
    const char *second = strstr(text.data + 1, "\ntensor ");
    assert_non_null(second);
    assert_non_null(strstr(second + 1, "\ntensor "));
    want(&text, "nn..nn");
    check_width(&text, 110); /* the head of the summary and long formats are not cut */
    mpt_str_deinit(&text);
    probe(&r, formats, 1, false, &text);
    check_width(&text, 300);
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
    cmocka_unit_test(test_probe_when_a_matrix_is_worse_than_the_others_then_a_rule_is_proposed),
    cmocka_unit_test(test_probe_when_the_noise_stands_out_then_the_rule_says_its_size),
    cmocka_unit_test(test_probe_when_a_later_format_damages_then_its_line_says_so),
    cmocka_unit_test(test_probe_when_a_name_is_no_word_then_the_rule_names_it_alone),
    cmocka_unit_test(test_probe_when_a_value_is_infinite_then_those_it_destroys_are_counted),
    cmocka_unit_test(test_probe_when_json_then_the_state_says_why_there_is_no_sqnr),
    cmocka_unit_test(
        test_probe_when_a_matrix_is_large_then_strips_give_the_same_in_less_memory),
    cmocka_unit_test(test_probe_when_the_width_has_no_limit_then_nothing_is_cut),
    cmocka_unit_test(test_probe_when_the_width_is_limited_then_columns_go_before_names),
    cmocka_unit_test(test_probe_when_names_do_not_fit_then_what_they_differ_in_stays),
    cmocka_unit_test(test_probe_when_there_is_much_to_show_then_no_line_is_too_long),
    cmocka_unit_test(test_split_when_commas_stand_in_brackets_then_they_do_not_cut),
};

MPT_TEST_MAIN(cases)
