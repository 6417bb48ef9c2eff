/* Stage 5, second part: which copies of which tensors the GEMMs read.
 *
 * Each linear layer has six operand slots. A slot that is a plain cast reads the value as it is
 * where its numbers fit, else one cast shared by all who want that format. Every other slot
 * reads a quantize node: one a tensor, with a row copy (blocks along the features) and a column
 * copy (blocks along the tokens, or along the rows of a weight), shared by all layers whose
 * quantizers agree. Shared copies have one amax, and where scaling is delayed one history. */
#include "graph/precision.h"

#include <stdio.h>
#include <string.h>

/* The three GEMMs with the slots of their two operands. */
static const struct {
    mpt_op op;
    mpt_slot slot[2];
} gemms[] = {
    {MPT_OP_linear, {MPT_SLOT_FPROP_X, MPT_SLOT_FPROP_W}},
    {MPT_OP_linear_dgrad, {MPT_SLOT_DGRAD_DY, MPT_SLOT_DGRAD_W}},
    {MPT_OP_linear_wgrad, {MPT_SLOT_WGRAD_DY, MPT_SLOT_WGRAD_X}},
};

mpt_slot mpt_precision_slot(mpt_op op, int operand) {
    for (size_t i = 0; i < MPT_COUNT(gemms); i++)
        if (gemms[i].op == op)
            return gemms[i].slot[operand];
    return MPT_SLOT_COUNT;
}

/* Where the dot product runs along the rows of the tensor as it is stored. */
static bool slot_is_column(mpt_slot slot) {
    return slot == MPT_SLOT_DGRAD_W || slot == MPT_SLOT_WGRAD_DY || slot == MPT_SLOT_WGRAD_X;
}

/* The slot of the same tensor whose copy runs along the rows as they are stored; a column
 * slot's quantizer may be fed from it. */
static mpt_slot row_slot_of(mpt_slot slot) {
    return slot == MPT_SLOT_DGRAD_W    ? MPT_SLOT_FPROP_W
           : slot == MPT_SLOT_WGRAD_DY ? MPT_SLOT_DGRAD_DY
           : slot == MPT_SLOT_WGRAD_X  ? MPT_SLOT_FPROP_X
                                       : slot;
}

/* Contract 9 of the numerics: low 31 bits of the hash of "layer/slot". */
static uint32_t operand_id(const char *path, mpt_slot slot) {
    char key[512];
    int n = snprintf(key, sizeof key, "%s/%s", path, mpt_slot_name(slot));
    size_t len = n < (int)sizeof key ? (size_t)n : sizeof key - 1;
    return (uint32_t)(mpt_hash(key, len) & 0x7fffffffu);
}

/* 0 for signs that all layers share, and where none are drawn. */
static uint32_t scope_id(const char *path, const mpt_hadamard *hadamard) {
    bool own = hadamard->size > 0 && hadamard->signs == MPT_SIGNS_RANDOM &&
               hadamard->scope == MPT_SCOPE_LAYER;
    return own ? (uint32_t)mpt_hash(path, strlen(path)) : 0;
}

/* Whether two readers of the same side of a tensor can read the same copy. Stochastic bits
 * belong to one operand of one layer, so those are shared by nobody else; signs that a layer
 * draws for itself keep its copies apart in the same way. */
static bool same_copy(const mpt_copy_side *a, const mpt_copy_side *b) {
    return mpt_quantizer_equal(&a->q, &b->q) && a->scope == b->scope &&
           (a->q.rounding != MPT_ROUNDING_STOCHASTIC || a->operand == b->operand);
}

/* What one slot of one layer asks for. */
typedef struct request {
    mpt_value_id value;
    mpt_copy_side side;
    bool from_row;     /* a column copy that is made from the row copy ... */
    mpt_copy_side row; /* ... that this says */
    mpt_where where;
} request;

static mpt_copy *add_copy(mpt_rewrite *r, const request *want) {
    mpt_copy *grown =
        mpt_arena_grow(&r->arena, r->copies, sizeof *r->copies, r->n_copies, &r->cap_copies);
    if (!grown)
        return NULL;
    r->copies = grown;
    mpt_copy *copy = &r->copies[r->n_copies];
    *copy = (mpt_copy){.value = want->value,
                       .next = -1,
                       .layer = want->side.layer,
                       .where = want->where,
                       .out = {-1, -1, -1, -1}};
    if (want->from_row)
        copy->side[MPT_SIDE_ROW] = want->row;
    int32_t *link = &r->first_copy[want->value];
    while (*link >= 0) /* a tensor has one copy or two */
        link = &r->copies[*link].next;
    *link = r->n_copies++;
    return copy;
}

/* Whether the row copy is what the request's column copy is made from. */
static bool row_fits(const mpt_copy *copy, const request *want) {
    const mpt_copy_side *row = &copy->side[MPT_SIDE_ROW];
    return !want->from_row || (row->wanted && same_copy(row, &want->row));
}

