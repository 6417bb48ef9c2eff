/* Weights from a checkpoint: by name, whatever its root, its shards and its types; wrong ones
 * are named all at once, and then nothing has changed. */
#include "weights_case.h"

static const struct {
    const char *model, *file;
} oracles[] = {
    {WEIGHTS_GPT2, ORACLE("gpt2")},
    {WEIGHTS_NEMOTRON_H, ORACLE("nemotron_h")},
};

/* Element i of a tensor of the file. */
static float stored_at(const mpt_safetensors *file, const char *name, int64_t i) {
    const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
    float x;
    if (!t)
        fail_msg("no tensor %s", name);
    assert_true(i < t->elements && mpt_stored_tensor_floats(t, i, 1, &x));
    return x;
}

static void test_load_when_gpt2_then_matrices_are_transposed(void **s) {
    (void)s;
    weights_case c = weights_open(WEIGHTS_GPT2, "");
    mpt_safetensors *file;
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, ORACLE("gpt2")));
    assert_mpt_ok(c.ctx, mpt_safetensors_open(c.ctx, ORACLE("gpt2"), &file));
    mpt_param_view qkv = weights_param(&c, "h.1.attn.c_attn.weight");
    for (int64_t out = 0; out < 96; out++)
        for (int64_t in = 0; in < 32; in++)
            assert_true(qkv.data[out * 32 + in] ==
                        stored_at(file, "transformer.h.1.attn.c_attn.weight", in * 96 + out));
    mpt_param_view wte = weights_param(&c, "wte.weight");
    for (int64_t i = 0; i < 96 * 32; i++)
        assert_true(wte.data[i] == stored_at(file, "transformer.wte.weight", i));
    mpt_safetensors_close(file);
    weights_close(&c);
}

static void test_load_when_nemotron_h_then_parts_become_one_matrix(void **s) {
    (void)s;
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    static const int64_t first[] = {0, 32, 48, 64};
    weights_case c = weights_open(WEIGHTS_NEMOTRON_H, "");
    mpt_safetensors *file;
    char name[64];
    assert_mpt_ok(c.ctx, mpt_trainer_load_weights(c.trainer, ORACLE("nemotron_h")));
    assert_mpt_ok(c.ctx, mpt_safetensors_open(c.ctx, ORACLE("nemotron_h"), &file));
    mpt_param_view qkv = weights_param(&c, "layers.3.mixer.qkv_proj.weight");
    assert_int_equal(qkv.dims[0], 64);
    for (int p = 0; p < 3; p++) {
        snprintf(name, sizeof name, "model.layers.3.mixer.%s.weight", parts[p]);
        for (int64_t i = 0; i < (first[p + 1] - first[p]) * 32; i++)
            assert_true(qkv.data[first[p] * 32 + i] == stored_at(file, name, i));
    }
    mpt_param_view conv = weights_param(&c, "layers.0.mixer.conv1d.weight");
    for (int64_t i = 0; i < 128 * 4; i++)
        assert_true(conv.data[i] == stored_at(file, "model.layers.0.mixer.conv1d.weight", i));
    mpt_safetensors_close(file);
    weights_close(&c);
}

static void test_load_when_of_another_model_then_all_are_named(void **s) {
    (void)s;
    weights_case c = weights_open(oracles[0].model, "");
    assert_int_equal(mpt_trainer_load_weights(c.trainer, oracles[1].file), MPT_DATA);
    print_message("%s\n", mpt_ctx_error(c.ctx)->message);
    weights_close(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(test_load_when_gpt2_then_matrices_are_transposed),
        cmocka_unit_test(test_load_when_nemotron_h_then_parts_become_one_matrix),
        cmocka_unit_test(test_load_when_of_another_model_then_all_are_named),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
