/* Weights from a checkpoint: by name, whatever its root, its shards and its types. */
#include "weights_case.h"

static void test_load_when_gpt2_then_matrices_are_transposed(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    stored_list *file = stored_read(c.ctx, ORACLE("gpt2"));
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, ORACLE("gpt2")));
    const float *stored = file->data[stored_find(file, "transformer.h.1.attn.c_attn.weight")];
    mpt_param_view qkv = weights_param(&c, "h.1.attn.c_attn.weight");
    for (int64_t out = 0; out < 96; out++)
        for (int64_t in = 0; in < 32; in++)
            assert_true(qkv.data[out * 32 + in] == stored[in * 96 + out]);
    mpt_param_view wte = weights_param(&c, "wte.weight");
    assert_memory_equal(wte.data, file->data[stored_find(file, "transformer.wte.weight")],
                        96 * 32 * sizeof(float));
    stored_free(file);
    weights_close(&c);
}

/* The parts of a fused layer lie below one another, weights and biases alike. */
static void parts_are_one(const weights_case *c, const stored_list *file, const char *stem,
                          const char *end, int64_t columns) {
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    static const int64_t first[] = {0, 32, 48, 64};
    char name[96];
    snprintf(name, sizeof name, "%sqkv_proj.%s", stem, end);
    mpt_param_view qkv = weights_param(c, name);
    assert_int_equal(qkv.dims[0], 64);
    for (int p = 0; p < 3; p++) {
        snprintf(name, sizeof name, "model.%s%s.%s", stem, parts[p], end);
        assert_memory_equal(qkv.data + first[p] * columns, file->data[stored_find(file, name)],
                            (size_t)((first[p + 1] - first[p]) * columns) * sizeof(float));
    }
}

static void test_load_when_nemotron_h_then_parts_become_one_matrix(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_NEMOTRON_H, "");
    stored_list *file = stored_read(c.ctx, ORACLE("nemotron_h"));
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, ORACLE("nemotron_h")));
    parts_are_one(&c, file, "layers.3.mixer.", "weight", 32);
    mpt_param_view conv = weights_param(&c, "layers.0.mixer.conv1d.weight");
    assert_memory_equal(conv.data,
                        file->data[stored_find(file, "model.layers.0.mixer.conv1d.weight")],
                        128 * 4 * sizeof(float));
    stored_free(file);
    weights_close(&c);
}

static void test_load_when_llama_has_biases_then_their_parts_are_joined_too(void **s) {
    (void)s;
    static const char *const parts[] = {"q", "k", "v", "o"};
    static const int64_t rows[] = {32, 16, 16, 32};
    weights_case c = weights_open(
        "require 'models.llama' { hidden_size = 32, intermediate_size = 80, num_hidden_layers "
        "= 2, num_attention_heads = 4, num_key_value_heads = 2, rms_norm_eps = 1e-5, "
        "vocab_size = 96, attention_bias = true }",
        "");
    folder f = folder_make();
    stored_list *file = stored_read(c.ctx, ORACLE("llama"));
    for (int i = 0; i < 8; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.self_attn.%s_proj.bias", i / 4,
                 parts[i % 4]);
        int at = stored_add(file, name, MPT_TENSOR_F32, 1, &rows[i % 4]);
        for (int64_t k = 0; k < rows[i % 4]; k++)
            file->data[at][k] = (float)(100 * i + k);
    }
    stored_write(c.ctx, file, f.file);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
    parts_are_one(&c, file, "layers.1.self_attn.", "weight", 32);
    parts_are_one(&c, file, "layers.1.self_attn.", "bias", 1);
    stored_free(file);
    folder_remove(&f);
    weights_close(&c);
}