/* Whether `copy` serves the request as it stands; then says with which side. */
static bool serves(const mpt_copy *copy, const request *want, bool *out_column) {
    bool column = slot_is_column(want->side.slot);
    const mpt_copy_side *side = &copy->side[column], *other = &copy->side[!column];
    if (copy->is_cast)
        return false;
    *out_column = column;
    if (side->wanted && same_copy(side, &want->side) && row_fits(copy, want))
        return true;
    *out_column = !column;
    return other->wanted && mpt_quantizer_turns(&other->q, &want->side.q);
}

static mpt_status find_quantized(mpt_rewrite *r, const request *want, mpt_read *out) {
    bool column = slot_is_column(want->side.slot);
    int32_t open = -1; /* a copy whose side for this slot is still free */
    for (int32_t c = r->first_copy[want->value]; c >= 0; c = r->copies[c].next) {
        mpt_copy *copy = &r->copies[c];
        if (serves(copy, want, &out->column)) {
            out->copy = c;
            copy->slots |= 1u << want->side.slot;
            return MPT_OK;
        }
        if (open < 0 && !copy->is_cast && !copy->side[column].wanted && row_fits(copy, want))
            open = c;
    }
    if (open < 0 && !add_copy(r, want))
        return MPT_OUT_OF_MEMORY;
    *out = (mpt_read){.copy = open >= 0 ? open : r->n_copies - 1, .column = column};
    mpt_copy *copy = &r->copies[out->copy];
    copy->side[column] = want->side;
    copy->slots |= 1u << want->side.slot;
    return MPT_OK;
}

static mpt_status find_cast(mpt_rewrite *r, const request *want, mpt_read *out) {
    mpt_dtype to = want->side.q.format;
    out->copy = -1;
    if (mpt_precision_holds(to, r->graph->values[want->value].dtype))
        return MPT_OK;
    for (int32_t c = r->first_copy[want->value]; c >= 0; c = r->copies[c].next)
        if (r->copies[c].is_cast && r->copies[c].side[MPT_SIDE_ROW].q.format == to)
            out->copy = c;
    if (out->copy < 0) {
        mpt_copy *copy = add_copy(r, want);
        if (!copy)
            return MPT_OUT_OF_MEMORY;
        copy->is_cast = true;
        copy->side[MPT_SIDE_ROW] = want->side; /* a cast reads its format there */
        out->copy = r->n_copies - 1;
    }
    r->copies[out->copy].slots |= 1u << want->side.slot;
    return MPT_OK;
}

/* What a slot of a layer's policy wants of its tensor. */
static mpt_copy_side side_of(const mpt_rewrite *r, int32_t layer, mpt_slot slot) {
    const char *path = r->graph->layers[layer].path;
    mpt_copy_side side = {.wanted = true,
                          .q = r->options->policies[layer].slot[slot],
                          .layer = layer,
                          .slot = slot};
    side.operand = operand_id(path, slot);
    side.scope = scope_id(path, &side.q.hadamard);
    if (!slot_is_column(slot))
        side.q.source = MPT_SOURCE_ORIGINAL; /* it is the source */
    return side;
}

static mpt_status find_read(mpt_rewrite *r, const mpt_node *node, int operand, mpt_read *out) {
    const mpt_policy *policy = &r->options->policies[node->layer];
    mpt_slot slot = mpt_precision_slot(node->op, operand);
    request want = {.value = node->in[operand],
                    .side = side_of(r, node->layer, slot),
                    .where = MPT_NOWHERE};
    if (policy->n_decided > 0)
        want.where = policy->decided_by[policy->n_decided - 1];
    if (mpt_quantizer_is_cast(&want.side.q))
        return find_cast(r, &want, out);
    if (want.side.q.source == MPT_SOURCE_DEQUANTIZED) {
        want.row = side_of(r, node->layer, row_slot_of(slot));
        want.from_row = !mpt_quantizer_is_cast(&want.row.q);
        if (!want.from_row) /* there is nothing to dequantize */
            want.side.q.source = MPT_SOURCE_ORIGINAL;
    }
    return find_quantized(r, &want, out);
}

mpt_status mpt_precision_find_copies(mpt_rewrite *rewrite) {
    const mpt_graph *graph = rewrite->graph;
    size_t n_values = (size_t)graph->n_values, n_nodes = (size_t)graph->n_nodes;
    rewrite->first_copy = mpt_arena_alloc(&rewrite->arena, n_values * sizeof(int32_t));
    rewrite->reads = mpt_arena_alloc(&rewrite->arena, n_nodes * sizeof *rewrite->reads);
    if (!rewrite->first_copy || !rewrite->reads)
        return MPT_OUT_OF_MEMORY;
    memset(rewrite->first_copy, 0xff, n_values * sizeof(int32_t));
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        rewrite->reads[i][0].copy = rewrite->reads[i][1].copy = -1;
        if (node->layer < 0 || mpt_precision_slot(node->op, 0) == MPT_SLOT_COUNT)
            continue;
        for (int operand = 0; operand < 2; operand++)
            MPT_TRY(find_read(rewrite, node, operand, &rewrite->reads[i][operand]));
    }
    return MPT_OK;
}
