/* The op table, made from ops.def, and what the op_*.c files share.
 *
 * A row whose op has no mpt_op_def does not link: that is how a forgotten file is found. */
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

static const mpt_op_row rows[] = {
#define MPT_OP(name, n_in, n_out, flags, summary)                                              \
    {#name, summary, n_in, n_out, flags, &mpt_op_##name},
#include "graph/ops.def"
#undef MPT_OP
};

const mpt_op_row *mpt_op_get(mpt_op op) {
    return &rows[op];
}

mpt_op mpt_op_by_name(const char *name) {
    for (int i = 0; i < MPT_OP_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return (mpt_op)i;
    return MPT_OP_COUNT;
}

/* ---- refusals ---- */

mpt_status mpt_op_fail(const mpt_graph *graph, const mpt_node *node, const char *c_file,
                       int c_line, const char *fmt, ...) {
    char text[MPT_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bool in_layer = node->layer >= 0 && node->layer < graph->n_layers;
    return mpt_fail(graph->ctx, MPT_INVALID, node->where, c_file, c_line, "%s%s%s: %s",
                    in_layer ? graph->layers[node->layer].path : "", in_layer ? ": " : "",
                    rows[node->op].name, text);
}

enum { SHAPE_TEXT = 128 };

/* "[16, 64]"; a dimension that may have any size is '*'. */
static const char *shape_text(char *buffer, int rank, const int64_t *dims) {
    size_t at = 0;
    for (int i = 0; i < rank && at < SHAPE_TEXT; i++) {
        const char *comma = i ? ", " : "[";
        if (dims[i] == MPT_ANY)
            at += (size_t)snprintf(buffer + at, SHAPE_TEXT - at, "%s*", comma);
        else
            at += (size_t)snprintf(buffer + at, SHAPE_TEXT - at, "%s%lld", comma,
                                   (long long)dims[i]);
    }
    if (at < SHAPE_TEXT)
        snprintf(buffer + at, SHAPE_TEXT - at, "]");
    return buffer;
}

static bool shape_fits(const mpt_value *v, int rank, const int64_t *dims) {
    if (v->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (dims[i] != MPT_ANY && dims[i] != v->dims[i])
            return false;
    return true;
}

/* ---- inputs ---- */

const mpt_value *mpt_op_in(const mpt_graph *graph, const mpt_node *node, int i) {
    return node->in[i] >= 0 ? &graph->values[node->in[i]] : NULL;
}

mpt_status mpt_op_expect(const mpt_graph *graph, const mpt_node *node, int i,
                         const char *name) {
    const mpt_value *v = mpt_op_in(graph, node, i);
    if (!v)
        return MPT_OP_FAIL(graph, node, "input '%s' is missing", name);
    if (v->dtype == MPT_DTYPE_I32 || v->dtype == MPT_DTYPE_U8)
        return MPT_OP_FAIL(graph, node, "input '%s' (%s) is %s, expected a floating format",
                           name, v->name, mpt_dtype_name(v->dtype));
    return MPT_OK;
}

static mpt_status expect_shape(const mpt_graph *graph, const mpt_node *node, int i,
                               const char *name, int rank, const int64_t *dims) {
    char found[SHAPE_TEXT], expected[SHAPE_TEXT];
    const mpt_value *v = mpt_op_in(graph, node, i);
    if (shape_fits(v, rank, dims))
        return MPT_OK;
    return MPT_OP_FAIL(graph, node, "input '%s' (%s) is %s, expected %s", name, v->name,
                       shape_text(found, v->rank, v->dims), shape_text(expected, rank, dims));
}

mpt_status mpt_op_expect1(const mpt_graph *graph, const mpt_node *node, int i, const char *name,
                          int64_t d0) {
    MPT_TRY(mpt_op_expect(graph, node, i, name));
    return expect_shape(graph, node, i, name, 1, &d0);
}

mpt_status mpt_op_expect2(const mpt_graph *graph, const mpt_node *node, int i, const char *name,
                          int64_t d0, int64_t d1) {
    MPT_TRY(mpt_op_expect(graph, node, i, name));
    return expect_shape(graph, node, i, name, 2, (const int64_t[]){d0, d1});
}

mpt_status mpt_op_expect_like(const mpt_graph *graph, const mpt_node *node, int i,
                              const char *name, const mpt_value *other) {
    MPT_TRY(mpt_op_expect(graph, node, i, name));
    return expect_shape(graph, node, i, name, other->rank, other->dims);
}

mpt_status mpt_op_expect_ids(const mpt_graph *graph, const mpt_node *node, int i,
                             const char *name, int64_t d0) {
    const mpt_value *v = mpt_op_in(graph, node, i);
    if (!v)
        return MPT_OP_FAIL(graph, node, "input '%s' is missing", name);
    if (v->dtype != MPT_DTYPE_I32)
        return MPT_OP_FAIL(graph, node, "input '%s' (%s) is %s, expected i32", name, v->name,
                           mpt_dtype_name(v->dtype));
    return expect_shape(graph, node, i, name, 1, &d0);
}

mpt_status mpt_op_expect_factor(const mpt_graph *graph, const mpt_node *node, int i,
                                const char *name, int64_t n) {
    char found[SHAPE_TEXT];
    if (node->in[i] < 0)
        return MPT_OK;
    MPT_TRY(mpt_op_expect(graph, node, i, name));
    const mpt_value *v = mpt_op_in(graph, node, i);
    if (v->rank == 1 && (v->dims[0] == 1 || v->dims[0] == n))
        return MPT_OK;
    return MPT_OP_FAIL(graph, node, "input '%s' (%s) is %s, expected [1] or [%lld]", name,
                       v->name, shape_text(found, v->rank, v->dims), (long long)n);
}

mpt_status mpt_op_expect_sequences(const mpt_graph *graph, mpt_node *node, int64_t tokens) {
    mpt_attrs *a = &node->attrs;
    if (a->batch == 0 && a->sequence == 0) {
        a->batch = graph->batch;
        a->sequence = graph->sequence;
    }
    if (a->batch < 1 || a->sequence < 1 || a->batch * a->sequence != tokens)
        return MPT_OP_FAIL(graph, node, "%lld tokens are not %lld sequences of %lld",
                           (long long)tokens, (long long)a->batch, (long long)a->sequence);
    return MPT_OK;
}

/* ---- outputs ---- */

/* An output that is there: made by the caller, or being verified. */
static mpt_status check_output(const mpt_graph *graph, const mpt_node *node, int i,
                               const mpt_value *like) {
    char found[SHAPE_TEXT], expected[SHAPE_TEXT];
    if (node->out[i] < 0)
        return MPT_OP_FAIL(graph, node, "output %d is missing", i + 1);
    if (node->out[i] >= graph->n_values)
        return MPT_OP_FAIL(graph, node, "output %d is no value of this graph", i + 1);
    const mpt_value *v = &graph->values[node->out[i]];
    if (shape_fits(v, like->rank, like->dims))
        return MPT_OK;
    return MPT_OP_FAIL(graph, node, "output %d (%s) is %s, expected %s", i + 1, v->name,
                       shape_text(found, v->rank, v->dims),
                       shape_text(expected, like->rank, like->dims));
}

/* Makes output i under a full name. */
static mpt_status make_output(mpt_graph *graph, mpt_node *node, int i, const char *name,
                              const mpt_value *like) {
    node->out[i] =
        mpt_graph_value(graph, name, like->kind, like->dtype, like->rank, like->dims);
    return node->out[i] < 0 ? graph->ctx->error.code : MPT_OK;
}

mpt_status mpt_op_output(mpt_graph *graph, mpt_node *node, int i, const mpt_value *like) {
    char name[MPT_ERROR_WHERE];
    if (node->out[i] >= 0 || graph->checking)
        return check_output(graph, node, i, like);
    bool in_layer = node->layer >= 0 && node->layer < graph->n_layers;
    snprintf(name, sizeof name, "%s%s%s",
             in_layer ? graph->layers[node->layer].path : rows[node->op].name,
             like->name ? "." : "", like->name ? like->name : "");
    return make_output(graph, node, i, name, like);
}

mpt_status mpt_op_output_grad(mpt_graph *graph, mpt_node *node, int i, int of) {
    char name[MPT_ERROR_WHERE];
    mpt_value like = graph->values[node->in[of]];
    like.kind = MPT_VALUE_ACTIVATION;
    like.dtype = MPT_DTYPE_FP32;
    if (node->out[i] >= 0 || graph->checking)
        return check_output(graph, node, i, &like);
    snprintf(name, sizeof name, "d.%s", like.name);
    return make_output(graph, node, i, name, &like);
}

mpt_status mpt_op_output_sum(mpt_graph *graph, mpt_node *node, int i, int of) {
    MPT_TRY(mpt_op_output_grad(graph, node, i, of));
    mpt_value *v = &graph->values[node->out[i]];
    if (!graph->checking && v->kind == MPT_VALUE_ACTIVATION && v->producer < 0)
        v->kind = MPT_VALUE_GRAD;
    if (v->kind != MPT_VALUE_GRAD)
        return MPT_OP_FAIL(graph, node, "output %d (%s) must be a gradient to add to", i + 1,
                           v->name);
    return MPT_OK;
}

mpt_status mpt_op_output_in_place(mpt_graph *graph, mpt_node *node) {
    if (node->out[0] < 0 && !graph->checking)
        node->out[0] = node->in[0];
    if (node->out[0] != node->in[0])
        return MPT_OP_FAIL(graph, node, "output 1 must be input 1: it is written in place");
    return MPT_OK;
}

/* ---- backward ---- */

mpt_node mpt_op_grad_node(const mpt_node *n, mpt_op op) {
    mpt_node grad = mpt_node_make(op, MPT_PASS_BACKWARD, n->layer);
    grad.attrs = n->attrs;
    grad.where = n->where;
    grad.block = n->block;
    return grad;
}

bool mpt_op_wants(const mpt_graph *graph, const mpt_node *node, int i) {
    return node->in[i] >= 0 && graph->values[node->in[i]].needs_grad;
}

mpt_status mpt_op_param_grad(mpt_graph *graph, const mpt_node *node, int i,
                             mpt_value_id *out_grad) {
    const mpt_value value = graph->values[node->in[i]];
    char name[MPT_ERROR_WHERE];
    if (value.param < 0)
        return MPT_OP_FAIL(graph, node, "input %d (%s) must be a parameter", i + 1, value.name);
    if (graph->params[value.param].grad < 0) {
        snprintf(name, sizeof name, "d.%s", value.name);
        mpt_value_id id = mpt_graph_value(graph, name, MPT_VALUE_GRAD, MPT_DTYPE_FP32,
                                          value.rank, value.dims);
        if (id < 0)
            return graph->ctx->error.code;
        graph->values[id].param = value.param;
        graph->params[value.param].grad = id;
    }
    *out_grad = graph->params[value.param].grad;
    return MPT_OK;
}

mpt_status mpt_op_name_grad(mpt_graph *graph, const mpt_node *node, int i,
                            mpt_value_id *out_grad) {
    const mpt_value of = graph->values[node->in[i]];
    char name[MPT_ERROR_WHERE];
    snprintf(name, sizeof name, "d.%s", of.name);
    *out_grad =
        mpt_graph_value(graph, name, MPT_VALUE_ACTIVATION, MPT_DTYPE_FP32, of.rank, of.dims);
    return *out_grad < 0 ? graph->ctx->error.code : MPT_OK;
}

mpt_status mpt_op_append_grad(mpt_graph *graph, const mpt_node *forward, const mpt_node *grad,
                              int n, const int *to, mpt_value_id *dx) {
    int index;
    MPT_TRY(mpt_graph_append(graph, grad, &index));
    for (int i = 0; i < n; i++)
        if (mpt_op_wants(graph, forward, to[i]))
            dx[to[i]] = graph->nodes[index].out[i];
    return MPT_OK;
}

mpt_status mpt_op_backward_weighted(mpt_graph *graph, int index, mpt_op grad_op,
                                    const mpt_value_id *dy, mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index]; /* appending may move the list */
    mpt_node grad = mpt_op_grad_node(&n, grad_op);
    grad.in[0] = n.in[0];
    grad.in[1] = n.in[1];
    grad.in[2] = dy[0];
    MPT_TRY(mpt_op_param_grad(graph, &n, 1, &grad.out[1]));
    if (n.n_in > 2 && n.in[2] >= 0)
        MPT_TRY(mpt_op_param_grad(graph, &n, 2, &grad.out[2]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

/* ---- cost ---- */

static double value_bytes(const mpt_value *v) {
    return (double)mpt_value_elements(v) * mpt_dtype_bits(v->dtype) / 8;
}

double mpt_op_bytes(const mpt_graph *graph, const mpt_node *node) {
    double bytes = 0;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            bytes += value_bytes(&graph->values[node->in[i]]);
    for (int i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0)
            continue;
        const mpt_value *v = &graph->values[node->out[i]];
        bytes += value_bytes(v) * (v->kind == MPT_VALUE_GRAD ? 2 : 1);
    }
    return bytes;
}

double mpt_op_in_elements(const mpt_graph *graph, const mpt_node *node, int i) {
    return node->in[i] >= 0 ? (double)mpt_value_elements(&graph->values[node->in[i]]) : 0;
}
