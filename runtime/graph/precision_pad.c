/* Before stage 5: what becomes of operands that their blocks do not divide.
 *
 * A quantizer says so by pad. "zero": nothing to do here, the missing elements of edge blocks
 * count as zeros. "bf16": the slot becomes a cast to BF16, in the policy itself, so that plan,
 * coverage and graph say the same. "error": the recipe is refused. Sizes are those of the
 * micro-batch that will run.
 *
 * Experts stand one below the other: their rows in the buffer that they share, their weights in
 * one matrix. A block that does not divide them would reach from one into the next, so "zero"
 * is refused there as well. */
#include "graph/graph.h"

#include "recipe/use.h"

/* The two extents of an operand, what they count, and whether experts follow one another along
 * them. */
typedef struct extents {
    int64_t rows, k; /* k along the dot product */
    const char *rows_word, *k_word;
    bool experts_rows, experts_k;
} extents;

static const char tokens[] = "tokens", in[] = "in features", out[] = "out features";
static const char of_an_expert[] = "rows of an expert";

static extents extents_of(const mpt_graph *graph, const mpt_layer *layer, mpt_slot slot) {
    bool experts = layer->n_experts > 0;
    int64_t n = experts ? layer->align : graph->batch * graph->sequence;
    const char *n_word = experts ? of_an_expert : tokens;
    switch (slot) {
    case MPT_SLOT_FPROP_X:
        return (extents){n, layer->in_features, n_word, in, experts, false};
    case MPT_SLOT_FPROP_W:
        return (extents){layer->out_features, layer->in_features, out, in, experts, false};
    case MPT_SLOT_DGRAD_DY:
        return (extents){n, layer->out_features, n_word, out, experts, false};
    case MPT_SLOT_DGRAD_W:
        return (extents){layer->in_features, layer->out_features, in, out, false, experts};
    case MPT_SLOT_WGRAD_DY:
        return (extents){layer->out_features, n, out, n_word, false, experts};
    default:
        return (extents){layer->in_features, n, in, n_word, false, experts};
    }
}

/* An extent that does not divide into the blocks, or into the groups of the rotation. */
typedef struct misfit {
    int64_t extent;
    int32_t block; /* 0: all of it fits */
    const char *word;
    bool experts; /* zeros cannot fill the last block: it reaches into the next expert */
} misfit;

static misfit find_misfit(const mpt_quantizer *q, const extents *e) {
    bool zeros = q->pad == MPT_PAD_ZERO;
    misfit k = {e->k, 0, e->k_word, e->experts_k};
    misfit rows = {e->rows, q->block_rows, e->rows_word, e->experts_rows};
    if (q->block_cols > 0 && e->k % q->block_cols)
        k.block = q->block_cols;
    else if (q->hadamard.size > 0 && e->k % q->hadamard.size)
        k.block = q->hadamard.size;
    if (k.block > 0 && (!zeros || k.experts))
        return k;
    if (q->block_rows > 1 && e->rows % q->block_rows && (!zeros || rows.experts))
        return rows;
    return (misfit){0, 0, NULL, false};
}

static mpt_status refuse(const mpt_graph *graph, const mpt_layer *layer,
                         const mpt_policy *policy, mpt_slot slot, const misfit *m) {
    mpt_where where =
        policy->n_decided > 0 ? policy->decided_by[policy->n_decided - 1] : layer->where;
    mpt_status status =
        MPT_FAIL(graph->ctx, MPT_INVALID, where, "%s.%s.pad: %lld %s are no multiple of %d",
                 layer->path, mpt_slot_name(slot), (long long)m->extent, m->word, m->block);
    if (m->word == of_an_expert)
        mpt_hint(
            graph->ctx,
            "take pad = \"bf16\", or align = %d in the model's nn.moe: blocks may not reach "
            "from one expert into the next",
            m->block);
    else
        mpt_hint(graph->ctx, "take %spad = \"bf16\", or %s that are a multiple of %d",
                 m->experts ? "" : "pad = \"zero\" or ", m->word, m->block);
    return status;
}

/* Makes a slot BF16 and keeps why. */
static void fall_back(mpt_policy *policy, mpt_slot slot, const misfit *m) {
    mpt_quantizer *q = &policy->slot[slot];
    const char *from = q->name ? q->name : mpt_dtype_name(q->format);
    policy->fallback[slot] = (mpt_fallback){from, m->extent, m->block, m->word};
    *q = (mpt_quantizer){.name = "bf16", .format = MPT_DTYPE_BF16};
}

/* One GEMM: operands that are rotated fall back together, because a rotation of one alone would
 * not cancel. */
static mpt_status settle_gemm(const mpt_graph *graph, int layer, mpt_policy *policy,
                              const mpt_slot slots[2]) {
    misfit fit[2];
    bool fall[2] = {false, false};
    for (int i = 0; i < 2; i++) {
        const mpt_quantizer *q = &policy->slot[slots[i]];
        extents e = extents_of(graph, &graph->layers[layer], slots[i]);
        fit[i] = find_misfit(q, &e);
        if (fit[i].block == 0)
            continue;
        if (q->pad == MPT_PAD_ERROR || q->pad == MPT_PAD_ZERO)
            return refuse(graph, &graph->layers[layer], policy, slots[i], &fit[i]);
        fall[i] = q->pad == MPT_PAD_BF16;
    }
    bool rotated = policy->slot[slots[0]].hadamard.size > 0;
    bool both = rotated && (fall[0] || fall[1]);
    for (int i = 0; i < 2; i++)
        if (fall[i] || both)
            fall_back(policy, slots[i], fall[i] ? &fit[i] : &fit[!i]);
    return MPT_OK;
}

mpt_status mpt_graph_settle_pads(const mpt_graph *graph, mpt_policy *policies) {
    for (int i = 0; i < graph->n_layers; i++) {
        if (!mpt_layer_has_gemms(graph->layers[i].kind))
            continue;
        for (int g = 0; g < MPT_GEMM_COUNT; g++) {
            mpt_slot slots[2];
            mpt_gemm_slots((mpt_gemm)g, slots);
            MPT_TRY(settle_gemm(graph, i, &policies[i], slots));
        }
    }
    return MPT_OK;
}
