/* What the op_*.c files share: checks of inputs, making of outputs, the start of a backward
 * node.
 *
 * An op's file holds nothing but `const mpt_op_def mpt_op_<name>`; op.c collects them. A
 * refusal says layer, op, input, what is there and what was expected, because the one who reads
 * it has written a model and not this runtime. */
#ifndef MPT_GRAPH_OP_H
#define MPT_GRAPH_OP_H

#include "graph/graph.h"

#define MPT_OP(name, n_in, n_out, flags, summary) extern const mpt_op_def mpt_op_##name;
#include "graph/ops.def"
#undef MPT_OP

/* ---- refusals ---- */

/* "layers.3.mixer.up_proj: linear: " and then the fault. */
#define MPT_OP_FAIL(graph, node, ...)                                                          \
    mpt_op_fail((graph), (node), __FILE__, __LINE__, __VA_ARGS__)
mpt_status mpt_op_fail(const mpt_graph *graph, const mpt_node *node, const char *c_file,
                       int c_line, const char *fmt, ...) MPT_PRINTF(5, 6);

/* ---- inputs ---- */

enum { MPT_ANY = -1 }; /* a dimension that may have any size */

/* Input i of a node; NULL where it is absent. */
const mpt_value *mpt_op_in(const mpt_graph *graph, const mpt_node *node, int i);

/* Checks that input i is there, holds floating numbers and has this shape. `name` is what the
 * message calls it. */
mpt_status mpt_op_expect1(const mpt_graph *graph, const mpt_node *node, int i, const char *name,
                          int64_t d0);
mpt_status mpt_op_expect2(const mpt_graph *graph, const mpt_node *node, int i, const char *name,
                          int64_t d0, int64_t d1);
/* The same for any shape: there, and floating. */
mpt_status mpt_op_expect(const mpt_graph *graph, const mpt_node *node, int i, const char *name);
/* The shape of input i must be that of `other`. */
mpt_status mpt_op_expect_like(const mpt_graph *graph, const mpt_node *node, int i,
                              const char *name, const mpt_value *other);
/* Token numbers: rank 1, i32, d0 of them. */
mpt_status mpt_op_expect_ids(const mpt_graph *graph, const mpt_node *node, int i,
                             const char *name, int64_t d0);
/* The optional FP32 factor of a quantized operand: absent, one number, or one for each of its n
 * rows or columns in the product's output. */
mpt_status mpt_op_expect_factor(const mpt_graph *graph, const mpt_node *node, int i,
                                const char *name, int64_t n);

/* Fills batch and sequence from the graph where the caller left them out, and checks that they
 * make up `tokens` rows: for the ops that look along a sequence. */
mpt_status mpt_op_expect_sequences(const mpt_graph *graph, mpt_node *node, int64_t tokens);

/* ---- outputs ---- */

/* Makes output i in the shape, kind and dtype of `like`, whose name is the suffix to the
 * layer's path (NULL: none). An output that is there already is kept, and its shape checked. */
mpt_status mpt_op_output(mpt_graph *graph, mpt_node *node, int i, const mpt_value *like);
/* Output i is the gradient of input `of`: its shape, and its name behind "d.". */
mpt_status mpt_op_output_grad(mpt_graph *graph, mpt_node *node, int i, int of);
/* The same for a gradient that is summed in place into a parameter's gradient value. */
mpt_status mpt_op_output_sum(mpt_graph *graph, mpt_node *node, int i, int of);
/* Output 0 is input 0 itself, which the node writes in place. */
mpt_status mpt_op_output_in_place(mpt_graph *graph, mpt_node *node);

/* ---- backward ---- */

/* A gradient node for forward node n: its layer, place and attributes, no input yet. */
mpt_node mpt_op_grad_node(const mpt_node *n, mpt_op op);

/* Whether a gradient must flow into input i. */
bool mpt_op_wants(const mpt_graph *graph, const mpt_node *node, int i);

/* The gradient value of the parameter at input i, made where there is none yet. */
mpt_status mpt_op_param_grad(mpt_graph *graph, const mpt_node *node, int i,
                             mpt_value_id *out_grad);

/* Makes the value of the gradient of input i ahead of its node: for gradients that are made by
 * forward ops, which would name it after themselves. */
mpt_status mpt_op_name_grad(mpt_graph *graph, const mpt_node *node, int i,
                            mpt_value_id *out_grad);

/* Appends a gradient node and hands its first n outputs to dx[to[0]], dx[to[1]], ... where the
 * forward node's inputs of those numbers want them. */
mpt_status mpt_op_append_grad(mpt_graph *graph, const mpt_node *forward, const mpt_node *grad,
                              int n, const int *to, mpt_value_id *dx);

/* The backward rule of an op whose inputs are x, weight, [bias], the last two parameters: one
 * node of op grad_op with inputs x, weight, dy and outputs dx, dweight, [dbias]. */
mpt_status mpt_op_backward_weighted(mpt_graph *graph, int index, mpt_op grad_op,
                                    const mpt_value_id *dy, mpt_value_id *dx);

/* ---- cost ---- */

/* Bytes of all inputs and outputs in their dtypes; what is added to counts twice. */
double mpt_op_bytes(const mpt_graph *graph, const mpt_node *node);
/* Elements of input i as a double; 0 where it is absent. */
double mpt_op_in_elements(const mpt_graph *graph, const mpt_node *node, int i);

#endif
