/* Checkpoints of llm.c: their bytes, and what is refused of them. */
#include "weights_case.h"

/* Offsets of the smallest GPT-2: V 3 in 128 rows, T 2, L 2, C 4. */
#define SMALL                                                                                  \
    "require 'models.gpt2' { n_layer = 2, n_embd = 4, n_head = 2, n_positions = 16, "          \
    "vocab_size = 96 }"
enum { V = 96, PADDED = 128, T = 16, L = 2, C = 4, HEADER = 1024 };

/* Numbers of elements of the sixteen tensors, in the order of the file. */
static const int64_t sizes[] = {PADDED * C,   T *C, L *C, L *C, L * 3 * C *C, L * 3 * C,
                                L *C *C,      L *C, L *C, L *C, L * 4 * C *C, L * 4 * C,
                                L * 4 * C *C, L *C, C,    C};

static void put(unsigned char *header, int index, uint32_t value) {
    for (int i = 0; i < 4; i++)
        header[4 * index + i] = (unsigned char)(value >> (8 * i));
}

static file_bytes save(const weights_case *c, const folder *f, mpt_weight_type type,
                       char path[256]) {
    mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
    o.type = type;
    snprintf(path, 256, "%s/model.bin", f->path);
    assert_mpt_ok(c->ctx, mpt_trainer_save_weights(c->trainer, path, &o));
    return bytes_read(path);
}

static void assert_floats(const file_bytes *file, int64_t at, const float *expected,
                          int64_t n) {
    assert_true((size_t)(at + n) * sizeof(float) + HEADER <= file->size);
    assert_memory_equal(file->data + HEADER + (size_t)at * sizeof(float), expected,
                        (size_t)n * sizeof(float));
}

/* Every tensor of the second layer, where write_model of llm.c puts it. */
static void test_save_when_fp32_then_the_bytes_of_llmc(void **s) {
    (void)s;
    static const struct {
        int kind;
        const char *name;
    } layered[] = {
        {2, "h.1.ln_1.weight"},        {3, "h.1.ln_1.bias"},
        {4, "h.1.attn.c_attn.weight"}, {5, "h.1.attn.c_attn.bias"},
        {6, "h.1.attn.c_proj.weight"}, {7, "h.1.attn.c_proj.bias"},
        {8, "h.1.ln_2.weight"},        {9, "h.1.ln_2.bias"},
        {10, "h.1.mlp.c_fc.weight"},   {11, "h.1.mlp.c_fc.bias"},
        {12, "h.1.mlp.c_proj.weight"}, {13, "h.1.mlp.c_proj.bias"},
    };
    weights_case c = weights_open(SMALL, "");
    folder f = folder_make();
    char path[256];
    unsigned char header[HEADER] = {0xc6, 0xd7, 0x34, 0x01, 3, 0, 0, 0};
    int64_t starts[MPT_COUNT(sizes) + 1] = {0};
    const uint32_t fields[] = {T, V, L, 2, C, PADDED};
    for (int i = 0; i < 6; i++)
        put(header, 2 + i, fields[i]);
    for (size_t i = 0; i < MPT_COUNT(sizes); i++)
        starts[i + 1] = starts[i] + sizes[i];
    for (int p = 0; p < c.trainer->state->n_params;
         p++) /* biases and norms are alike at first */
        c.trainer->state->master[p][0] = (float)p;
    file_bytes file = save(&c, &f, MPT_WEIGHT_FP32, path);
    assert_int_equal(file.size, HEADER + (size_t)starts[MPT_COUNT(sizes)] * sizeof(float));
    assert_memory_equal(file.data, header, HEADER);
    assert_floats(&file, 0, weights_param(&c, "wte.weight").data, V * C);
    const float zeros[(PADDED - V) * C] = {0};
    assert_floats(&file, V * C, zeros, (PADDED - V) * C);
    assert_floats(&file, starts[1], weights_param(&c, "wpe.weight").data, T * C);
    for (size_t i = 0; i < MPT_COUNT(layered); i++) {
        int kind = layered[i].kind;
        int64_t n = sizes[kind] / L;
        assert_floats(&file, starts[kind] + n, weights_param(&c, layered[i].name).data, n);
    }
    assert_floats(&file, starts[14], weights_param(&c, "ln_f.weight").data, C);
    assert_floats(&file, starts[15], weights_param(&c, "ln_f.bias").data, C);
    bytes_free(&file);
    folder_remove(&f);
    weights_close(&c);
}

