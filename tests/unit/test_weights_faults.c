/* Checkpoints that are not the model's, and files that are no checkpoints: all that is wrong is
 * named in one error, and nothing of the trainer has changed. */
#include "weights_case.h"

#include <math.h>

static const char hint[] = "is it a checkpoint of this model and size?";

/* Writes the checkpoint and loads it; it must be refused in these words behind its name. */
static void refuse(const weights_case *c, stored_list *file, const char *text,
                   const char *way_out) {
    folder f = folder_make();
    char expected[2048];
    uint64_t before = weights_hash(c);
    stored_write(c->ctx, file, f.file);
    assert_int_equal(mpt_trainer_load_weights(c->trainer, f.file), MPT_DATA);
    snprintf(expected, sizeof expected, "%s: %s", f.file, text);
    assert_string_equal(mpt_ctx_error(c->ctx)->text, expected);
    assert_string_equal(mpt_ctx_error(c->ctx)->hint, way_out);
    assert_true(weights_hash(c) == before);
    folder_remove(&f);
}

static void test_load_when_names_and_shapes_differ_then_all_in_one_error(void **s) {
    (void)s;
    static const int64_t dims[] = {3, 4};
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    stored_list *file = stored_read(c.ctx, ORACLE("gpt2"));
    stored_drop(file, "transformer.h.0.ln_2.bias");
    stored_drop(file, "transformer.wpe.weight");
    stored_add(file, "transformer.h.2.ln_1.weight", MPT_TENSOR_F32, 1, dims);
    int qkv = stored_find(file, "transformer.h.0.attn.c_attn.weight");
    file->specs[qkv].dims[0] = 96; /* as nn.Linear has it, and not Conv1D */
    file->specs[qkv].dims[1] = 32;
    file->specs[stored_find(file, "transformer.ln_f.weight")].type = MPT_TENSOR_I32;
    refuse(&c, file,
           "2 tensors missing: transformer.wpe.weight, transformer.h.0.ln_2.bias; 1 tensor "
           "that the model lacks: transformer.h.2.ln_1.weight; 1 tensor of another shape: "
           "transformer.h.0.attn.c_attn.weight [96, 32], expected [32, 96]; 1 tensor of a type "
           "that holds no weights: transformer.ln_f.weight (I32)",
           hint);
    stored_free(file);
    weights_close(&c);
}

/* Names of two roots in one file: those of the rarer are unknown. */
static void test_load_when_roots_are_mixed_then_the_rarer_is_unknown(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_NEMOTRON_H, "");
    stored_list *file = stored_read(c.ctx, ORACLE("nemotron_h"));
    snprintf(file->names[stored_find(file, "model.norm_f.weight")], 96, "norm_f.weight");
    snprintf(file->names[stored_find(file, "lm_head.weight")], 96, "model.lm_head.weight");
    refuse(&c, file,
           "2 tensors missing: model.norm_f.weight, lm_head.weight; 2 tensors that the model "
           "lacks: model.lm_head.weight, norm_f.weight",
           hint);
    stored_free(file);
    weights_close(&c);
}

static void test_load_when_many_are_wrong_then_the_first_and_how_many(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    assert_int_equal(mpt_trainer_load_weights(c.trainer, ORACLE("nemotron_h")), MPT_DATA);
    const char *text = mpt_ctx_error(c.ctx)->text;
    assert_non_null(strstr(text, ": 20 tensors missing: "));
    assert_non_null(strstr(text, " and 12 more; 31 tensors that the model lacks: "));
    assert_non_null(strstr(text, " and 23 more"));
    weights_close(&c);
}

static void test_load_when_values_are_not_finite_then_tensors_and_counts(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    stored_list *file = stored_read(c.ctx, ORACLE("llama"));
    float *head = file->data[stored_find(file, "lm_head.weight")];
    float *k = file->data[stored_find(file, "model.layers.1.self_attn.k_proj.weight")];
    head[0] = NAN;
    head[96 * 32 - 1] = -INFINITY;
    k[7] = k[8] = INFINITY;
    refuse(&c, file,
           "2 tensors with values that are not finite: model.layers.1.self_attn.k_proj.weight "
           "(2 Inf of 512), lm_head.weight (1 NaN, 1 Inf of 3072)",
           "no training recovers from them: fetch or make the file again");
    stored_free(file);
    weights_close(&c);
}

