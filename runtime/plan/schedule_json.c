/* The schedule as JSON: what `mptrun plan --schedule --json` prints.
 *
 *   {"phases": [{"name", "schedule_hash", "steps": [
 *     {"step", "pass", "layer", "op", "recomputed", "slot", "kernel", "in": [V], "out": [V],
 *      "where", for attention: "softmax", the format of its probabilities,
 *      and for quantize: "row": Q, "column": Q, "row_signs", "column_signs", for a product:
 *      "accumulate", "promote", and for what ranks send: "reduce"}]}]}
 *
 * V is {"name", "dtype", "shape"} or null where an optional operand is absent; Q is as in the
 * plan; signs are the mask of random ones, null elsewhere and where each step draws anew. One
 * phase is made, printed and freed at a time, because a large model has many steps.
 */
#include "plan/plan.h"

#include "plan/json.h"

static json_t *value_json(const mpt_graph *graph, mpt_value_id id) {
    if (id < 0)
        return json_null();
    const mpt_value *value = &graph->values[id];
    json_t *shape = json_array();
    for (int i = 0; i < value->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)value->dims[i]));
    return json_pack("{s:o, s:s, s:o}", "name", mpt_json_text(value->name ? value->name : ""),
                     "dtype", mpt_dtype_name(value->dtype), "shape", shape);
}

static json_t *values_json(const mpt_graph *graph, const mpt_value_id *ids, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        if (json_array_append_new(array, value_json(graph, ids[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *text_or_null(const char *text) {
    return text ? mpt_json_text(text) : json_null();
}

static json_t *signs_json(const mpt_phase_program *program, const mpt_node *node, bool column) {
    char signs[MPT_SIGNS_TEXT];
    bool has = column ? node->attrs.has_col : node->attrs.has_row;
    return has && mpt_schedule_signs(program, node, column, signs) ? json_string(signs)
                                                                   : json_null();
}

/* Puts an object's members into another, which it gives back. */
static json_t *with(json_t *json, json_t *members) {
    int failed = json_object_update(json, members);
    json_decref(members);
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

static json_t *step_json(const mpt_phase_program *program, int index) {
    const mpt_graph *graph = program->graph;
    const mpt_step *step = &program->steps[index];
    const mpt_node *node = &graph->nodes[step->node];
    const char *layer = node->layer >= 0 ? graph->layers[node->layer].path : NULL;
    json_t *json =
        json_pack("{s:i, s:s, s:o, s:s, s:b, s:o, s:s, s:o, s:o, s:o}", "step", index, "pass",
                  mpt_pass_name(node->pass), "layer", text_or_null(layer), "op",
                  mpt_op_get(node->op)->name, "recomputed", node->recomputed, "slot",
                  text_or_null(node->slot), "kernel", step->kernel->name, "in",
                  values_json(graph, node->in, node->n_in), "out",
                  values_json(graph, node->out, node->n_out), "where",
                  mpt_json_where(mpt_schedule_where(program, node)));
    const mpt_attrs *a = &node->attrs;
    bool attends = node->op == MPT_OP_attention || node->op == MPT_OP_attention_grad;
    if (json && attends)
        json_object_set_new(json, "softmax", json_string(mpt_dtype_name(a->softmax)));
    if (json && mpt_op_get(node->op)->flags & MPT_OP_MATMUL)
        return with(json, mpt_json_sum(node->attrs.sum.accumulate, node->attrs.sum.promote));
    if (json && node->op == MPT_OP_grad_reduce)
        return with(json, json_pack("{s:s}", "reduce", mpt_dtype_name(node->attrs.reduce)));
    if (json && node->op == MPT_OP_quantize_state)
        json_object_set_new(json, "row", mpt_json_quantizer(&a->row));
    if (!json || node->op != MPT_OP_quantize)
        return json;
    int failed = json_object_set_new(json, "row",
                                     a->has_row ? mpt_json_quantizer(&a->row) : json_null());
    failed |= json_object_set_new(json, "column",
                                  a->has_col ? mpt_json_quantizer(&a->col) : json_null());
    failed |= json_object_set_new(json, "row_signs", signs_json(program, node, false));
    failed |= json_object_set_new(json, "column_signs", signs_json(program, node, true));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

static mpt_status print_phase(const mpt_phase_program *program, mpt_str *out) {
    json_t *steps = json_array();
    bool failed = !steps;
    for (int i = 0; !failed && i < program->n_steps; i++)
        failed = json_array_append_new(steps, step_json(program, i)) != 0;
    if (failed) {
        json_decref(steps);
        return mpt_fail_memory(program->ctx, out->cap);
    }
    return mpt_json_print(program->ctx,
                          json_pack("{s:o, s:s, s:o}", "name", mpt_json_text(program->phase),
                                    "schedule_hash", program->schedule_hash, "steps", steps),
                          out);
}

mpt_status mpt_plan_schedule_json(const mpt_program *program, mpt_str *out) {
    mpt_str_printf(out, "{\"phases\": [\n");
    for (int p = 0; p < program->n_phases; p++) {
        mpt_str_printf(out, "%s", p ? "," : "");
        MPT_TRY(print_phase(program->phases[p], out));
    }
    mpt_str_printf(out, "]}\n");
    return out->failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}
