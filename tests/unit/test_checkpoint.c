/* Checkpoints: a run that goes on has the bits of one that never stopped, loading is pure, what
 * is damaged is never taken for whole. */
#include "checkpoint_case.h"

/* ---- exact ---- */

/* 20 steps at once, against k steps and 20 - k of another process: the same lines of metrics,
 * so losses, norms and loss scales to nine digits, and the same last checkpoint, byte for byte.
 */
static void resumes_exactly(const char *fields, const int *stops, int n_stops) {
    checkpoints straight = checkpoints_make(), cut = checkpoints_make();
    checkpoint_case whole, first, second;
    checkpoint_begin(&whole, fields, 1);
    checkpoint_train(&whole, 20, 3);
    assert_mpt_ok(whole.ctx, mpt_trainer_save_checkpoint(whole.trainer, straight.path));
    for (int i = 0; i < n_stops; i++) {
        checkpoint_path at = checkpoint_at(cut.path, stops[i]);
        checkpoint_begin(&first, fields, 1);
        checkpoint_train(&first, stops[i], 3);
        assert_mpt_ok(first.ctx, mpt_trainer_save_checkpoint(first.trainer, cut.path));
        checkpoint_begin(&second, fields, 2);
        assert_mpt_ok(second.ctx, mpt_trainer_load_checkpoint(second.trainer, at.text, NULL));
        checkpoint_train(&second, 20 - stops[i], 3);
        assert_int_equal(first.n_bytes + second.n_bytes, whole.n_bytes);
        assert_string_equal(whole.lines + first.n_bytes, second.lines);
        assert_mpt_ok(second.ctx, mpt_trainer_save_checkpoint(second.trainer, cut.path));
        assert_same_checkpoint(straight.path, cut.path, 20);
        checkpoint_end(&second);
        checkpoint_end(&first);
    }
    checkpoint_end(&whole);
    checkpoints_remove(&straight);
    checkpoints_remove(&cut);
}

/* Two skips at the start are borne, the third halves the scale, four good steps double it. */
static void test_p08_resume_when_the_loss_scale_moves_then_the_same_bits(void **s) {
    (void)s;
    static const int stops[] = {1, 2, 10};
    resumes_exactly(CHECKPOINT_FP16, stops, MPT_COUNT(stops));
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    checkpoint_train(&c, 20, 0);
    assert_non_null(strstr(c.lines, "\"event\":\"skip\"")); /* or the case would show nothing */
    checkpoint_end(&c);
}

static void test_p40_resume_when_scaling_is_delayed_then_the_same_bits(void **s) {
    (void)s;
    static const int stops[] = {1, 10};
    resumes_exactly(CHECKPOINT_DELAYED, stops, MPT_COUNT(stops));
}

/* From step 16 on fprop is BF16, and dgrad and wgrad stay as they were. */
static void test_p44_resume_on_either_side_of_a_switch_then_the_same_bits(void **s) {
    (void)s;
    static const int stops[] = {15, 16, 17};
    resumes_exactly(CHECKPOINT_STOCHASTIC
                    ", phases = { phase { 'all' }, phase { 'late', from = 0.8, rules = { rule "
                    "{ 'linear', gemms = { 'fprop' }, use = bf16 } } } }",
                    stops, MPT_COUNT(stops));
}

/* A phase that enters delayed scaling, with histories that the phase before has recorded. */
static void test_resume_when_histories_are_warmed_then_the_same_bits(void **s) {
    (void)s;
    static const int stops[] = {5, 8, 9};
    resumes_exactly(
        "precision = { rules = { rule { 'linear', use = bf16 } } }, phases = { "
        "phase { 'a' }, phase { 'b', from = 8, warm_histories = true, rules = { rule "
        "{ 'linear', use = e4m3 { scale = delayed { history = 4 } } } } } }",
        stops, MPT_COUNT(stops));
}

static void test_p60_resume_when_rounding_is_stochastic_then_the_same_bits(void **s) {
    (void)s;
    static const int stops[] = {10};
    resumes_exactly(CHECKPOINT_STOCHASTIC, stops, MPT_COUNT(stops));
    checkpoint_case one, other;
    checkpoint_begin(&one, CHECKPOINT_STOCHASTIC, 1);
    checkpoint_begin_set(&other, CHECKPOINT_STOCHASTIC, "train.seed", "99");
    checkpoint_train(&one, 3, 0);
    checkpoint_train(&other, 3, 0);
    assert_string_not_equal(one.lines, other.lines);
    checkpoint_end(&one);
    checkpoint_end(&other);
}