/* What Python wrote comes back byte for byte. */
static void test_save_when_loaded_from_python_then_the_bytes_are_those(void **s) {
    (void)s;
    static const struct {
        const char *model, *file;
    } rows[] = {
        {WEIGHTS_GPT2, ORACLE("gpt2")},
        {WEIGHTS_LLAMA, ORACLE("llama")},
        {WEIGHTS_NEMOTRON_H, ORACLE("nemotron_h")},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        weights_case c = weights_open(rows[i].model, "");
        folder f = folder_make();
        assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, rows[i].file));
        assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.file, NULL));
        assert_same_file(f.file, rows[i].file);
        folder_remove(&f);
        weights_close(&c);
    }
}

/* The root that was read is written, whichever it was; a model's own only where none was. */
static void test_load_when_any_root_then_it_is_written_back(void **s) {
    (void)s;
    static const char *const roots[] = {"", "model.", "transformer.", "backbone."};
    for (size_t i = 0; i < MPT_COUNT(roots); i++) {
        weights_case c = weights_open(WEIGHTS_NEMOTRON_H, "");
        folder f = folder_make();
        char saved[256];
        stored_list *file = stored_read(c.ctx, ORACLE("nemotron_h"));
        stored_root(file, "model.", roots[i]);
        stored_write(c.ctx, file, f.file);
        assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
        snprintf(saved, sizeof saved, "%s/again.safetensors", f.path);
        assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, saved, NULL));
        stored_list *again = stored_read(c.ctx, saved);
        assert_int_equal(again->n, file->n);
        for (int t = 0; t < file->n; t++)
            assert_memory_equal(again->data[stored_find(again, file->names[t])], file->data[t],
                                (size_t)stored_elements(file, t) * sizeof(float));
        stored_free(again);
        stored_free(file);
        folder_remove(&f);
        weights_close(&c);
    }
}

static void test_save_when_never_loaded_then_the_models_own_root(void **s) {
    (void)s;
    static const char *const rows[][2] = {
        {WEIGHTS_GPT2, "transformer.wte.weight"},
        {WEIGHTS_NEMOTRON_H, "backbone.embeddings.weight"},
        {"require 'models.mlp' 'tiny'", "embed_tokens.weight"}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        weights_case c = weights_open(rows[i][0], "");
        folder f = folder_make();
        assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.path, NULL));
        stored_list *file = stored_read(c.ctx, f.path);
        (void)stored_find(file, rows[i][1]);
        stored_free(file);
        folder_remove(&f);
        weights_close(&c);
    }
}

/* The original gpt2 of the hub: no root, and masks that are no weights. */
static void test_load_when_masks_lie_beside_the_weights_then_passed_over(void **s) {
    (void)s;
    static const int64_t mask[] = {1, 1, 32, 32};
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    stored_list *file = stored_read(c.ctx, ORACLE("gpt2"));
    stored_root(file, "transformer.", "");
    stored_add(file, "h.0.attn.bias", MPT_TENSOR_F32, 4, mask);
    stored_add(file, "h.1.attn.bias", MPT_TENSOR_U8, 4, mask);
    stored_add(file, "h.1.attn.masked_bias", MPT_TENSOR_F32, 0, NULL);
    stored_add(file, "rotary_emb.inv_freq", MPT_TENSOR_F32, 1, mask);
    stored_write(c.ctx, file, f.file);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
    mpt_param_view wte = weights_param(&c, "wte.weight");
    assert_memory_equal(wte.data, file->data[stored_find(file, "wte.weight")],
                        96 * 32 * sizeof(float));
    stored_free(file);
    folder_remove(&f);
    weights_close(&c);
}

/* Narrower types are exact; a double is rounded once. */
static void test_load_when_of_other_types_then_as_float32(void **s) {
    (void)s;
    static const mpt_tensor_type types[] = {MPT_TENSOR_F64, MPT_TENSOR_BF16, MPT_TENSOR_F16};
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    folder f = folder_make();
    for (size_t k = 0; k < MPT_COUNT(types); k++) {
        stored_list *file = stored_read(c.ctx, ORACLE("llama"));
        for (int i = 0; i < file->n; i++)
            file->specs[i].type = types[k];
        stored_write(c.ctx, file, f.file);
        stored_list *narrow = stored_read(c.ctx, f.file);
        assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
        mpt_param_view head = weights_param(&c, "lm_head.weight");
        assert_memory_equal(head.data, narrow->data[stored_find(narrow, "lm_head.weight")],
                            96 * 32 * sizeof(float));
        stored_free(narrow);
        stored_free(file);
    }
    folder_remove(&f);
    weights_close(&c);
}

