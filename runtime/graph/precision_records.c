/* Stage 5, last part: histories for the phase to come.
 *
 * A phase that says warm_histories finds the amaxes of those operands that it scales by their
 * history: the phase before records them beside what it computes itself. The operands are those
 * that the next phase's policies give over the same graph, so they have the names, and with
 * them the state, that the next phase will look for. What this phase scales by a history itself
 * is kept anyway. */
#include "graph/op.h"
#include "graph/precision.h"

/* Whether this phase has the operand's history already: the same layer, slot and side. */
static bool is_kept(const mpt_rewrite *r, const mpt_copy_side *side) {
    for (int c = 0; c < r->n_copies; c++)
        for (int k = MPT_SIDE_ROW; k <= MPT_SIDE_COLUMN && !r->copies[c].is_cast; k++) {
            const mpt_copy_side *own = &r->copies[c].side[k];
            if (own->wanted && own->layer == side->layer && own->slot == side->slot &&
                own->q.scale.kind == MPT_SCALING_DELAYED)
                return true;
        }
    return false;
}

static mpt_status add_recording(mpt_rewrite *r, const mpt_copy *copy, int side) {
    mpt_recording *grown = mpt_arena_grow(&r->arena, r->recordings, sizeof *grown,
                                          r->n_recordings, &r->cap_recordings);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    r->recordings = grown;
    grown[r->n_recordings++] = (mpt_recording){.value = copy->value,
                                               .column = side == MPT_SIDE_COLUMN,
                                               .side = copy->side[side],
                                               .where = copy->where,
                                               .scale = -1,
                                               .history = -1};
    return MPT_OK;
}

static mpt_status collect(mpt_rewrite *r, const mpt_rewrite *next) {
    for (int c = 0; c < next->n_copies; c++)
        for (int k = MPT_SIDE_ROW; k <= MPT_SIDE_COLUMN && !next->copies[c].is_cast; k++) {
            const mpt_copy_side *side = &next->copies[c].side[k];
            if (side->wanted && side->q.scale.kind == MPT_SCALING_DELAYED && !is_kept(r, side))
                MPT_TRY(add_recording(r, &next->copies[c], k));
        }
    return MPT_OK;
}

mpt_status mpt_precision_find_recordings(mpt_rewrite *rewrite) {
    mpt_precision_options options = *rewrite->options;
    mpt_rewrite next = {.graph = rewrite->graph, .options = &options};
    options.policies = options.next;
    mpt_arena_init(&next.arena, rewrite->graph->ctx);
    mpt_status status = mpt_precision_find_copies(&next);
    if (status == MPT_OK)
        status = collect(rewrite, &next);
    mpt_arena_deinit(&next.arena);
    return status;
}

/* ---- nodes ---- */

mpt_status mpt_precision_record(mpt_graph *graph, mpt_recording *recording, mpt_pass pass,
                                mpt_node *out) {
    const mpt_copy_side *side = &recording->side;
    bool column = recording->column;
    int32_t index;
    MPT_TRY(mpt_precision_add_operand(graph, side, &index));
    mpt_graph_operand *operand = &graph->operands[index];
    operand->recorded = true;
    recording->scale = operand->scale;
    recording->history = operand->history;
    *out = mpt_node_make(MPT_OP_record_amax, pass, side->layer);
    out->n_in = 2;
    out->n_out = 1;
    out->in[0] = operand->history;
    out->in[1] = recording->value;
    out->where = recording->where;
    out->slot = mpt_slot_name(side->slot);
    out->attrs.has_row = !column;
    out->attrs.has_col = column;
    *(column ? &out->attrs.col : &out->attrs.row) = side->q;
    *(column ? &out->attrs.col_operand : &out->attrs.row_operand) = side->operand;
    *(column ? &out->attrs.col_scope : &out->attrs.row_scope) = side->scope;
    *(column ? &out->attrs.col_index : &out->attrs.row_index) = index;
    return mpt_op_record_amax.infer(graph, out);
}

mpt_status mpt_precision_record_update(mpt_graph *graph, const mpt_recording *recording,
                                       mpt_node *out) {
    *out = mpt_node_make(MPT_OP_scale_update, MPT_PASS_UPDATE, recording->side.layer);
    out->n_in = 2;
    out->n_out = 1;
    out->in[0] = recording->scale;
    out->in[1] = recording->history;
    out->attrs.row = recording->side.q;
    out->slot = mpt_slot_name(recording->side.slot);
    out->where = recording->where;
    return mpt_op_scale_update.infer(graph, out);
}