static void test_resume_when_the_optimizer_is_sgd_then_the_same_bits(void **s) {
    (void)s;
    static const int stops[] = {7};
    resumes_exactly("precision = { rules = { rule { 'linear', use = bf16 } } }", stops, 1);
    checkpoints f = checkpoints_make();
    checkpoint_case a, b;
    checkpoint_begin_set(&a, CHECKPOINT_DELAYED, "train.optimizer", "sgd");
    checkpoint_save_after(&a, 6, f.path);
    checkpoint_begin_set(&b, CHECKPOINT_DELAYED, "train.optimizer", "sgd");
    assert_mpt_ok(b.ctx,
                  mpt_trainer_load_checkpoint(b.trainer, checkpoint_at(f.path, 6).text, NULL));
    size_t seen = a.n_bytes;
    checkpoint_train(&a, 6, 0);
    checkpoint_train(&b, 6, 0);
    assert_string_equal(a.lines + seen, b.lines);
    checkpoint_end(&a);
    checkpoint_end(&b);
    checkpoints_remove(&f);
}

/* An evaluation reads FP8 copies of the weights and leaves nothing behind. */
static void test_p76_train_when_evaluated_in_between_then_the_same_trajectory(void **s) {
    (void)s;
    checkpoints with = checkpoints_make(), without = checkpoints_make();
    checkpoint_case a, b;
    checkpoint_begin(&a, CHECKPOINT_DELAYED, 1);
    checkpoint_begin(&b, CHECKPOINT_DELAYED, 1);
    checkpoint_train(&a, 20, 2);
    checkpoint_train(&b, 20, 0);
    assert_mpt_ok(a.ctx, mpt_trainer_save_checkpoint(a.trainer, with.path));
    assert_mpt_ok(b.ctx, mpt_trainer_save_checkpoint(b.trainer, without.path));
    file_bytes x = bytes_read(checkpoint_file(with.path, 20, "model.safetensors").text);
    file_bytes y = bytes_read(checkpoint_file(without.path, 20, "model.safetensors").text);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    bytes_free(&x);
    bytes_free(&y);
    checkpoint_end(&a);
    checkpoint_end(&b);
    checkpoints_remove(&with);
    checkpoints_remove(&without);
}

/* ---- pure ---- */

static void test_p10_load_when_saved_again_at_once_then_the_same_bytes(void **s) {
    (void)s;
    static const char *const recipes[] = {CHECKPOINT_FP16, CHECKPOINT_DELAYED,
                                          CHECKPOINT_STOCHASTIC};
    for (size_t i = 0; i < MPT_COUNT(recipes); i++) {
        checkpoints f = checkpoints_make(), again = checkpoints_make();
        checkpoint_case a, b;
        checkpoint_begin(&a, recipes[i], 1);
        checkpoint_train(&a, 10, 3);
        assert_mpt_ok(a.ctx, mpt_trainer_save_checkpoint(a.trainer, f.path));
        checkpoint_begin(&b, recipes[i], 1);
        assert_mpt_ok(b.ctx, mpt_trainer_load_checkpoint(b.trainer,
                                                         checkpoint_at(f.path, 10).text, NULL));
        assert_mpt_ok(b.ctx, mpt_trainer_save_checkpoint(b.trainer, again.path));
        assert_same_checkpoint(f.path, again.path, 10);
        assert_null(b.lines); /* and nothing was written to the metrics */
        checkpoint_end(&a);
        checkpoint_end(&b);
        checkpoints_remove(&f);
        checkpoints_remove(&again);
    }
}