/* A tied head may be there twice, once under either name, but not with other numbers. */
static void test_load_when_the_head_is_tied_then_either_name_will_do(void **s) {
    (void)s;
    static const int64_t dims[] = {96, 32};
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    folder f = folder_make();
    char message[256];
    stored_list *file = stored_read(c.ctx, ORACLE("gpt2"));
    int wte = stored_find(file, "transformer.wte.weight");
    int head = stored_add(file, "lm_head.weight", MPT_TENSOR_F32, 2, dims);
    memcpy(file->data[head], file->data[wte], 96 * 32 * sizeof(float));
    stored_write(c.ctx, file, f.file);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
    file->data[head][5] += 1;
    file->data[head][7] += 1;
    stored_write(c.ctx, file, f.file);
    uint64_t before = weights_hash(&c);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, f.file), MPT_DATA);
    snprintf(message, sizeof message,
             "%s: 1 tensor tied but unequal: lm_head.weight and transformer.wte.weight differ "
             "in 2 of 3072",
             f.file);
    assert_string_equal(mpt_ctx_error(c.ctx)->text, message);
    assert_true(weights_hash(&c) == before);
    file->data[head][5] -= 1;
    stored_drop(file, "transformer.wte.weight");
    stored_write(c.ctx, file, f.file);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
    head = stored_find(file, "lm_head.weight");
    assert_memory_equal(weights_param(&c, "wte.weight").data, file->data[head],
                        96 * 32 * sizeof(float));
    stored_free(file);
    folder_remove(&f);
    weights_close(&c);
}

/* 8-bit weights are their codes times the scale that lies beside them. */
static void test_load_when_eight_bits_have_scales_then_multiplied(void **s) {
    (void)s;
    static const struct {
        const char *suffix;
        int rank;
        int64_t dims[2];
    } rows[] = {{"_scale_inv", 2, {1, 1}}, {"_scale", 0, {0, 0}}, {"_scale", 2, {80, 1}}};
    const char *weight = "model.layers.1.mlp.up_proj.weight";
    weights_case c = weights_open(WEIGHTS_LLAMA, "");
    folder f = folder_make();
    for (size_t k = 0; k < MPT_COUNT(rows); k++) {
        char name[96];
        stored_list *file = stored_read(c.ctx, ORACLE("llama"));
        int w = stored_find(file, weight);
        file->specs[w].type = MPT_TENSOR_F8_E4M3;
        snprintf(name, sizeof name, "%s%s", weight, rows[k].suffix);
        int scale = stored_add(file, name, MPT_TENSOR_F32, rows[k].rank, rows[k].dims);
        int64_t n = stored_elements(file, scale);
        for (int64_t i = 0; i < n; i++)
            file->data[scale][i] = 0.5f + 0.25f * (float)i;
        stored_write(c.ctx, file, f.file);
        stored_list *codes = stored_read(c.ctx, f.file);
        assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
        mpt_param_view got = weights_param(&c, "layers.1.mlp.up_proj.weight");
        const float *code = codes->data[stored_find(codes, weight)];
        for (int64_t i = 0; i < 80 * 32; i++)
            assert_true(got.data[i] == code[i] * file->data[scale][n == 80 ? i / 32 : 0]);
        stored_free(codes);
        stored_free(file);
    }
    folder_remove(&f);
    weights_close(&c);
}

