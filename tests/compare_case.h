/* Run folders written by hand, for tests of comparisons: every loss is said, nothing trains. */
#ifndef MPT_TESTS_COMPARE_CASE_H
#define MPT_TESTS_COMPARE_CASE_H

#include <math.h>
#include <sys/stat.h>

#include "mpt/compare.h"
#include "safetensors_file.h"

/* To nine digits, as the files have them. */
#define assert_near(a, b)                                                                      \
    assert_true(fabs((double)(a) - (double)(b)) <= 1e-8 * (1 + fabs((double)(b))))

enum { CASE_RUNS = 24, CASE_TEXT = 65536, CASE_TOKENS = 64 };

/* How a run of a case ended, and what its files say. The losses of all steps are `loss`, but
 * for what the functions below change. */
typedef struct case_run {
    const char *name;
    int recipe;
    uint64_t seed;
    double loss, eval; /* eval NAN: null, as metrics write it */
    int steps;         /* that were taken */
    int planned;       /* 0: as many */
    bool killed;       /* no last line */
    bool without_eval; /* no validation at all */
    const char *model; /* NULL: "small" */
    const char *hash;  /* of schedule; NULL: that of the name */
    const char *a;     /* format of the operands; NULL: bf16 */
    int skipped;
    int hole;                /* this step has no line; 0: none */
    int nan_from;            /* losses are null from this step on; 0: never */
    const char *extra;       /* lines in front of all others */
    const char *tail;        /* what a kill left of a line */
    const char *fields;      /* of training, as JSON; NULL: a plan without them */
    const char *data;        /* of data, as JSON; NULL: a plan without them */
    const char *device;      /* NULL: a plan that does not say it */
    const char *recipe_hash; /* NULL: that of the name */
} case_run;

typedef struct compare_case {
    mpt_ctx *ctx;
    char root[64];
    int n;
    char paths[CASE_RUNS][96];
    mpt_compare_run runs[CASE_RUNS];
} compare_case;

static inline void case_open(compare_case *c) {
    memset(c, 0, sizeof *c);
    c->ctx = mpt_test_ctx();
    snprintf(c->root, sizeof c->root, "/tmp/mpt_compare_XXXXXX");
    assert_non_null(mkdtemp(c->root));
}

static inline void case_close(compare_case *c) {
    static const char *const files[] = {"plan.json", "metrics.jsonl", "timing.jsonl"};
    char path[160];
    for (int i = 0; i < c->n; i++) {
        for (size_t k = 0; k < MPT_COUNT(files); k++) {
            snprintf(path, sizeof path, "%s/%s", c->paths[i], files[k]);
            (void)unlink(path);
        }
        assert_int_equal(rmdir(c->paths[i]), 0);
    }
    snprintf(path, sizeof path, "%s/compare.html", c->root);
    (void)unlink(path);
    snprintf(path, sizeof path, "%s/compare.json", c->root);
    (void)unlink(path);
    assert_int_equal(rmdir(c->root), 0);
    assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, 0);
    mpt_ctx_destroy(c->ctx);
}

static inline void case_file(const char *in, const char *name, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", in, name);
    bytes_write(path, text, strlen(text));
}

/* A text that grows; it has room for every case here. */
typedef struct case_text {
    char data[CASE_TEXT];
    size_t n;
} case_text;

MPT_PRINTF(2, 3)
static inline void case_add(case_text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    t->n += (size_t)vsnprintf(t->data + t->n, sizeof t->data - t->n, fmt, args);
    va_end(args);
    assert_true(t->n < sizeof t->data);
}

static inline const char *case_number(double x, char out[32]) {
    snprintf(out, 32, isfinite(x) ? "%.9g" : "null", x);
    return out;
}