/* Weights that are not finite are a run's state like any others. */
static void test_load_when_a_weight_is_nan_then_it_comes_back(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    float *weight = c.trainer->state->master[0], kept = *weight;
    memset(weight, 0xff, sizeof *weight);
    assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
    *weight = kept;
    assert_mpt_ok(c.ctx,
                  mpt_trainer_load_checkpoint(c.trainer, checkpoint_at(f.path, 0).text, NULL));
    assert_true(*weight != *weight);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* ---- when they are saved ---- */

static void test_checkpoint_when_due_then_saved_told_and_the_oldest_removed(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1); /* no step is skipped */
    assert_mpt_ok(c.ctx, mpt_trainer_set_checkpoints(c.trainer, f.path));
    for (int i = 0; i < 13; i++) {
        checkpoint_train(&c, 1, 0);
        assert_int_equal(mpt_trainer_checkpoint_due(c.trainer), (i + 1) % 4 == 0);
        assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, false));
    }
    assert_checkpoints(f.path, "step-12 step-8");
    size_t told = c.n_bytes;
    assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, true)); /* an early end */
    assert_checkpoints(f.path, "step-12 step-13");
    assert_int_equal(c.n_bytes, told);
    checkpoint_train(&c, 7, 0);
    assert_true(mpt_trainer_checkpoint_due(c.trainer)); /* 20 is the last */
    assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, false));
    assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, false)); /* once is enough */
    const char *last = strstr(c.lines, "{\"event\":\"checkpoint\",\"step\":20}\n");
    assert_non_null(last);
    assert_null(strstr(last + strlen("{\"event\":\"checkpoint\""), "checkpoint"));
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static void test_checkpoint_when_another_run_saved_there_then_refused(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case a, b;
    checkpoint_begin(&a, CHECKPOINT_FP16, 1);
    checkpoint_save_after(&a, 1, f.path);
    checkpoint_begin(&b, CHECKPOINT_FP16, 1);
    assert_mpt_ok(b.ctx, mpt_trainer_set_checkpoints(b.trainer, f.path));
    assert_int_equal(mpt_trainer_checkpoint(b.trainer, true), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(b.ctx)->message, "holds checkpoints of another run"));
    assert_checkpoints(f.path, "step-1");
    checkpoint_end(&a);
    checkpoint_end(&b);
    checkpoints_remove(&f);
}

/* Having read one elsewhere makes no difference: what lies ahead there is another run's. */
static void test_checkpoint_when_read_elsewhere_then_another_folder_is_left_alone(void **s) {
    (void)s;
    checkpoints f = checkpoints_make(), other = checkpoints_make(), empty = checkpoints_make();
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1);
    checkpoint_save_after(&c, 4, f.path);
    checkpoint_save_after(&c, 4, other.path);
    assert_mpt_ok(c.ctx,
                  mpt_trainer_load_checkpoint(c.trainer, checkpoint_at(f.path, 4).text, NULL));
    assert_mpt_ok(c.ctx, mpt_trainer_set_checkpoints(c.trainer, other.path));
    assert_int_equal(mpt_trainer_checkpoint(c.trainer, false), MPT_INVALID);
    assert_checkpoints(other.path, "step-8");
    assert_mpt_ok(c.ctx, mpt_trainer_set_checkpoints(c.trainer, empty.path));
    assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, false));
    assert_checkpoints(empty.path, "step-4");
    assert_checkpoints(f.path, "step-4");
    checkpoint_end(&c);
    checkpoints_remove(&f);
    checkpoints_remove(&other);
    checkpoints_remove(&empty);
}

/* Half of a checkpoint, half of a removal, and a damaged one that the run has fallen back from.
 */
static void test_checkpoint_when_an_ended_run_left_halves_then_they_are_swept_out(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case a, b;
    checkpoint_begin(&a, CHECKPOINT_FP16, 1);
    for (int i = 0; i < 3; i++) {
        checkpoint_save_after(&a, 4, f.path);
    }
    checkpoint_path four = checkpoint_at(f.path, 4), old = four;
    strcat(old.text, ".old");
    assert_int_equal(rename(four.text, old.text), 0);
    checkpoint_path part = checkpoint_at(f.path, 9);
    strcat(part.text, ".part");
    assert_int_equal(mkdir(part.text, 0777), 0);
    bytes_write(checkpoint_file(f.path, 12, "state.safetensors").text, "x", 1);
    checkpoint_begin(&b, CHECKPOINT_FP16, 1);
    assert_mpt_ok(b.ctx,
                  mpt_trainer_load_checkpoint(b.trainer, checkpoint_at(f.path, 8).text, NULL));
    assert_mpt_ok(b.ctx, mpt_trainer_set_checkpoints(b.trainer, f.path));
    assert_mpt_ok(b.ctx, mpt_trainer_checkpoint(b.trainer, false));
    checkpoint_train(&b, 1, 0);
    assert_mpt_ok(b.ctx, mpt_trainer_checkpoint(b.trainer, true));
    assert_checkpoints(f.path, "step-8 step-9");
    checkpoint_end(&a);
    checkpoint_end(&b);
    checkpoints_remove(&f);
}

