/* Weights to a checkpoint: narrower types, folders and shards, and where it cannot be done. */
#include "weights_case.h"

#include <math.h>
#include <sys/stat.h>

static mpt_save_options of_type(mpt_weight_type type) {
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.type = type;
    return o;
}

static void test_save_when_narrower_then_rounded_to_nearest_even(void **s) {
    (void)s;
    static const struct {
        mpt_weight_type type;
        mpt_tensor_type stored;
        float in[4], out[4];
    } rows[] = {
        /* 8 and 11 significant bits; halves go to the even neighbour. */
        {MPT_WEIGHT_BF16,
         MPT_TENSOR_BF16,
         {1 + 0x1p-8f, 1 + 0x3p-8f, -0.0f, 0x1.FEp127f},
         {1, 1 + 0x1p-6f, -0.0f, 0x1.FEp127f}},
        {MPT_WEIGHT_FP16,
         MPT_TENSOR_F16,
         {1 + 0x1p-11f, 1 + 0x3p-11f, 0x1p-25f, 65519},
         {1, 1 + 0x1p-9f, 0, 65504}},
    };
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    for (size_t k = 0; k < MPT_COUNT(rows); k++) {
        mpt_save_options o = of_type(rows[k].type);
        memcpy(c.trainer->state->master[0], rows[k].in, sizeof rows[k].in);
        assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.file, &o));
        stored_list *file = stored_read(c.ctx, f.file);
        int wte = stored_find(file, "transformer.wte.weight");
        assert_int_equal(file->specs[wte].type, rows[k].stored);
        assert_memory_equal(file->data[wte], rows[k].out, sizeof rows[k].out);
        stored_free(file);
    }
    folder_remove(&f);
    weights_close(&c);
}

static void test_save_when_too_large_for_the_type_then_named_and_nothing_written(void **s) {
    (void)s;
    static const struct {
        mpt_weight_type type;
        float value;
        const char *text, *hint;
    } rows[] = {
        {MPT_WEIGHT_FP16, 65520, "fp16: wte.weight (1 of 3072)", "write them as fp32 or bf16"},
        {MPT_WEIGHT_BF16, 0x1.FFp127f, "bf16: wte.weight (1 of 3072)", "write them as fp32"},
    };
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    for (size_t k = 0; k < MPT_COUNT(rows); k++) {
        char expected[512];
        mpt_save_options o = of_type(rows[k].type);
        c.trainer->state->master[0][9] = rows[k].value;
        assert_int_equal(mpt_trainer_save_weights(c.trainer, f.file, &o), MPT_DATA);
        snprintf(expected, sizeof expected, "%s: too large for %s", f.file, rows[k].text);
        assert_string_equal(mpt_ctx_error(c.ctx)->text, expected);
        assert_string_equal(mpt_ctx_error(c.ctx)->hint, rows[k].hint);
        assert_int_equal(folder_count(&f), 0);
    }
    /* What is not finite already is written as it is. */
    c.trainer->state->master[0][9] = INFINITY;
    c.trainer->state->master[0][10] = NAN;
    mpt_save_options o = of_type(MPT_WEIGHT_FP16);
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.file, &o));
    stored_list *file = stored_read(c.ctx, f.file);
    const float *wte = file->data[stored_find(file, "transformer.wte.weight")];
    assert_true(isinf(wte[9]) && isnan(wte[10]));
    stored_free(file);
    folder_remove(&f);
    weights_close(&c);
}

/* ---- folders ---- */

