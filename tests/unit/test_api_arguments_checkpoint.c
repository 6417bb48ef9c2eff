/* Wrong arguments to the calls of mpt/checkpoint.h: MPT_INVALID, the argument named, no crash.
 */
#include "api_arguments.h"
#include "checkpoint_case.h"

static void wrong_find(checkpoint_case *c) {
    mpt_checkpoint_info info;
    BARE(mpt_checkpoint_find(NULL, "x", &info));
    refused(c->ctx, mpt_checkpoint_find(c->ctx, NULL, &info), "folder is NULL");
    refused(c->ctx, mpt_checkpoint_find(c->ctx, "x", NULL), "out is NULL");
}

static void wrong_read(checkpoint_case *c) {
    static char longest[8192];
    mpt_checkpoint_info info;
    BARE(mpt_checkpoint_read(NULL, "x", &info));
    refused(c->ctx, mpt_checkpoint_read(c->ctx, NULL, &info), "path is NULL");
    refused(c->ctx, mpt_checkpoint_read(c->ctx, "x", NULL), "out is NULL");
    memset(longest, 'x', sizeof longest - 1);
    assert_int_equal(mpt_checkpoint_read(c->ctx, longest, &info), MPT_NOT_FOUND);
    assert_int_equal(mpt_checkpoint_read(c->ctx, "", &info), MPT_NOT_FOUND);
}

static void wrong_checkpoint(checkpoint_case *c) {
    assert_false(mpt_trainer_checkpoint_due(NULL));
    BARE(mpt_trainer_checkpoint(NULL, true));
    assert_mpt_ok(c->ctx, mpt_trainer_checkpoint(c->trainer, true)); /* without a folder */
}

static void wrong_save(checkpoint_case *c) {
    static char longest[8192];
    memset(longest, 'x', sizeof longest - 1);
    BARE(mpt_trainer_save_checkpoint(NULL, "x"));
    refused(c->ctx, mpt_trainer_save_checkpoint(c->trainer, NULL), "folder is NULL");
    refused(c->ctx, mpt_trainer_save_checkpoint(c->trainer, longest), "is too long");
    BARE(mpt_trainer_set_checkpoints(NULL, "x"));
    refused(c->ctx, mpt_trainer_set_checkpoints(c->trainer, ""), "folder: a path of 0 bytes");
    refused(c->ctx, mpt_trainer_set_checkpoints(c->trainer, longest),
            "folder: a path of 8191 bytes");
    assert_mpt_ok(c->ctx, mpt_trainer_set_checkpoints(c->trainer, NULL));
}

static void wrong_load(checkpoint_case *c) {
    mpt_load_checkpoint_options options = MPT_LOAD_CHECKPOINT_OPTIONS_INIT;
    BARE(mpt_trainer_load_checkpoint(NULL, "x", NULL));
    refused(c->ctx, mpt_trainer_load_checkpoint(c->trainer, NULL, NULL), "path is NULL");
    options.size = 0;
    refused(c->ctx, mpt_trainer_load_checkpoint(c->trainer, "x", &options), "size");
    assert_int_equal(mpt_trainer_load_checkpoint(c->trainer, "/no/such", NULL), MPT_NOT_FOUND);
}

static const struct {
    const char *calls;
    void (*wrong)(checkpoint_case *c);
} rows[] = {
    {"mpt_checkpoint_find", wrong_find},
    {"mpt_checkpoint_read", wrong_read},
    {"mpt_trainer_checkpoint mpt_trainer_checkpoint_due", wrong_checkpoint},
    {"mpt_trainer_save_checkpoint mpt_trainer_set_checkpoints", wrong_save},
    {"mpt_trainer_load_checkpoint", wrong_load},
};

static void test_call_when_arguments_are_wrong_then_they_are_named(void **s) {
    (void)s;
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        rows[i].wrong(&c);
    checkpoint_end(&c);
}

/* The folder may also be named where the trainer is made. */
static void test_create_when_the_folder_is_no_path_then_refused(void **s) {
    (void)s;
    checkpoint_case c;
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    mpt_trainer *trainer;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    options.checkpoints = "";
    refused(c.ctx, mpt_trainer_create(c.program, &options, &trainer),
            "folder: a path of 0 bytes");
    assert_null(trainer);
    checkpoint_end(&c);
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **s) {
    (void)s;
    assert_header("checkpoint.h", rows);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_create_when_the_folder_is_no_path_then_refused),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};
MPT_TEST_MAIN(cases)