/* ---- rollback ---- */

/* What was learnt goes back; the data and the attempted steps do not, so no batch comes twice.
 */
static void test_roll_back_when_called_then_weights_are_old_and_counters_are_not(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    int64_t step = -1;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1);
    assert_int_equal(mpt_trainer_roll_back(c.trainer, &step), MPT_NOT_FOUND);
    assert_mpt_ok(c.ctx, mpt_trainer_set_checkpoints(c.trainer, f.path));
    assert_int_equal(mpt_trainer_roll_back(c.trainer, &step), MPT_NOT_FOUND);
    checkpoint_train(&c, 8, 0);
    assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, false));
    float weight = c.trainer->state->master[0][0], m = c.trainer->state->moment[0][0][0];
    float scale = *c.trainer->state->scales[0].scale;
    checkpoint_train(&c, 3, 0);
    assert_true(c.trainer->state->master[0][0] != weight);
    assert_mpt_ok(c.ctx, mpt_trainer_roll_back(c.trainer, &step));
    assert_int_equal(step, 8);
    assert_true(c.trainer->state->master[0][0] == weight);
    assert_true(c.trainer->state->moment[0][0][0] == m);
    assert_true(*c.trainer->state->scales[0].scale == scale);
    assert_int_equal(c.trainer->applied, 8);
    assert_int_equal(c.trainer->attempted, 11);
    assert_int_equal(c.trainer->data, 11);
    checkpoint_train(&c, 1, 0);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* ---- damage ---- */

static void put_byte(const char *file, size_t at, int byte) {
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, f), byte);
    assert_int_equal(fclose(f), 0);
}

/* The file with one byte turned over, then as it was. */
static void expect_damage(mpt_ctx *ctx, const char *path, const char *file, const file_bytes *b,
                          size_t at) {
    mpt_checkpoint_info info;
    put_byte(file, at, b->data[at] ^ 0x10);
    if (mpt_checkpoint_read(ctx, path, &info) != MPT_DATA)
        fail_msg("%s: byte %zu was turned over unseen", file, at);
    put_byte(file, at, b->data[at]);
}

/* Every byte of the manifest, some hundred of the others: in headers, data and at the ends. */
static void test_read_when_any_byte_is_turned_over_then_damage_is_found(void **s) {
    (void)s;
    static const struct {
        const char *name;
        size_t stride;
    } files[] = {
        {"checkpoint.json", 1}, {"model.safetensors", 997}, {"state.safetensors", 997}};
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    mpt_checkpoint_info info;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1);
    assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
    checkpoint_path at = checkpoint_at(f.path, 0);
    for (size_t i = 0; i < MPT_COUNT(files); i++) {
        checkpoint_path file = checkpoint_file(f.path, 0, files[i].name);
        file_bytes b = bytes_read(file.text);
        for (size_t k = 0; k < b.size; k += files[i].stride)
            expect_damage(c.ctx, at.text, file.text, &b, k);
        expect_damage(c.ctx, at.text, file.text, &b, b.size - 1);
        for (size_t n = 0; n < b.size; n += b.size / 7) {
            bytes_write(file.text, b.data, n); /* cut off */
            assert_int_equal(mpt_checkpoint_read(c.ctx, at.text, &info), MPT_DATA);
        }
        b.data[b.size] = 0; /* bytes_read has room for one more */
        bytes_write(file.text, b.data, b.size + 1);
        assert_int_equal(mpt_checkpoint_read(c.ctx, at.text, &info), MPT_DATA);
        bytes_write(file.text, b.data, b.size);
        assert_mpt_ok(c.ctx, mpt_checkpoint_read(c.ctx, at.text, &info));
        bytes_free(&b);
    }
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* A damaged checkpoint changes nothing in the trainer that was to read it. */
static void test_load_when_damaged_then_refused_and_nothing_has_changed(void **s) {
    (void)s;
    checkpoints f = checkpoints_make(), before = checkpoints_make(), after = checkpoints_make();
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1);
    checkpoint_save_after(&c, 2, f.path);
    checkpoint_save_after(&c, 2, before.path);
    bytes_write(checkpoint_file(f.path, 2, "state.safetensors").text, "", 0);
    assert_int_equal(
        mpt_trainer_load_checkpoint(c.trainer, checkpoint_at(f.path, 2).text, NULL), MPT_DATA);
    assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, after.path));
    assert_same_checkpoint(before.path, after.path, 4);
    checkpoint_end(&c);
    checkpoints_remove(&f);
    checkpoints_remove(&before);
    checkpoints_remove(&after);
}

