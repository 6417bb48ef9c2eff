/* The word moe: a mixture of experts, drawn as the nodes that it consists of.
 *
 * The router and the experts are linear layers like any other, so that rules, quantizers,
 * factors, counts and plans see them; what is of its own is the choice (moe_route), the way to
 * the experts' rows and back (op_moe.c). A shared expert is a model's to draw and to add. Why
 * so: runtime/adr/0013-experts.md. */
#include <stdio.h>
#include <string.h>

#include "graph/nn_params.h"
#include "graph/op.h"

/* What one mixture is being drawn from. */
typedef struct drawing {
    mpt_nn *nn;
    const mpt_nn_args *args;
    mpt_attrs attrs; /* of all its nodes */
    /* What the choice has made. */
    mpt_value_id weights, rows_of_tokens, tokens_of_rows, offsets;
} drawing;

/* ---- refusals ---- */

static mpt_status refuse(const drawing *d, const char *fmt, ...) MPT_PRINTF(2, 3);

static mpt_status refuse(const drawing *d, const char *fmt, ...) {
    char text[MPT_ERROR_TEXT / 2];
    const mpt_nn *nn = d->nn;
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return MPT_FAIL(nn->graph->ctx, MPT_INVALID, nn->where, "%s%s: moe: %s",
                    nn->prefix ? nn->prefix : "", d->args->name ? d->args->name : "?", text);
}

static mpt_status check(const drawing *d) {
    const mpt_nn_args *a = d->args;
    if (!a->name || !*a->name)
        return refuse(d, "needs a name");
    if (a->n_in != 1)
        return refuse(d, "%d inputs, expected 1", a->n_in);
    if (a->attrs.experts < 1)
        return refuse(d, "experts is %d, expected at least 1", a->attrs.experts);
    if (a->attrs.top_k < 1 || a->attrs.top_k > a->attrs.experts)
        return refuse(d, "top_k is %d, expected 1 to %d", a->attrs.top_k, a->attrs.experts);
    if (a->moe.hidden < 1)
        return refuse(d, "hidden is %lld, expected at least 1", (long long)a->moe.hidden);
    return MPT_OK;
}

/* ---- nodes ---- */

/* A node of the mixture itself; its inputs are set by the caller. */
static mpt_node node_of(const drawing *d, mpt_op op, int32_t layer) {
    mpt_node node = mpt_node_make(op, MPT_PASS_FORWARD, layer);
    node.where = d->nn->where;
    node.block = d->nn->block;
    node.attrs = d->attrs;
    return node;
}

static mpt_status append(const drawing *d, const mpt_node *node, const mpt_node **out) {
    int index;
    MPT_TRY(mpt_graph_append(d->nn->graph, node, &index));
    *out = &d->nn->graph->nodes[index];
    return mpt_nn_name_outputs(d->nn, *out);
}

/* A linear layer by the last part of its path. */
static mpt_status linear(const drawing *d, const char *suffix, const mpt_nn_args *args,
                         mpt_value_id *out) {
    mpt_value_id outs[MPT_MAX_OUT];
    mpt_nn_args named = *args;
    int n_out;
    named.name = mpt_arena_printf(&d->nn->graph->arena, "%s.%s", d->args->name, suffix);
    if (!named.name)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_nn_call(d->nn, MPT_OP_linear, &named, outs, &n_out));
    *out = outs[0];
    return MPT_OK;
}

static mpt_status elementwise(const drawing *d, mpt_op op, int n_in, const mpt_value_id *in,
                              mpt_value_id *out) {
    mpt_value_id outs[MPT_MAX_OUT];
    mpt_nn_args args = {.n_in = n_in};
    int n_out;
    memcpy(args.in, in, (size_t)n_in * sizeof *in);
    MPT_TRY(mpt_nn_call(d->nn, op, &args, outs, &n_out));
    *out = outs[0];
    return MPT_OK;
}

/* ---- the parts ---- */