/* Blocks of 128 x 128, over rows and columns that end in parts of one. */
static void test_load_when_scales_are_of_blocks_then_each_its_own(void **s) {
    (void)s;
    static const int64_t blocks[] = {2, 3};
    const char *weight = "layers.0.up_proj.weight";
    weights_case c = weights_open("require 'models.mlp' { layers = 1, width = 260, hidden = "
                                  "130 }",
                                  "");
    folder f = folder_make();
    assert_mpt_ok(c.ctx, mpt_trainer_save_weights(c.trainer, f.file, NULL));
    stored_list *file = stored_read(c.ctx, f.file);
    int w = stored_find(file, weight);
    file->specs[w].type = MPT_TENSOR_F8_E4M3;
    for (int64_t i = 0; i < 130 * 260; i++)
        file->data[w][i] = 1;
    int scale =
        stored_add(file, "layers.0.up_proj.weight_scale_inv", MPT_TENSOR_BF16, 2, blocks);
    for (int i = 0; i < 6; i++)
        file->data[scale][i] = (float)(1 << i);
    stored_write(c.ctx, file, f.file);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, f.file));
    mpt_param_view got = weights_param(&c, weight);
    for (int64_t row = 0; row < 130; row++)
        for (int64_t column = 0; column < 260; column++)
            assert_true(got.data[row * 260 + column] ==
                        (float)(1 << (row / 128 * 3 + column / 128)));
    stored_free(file);
    folder_remove(&f);
    weights_close(&c);
}

/* What was made with the old weights does not meet the new ones. */
static void test_load_when_trained_before_then_moments_and_scales_start_anew(void **s) {
    (void)s;
    const char *precision = ", precision = presets.fp8_delayed";
    weights_case c = weights_open(WEIGHTS_GPT2, precision);
    weights_case fresh = weights_open(WEIGHTS_GPT2, precision);
    mpt_step_result r;
    mpt_scale_view scale;
    assert_mpt_ok(c.ctx, mpt_trainer_step(c.trainer, NULL, &r));
    assert_mpt_ok(c.ctx, mpt_trainer_step(c.trainer, NULL, &r));
    assert_true(mpt_trainer_scale(c.trainer, 0, &scale));
    assert_true(scale.scale > 0);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, ORACLE("gpt2")));
    assert_mpt_ok(fresh.ctx, mpt_trainer_load_weights(fresh.trainer, ORACLE("gpt2")));
    assert_true(weights_hash(&c) == weights_hash(&fresh));
    weights_close(&fresh);
    weights_close(&c);
}

/* Masters that a recipe keeps in BF16 hold numbers of BF16. */
static void test_load_when_masters_are_narrow_then_rounded_to_them(void **s) {
    (void)s;
    weights_case c =
        weights_open(WEIGHTS_GPT2, ", precision = { base = bf16, state = { master = "
                                   "bf16 } }");
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, ORACLE("gpt2")));
    mpt_param_view wte = weights_param(&c, "wte.weight");
    for (int i = 0; i < 96 * 32; i++)
        assert_true((mpt_float_bits(wte.data[i]) & 0xFFFFu) == 0);
    weights_close(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_load_when_gpt2_then_matrices_are_transposed),
        cmocka_unit_test(test_load_when_nemotron_h_then_parts_become_one_matrix),
        cmocka_unit_test(test_load_when_llama_has_biases_then_their_parts_are_joined_too),
        cmocka_unit_test(test_save_when_loaded_from_python_then_the_bytes_are_those),
        cmocka_unit_test(test_load_when_any_root_then_it_is_written_back),
        cmocka_unit_test(test_save_when_never_loaded_then_the_models_own_root),
        cmocka_unit_test(test_load_when_masks_lie_beside_the_weights_then_passed_over),
        cmocka_unit_test(test_load_when_of_other_types_then_as_float32),
        cmocka_unit_test(test_load_when_the_head_is_tied_then_either_name_will_do),
        cmocka_unit_test(test_load_when_eight_bits_have_scales_then_multiplied),
        cmocka_unit_test(test_load_when_scales_are_of_blocks_then_each_its_own),
        cmocka_unit_test(test_load_when_trained_before_then_moments_and_scales_start_anew),
        cmocka_unit_test(test_load_when_masters_are_narrow_then_rounded_to_them),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
