/* Checkpoints, delayed scales and counts of a run on a device, over the toy device of
 * toy_device.h: through the whole pipeline, with FP8 operands packed as a GPU has them. */
#include "checkpoint_case.h"
#include "toy_device.h"

#include "exec/backend.h"
#include "mpt/watch.h"

#define TWO_PHASES                                                                             \
    CHECKPOINT_DELAYED                                                                         \
    ", phases = { phase { 'all' }, phase { 'late', from = 0.2, rules = { rule { 'linear', "    \
    "gemms = { 'fprop' }, use = bf16 } } } }"

/* A checkpoint names its device, and no other than these is known. */
static void make(toy_device *toy) {
    toy_make(toy);
    toy->backend.name = "cuda";
}

static void begin(checkpoint_case *c, const mpt_backend *device) {
    *c = (checkpoint_case){.ctx = mpt_test_ctx()};
    c->ctx->device_backend = device;
    assert_mpt_ok(c->ctx, checkpoint_make(c, TWO_PHASES, 1, NULL, 0));
}

static void assert_same_weights_and_state(const char *a, const char *b, int step) {
    static const char *const names[] = {"model.safetensors", "state.safetensors"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        file_bytes x = bytes_read(checkpoint_file(a, step, names[i]).text);
        file_bytes y = bytes_read(checkpoint_file(b, step, names[i]).text);
        if (x.size != y.size || memcmp(x.data, y.data, x.size) != 0)
            fail_msg("step-%d/%s differs", step, names[i]);
        bytes_free(&x);
        bytes_free(&y);
    }
}

/* The switch of phases is at step 4: one stop on either side of it. */
static void test_p44_resume_when_on_a_device_then_undisturbed(void **state) {
    (void)state;
    toy_device toy;
    checkpoints straight = checkpoints_make(), cut = checkpoints_make();
    checkpoint_case whole;
    make(&toy);
    begin(&whole, &toy.backend);
    checkpoint_train(&whole, 6, 3);
    assert_mpt_ok(whole.ctx, mpt_trainer_save_checkpoint(whole.trainer, straight.path));
    for (int stop = 3; stop <= 5; stop += 2) {
        checkpoint_case first, second;
        checkpoint_path at = checkpoint_at(cut.path, stop);
        begin(&first, &toy.backend);
        checkpoint_train(&first, stop, 3);
        assert_mpt_ok(first.ctx, mpt_trainer_save_checkpoint(first.trainer, cut.path));
        begin(&second, &toy.backend);
        assert_mpt_ok(second.ctx, mpt_trainer_load_checkpoint(second.trainer, at.text, NULL));
        checkpoint_train(&second, 6 - stop, 3);
        assert_string_equal(whole.lines + first.n_bytes, second.lines);
        assert_mpt_ok(second.ctx, mpt_trainer_save_checkpoint(second.trainer, cut.path));
        assert_same_checkpoint(straight.path, cut.path, 6);
        checkpoint_end(&second);
        checkpoint_end(&first);
    }
    checkpoint_end(&whole);
    checkpoints_remove(&straight);
    checkpoints_remove(&cut);
}

/* What the CPU saved, a device reads and saves again; what that saved, the CPU. */
static void test_load_when_saved_elsewhere_then_the_same_weights_and_state(void **state) {
    (void)state;
    toy_device toy;
    checkpoints folders[3];
    make(&toy);
    for (int i = 0; i < 3; i++) {
        checkpoint_case c;
        folders[i] = checkpoints_make();
        begin(&c, i == 1 ? &toy.backend : NULL);
        if (i == 0)
            checkpoint_train(&c, 3, 0);
        else
            assert_mpt_ok(c.ctx,
                          mpt_trainer_load_checkpoint(
                              c.trainer, checkpoint_at(folders[i - 1].path, 3).text, NULL));
        assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, folders[i].path));
        if (i > 0)
            assert_same_weights_and_state(folders[0].path, folders[i].path, 3);
        checkpoint_end(&c);
    }
    for (int i = 0; i < 3; i++)
        checkpoints_remove(&folders[i]);
}

