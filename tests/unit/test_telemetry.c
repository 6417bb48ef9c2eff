/* telemetry.jsonl: when it is due, and that its lines say what mpt_trainer_operand says. */
#include "mpt_test.h"

#include <jansson.h>
#include <math.h>

#include "models.h"
#include "mpt/evidence.h"
#include "train_rig.h"
#include "writers.h"

static void
test_every_when_not_said_then_a_hundred_times_and_every_10th_step_at_most(void **s) {
    (void)s;
    assert_int_equal(mpt_telemetry_every(0, 1), 10);
    assert_int_equal(mpt_telemetry_every(0, 999), 10);
    assert_int_equal(mpt_telemetry_every(0, 1100), 11);
    assert_int_equal(mpt_telemetry_every(0, 1000000), 10000);
    assert_int_equal(mpt_telemetry_every(1, 1000000), 1);
    assert_int_equal(mpt_telemetry_every(7, 3), 7);
}

/* Quantizers by name, for the slots from the first one on. */
static void choose_named(const void *ud, const mpt_graph *graph, int phase,
                         mpt_policy *policies) {
    mpt_quantizer *slot = policies[rig_layer(graph, "lm_head")].slot;
    const char *const *names = ud;
    (void)phase;
    for (int i = 0; names[i]; i++)
        assert_true(mpt_quantizer_by_name(names[i], &slot[i]));
}

typedef struct counted {
    rig rig;
    mpt_str lines;
} counted;

static void begin(counted *c, const char *const *formats, int64_t every, mpt_write_fn write) {
    rig_options o = rig_defaults();
    o.draw = draw_lookup;
    o.choose = choose_named;
    o.choose_ud = formats;
    rig_compile(&c->rig, mpt_test_ctx(), &o);
    c->rig.program.train.telemetry.every = every;
    mpt_str_init(&c->lines, c->rig.ctx);
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    options.telemetry = write;
    options.telemetry_ud = &c->lines;
    assert_mpt_ok(c->rig.ctx, mpt_trainer_create(&c->rig.program, &options, &c->rig.trainer));
}

static void end(counted *c) {
    mpt_str_deinit(&c->lines);
    rig_deinit(&c->rig);
}

static const char *const fp8[] = {"e4m3", "e4m3", NULL};

/* One line of the text; gives the place behind it. */
static const char *read_line(const char *at, json_t **out) {
    const char *line_end = strchr(at, '\n');
    assert_non_null(line_end);
    *out = json_loadb(at, (size_t)(line_end - at), 0, NULL);
    assert_non_null(*out);
    return line_end + 1;
}

static double number(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    assert_non_null(value);
    return json_is_null(value) ? (double)NAN : json_number_value(value);
}

static void assert_near(double got, double wanted) {
    if (isnan(wanted) ? !isnan(got) : !(fabs(got - wanted) <= 1e-8 * fabs(wanted)))
        fail_msg("%.12g, expected %.12g", got, wanted);
}

static void assert_line_is(const json_t *line, const mpt_operand_view *o, int64_t step) {
    double n = (double)o->elements;
    assert_int_equal(json_integer_value(json_object_get(line, "step")), step);
    assert_string_equal(json_string_value(json_object_get(line, "operand")), o->name);
    assert_string_equal(json_string_value(json_object_get(line, "format")), o->format);
    assert_near(number(line, "amax"), o->amax);
    assert_near(number(line, "overflow"), (double)o->overflow / n);
    assert_near(number(line, "underflow"), (double)o->underflow / n);
    assert_near(number(line, "zeros"), (double)o->zeros / n);
    assert_near(number(line, "nonfinite"), (double)o->nonfinite / n);
    assert_near(number(line, "capped"), (double)o->capped);
    assert_near(number(line, "sqnr"), isfinite(o->sqnr) ? o->sqnr : (double)NAN);
    assert_near(number(line, "scale"), o->scale != 0 ? o->scale : (double)NAN);
}

