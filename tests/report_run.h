/* A run folder made by hand, and its report read back. */
#ifndef MPT_TESTS_REPORT_RUN_H
#define MPT_TESTS_REPORT_RUN_H

#include "mpt/evidence.h"
#include "report_page.h"

typedef struct run_folder {
    folder f;
    mpt_ctx *ctx;
} run_folder;

static inline void put(const run_folder *r, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", r->f.path, name);
    bytes_write(path, text, strlen(text));
}

static const char report_plan[] =
    "{\"recipe\":\"small\",\"model\":\"gpt2 "
    "tiny\",\"recipe_hash\":\"00ff\",\"backend\":\"cpu\","
    "\"parameters\":1234,\"blocks\":2,\"coverage\":{\"nvfp4\":3,\"bf16\":1},"
    "\"coverage_parameters\":{\"nvfp4\":900,\"bf16\":334},\"bytes\":{\"master\":4936,"
    "\"total\":5000000},\"phases\":[{\"name\":\"main\",\"from\":0,\"steps\":4,"
    "\"layers_changed\":0,\"schedule_hash\":\"abcd\"}],\"layers\":[{\"path\":\"h.0.attn\","
    "\"fprop\":{\"x\":{\"format\":\"nvfp4\"},\"w\":{\"format\":\"nvfp4\"}}},{\"path\":\"head\"}"
    "],"
    "\"warnings\":[{\"name\":\"all-fp4\",\"where\":\"small.lua:3\",\"text\":\"no layer is "
    "kept\"}],"
    "\"data\":{\"text\":\"synthetic\",\"floor\":1.5,\"unigram\":3},\"train\":{\"steps\":4,"
    "\"batch\":2,\"sequence\":16,\"seed\":7}}\n";

#define STEP(n, tokens, loss, skipped)                                                         \
    "{\"event\":\"step\",\"step\":" #n ",\"tokens\":" #tokens ",\"loss\":" #loss               \
    ",\"lr\":0.001,\"grad_norm\":2,\"loss_scale\":1,\"skipped\":" #skipped                     \
    ",\"phase\":\"main\"}\n"
#define PHASE "{\"event\":\"phase\",\"step\":0,\"phase\":\"main\",\"schedule_hash\":\"abcd\"}\n"
#define EVAL(n, tokens, loss)                                                                  \
    "{\"event\":\"eval\",\"step\":" #n ",\"tokens\":" #tokens ",\"loss\":" #loss               \
    ",\"windows\":3,\"phase\":\"main\"}\n"
#define DONE(n) "{\"event\":\"done\",\"step\":" #n ",\"tokens\":128,\"applied\":4}\n"
#define SKIP(n) "{\"event\":\"skip\",\"step\":" #n ",\"tensor\":\"h.0.w\",\"fault\":\"NaN\"}\n"

#define WHOLE                                                                                  \
    PHASE STEP(0, 32, 4.5, false) STEP(1, 64, 4, false) STEP(2, 96, 3.5, false)                \
        STEP(3, 128, 3, false) EVAL(4, 128, 2.75) DONE(4)

static inline run_folder run_make(const char *metrics) {
    run_folder r = {folder_make(), mpt_test_ctx()};
    put(&r, "metrics.jsonl", metrics);
    put(&r, "plan.json", report_plan);
    put(&r, "timing.jsonl",
        "{\"step\":0,\"step_ms\":100,\"tokens_per_s\":320}\n"
        "{\"step\":1,\"step_ms\":50,\"tokens_per_s\":640}\n");
    put(&r, "telemetry.jsonl", "");
    put(&r, "recipe.lua", "return recipe { } -- a < b\n");
    return r;
}

static inline void run_free(run_folder *r) {
    folder_remove(&r->f);
    assert_int_equal(mpt_ctx_memory(r->ctx).live_bytes, 0);
    mpt_ctx_destroy(r->ctx);
}

static inline char *run_page(const run_folder *r) {
    char path[256];
    assert_mpt_ok(r->ctx, mpt_report_run(r->ctx, r->f.path));
    snprintf(path, sizeof path, "%s/report.html", r->f.path);
    char *page = page_read(path);
    page_check(page);
    return page;
}

static inline void assert_has(const char *page, const char *text) {
    if (!strstr(page, text))
        fail_msg("the page lacks '%s'", text);
}

#endif
