/* Weights: every allocation of reading and of writing fails once; then the trainer is what it
 * was, no file is left, and no memory. */
#include "weights_case.h"

#include "allowance.h"

typedef mpt_status action(weights_case *c, const char *path);

/* Runs the action with 0, 1, 2 ... allocations allowed until it succeeds; gives that number. */
static long sweep(weights_case *c, allowance *a, action *run, const char *path, const folder *f,
                  int files) {
    for (long n = 0;; n++) {
        long live = a->live;
        size_t bytes = mpt_ctx_memory(c->ctx).live_bytes;
        uint64_t before = weights_hash(c);
        a->left = n;
        mpt_status status = run(c, path);
        a->left = -1;
        if (status == MPT_OK)
            return n; /* a trainer keeps the path of what it has loaded */
        assert_int_equal(a->live, live);
        assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, bytes);
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
        assert_int_equal(mpt_ctx_error(c->ctx)->code, MPT_OUT_OF_MEMORY);
        assert_int_equal(folder_count(f), files);
        assert_true(weights_hash(c) == before);
    }
}

static mpt_status load(weights_case *c, const char *path) {
    return mpt_trainer_load_weights(c->trainer, path);
}

/* A checkpoint of another model: what is named takes memory, too. */
static mpt_status load_wrong(weights_case *c, const char *path) {
    mpt_status status = mpt_trainer_load_weights(c->trainer, path);
    return status == MPT_DATA ? MPT_OK : status;
}

static mpt_status save(weights_case *c, const char *path) {
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.type = MPT_WEIGHT_BF16;
    o.shard_bytes = 25000;
    return mpt_trainer_save_weights(c->trainer, path, &o);
}

static mpt_status export(weights_case *c, const char *path) {
    return mpt_program_export_weights(c->program, ORACLE("gpt2"), path, NULL);
}

/* Far too large for FP16, in every tensor. */
static mpt_status save_overflow(weights_case *c, const char *path) {
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.type = MPT_WEIGHT_FP16;
    for (int p = 0; p < c->trainer->state->n_params; p++)
        c->trainer->state->master[p][1] = 1e9f;
    mpt_status status = mpt_trainer_save_weights(c->trainer, path, &o);
    return status == MPT_DATA ? MPT_OK : status;
}

static void test_weights_when_any_allocation_fails_then_nothing_has_changed(void **s) {
    (void)s;
    allowance a;
    weights_case c;
    folder f = folder_make(), g = folder_make();
    char llmc[256];
    mpt_ctx *ctx = allowance_context(&a, -1);
    assert_mpt_ok(ctx, weights_make(&c, ctx, WEIGHTS_GPT2, ""));
    snprintf(llmc, sizeof llmc, "%s/model.bin", g.path);
    assert_true(sweep(&c, &a, load, ORACLE("gpt2"), &f, 0) > 2);
    assert_true(sweep(&c, &a, load_wrong, ORACLE("llama"), &f, 0) > 2);
    assert_true(sweep(&c, &a, save, f.file, &f, 0) > 2);
    folder_clear(&f);
    assert_true(sweep(&c, &a, save, f.path, &f, 0) > 2);
    assert_int_equal(folder_clear(&f), 4);
    assert_true(sweep(&c, &a, save, llmc, &g, 0) > 2);
    assert_true(sweep(&c, &a, load, llmc, &g, 1) > 2);
    assert_true(sweep(&c, &a, export, f.file, &f, 0) > 2);
    folder_clear(&f);
    c.trainer->state->master[0][1] = 1e9f;
    (void)save_overflow(&c, f.file);
    assert_true(sweep(&c, &a, save_overflow, f.file, &f, 0) > 2);
    weights_free(&c);
    folder_remove(&f);
    folder_remove(&g);
    mpt_ctx_destroy(ctx);
    assert_int_equal(a.live, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_weights_when_any_allocation_fails_then_nothing_has_changed),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
