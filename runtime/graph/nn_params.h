/* The parameters that the builder makes for a layer; internal to graph/nn.c and
 * graph/nn_moe.c. */
#ifndef MPT_GRAPH_NN_PARAMS_H
#define MPT_GRAPH_NN_PARAMS_H

#include "graph/nn.h"

/* Makes the parameters of the node's op and puts them at its inputs, behind those of the model.
 * The node's layer is there already. For cross_entropy the targets, which the trainer fills. */
mpt_status mpt_nn_add_params(mpt_nn *nn, mpt_node *node, const mpt_nn_args *args);

/* Names the outputs of a node without a layer after its block. */
mpt_status mpt_nn_name_outputs(mpt_nn *nn, const mpt_node *node);

/* An input of the whole model: made at its first use, the same value ever after. */
mpt_status mpt_nn_input(mpt_nn *nn, const char *name, mpt_value_id *slot, mpt_value_id *out);

#endif
