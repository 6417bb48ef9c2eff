/* Composes the six slots of a rule's use, and lays one slot use over another.
 *
 * The same merge serves the words of one gemm{...} here and the cascade in resolve.c, so that a
 * field means the same inside a rule and between rules. */
#include "recipe/use.h"

#include <string.h>

#include "recipe/schema_store.h"

static const struct {
    const char *name;
    mpt_gemm gemm;
    mpt_role operand;
} slots[MPT_SLOT_COUNT] = {
    [MPT_SLOT_FPROP_X] = {"fprop.x", MPT_GEMM_FPROP, MPT_OPERAND_ACTIVATION},
    [MPT_SLOT_FPROP_W] = {"fprop.w", MPT_GEMM_FPROP, MPT_OPERAND_WEIGHT},
    [MPT_SLOT_DGRAD_DY] = {"dgrad.dy", MPT_GEMM_DGRAD, MPT_OPERAND_GRADIENT},
    [MPT_SLOT_DGRAD_W] = {"dgrad.w", MPT_GEMM_DGRAD, MPT_OPERAND_WEIGHT},
    [MPT_SLOT_WGRAD_DY] = {"wgrad.dy", MPT_GEMM_WGRAD, MPT_OPERAND_GRADIENT},
    [MPT_SLOT_WGRAD_X] = {"wgrad.x", MPT_GEMM_WGRAD, MPT_OPERAND_ACTIVATION},
};
static const char *const gemm_names[MPT_GEMM_COUNT] = {"fprop", "dgrad", "wgrad"};
static const char *const operand_names[MPT_OPERAND_COUNT] = {"weight", "activation",
                                                             "gradient"};

/* ---- names ---- */

const char *mpt_slot_name(mpt_slot slot) {
    return (unsigned)slot < MPT_SLOT_COUNT ? slots[slot].name : "?";
}

const char *mpt_gemm_name(mpt_gemm gemm) {
    return (unsigned)gemm < MPT_GEMM_COUNT ? gemm_names[gemm] : "?";
}

const char *mpt_operand_name(mpt_role operand) {
    return (unsigned)operand < MPT_OPERAND_COUNT ? operand_names[operand] : "?";
}

const char *mpt_layer_kind_name(mpt_layer_kind kind) {
    static const char *const names[] = {
#define NAME(id, name, doc) name,
        MPT_LAYER_KIND_LIST(NAME)
#undef NAME
    };
    return (unsigned)kind < MPT_LAYER_KIND_COUNT ? names[kind] : "?";
}

int mpt_gemm_by_name(const char *name) {
    for (int i = 0; i < MPT_GEMM_COUNT; i++)
        if (strcmp(gemm_names[i], name) == 0)
            return i;
    return -1;
}

int mpt_operand_by_name(const char *name) {
    for (int i = 0; i < MPT_OPERAND_COUNT; i++)
        if (strcmp(operand_names[i], name) == 0)
            return i;
    return -1;
}

int mpt_slot_by_name(const char *name) {
    for (int i = 0; i < MPT_SLOT_COUNT; i++)
        if (strcmp(slots[i].name, name) == 0)
            return i;
    return -1;
}

mpt_gemm mpt_slot_gemm(mpt_slot slot) {
    return slots[slot].gemm;
}

void mpt_gemm_slots(mpt_gemm gemm, mpt_slot out[2]) {
    out[0] = (mpt_slot)(2 * (int)gemm);
    out[1] = (mpt_slot)(2 * (int)gemm + 1);
}

void mpt_operand_slots(mpt_role operand, mpt_slot out[2]) {
    int n = 0;
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (slots[s].operand == operand)
            out[n++] = (mpt_slot)s;
}

mpt_status mpt_promote_check(mpt_ctx *ctx, const char *path, int64_t promote, mpt_where where) {
    if (promote % MPT_SUM_GROUP == 0)
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s: %lld is no multiple of %d", path,
                                 (long long)promote, MPT_SUM_GROUP);
    mpt_hint(ctx, "products are summed up in groups of %d: give 128", MPT_SUM_GROUP);
    return status;
}

/* ---- merging ---- */

bool mpt_slot_use_by_name(const char *name, mpt_slot_use *out) {
    *out = (mpt_slot_use){.has_format = true};
    return mpt_quantizer_by_name(name, &out->q);
}

static bool is_said(const mpt_slot_use *use, const char *name) {
    return mpt_record_has(&mpt_record_quantizer, use,
                          mpt_record_lookup(&mpt_record_quantizer, name));
}

void mpt_slot_use_settle(mpt_slot_use *use) {
    mpt_quantizer *q = &use->q;
    if (!use->has_format || q->scale.kind == MPT_SCALING_NONE)
        return;
    if (!is_said(use, "scale_rule"))
        q->scale_rule = mpt_scale_format_rule(q->scale_format);
    if (!is_said(use, "outer") && q->scale_format != MPT_SCALE_E4M3)
        q->outer = MPT_OUTER_NONE;
}

void mpt_slot_use_merge(mpt_slot_use *under, const mpt_slot_use *over) {
    if (over->has_format) {
        *under = *over;
        return;
    }
    for (int i = 0; over->set >> i; i++) {
        const mpt_field *field = &mpt_record_quantizer.fields[i];
        if (!(over->set >> i & 1))
            continue;
        memcpy((char *)under + field->offset, (const char *)over + field->offset, field->bytes);
        under->said[i] = over->said[i];
    }
    under->set |= over->set;
    mpt_slot_use_settle(under);
}

void mpt_slot_use_place(mpt_slot_use *use, mpt_where where) {
    use->where = where;
    for (int i = 0; use->set >> i; i++)
        if (use->set >> i & 1)
            use->said[i] = where;
}

void mpt_use_from_format(const mpt_slot_use *format, mpt_use *out) {
    *out = (mpt_use){.bare = format->has_format};
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        out->slot[s] = *format;
}

void mpt_use_from_words(const mpt_gemm_words *words, mpt_use *out) {
    *out = (mpt_use){.bare = false};
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        mpt_slot_use_merge(&out->slot[s], &words->operand[slots[s].operand]);
        mpt_slot_use_merge(&out->slot[s], &words->gemm[slots[s].gemm]);
        mpt_slot_use_merge(&out->slot[s], &words->slot[s]);
    }
    memcpy(out->has_output, words->has_output, sizeof out->has_output);
    memcpy(out->output, words->output, sizeof out->output);
    memcpy(out->output_where, words->output_where, sizeof out->output_where);
    memcpy(out->has_accumulate, words->has_accumulate, sizeof out->has_accumulate);
    memcpy(out->has_promote, words->has_promote, sizeof out->has_promote);
    memcpy(out->accumulate, words->accumulate, sizeof out->accumulate);
    memcpy(out->promote, words->promote, sizeof out->promote);
}