/* A device that has run holds newer weights than the host's view: a load is to replace them. */
static void test_roll_back_when_on_a_device_then_its_weights_are_old(void **state) {
    (void)state;
    toy_device toy;
    checkpoint_case c;
    checkpoints f = checkpoints_make();
    mpt_param_view view;
    int64_t step;
    make(&toy);
    begin(&c, &toy.backend);
    assert_mpt_ok(c.ctx, mpt_trainer_set_checkpoints(c.trainer, f.path));
    checkpoint_save_after(&c, 2, f.path);
    assert_true(mpt_trainer_param(c.trainer, 0, &view));
    float weight = view.data[0];
    checkpoint_train(&c, 2, 0);
    assert_true(mpt_trainer_param(c.trainer, 0, &view));
    assert_true(view.data[0] != weight);
    assert_mpt_ok(c.ctx, mpt_trainer_roll_back(c.trainer, &step));
    assert_int_equal(step, 2);
    assert_true(mpt_trainer_param(c.trainer, 0, &view));
    assert_true(view.data[0] == weight);
    checkpoint_train(&c, 1, 0);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* Against ref: counts of every operand, and the delayed scales that followed. */
static void test_count_when_on_a_device_then_counts_and_scales_are_refs(void **state) {
    (void)state;
    toy_device toy, ref;
    checkpoint_case a, b;
    mpt_operand_view x, y;
    mpt_scale_view s, t;
    int n = 0;
    make(&toy);
    toy_make(&ref);
    ref.backend = *mpt_backend_get(MPT_DEVICE_REF);
    begin(&a, &ref.backend);
    begin(&b, &toy.backend);
    for (int step = 0; step < 3; step++) {
        mpt_trainer_count_next(a.trainer);
        mpt_trainer_count_next(b.trainer);
        checkpoint_train(&a, 1, 0);
        checkpoint_train(&b, 1, 0);
        for (n = 0; mpt_trainer_operand(a.trainer, n, &x); n++) {
            assert_true(mpt_trainer_operand(b.trainer, n, &y));
            assert_string_equal(x.name, y.name);
            assert_int_equal(x.elements, y.elements);
            assert_int_equal(x.overflow, y.overflow);
            assert_int_equal(x.underflow, y.underflow);
            assert_int_equal(x.zeros, y.zeros);
            assert_true(x.amax == y.amax && x.scale == y.scale && x.sqnr == y.sqnr);
        }
    }
    assert_true(n > 3);
    for (n = 0; mpt_trainer_scale(a.trainer, n, &s); n++) {
        assert_true(mpt_trainer_scale(b.trainer, n, &t));
        assert_true(s.scale == t.scale);
        assert_memory_equal(s.amax_history, t.amax_history,
                            (size_t)s.n_history * sizeof(float));
    }
    assert_true(n > 3);
    assert_string_equal(a.lines, b.lines);
    checkpoint_end(&a);
    checkpoint_end(&b);
}

/* The tensor of a dump is the device's, decoded. */
static void test_dump_when_on_a_device_then_refs_text(void **state) {
    (void)state;
    toy_device toy, ref;
    mpt_str text[2];
    checkpoint_case c[2];
    make(&toy);
    toy_make(&ref);
    ref.backend = *mpt_backend_get(MPT_DEVICE_REF);
    for (int i = 0; i < 2; i++) {
        begin(&c[i], i ? &toy.backend : &ref.backend);
        mpt_str_init(&text[i], c[i].ctx);
        assert_mpt_ok(c[i].ctx, mpt_pipeline_dump(c[i].program, "run", &text[i]));
    }
    assert_string_equal(text[0].data, text[1].data);
    for (int i = 0; i < 2; i++) {
        mpt_str_deinit(&text[i]);
        checkpoint_end(&c[i]);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p44_resume_when_on_a_device_then_undisturbed),
    cmocka_unit_test(test_load_when_saved_elsewhere_then_the_same_weights_and_state),
    cmocka_unit_test(test_roll_back_when_on_a_device_then_its_weights_are_old),
    cmocka_unit_test(test_count_when_on_a_device_then_counts_and_scales_are_refs),
    cmocka_unit_test(test_dump_when_on_a_device_then_refs_text),
};

MPT_TEST_MAIN(cases)