static mpt_status draw_choice(drawing *d) {
    const mpt_nn_args *a = d->args;
    mpt_graph *graph = d->nn->graph;
    const mpt_node *made;
    mpt_value_id logits;
    mpt_nn_args gate = {.n_in = 1,
                        .in = {a->in[0]},
                        .out_features = a->attrs.experts,
                        .router = true,
                        .init = a->init,
                        .has_init = a->has_init};
    MPT_TRY(linear(d, "gate", &gate, &logits));
    mpt_node node = node_of(d, MPT_OP_moe_route, graph->n_layers - 1);
    node.in[0] = logits;
    MPT_TRY(mpt_nn_add_params(d->nn, &node, a));
    MPT_TRY(append(d, &node, &made));
    d->attrs = made->attrs; /* what was left out is filled in */
    d->weights = made->out[0];
    d->rows_of_tokens = made->out[2];
    d->tokens_of_rows = made->out[3];
    d->offsets = made->out[4];
    return MPT_OK;
}

/* The layer `experts.PROJ` over the rows of all experts. */
static mpt_status draw_projection(const drawing *d, const char *suffix, mpt_value_id rows,
                                  int64_t width, mpt_value_id *out) {
    bool down = strcmp(suffix, "experts.down_proj") == 0 && d->args->moe.has_down_init;
    mpt_nn_args args = {.n_in = 1,
                        .in = {rows},
                        .out_features = width,
                        .offsets = d->offsets,
                        .init = down ? d->args->moe.down_init : d->args->init,
                        .has_init = down || d->args->has_init,
                        .attrs = {.experts = d->attrs.experts,
                                  .top_k = d->attrs.top_k,
                                  .align = d->attrs.align}};
    return linear(d, suffix, &args, out);
}

static mpt_status draw_experts(const drawing *d, mpt_value_id rows, int64_t width,
                               mpt_value_id *out) {
    mpt_value_id h[2];
    int64_t hidden = d->args->moe.hidden;
    if (d->args->moe.gated) {
        MPT_TRY(draw_projection(d, "experts.gate_proj", rows, hidden, &h[0]));
        MPT_TRY(draw_projection(d, "experts.up_proj", rows, hidden, &h[1]));
        MPT_TRY(elementwise(d, MPT_OP_swiglu, 2, h, &h[0]));
    } else {
        MPT_TRY(draw_projection(d, "experts.up_proj", rows, hidden, &h[0]));
        MPT_TRY(elementwise(d, MPT_OP_relu2, 1, h, &h[0]));
    }
    return draw_projection(d, "experts.down_proj", h[0], width, out);
}

static mpt_status draw(drawing *d, mpt_value_id *out) {
    const mpt_graph *graph = d->nn->graph;
    const mpt_node *made;
    mpt_value_id rows;
    mpt_value_id x = d->args->in[0];
    MPT_TRY(check(d));
    MPT_TRY(draw_choice(d));
    int64_t width = graph->values[x].dims[1];
    mpt_node node = node_of(d, MPT_OP_moe_dispatch, -1);
    node.in[0] = x;
    node.in[1] = d->tokens_of_rows;
    node.in[2] = d->rows_of_tokens;
    MPT_TRY(append(d, &node, &made));
    MPT_TRY(draw_experts(d, made->out[0], width, &rows));
    node = node_of(d, MPT_OP_moe_combine, -1);
    node.in[0] = rows;
    node.in[1] = d->weights;
    node.in[2] = d->rows_of_tokens;
    node.in[3] = d->tokens_of_rows;
    MPT_TRY(append(d, &node, &made));
    *out = made->out[0];
    return MPT_OK;
}

mpt_status mpt_nn_moe(mpt_nn *nn, const mpt_nn_args *args, mpt_value_id *out) {
    drawing d = {.nn = nn, .args = args, .attrs = args->attrs};
    d.attrs.batch = nn->graph->batch;
    d.attrs.sequence = nn->graph->sequence;
    *out = -1;
    if (nn->failed)
        return nn->graph->ctx->error.code;
    mpt_status status = draw(&d, out);
    nn->failed |= status != MPT_OK;
    return status;
}
