/* The quantizer against a second one, written in exact rational arithmetic from the contract
 * alone (golden/gen_oracle.py): codes, scales, amax, decoded and dequantized values of a few
 * awkward matrices, bit for bit, on both backends. */
#include "any_quantizer.h"
#include "safetensors.h"

typedef void (*quantize_fn)(const mpt_quantize_job *);

/* ---- one line of a family's cases ---- */

typedef struct oracle_case {
    const char *line;
    char input[32];
    mpt_quantizer q;
    mpt_quantize_job job;
    float encode;     /* delayed: the scale of earlier steps */
    uint64_t batches; /* micro-batches before this one */
    uint64_t sign_seed;
    uint32_t sign_scope, sign_step;
} oracle_case;

/* The index of a word in a list, which is the value of its enum. */
static int word_index(const char *word, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    fail_msg("no word %s", word);
    return 0;
}

#define WORD_INDEX(word, ...)                                                                  \
    word_index(word, (const char *const[]){__VA_ARGS__},                                       \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static mpt_dtype format_named(const char *word) {
    for (int d = 0; d < MPT_DTYPE_COUNT; d++)
        if (strcmp(word, mpt_dtype_name((mpt_dtype)d)) == 0)
            return (mpt_dtype)d;
    fail_msg("no format %s", word);
    return MPT_DTYPE_FP32;
}

/* Settings that are numbers or keys; false for others. */
static bool set_number(oracle_case *c, const char *key, const char *word) {
    uint64_t n = strtoull(word, NULL, 10);
    if (strcmp(key, "column") == 0)
        c->job.column = n != 0;
    else if (strcmp(key, "bf16") == 0)
        c->job.bf16 = n != 0;
    else if (strcmp(key, "fp16") == 0)
        c->job.fp16 = n != 0;
    else if (strcmp(key, "size") == 0)
        c->q.hadamard.size = (int32_t)n;
    else if (strcmp(key, "bound") == 0)
        c->q.scale_rule.bound = (int32_t)n;
    else if (strcmp(key, "seed") == 0)
        c->job.key.seed = n;
    else if (strcmp(key, "operand") == 0)
        c->job.key.operand = (uint32_t)n;
    else if (strcmp(key, "step") == 0)
        c->job.key.step = (uint32_t)n;
    else if (strcmp(key, "micro_batch") == 0)
        c->batches = n;
    else if (strcmp(key, "sign_seed") == 0)
        c->sign_seed = n;
    else if (strcmp(key, "sign_scope") == 0)
        c->sign_scope = (uint32_t)n;
    else if (strcmp(key, "sign_step") == 0)
        c->sign_step = (uint32_t)n;
    else
        return false;
    return true;
}

static void set_word(oracle_case *c, const char *key, const char *word) {
    mpt_quantizer *q = &c->q;
    if (strcmp(key, "x") == 0)
        snprintf(c->input, sizeof c->input, "%s", word);
    else if (strcmp(key, "format") == 0)
        q->format = format_named(word);
    else if (strcmp(key, "block") == 0)
        assert_int_equal(sscanf(word, "%d,%d", &q->block_rows, &q->block_cols), 2);
    else if (strcmp(key, "scale") == 0)
        q->scale.kind = (mpt_scaling)WORD_INDEX(word, "none", "current", "delayed", "static");
    else if (strcmp(key, "scale_format") == 0)
        q->scale_format = (mpt_scale_format)WORD_INDEX(word, "fp32", "pow2", "e8m0", "e4m3");
    else if (strcmp(key, "rule") == 0)
        q->scale_rule.kind = (mpt_scale_rule_kind)WORD_INDEX(word, "nearest", "up", "floor",
                                                             "ceil", "even", "four_over_six");
    else if (strcmp(key, "error") == 0)
        q->scale_rule.error = (mpt_choice_error)WORD_INDEX(word, "mae", "mse");
    else if (strcmp(key, "outer") == 0)
        q->outer = (mpt_outer)WORD_INDEX(word, "none", "tensor", "row");
    else if (strcmp(key, "rounding") == 0)
        q->rounding =
            (mpt_rounding)WORD_INDEX(word, "nearest", "stochastic", "toward_zero", "half_away");
    else if (strcmp(key, "signs") == 0)
        q->hadamard.signs = (mpt_signs)WORD_INDEX(word, "fixed", "random", "none");
    else if (strcmp(key, "nonfinite") == 0)
        q->nonfinite = (mpt_nonfinite)WORD_INDEX(word, "propagate", "saturate");
    else if (strcmp(key, "headroom") == 0)
        q->headroom = strtod(word, NULL);
    else if (strcmp(key, "encode") == 0)
        c->encode = strtof(word, NULL);
    else
        fail_msg("no setting %s", key);
}

/* Takes one line apart, in place; what it does not say is as in the generator's defaults. */
static oracle_case parse(char *line) {
    oracle_case c = {.line = line, .q = {.name = "oracle", .format = MPT_DTYPE_E4M3}};
    c.q.scale.kind = MPT_SCALING_CURRENT;
    c.q.scale_rule.bound = 448;
    c.q.headroom = 1;
    c.q.hadamard.signs = MPT_SIGNS_NONE;
    char *copy = strdup(line), *rest = NULL;
    assert_non_null(copy);
    for (char *t = strtok_r(copy, " ", &rest); t; t = strtok_r(NULL, " ", &rest)) {
        char *word = strchr(t, '=');
        assert_non_null(word);
        *word++ = 0;
        if (!set_number(&c, t, word))
            set_word(&c, t, word);
    }
    free(copy);
    return c;
}

/* ---- comparison ---- */

static const uint8_t *same_bytes(const oracle_case *c, const char *what, const any_buffer *got,
                                 const uint8_t *want) {
    for (size_t i = 0; i < got->bytes; i++)
        if (got->data[i] != want[i])
            fail_msg("%s: byte %zu of %s is 0x%02x, not 0x%02x", c->line, i, what, got->data[i],
                     want[i]);
    return want + got->bytes;
}

/* FNV-1a over the bits of floats; every NaN counts as the same. */
static const uint8_t *same_hash(const oracle_case *c, const char *what, const any_buffer *got,
                                const uint8_t *want) {
    uint64_t hash = 0xCBF29CE484222325u, wanted;
    for (size_t i = 0; i < got->bytes; i += 4) {
        uint32_t u;
        memcpy(&u, got->data + i, 4);
        u = (u & MPT_ABS_BITS) > MPT_INF_BITS ? MPT_NAN_BITS : u;
        hash = (hash ^ u) * 0x100000001B3u;
    }
    memcpy(&wanted, want, 8);
    if (hash != wanted)
        fail_msg("%s: %s differ", c->line, what);
    return want + 8;
}

/* Outputs that follow from the others. */
static void check_factor(const oracle_case *c, const any_outputs *o) {
    float one = 1.0f;
    bool tensor = mpt_quantizer_is_one_scale(&c->q);
    const void *want = c->q.outer != MPT_OUTER_NONE ? o->amax.data
                       : tensor                     ? o->scales.data
                                                    : (const uint8_t *)&one;
    assert_memory_equal(o->factor.data, want, o->factor.bytes);
}

static const uint8_t *check_outputs(const oracle_case *c, const any_outputs *o,
                                    const uint8_t *want) {
    want = same_bytes(c, "codes", &o->codes, want);
    want = same_bytes(c, "scales", &o->scales, want);
    want = same_bytes(c, "amax", &o->amax, want);
    want = same_hash(c, "decoded values", &o->decoded, want);
    want = same_hash(c, "dequantized values", &o->dequantized, want);
    check_factor(c, o);
    return want;
}

/* Runs a case on both backends; gives the place of the next one's bytes. */
static const uint8_t *check_case(const golden_file *file, oracle_case *c, const uint8_t *want) {
    static const quantize_fn backends[] = {mpt_ref_quantize_operand, mpt_quantize_operand};
    golden_tensor x = golden_get(file, c->input, "x");
    c->job.q = &c->q;
    c->job.x = x.data;
    c->job.rows = x.rows;
    c->job.cols = x.cols;
    if (c->q.scale.kind == MPT_SCALING_STATIC)
        c->q.scale.value = (double)c->encode;
    else
        c->job.scale = &c->encode;
    any_shape s = any_shape_of(&c->job);
    c->job.key.first_group = c->batches * (uint64_t)s.rows * (uint64_t)((s.k + 15) / 16);
    mpt_random_signs(c->sign_seed, c->sign_scope, c->sign_step, c->job.signs);
    const uint8_t *next = want;
    for (size_t b = 0; b <= MPT_COUNT(backends); b++) { /* once more without counts */
        any_outputs o = any_run_with(backends[b ? 1 : 0], c->job, b < MPT_COUNT(backends));
        next = check_outputs(c, &o, want);
        any_free(&o);
    }
    return next;
}

static void check_family(const char *family) {
    golden_file file = golden_open("oracle");
    golden_tensor cases = golden_get(&file, family, "cases");
    golden_tensor bytes = golden_get(&file, family, "bytes");
    char *text = malloc(cases.bytes), *rest = NULL;
    assert_non_null(text);
    memcpy(text, cases.data, cases.bytes);
    text[cases.bytes - 1] = 0; /* in place of the last line's end */
    const uint8_t *want = bytes.data, *end = want + bytes.bytes;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        oracle_case c = parse(line);
        want = check_case(&file, &c, want);
        assert_true(want <= end);
    }
    assert_ptr_equal(want, end);
    free(text);
    golden_close(&file);
}

