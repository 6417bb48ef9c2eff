/* Checkpoints for the tests of the tools: a small file of many types and shapes, and what the
 * definition of a quantizer makes of one tensor, by a direct call. */
#ifndef MPT_TESTS_TOOLS_FIXTURE_H
#define MPT_TESTS_TOOLS_FIXTURE_H

#include "io/safetensors.h"
#include "kernels/quantize.h"
#include "safetensors_file.h"
#include "tools/tools.h"

/* Values much like weights: sums of three uniform ones, from a small generator. */
static inline float weight(uint32_t *state) {
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 16) * 0x1p-16f - 0.5f;
    }
    return sum;
}

static inline void put_value(mpt_tensor_type type, void *data, int64_t i, float x) {
    uint8_t *at = data;
    uint16_t wide;
    switch (type) {
    case MPT_TENSOR_F32:
        memcpy(at + 4 * i, &x, 4);
        return;
    case MPT_TENSOR_BF16:
    case MPT_TENSOR_F16:
        wide =
            (uint16_t)mpt_encode(type == MPT_TENSOR_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16, x);
        memcpy(at + 2 * i, &wide, 2);
        return;
    case MPT_TENSOR_F8_E4M3:
        at[i] = (uint8_t)mpt_encode(MPT_DTYPE_E4M3, x);
        return;
    default:
        return; /* zeros will do */
    }
}

static const mpt_tensor_spec checkpoint_specs[] = {
    {.name = "a.weight", .type = MPT_TENSOR_F32, .rank = 2, .dims = {6, 40}},
    {.name = "b.weight", .type = MPT_TENSOR_BF16, .rank = 2, .dims = {3, 35}},
    {.name = "c.weight", .type = MPT_TENSOR_F16, .rank = 3, .dims = {2, 2, 20}},
    {.name = "d.bias", .type = MPT_TENSOR_F32, .rank = 1, .dims = {24}},
    {.name = "e.scalar", .type = MPT_TENSOR_F32, .rank = 0},
    {.name = "f.ids", .type = MPT_TENSOR_I64, .rank = 1, .dims = {4}},
    {.name = "g.weight", .type = MPT_TENSOR_F8_E4M3, .rank = 2, .dims = {4, 16}},
    {.name = "h.empty", .type = MPT_TENSOR_F32, .rank = 2, .dims = {0, 4}},
};
enum { CHECKPOINT_FLOATS = 6, CHECKPOINT_OTHERS = 2 };

/* Writes tensors with such values; `change` may spoil them. */
static inline void checkpoint_write(mpt_ctx *ctx, const char *path,
                                    const mpt_tensor_spec *specs, int n,
                                    float (*change)(const char *name, int64_t i, float x)) {
    mpt_safetensors_writer *w;
    uint32_t state = 7;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, path, specs, n, NULL, &w));
    for (int s = 0; s < n; s++) {
        int64_t elements = 1;
        for (int d = 0; d < specs[s].rank; d++)
            elements *= specs[s].dims[d];
        for (int64_t i = 0; i < elements; i++) {
            float x = weight(&state);
            put_value(specs[s].type, mpt_safetensors_data(w, s), i,
                      change ? change(specs[s].name, i, x) : x);
        }
    }
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
}

static inline void checkpoint_make(mpt_ctx *ctx, const char *path) {
    checkpoint_write(ctx, path, checkpoint_specs, MPT_COUNT(checkpoint_specs), NULL);
}

/* A context, a folder, a checkpoint in it, and the path of a result. */
typedef struct rig {
    mpt_ctx *ctx;
    folder folder; /* its file is the checkpoint */
    char out[128];
} rig;

static inline rig rig_make(void) {
    rig r = {mpt_test_ctx(), folder_make(), ""};
    snprintf(r.out, sizeof r.out, "%s/out.safetensors", r.folder.path);
    checkpoint_make(r.ctx, r.folder.file);
    return r;
}

static inline void rig_end(rig *r) {
    folder_remove(&r->folder);
    assert_int_equal(mpt_ctx_memory(r->ctx).live_bytes, 0);
    mpt_ctx_destroy(r->ctx);
}

static inline mpt_safetensors *open_file(mpt_ctx *ctx, const char *path) {
    mpt_safetensors *file;
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, path, &file));
    return file;
}

static inline const mpt_stored_tensor *find(const mpt_safetensors *file, const char *name,
                                            const char *suffix) {
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", name, suffix);
    return mpt_safetensors_find(file, whole);
}

/* Asserts type and shape: have("a.weight.codes", MPT_TENSOR_U8, 2, 6, 20). */
static inline void have(const mpt_safetensors *file, const char *name, mpt_tensor_type type,
                        int rank, int64_t first, int64_t second) {
    const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
    if (!t)
        fail_msg("there is no tensor '%s'", name);
    assert_int_equal(t->type, type);
    assert_int_equal(t->rank, rank);
    if (rank > 0)
        assert_int_equal(t->dims[0], first);
    if (rank > 1)
        assert_int_equal(t->dims[1], second);
}

#endif