/* Sums that fit say only that the file is as it was written. */
static void test_load_when_counters_are_below_zero_then_refused(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    c.trainer->data = -1;
    assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
    assert_int_equal(
        mpt_trainer_load_checkpoint(c.trainer, checkpoint_at(f.path, 0).text, NULL), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(c.ctx)->message, "counter.data: is below 0"));
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static void test_find_when_the_newest_are_damaged_then_the_one_before(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    mpt_checkpoint_info info;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    assert_int_equal(mpt_checkpoint_find(c.ctx, f.path, &info), MPT_NOT_FOUND);
    for (int i = 0; i < 3; i++) {
        checkpoint_save_after(&c, 5, f.path); /* 5, 10, 15: as texts, 5 is the last */
    }
    assert_mpt_ok(c.ctx, mpt_checkpoint_find(c.ctx, f.path, &info));
    assert_int_equal(info.step, 15);
    assert_int_equal(info.tokens, 15 * 2 * 16);
    assert_string_equal(info.path, checkpoint_at(f.path, 15).text);
    assert_string_equal(info.recipe_hash, c.program->recipe_hash);
    assert_string_equal(info.device, "cpu");
    assert_string_equal(info.phase, "main");
    bytes_write(checkpoint_file(f.path, 15, "checkpoint.json").text, "{}", 2);
    assert_int_equal(remove(checkpoint_file(f.path, 10, "state.safetensors").text), 0);
    assert_mpt_ok(c.ctx, mpt_checkpoint_find(c.ctx, f.path, &info));
    assert_int_equal(info.step, 5);
    bytes_write(checkpoint_file(f.path, 5, "model.safetensors").text, "", 0);
    assert_int_equal(mpt_checkpoint_find(c.ctx, f.path, &info), MPT_DATA);
    assert_non_null(
        strstr(mpt_ctx_error(c.ctx)->message, "none of its 3 checkpoints is whole"));
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p08_resume_when_the_loss_scale_moves_then_the_same_bits),
    cmocka_unit_test(test_p40_resume_when_scaling_is_delayed_then_the_same_bits),
    cmocka_unit_test(test_p44_resume_on_either_side_of_a_switch_then_the_same_bits),
    cmocka_unit_test(test_resume_when_histories_are_warmed_then_the_same_bits),
    cmocka_unit_test(test_p60_resume_when_rounding_is_stochastic_then_the_same_bits),
    cmocka_unit_test(test_resume_when_the_optimizer_is_sgd_then_the_same_bits),
    cmocka_unit_test(test_p76_train_when_evaluated_in_between_then_the_same_trajectory),
    cmocka_unit_test(test_p10_load_when_saved_again_at_once_then_the_same_bytes),
    cmocka_unit_test(test_load_when_a_weight_is_nan_then_it_comes_back),
    cmocka_unit_test(test_checkpoint_when_due_then_saved_told_and_the_oldest_removed),
    cmocka_unit_test(test_checkpoint_when_another_run_saved_there_then_refused),
    cmocka_unit_test(test_checkpoint_when_read_elsewhere_then_another_folder_is_left_alone),
    cmocka_unit_test(test_checkpoint_when_an_ended_run_left_halves_then_they_are_swept_out),
    cmocka_unit_test(test_roll_back_when_called_then_weights_are_old_and_counters_are_not),
    cmocka_unit_test(test_read_when_any_byte_is_turned_over_then_damage_is_found),
    cmocka_unit_test(test_load_when_damaged_then_refused_and_nothing_has_changed),
    cmocka_unit_test(test_load_when_counters_are_below_zero_then_refused),
    cmocka_unit_test(test_find_when_the_newest_are_damaged_then_the_one_before),
};
MPT_TEST_MAIN(cases)