/* A double that no float32 holds, and a scale that is none. */
static void test_load_when_numbers_become_infinite_then_said(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    stored_list *file = stored_read(c.ctx, ORACLE("llama"));
    folder f = folder_make();
    int norm = stored_find(file, "model.norm.weight");
    file->specs[norm].type = MPT_TENSOR_F64;
    stored_write(c.ctx, file, f.file);
    file_bytes bytes = bytes_read(f.file);
    const double huge = 1e300; /* doubles come first, since files are sorted by alignment */
    memcpy(bytes.data + bytes.size - (113344 - 2112) - 32 * 4 + 8, &huge, sizeof huge);
    bytes_write(f.file, bytes.data, bytes.size);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, f.file), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(c.ctx)->text, "model.norm.weight (1 Inf of 32)"));
    bytes_free(&bytes);
    folder_remove(&f);
    stored_free(file);
    weights_close(&c);
}

static void test_load_when_eight_bits_lack_their_scale_then_refused(void **s) {
    (void)s;
    static const int64_t wrong[] = {2, 1};
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    stored_list *file = stored_read(c.ctx, ORACLE("llama"));
    int o = stored_find(file, "model.layers.0.self_attn.o_proj.weight");
    int up = stored_find(file, "model.layers.1.mlp.up_proj.weight");
    file->specs[o].type = file->specs[up].type = MPT_TENSOR_F8_E4M3;
    stored_add(file, "model.layers.1.mlp.up_proj.weight_scale_inv", MPT_TENSOR_F32, 2, wrong);
    /* Beside a weight that needs none, a scale is as strange as any tensor. */
    stored_add(file, "model.layers.0.mlp.up_proj.weight_scale", MPT_TENSOR_F32, 0, NULL);
    refuse(
        &c, file,
        "1 tensor that the model lacks: model.layers.0.mlp.up_proj.weight_scale; 1 tensor of "
        "another shape: model.layers.1.mlp.up_proj.weight_scale_inv [2, 1] for a weight [80, "
        "32]; 1 tensor of 8 bits without their scale: model.layers.0.self_attn.o_proj.weight "
        "(F8_E4M3)",
        "such weights mean nothing without NAME.weight_scale_inv or NAME.weight_scale: fetch "
        "a BF16 checkpoint");
    stored_free(file);
    weights_close(&c);
}

/* Whatever is in the name, the message is a line of text. */
static void test_load_when_a_name_is_long_and_strange_then_cut_and_plain(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    stored_list *file = stored_read(c.ctx, ORACLE("llama"));
    folder f = folder_make();
    stored_add(file, "\x1b[31m%s%n", MPT_TENSOR_F32, 0, NULL);
    stored_write(c.ctx, file, f.file);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, f.file), MPT_DATA);
    assert_null(strchr(mpt_ctx_error(c.ctx)->message, '\x1b'));
    assert_non_null(strstr(mpt_ctx_error(c.ctx)->message, "[31m%s%n"));
    folder_remove(&f);
    stored_free(file);
    weights_close(&c);
}

/* Cut off anywhere, a file is refused and nothing has changed. */
static void test_load_when_cut_off_then_refused(void **s) {
    (void)s;
    static const size_t sizes[] = {0, 1, 7, 8, 9, 100, 2600, 2601, 60000, 120871};
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    file_bytes bytes = bytes_read(ORACLE("gpt2"));
    uint64_t before = weights_hash(&c);
    for (size_t i = 0; i < MPT_COUNT(sizes); i++) {
        bytes_write(f.file, bytes.data, sizes[i]);
        assert_int_equal(mpt_trainer_load_weights(c.trainer, f.file), MPT_DATA);
        assert_memory_equal(mpt_ctx_error(c.ctx)->text, f.file, strlen(f.file));
    }
    assert_true(weights_hash(&c) == before);
    bytes_free(&bytes);
    folder_remove(&f);
    weights_close(&c);
}

static void test_load_when_nothing_is_there_then_not_found(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    assert_int_equal(mpt_trainer_load_weights(c.trainer, f.file), MPT_NOT_FOUND);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, f.path), MPT_NOT_FOUND);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, ""), MPT_NOT_FOUND);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, NULL), MPT_INVALID);
    assert_int_equal(mpt_trainer_load_weights(NULL, f.file), MPT_INVALID);
    folder_remove(&f);
    weights_close(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_load_when_names_and_shapes_differ_then_all_in_one_error),
        cmocka_unit_test(test_load_when_roots_are_mixed_then_the_rarer_is_unknown),
        cmocka_unit_test(test_load_when_many_are_wrong_then_the_first_and_how_many),
        cmocka_unit_test(test_load_when_values_are_not_finite_then_tensors_and_counts),
        cmocka_unit_test(test_load_when_numbers_become_infinite_then_said),
        cmocka_unit_test(test_load_when_eight_bits_lack_their_scale_then_refused),
        cmocka_unit_test(test_load_when_a_name_is_long_and_strange_then_cut_and_plain),
        cmocka_unit_test(test_load_when_cut_off_then_refused),
        cmocka_unit_test(test_load_when_nothing_is_there_then_not_found),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