/* Every model: save, load into another run, save: the same bytes, whole or in shards. */
static void test_save_when_loaded_and_saved_again_then_the_same_bytes(void **s) {
    (void)s;
    static const char *const models[] = {
        "require 'models.mlp' 'tiny'",
        "require 'models.deepseek_moe' 'tiny'",
        WEIGHTS_GPT2,
        WEIGHTS_LLAMA,
        WEIGHTS_NEMOTRON_H,
        "require 'models.transformer' { hidden_size = 32, intermediate_size = 48, "
        "num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, head_dim = "
        "8, rope_theta = 10000.0 }"};
    for (size_t i = 0; i < MPT_COUNT(models); i++) {
        weights_case a = weights_open(models[i], ""), b = weights_open(models[i], "");
        folder f = folder_make(), g = folder_make();
        mpt_step_result r;
        assert_mpt_ok(a.ctx, mpt_trainer_step(a.trainer, NULL, &r)); /* so they differ */
        assert_mpt_ok(a.ctx, mpt_trainer_save_weights(a.trainer, f.path, NULL));
        assert_mpt_ok(b.ctx, mpt_trainer_load_weights(b.trainer, f.path));
        assert_mpt_ok(b.ctx, mpt_trainer_save_weights(b.trainer, g.file, NULL));
        assert_same_file(f.file, g.file);
        folder_clear(&f);
        mpt_save_options shards = MPT_SAVE_OPTIONS_INIT;
        shards.shard_bytes = 20000;
        assert_mpt_ok(b.ctx, mpt_trainer_save_weights(b.trainer, f.path, &shards));
        assert_true(folder_count(&f) > 2);
        weights_close(&b);
        b = weights_open(models[i], "");
        assert_mpt_ok(b.ctx, mpt_trainer_load_weights(b.trainer, f.path));
        folder_clear(&f);
        assert_mpt_ok(b.ctx, mpt_trainer_save_weights(b.trainer, f.file, NULL));
        assert_same_file(f.file, g.file);
        folder_remove(&f);
        folder_remove(&g);
        weights_close(&b);
        weights_close(&a);
    }
}

static void test_save_when_sharded_then_as_hugging_face_lays_it_out(void **s) {
    (void)s;
    static const char head[] = "{\n  \"metadata\": {\n    \"total_size\": 118272\n  },\n"
                               "  \"weight_map\": {\n"
                               "    \"transformer.h.0.attn.c_attn.bias\": "
                               "\"model-00001-of-00002.safetensors\",\n";
    static const char tail[] = "    \"transformer.wte.weight\": "
                               "\"model-00001-of-00002.safetensors\"\n  }\n}\n";
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    char path[256];
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.shard_bytes = 70000;
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.path, &o));
    assert_int_equal(folder_count(&f), 3);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", f.path);
    file_bytes index = bytes_read(path);
    assert_memory_equal(index.data, head, strlen(head));
    assert_memory_equal(index.data + index.size - strlen(tail), tail, strlen(tail));
    bytes_free(&index);
    for (int i = 1; i <= 2; i++) {
        struct stat st;
        snprintf(path, sizeof path, "%s/model-%05d-of-00002.safetensors", f.path, i);
        assert_int_equal(stat(path, &st), 0);
        assert_true(st.st_size < 70000 + 4000);
    }
    folder_remove(&f);
    weights_close(&c);
}

/* One tensor that is larger than a shard has one for itself. */
static void test_save_when_tensors_are_larger_than_shards_then_one_each(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.shard_bytes = 1;
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.path, &o));
    assert_int_equal(folder_count(&f), 28 + 1);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.path));
    folder_remove(&f);
    weights_close(&c);
}

/* A folder is one model: what would make it two is refused, and what was there stays. */
static void test_save_when_another_model_is_there_then_refused(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.shard_bytes = 70000;
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.path, NULL));
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.path, &o), MPT_INVALID);
    assert_int_equal(folder_count(&f), 1);
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.path, NULL)); /* its own kind */
    folder_clear(&f);
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.path, &o));
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.path, &o), MPT_INVALID);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.path, NULL), MPT_INVALID);
    assert_int_equal(folder_count(&f), 3);
    folder_remove(&f);
    weights_close(&c);
}

/* Folders above are made; where it fails, none of them is new. */
static void test_save_when_the_folder_is_not_there_then_made(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    char path[256];
    snprintf(path, sizeof path, "%s/a/step-0/", f.path);
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, path, NULL));
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, path));
    snprintf(path, sizeof path, "%s/a/step-0/model.safetensors", f.path);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/a/step-0", f.path);
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/a", f.path);
    c.trainer->state->master[0][9] = 1e9f;
    mpt_save_options o = of_type(MPT_WEIGHT_FP16);
    snprintf(path, sizeof path, "%s/a/new", f.path);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, path, &o), MPT_DATA);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/a", f.path);
    assert_int_equal(rmdir(path), 0);
    folder_remove(&f);
    weights_close(&c);
}