static void test_lines_when_a_step_is_counted_then_they_say_what_the_operands_are(void **s) {
    (void)s;
    counted c;
    mpt_operand_view o;
    begin(&c, fp8, 3, keep);
    for (int step = 0; step < 7; step++) {
        size_t before = c.lines.len;
        (void)rig_step(&c.rig);
        if (step % 3 != 0) {
            assert_int_equal(c.lines.len, before);
            continue;
        }
        const char *at = c.lines.data + before;
        int n = 0;
        for (; mpt_trainer_operand(c.rig.trainer, n, &o); n++) {
            json_t *line;
            at = read_line(at, &line);
            assert_int_equal(o.step, step);
            assert_line_is(line, &o, step);
            json_decref(line);
        }
        assert_int_equal(n, 2); /* x and w of fprop */
        assert_int_equal(*at, 0);
    }
    end(&c);
}

/* The scale of a whole tensor: what was multiplied by; blocks alone have none. */
static void test_scale_when_the_format_has_one_a_tensor_then_it_fits_the_amax(void **s) {
    (void)s;
    static const struct {
        const char *format;
        double times_amax; /* scale times amax; 0: there is none */
    } formats[] = {
        {"e4m3", 448}, {"e5m2", 57344}, {"nvfp4", 448 * 6}, {"mxfp8", 0}, {"bf16", -1}};
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        const char *const names[] = {formats[i].format, formats[i].format, NULL};
        mpt_operand_view o;
        counted c;
        begin(&c, names, 1, keep);
        (void)rig_step(&c.rig);
        bool has = mpt_trainer_operand(c.rig.trainer, 0, &o);
        assert_int_equal(has, formats[i].times_amax >= 0); /* bf16 is not quantized */
        if (has)
            assert_true(fabs(o.scale * o.amax - formats[i].times_amax) <=
                        1e-5 * formats[i].times_amax);
        end(&c);
    }
}

/* A host's writer that allocates nothing itself. */
static bool count_lines(void *ud, const char *text, size_t length) {
    mpt_str *lines = ud;
    assert_int_equal(text[length - 1], '\n');
    lines->len++;
    return true;
}

static void test_lines_when_written_then_same_bits_and_nothing_is_allocated(void **s) {
    (void)s;
    static const char *const four[] = {"nvfp4", "nvfp4", NULL};
    counted c, plain;
    begin(&c, four, 1, count_lines);
    begin(&plain, four, 1, NULL);
    uint64_t before = mpt_ctx_memory(c.rig.ctx).n_allocs;
    for (int i = 0; i < 3; i++) {
        (void)rig_step(&c.rig);
        (void)rig_step(&plain.rig);
    }
    assert_int_equal(c.lines.len, 3 * 2);
    assert_true(mpt_ctx_memory(c.rig.ctx).n_allocs == before);
    assert_true(rig_state_hash(&c.rig) == rig_state_hash(&plain.rig));
    end(&c);
    end(&plain);
}

static void test_step_when_telemetry_is_not_taken_then_it_ends_with_io(void **s) {
    (void)s;
    counted c;
    mpt_step_result r;
    begin(&c, fp8, 1, refuse);
    assert_int_equal(mpt_trainer_step(c.rig.trainer, NULL, &r), MPT_IO);
    assert_string_equal(mpt_ctx_error(c.rig.ctx)->message,
                        "telemetry: the writer took no more lines");
    end(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_every_when_not_said_then_a_hundred_times_and_every_10th_step_at_most),
    cmocka_unit_test(test_lines_when_a_step_is_counted_then_they_say_what_the_operands_are),
    cmocka_unit_test(test_scale_when_the_format_has_one_a_tensor_then_it_fits_the_amax),
    cmocka_unit_test(test_lines_when_written_then_same_bits_and_nothing_is_allocated),
    cmocka_unit_test(test_step_when_telemetry_is_not_taken_then_it_ends_with_io),
};

MPT_TEST_MAIN(cases)