static void test_save_when_bf16_then_version_5_and_upper_halves(void **s) {
    (void)s;
    weights_case c = weights_open(SMALL, "");
    folder f = folder_make();
    char path[256];
    const float in[3] = {1, -2.5f, 1 + 0x3p-8f};
    static const unsigned char out[6] = {0x80, 0x3f, 0x20, 0xc0, 0x82, 0x3f};
    memcpy(c.trainer->state->master[0], in, sizeof in);
    file_bytes file = save(&c, &f, MPT_WEIGHT_BF16, path);
    assert_int_equal(file.data[4], 5);
    assert_memory_equal(file.data + HEADER, out, sizeof out);
    bytes_free(&file);
    folder_remove(&f);
    weights_close(&c);
}

/* From llm.c and back: the same bytes, and the names of Hugging Face with the model's root. */
static void test_load_when_saved_then_the_same_bytes_again(void **s) {
    (void)s;
    static const mpt_weight_type types[] = {MPT_WEIGHT_FP32, MPT_WEIGHT_BF16};
    for (size_t k = 0; k < MPT_COUNT(types); k++) {
        weights_case a = weights_open(WEIGHTS_GPT2, ""), b = weights_open(WEIGHTS_GPT2, "");
        folder f = folder_make(), g = folder_make();
        char path[256], again[256];
        assert_mpt_ok(a.ctx, mpt_trainer_load_weights(a.trainer, ORACLE("gpt2")));
        file_bytes file = save(&a, &f, types[k], path);
        memset(file.data + HEADER + 96 * 32 * (k ? 2 : 4), 0x7F, 64); /* NaN in the padding */
        bytes_write(path, file.data, file.size);
        bytes_free(&file);
        assert_mpt_ok(b.ctx, mpt_trainer_load_weights(b.trainer, path));
        file = save(&a, &f, types[k], path);
        file_bytes other = save(&b, &g, types[k], again);
        assert_int_equal(file.size, other.size);
        assert_memory_equal(file.data, other.data, file.size);
        bytes_free(&file);
        bytes_free(&other);
        if (types[k] == MPT_WEIGHT_FP32) {
            assert_mpt_ok(b.ctx, mpt_trainer_save_weights(b.trainer, g.file, NULL));
            assert_same_file(g.file, ORACLE("gpt2"));
        }
        folder_remove(&g);
        folder_remove(&f);
        weights_close(&b);
        weights_close(&a);
    }
}

/* A vocabulary that needs no padding has none. */
static void test_save_when_the_vocabulary_is_a_multiple_then_no_padding(void **s) {
    (void)s;
    weights_case c = weights_open("require 'models.gpt2' { n_layer = 1, n_embd = 4, n_head = "
                                  "2, n_positions = 16, vocab_size = 128 }",
                                  "");
    folder f = folder_make();
    char path[256];
    file_bytes file = save(&c, &f, MPT_WEIGHT_FP32, path);
    assert_memory_equal(file.data + HEADER, weights_param(&c, "wte.weight").data,
                        128 * 4 * sizeof(float));
    assert_memory_equal(file.data + HEADER + 128 * 4 * sizeof(float),
                        weights_param(&c, "wpe.weight").data, 16 * 4 * sizeof(float));
    bytes_free(&file);
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, path));
    folder_remove(&f);
    weights_close(&c);
}