static inline void case_metrics(const case_run *r, case_text *t) {
    char number[32];
    case_add(t, "%s", r->extra ? r->extra : "");
    for (int i = 0; i < r->steps; i++) {
        bool bad = r->nan_from > 0 && i >= r->nan_from;
        if (r->hole == 0 || i != r->hole)
            case_add(t, "{\"event\":\"step\",\"step\":%d,\"tokens\":%d,\"loss\":%s}\n", i,
                     (i + 1) * CASE_TOKENS, case_number(bad ? (double)NAN : r->loss, number));
    }
    if (r->killed) {
        case_add(t, "%s", r->tail ? r->tail : "");
        return;
    }
    if (!r->without_eval)
        case_add(t, "{\"event\":\"eval\",\"step\":%d,\"tokens\":%d,\"loss\":%s}\n", r->steps,
                 r->steps * CASE_TOKENS, case_number(r->eval, number));
    const char *a = r->a ? r->a : "bf16";
    case_add(t,
             "{\"event\":\"gemms\",\"gemm\":\"fprop\",\"a\":\"%s\",\"b\":\"%s\","
             "\"quantized\":%s,\"runs\":%d}\n",
             a, a, r->a ? "true" : "false", 3 * r->steps);
    case_add(t,
             "{\"event\":\"gemms\",\"gemm\":\"wgrad\",\"a\":\"bf16\",\"b\":\"bf16\","
             "\"quantized\":false,\"runs\":%d}\n",
             r->steps);
    case_add(t,
             "{\"event\":\"done\",\"step\":%d,\"tokens\":%d,\"applied\":%d,\"skipped\":%d,"
             "\"eval_loss\":%s}\n",
             r->steps, r->steps * CASE_TOKENS, r->steps - r->skipped, r->skipped,
             case_number(r->without_eval ? (double)NAN : r->eval, number));
}

/* Adds a run, and writes its folder. */
static inline void case_add_run(compare_case *c, case_run r) {
    static case_text metrics, timing, plan;
    assert_true(c->n < CASE_RUNS);
    char *path = c->paths[c->n];
    snprintf(path, sizeof c->paths[0], "%s/%d", c->root, c->n);
    assert_int_equal(mkdir(path, 0777), 0);
    metrics.n = timing.n = plan.n = 0;
    case_metrics(&r, &metrics);
    metrics.data[metrics.n] = 0;
    for (int i = 0; i < r.steps; i++)
        case_add(&timing, "{\"step\":%d,\"step_ms\":%d,\"tokens_per_s\":%.1f}\n", i,
                 i == 0 ? 900 : 10 + r.recipe,
                 CASE_TOKENS * 1e3 / (i == 0 ? 900 : 10 + r.recipe));
    timing.data[timing.n] = 0;
    case_add(
        &plan,
        "{\"recipe\":\"%s\",\"model\":\"%s\",\"recipe_hash\":\"%s%s\",%s%s%s"
        "\"parameters\":99,\"bytes\":{\"total\":%d},\"train\":{\"seed\":%d,\"fields\":{%s}},"
        "\"data\":{%s},\"phases\":[{\"schedule_hash\":\"%s\","
        "\"steps\":%d},{\"schedule_hash\":\"never\",\"steps\":0}]}",
        r.name, r.model ? r.model : "small", r.recipe_hash ? "" : "hash_of_",
        r.recipe_hash ? r.recipe_hash : r.name, r.device ? "\"backend\":\"" : "",
        r.device ? r.device : "", r.device ? "\"," : "", 1000 + r.recipe, (int)r.seed,
        r.fields ? r.fields : "", r.data ? r.data : "", r.hash ? r.hash : r.name,
        r.planned ? r.planned : r.steps);
    case_file(path, "metrics.jsonl", metrics.data);
    case_file(path, "timing.jsonl", timing.data);
    case_file(path, "plan.json", plan.data);
    c->runs[c->n++] = (mpt_compare_run){.folder = path, .recipe = r.recipe, .seed = r.seed};
}

/* Compares the runs so far, with a bound or -1. */
static inline mpt_comparison *case_compare(compare_case *c, double within) {
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    mpt_comparison *comparison;
    options.within = within;
    assert_mpt_ok(c->ctx, mpt_comparison_create(c->ctx, c->runs, c->n, &options, &comparison));
    return comparison;
}

static inline mpt_comparison_row case_row(const mpt_comparison *comparison, int i) {
    mpt_comparison_row row;
    assert_true(mpt_comparison_get(comparison, i, &row));
    return row;
}

/* A run of the base, "a", whose losses are 2. */
static inline void case_add_base(compare_case *c, int steps) {
    case_add_run(c, (case_run){.name = "a", .loss = 2, .eval = 2, .steps = steps});
}

/* Opens the case, and compares a run of 40 steps of the base with this one of "b". */
static inline mpt_comparison *case_compare_with_base(compare_case *c, case_run b,
                                                     double within) {
    b.name = "b";
    b.recipe = 1;
    case_open(c);
    case_add_base(c, 40);
    case_add_run(c, b);
    return case_compare(c, within);
}

/* Closes the case and its comparison. */
static inline void case_end(compare_case *c, mpt_comparison *comparison) {
    mpt_comparison_destroy(comparison);
    case_close(c);
}

/* What a text says and what it does not. */
static inline void has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

static inline void lacks(const char *text, const char *part) {
    if (strstr(text, part))
        fail_msg("'%s' is in: %s", part, text);
}

#endif