static void test_microscaling_when_any_rule_and_format_then_as_the_oracle(void **state) {
    (void)state;
    check_family("mx");
}

static void test_fp32_and_pow2_scales_when_any_block_then_as_the_oracle(void **state) {
    (void)state;
    check_family("fp32");
}

static void test_static_and_delayed_scales_when_cast_then_as_the_oracle(void **state) {
    (void)state;
    check_family("state");
}

static void test_e4m3_scales_when_any_outer_then_as_the_oracle(void **state) {
    (void)state;
    check_family("e4m3");
}

static void test_four_over_six_when_any_error_and_bound_then_as_the_oracle(void **state) {
    (void)state;
    check_family("four_over_six");
}

static void test_rounding_when_toward_zero_or_half_away_then_as_the_oracle(void **state) {
    (void)state;
    check_family("rounding");
}

static void test_stochastic_when_keyed_then_as_the_oracle(void **state) {
    (void)state;
    check_family("stochastic");
}

static void test_rotation_when_any_size_and_signs_then_as_the_oracle(void **state) {
    (void)state;
    check_family("hadamard");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_microscaling_when_any_rule_and_format_then_as_the_oracle),
    cmocka_unit_test(test_fp32_and_pow2_scales_when_any_block_then_as_the_oracle),
    cmocka_unit_test(test_static_and_delayed_scales_when_cast_then_as_the_oracle),
    cmocka_unit_test(test_e4m3_scales_when_any_outer_then_as_the_oracle),
    cmocka_unit_test(test_four_over_six_when_any_error_and_bound_then_as_the_oracle),
    cmocka_unit_test(test_rounding_when_toward_zero_or_half_away_then_as_the_oracle),
    cmocka_unit_test(test_stochastic_when_keyed_then_as_the_oracle),
    cmocka_unit_test(test_rotation_when_any_size_and_signs_then_as_the_oracle),
};

MPT_TEST_MAIN(cases)