static void test_save_when_the_path_cannot_be_written_then_the_reason(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    char path[256];
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    bytes_write(f.file, "not weights", 11);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.file, NULL), MPT_INVALID);
    snprintf(path, sizeof path, "%s/text", f.path);
    bytes_write(path, "not weights", 11);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, path, NULL), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(c.ctx)->hint,
                        "name a folder, or a file that ends in .safetensors or .bin");
    snprintf(path, sizeof path, "%s/text/below", f.path);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, path, NULL), MPT_NOT_FOUND);
    snprintf(path, sizeof path, "%s/no/such.safetensors", f.path);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, path, NULL), MPT_NOT_FOUND);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, "", NULL), MPT_NOT_FOUND);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, NULL, NULL), MPT_INVALID);
    o.type = MPT_WEIGHT_TYPE_COUNT;
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.path, &o), MPT_INVALID);
    assert_int_equal(folder_count(&f), 2);
    folder_remove(&f);
    weights_close(&c);
}

/* The third of many shards has no room: those before it are taken back. */
static void test_save_when_a_later_shard_fails_then_none_is_left(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    char path[256];
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.shard_bytes = 1;
    snprintf(path, sizeof path, "%s/model-00003-of-00028.safetensors", f.path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.path, &o), MPT_INVALID);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(folder_count(&f), 0);
    /* So are all of them where the index cannot be written. */
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", f.path);
    assert_int_equal(symlink("/no/such/folder/index.json", path), 0);
    assert_int_equal(mpt_trainer_save_weights(c.trainer, f.path, &o), MPT_NOT_FOUND);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
    weights_close(&c);
}

/* ---- without a trainer ---- */

static void test_export_when_no_weights_then_those_that_a_run_starts_from(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_NEMOTRON_H, "");
    folder f = folder_make(), g = folder_make();
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.file, NULL));
    assert_mpt_ok(c.ctx, mpt_program_export_weights(c.program, NULL, g.file, NULL));
    assert_same_file(f.file, g.file);
    /* From one root to the same root, in memory for the weights alone. */
    assert_mpt_ok(c.ctx,
                  mpt_program_export_weights(c.program, ORACLE("nemotron_h"), g.file, NULL));
    assert_same_file(ORACLE("nemotron_h"), g.file);
    assert_int_equal(mpt_program_export_weights(c.program, ORACLE("gpt2"), g.file, NULL),
                     MPT_DATA);
    assert_same_file(ORACLE("nemotron_h"), g.file);
    assert_int_equal(mpt_program_export_weights(c.program, NULL, NULL, NULL), MPT_INVALID);
    assert_int_equal(mpt_program_export_weights(NULL, NULL, g.file, NULL), MPT_INVALID);
    folder_remove(&g);
    folder_remove(&f);
    weights_close(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_save_when_narrower_then_rounded_to_nearest_even),
        cmocka_unit_test(test_save_when_too_large_for_the_type_then_named_and_nothing_written),
        cmocka_unit_test(test_save_when_loaded_and_saved_again_then_the_same_bytes),
        cmocka_unit_test(test_save_when_sharded_then_as_hugging_face_lays_it_out),
        cmocka_unit_test(test_save_when_tensors_are_larger_than_shards_then_one_each),
        cmocka_unit_test(test_save_when_another_model_is_there_then_refused),
        cmocka_unit_test(test_save_when_the_folder_is_not_there_then_made),
        cmocka_unit_test(test_save_when_the_path_cannot_be_written_then_the_reason),
        cmocka_unit_test(test_save_when_a_later_shard_fails_then_none_is_left),
        cmocka_unit_test(test_export_when_no_weights_then_those_that_a_run_starts_from),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