static void test_load_when_the_header_is_wrong_then_refused(void **s) {
    (void)s;
    static const struct {
        int field;
        uint32_t value;
        mpt_status status;
        const char *text;
    } rows[] = {
        {0, 20240803, MPT_UNSUPPORTED,
         "of the checkpoints of llm.c, mpt reads those of GPT-2 (20240326); this one's number "
         "is 20240803"},
        {1, 4, MPT_UNSUPPORTED,
         "expected version 3 (float32) or 5 (bfloat16) of llm.c's checkpoints, not 4"},
        {1, 5, MPT_DATA, NULL}, /* half as large */
        {2, 0, MPT_DATA, NULL},
        {3, 129, MPT_DATA, NULL}, /* more than the padded vocabulary */
        {4, 0xFFFFFFFF, MPT_DATA, NULL},
        {4, 0x7FFFFFFF, MPT_DATA, NULL},
        {5, 0, MPT_DATA, NULL},
        {5, 4, MPT_DATA, "the model has 2 attention heads, and the checkpoint is of 4"},
        {6, 0x7FFFFFFF, MPT_DATA, NULL},
        {7, 0x7FFFFFFF, MPT_DATA, NULL},
        {3, 95, MPT_DATA, "1 tensor of another shape: wte.weight [95, 4], expected [96, 4]"},
    };
    weights_case c = weights_open(SMALL, "");
    folder f = folder_make();
    char path[256], expected[512];
    uint64_t before = weights_hash(&c);
    file_bytes file = save(&c, &f, MPT_WEIGHT_FP32, path);
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        unsigned char kept[HEADER];
        memcpy(kept, file.data, HEADER);
        put(file.data, rows[i].field, rows[i].value);
        bytes_write(path, file.data, file.size);
        memcpy(file.data, kept, HEADER);
        assert_int_equal(mpt_trainer_load_weights(c.trainer, path), rows[i].status);
        snprintf(expected, sizeof expected, "%s: %s", path, rows[i].text ? rows[i].text : "");
        assert_memory_equal(mpt_ctx_error(c.ctx)->text, expected, strlen(expected));
    }
    for (size_t n = 4; n < file.size; n = 2 * n + 500) {
        bytes_write(path, file.data, n);
        assert_int_equal(mpt_trainer_load_weights(c.trainer, path), MPT_DATA);
    }
    assert_true(weights_hash(&c) == before);
    bytes_free(&file);
    folder_remove(&f);
    weights_close(&c);
}

static void test_load_when_values_are_not_finite_then_named(void **s) {
    (void)s;
    weights_case c = weights_open(SMALL, "");
    folder f = folder_make();
    char path[256], expected[512];
    const uint32_t nan = 0x7FC00000;
    file_bytes file = save(&c, &f, MPT_WEIGHT_FP32, path);
    memcpy(file.data + HEADER + 8, &nan, sizeof nan);
    bytes_write(path, file.data, file.size);
    assert_int_equal(mpt_trainer_load_weights(c.trainer, path), MPT_DATA);
    snprintf(expected, sizeof expected,
             "%s: 1 tensor with values that are not finite: wte.weight (1 NaN of 384)", path);
    assert_string_equal(mpt_ctx_error(c.ctx)->text, expected);
    bytes_free(&file);
    folder_remove(&f);
    weights_close(&c);
}

/* llm.c has one model and two types. */
static void test_save_when_llmc_cannot_hold_it_then_refused(void **s) {
    (void)s;
    static const struct {
        const char *model;
        mpt_weight_type type;
        const char *text;
    } rows[] = {
        {WEIGHTS_LLAMA, MPT_WEIGHT_FP32,
         "a checkpoint of llm.c holds a GPT-2, and this model differs in 'wte.weight'"},
        {WEIGHTS_GPT2, MPT_WEIGHT_FP16, "llm.c has no float16 checkpoints"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        weights_case c = weights_open(rows[i].model, "");
        folder f = folder_make();
        char path[256], expected[512];
        mpt_save_options o = MPT_SAVE_OPTIONS_INIT;
        o.type = rows[i].type;
        snprintf(path, sizeof path, "%s/model.bin", f.path);
        assert_int_equal(mpt_trainer_save_weights(c.trainer, path, &o), MPT_UNSUPPORTED);
        snprintf(expected, sizeof expected, "%s: %s", path, rows[i].text);
        assert_string_equal(mpt_ctx_error(c.ctx)->text, expected);
        assert_int_equal(folder_count(&f), 0);
        folder_remove(&f);
        weights_close(&c);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_save_when_fp32_then_the_bytes_of_llmc),
        cmocka_unit_test(test_save_when_bf16_then_version_5_and_upper_halves),
        cmocka_unit_test(test_load_when_saved_then_the_same_bytes_again),
        cmocka_unit_test(test_save_when_the_vocabulary_is_a_multiple_then_no_padding),
        cmocka_unit_test(test_load_when_the_header_is_wrong_then_refused),
        cmocka_unit_test(test_load_when_values_are_not_finite_then_named),
        cmocka_unit_test(test_save_when_llmc_cannot_hold_it_then_refused),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
