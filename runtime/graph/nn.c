/* The builder: from a model's forward lines to layers, parameters and nodes.
 *
 * One table says what each word takes; one function a family of ops makes its parameters.
 * Shapes are checked by the ops themselves (op_*.c), when the node is appended. Next:
 * autodiff.c. */
#include "graph/nn.h"

#include "graph/nn_params.h"
#include "graph/op.h"

#include <string.h>

typedef struct nn_word {
    mpt_op op;
    mpt_layer_kind kind;
    bool named; /* a rule or a checkpoint speaks of it, so it must have a name */
    int n_in;   /* values that the model hands in; MPT_ANY: one or more */
    int n_out;  /* values that the model gets; MPT_ANY: all */
} nn_word;

static const nn_word words[] = {
    {MPT_OP_embedding, MPT_LAYER_EMBEDDING, true, 1, 1},
    {MPT_OP_linear, MPT_LAYER_LINEAR, true, 1, 1},
    {MPT_OP_rmsnorm, MPT_LAYER_NORM, true, 1, 1},
    {MPT_OP_layernorm, MPT_LAYER_NORM, true, 1, 1},
    {MPT_OP_gated_rmsnorm, MPT_LAYER_NORM, true, 2, 1},
    {MPT_OP_attention, MPT_LAYER_ATTENTION, true, 3, 1},
    {MPT_OP_conv1d, MPT_LAYER_CONV, true, 1, 1},
    {MPT_OP_ssm_scan, MPT_LAYER_SCAN, true, 4, 1},
    {MPT_OP_gelu, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_silu, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_relu2, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_softplus, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_swiglu, MPT_LAYER_OTHER, false, 2, 1},
    {MPT_OP_softmax, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_scale, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_dropout, MPT_LAYER_OTHER, true, 1, 1},
    {MPT_OP_rope, MPT_LAYER_OTHER, false, 1, 1},
    {MPT_OP_add, MPT_LAYER_OTHER, false, 2, 1},
    {MPT_OP_mul, MPT_LAYER_OTHER, false, 2, 1},
    {MPT_OP_split, MPT_LAYER_OTHER, false, 1, MPT_ANY},
    {MPT_OP_concat, MPT_LAYER_OTHER, false, MPT_ANY, 1},
    {MPT_OP_cross_entropy, MPT_LAYER_OTHER, false, 1, 1},
};

static const nn_word *find_word(mpt_op op) {
    for (size_t i = 0; i < MPT_COUNT(words); i++)
        if (words[i].op == op)
            return &words[i];
    return NULL;
}

static const char *prefix_of(const mpt_nn *nn) {
    return nn->prefix ? nn->prefix : "";
}

/* Names are letters, digits, '_', '-' and '.' between them: what else would be a pattern in a
 * rule, or no name in a checkpoint. */
static mpt_status check_name(const mpt_nn *nn, const char *what, const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.";
    size_t n = strlen(name), good = strspn(name, allowed);
    mpt_ctx *ctx = nn->graph->ctx;
    mpt_status status;
    if (good < n && (unsigned char)name[good] > ' ' && (unsigned char)name[good] < 127)
        status = MPT_FAIL(ctx, MPT_INVALID, nn->where, "the name of a %s, '%s', has a '%c'",
                          what, name, name[good]);
    else if (good < n)
        status = MPT_FAIL(ctx, MPT_INVALID, nn->where,
                          "the name of a %s has a character of code %d at %zu", what,
                          (int)(unsigned char)name[good], good + 1);
    else if (n == 0 || name[0] == '.' || name[n - 1] == '.' || strstr(name, ".."))
        status = MPT_FAIL(ctx, MPT_INVALID, nn->where,
                          "the name of a %s, '%s', has an empty part", what, name);
    else
        return MPT_OK;
    mpt_hint(ctx, "names are letters, digits, '_' and '-', with single dots between parts");
    return status;
}

/* ---- blocks ---- */

static mpt_status block_begin(mpt_nn *nn, const char *root, int index) {
    mpt_graph *graph = nn->graph;
    if (nn->block >= 0)
        return MPT_FAIL(graph->ctx, MPT_INVALID, nn->where, "block %d begins inside block %d",
                        index, nn->block);
    if (index != graph->n_blocks)
        return MPT_FAIL(graph->ctx, MPT_INVALID, nn->where,
                        "block %d begins, expected block %d: blocks are numbered from 0, in "
                        "order",
                        index, graph->n_blocks);
    MPT_TRY(check_name(nn, "root of blocks", root));
    const char *prefix = mpt_arena_printf(&graph->arena, "%s.%d.", root, index);
    if (!prefix)
        return MPT_OUT_OF_MEMORY;
    nn->prefix = prefix;
    nn->block = index;
    graph->n_blocks++;
    return MPT_OK;
}

static mpt_status block_end(mpt_nn *nn) {
    if (nn->block < 0)
        return MPT_FAIL(nn->graph->ctx, MPT_INVALID, nn->where, "no block is open");
    nn->prefix = "";
    nn->block = -1;
    return MPT_OK;
}

/* Keeps the first failure: the calls after it would only report its consequences. */
static mpt_status guard(mpt_nn *nn, mpt_status status) {
    nn->failed |= status != MPT_OK;
    return status;
}

mpt_status mpt_nn_block_begin(mpt_nn *nn, const char *root, int index) {
    return nn->failed ? nn->graph->ctx->error.code : guard(nn, block_begin(nn, root, index));
}

mpt_status mpt_nn_block_end(mpt_nn *nn) {
    return nn->failed ? nn->graph->ctx->error.code : guard(nn, block_end(nn));
}

/* ---- inputs of the model ---- */

mpt_status mpt_nn_input(mpt_nn *nn, const char *name, mpt_value_id *slot, mpt_value_id *out) {
    if (nn->failed)
        return nn->graph->ctx->error.code;
    int64_t tokens = nn->graph->batch * nn->graph->sequence;
    if (*slot < 0)
        *slot = mpt_graph_value(nn->graph, name, MPT_VALUE_INPUT, MPT_DTYPE_I32, 1, &tokens);
    *out = *slot;
    return *slot < 0 ? guard(nn, nn->graph->ctx->error.code) : MPT_OK;
}

mpt_status mpt_nn_tokens(mpt_nn *nn, mpt_value_id *out) {
    return mpt_nn_input(nn, "tokens", &nn->graph->tokens, out);
}

mpt_status mpt_nn_vocab(mpt_nn *nn, int64_t *out) {
    *out = nn->graph->vocab;
    if (!nn->graph->vocab_unstated)
        return MPT_OK;
    mpt_status status = MPT_FAIL(nn->graph->ctx, MPT_DATA, nn->where,
                                 "the model takes the data's vocabulary, which nothing states");
    mpt_hint(nn->graph->ctx, MPT_NN_STATE_VOCAB);
    return status;
}

mpt_status mpt_nn_positions(mpt_nn *nn, mpt_value_id *out) {
    return mpt_nn_input(nn, "positions", &nn->graph->positions, out);
}

/* ---- layers ---- */

static mpt_status copy_parts(const mpt_nn *nn, mpt_layer *layer, const mpt_nn_args *args) {
    mpt_graph *graph = nn->graph;
    if (args->n_parts == 0)
        return MPT_OK;
    const char **parts = mpt_arena_alloc(&graph->arena, sizeof *parts * (size_t)args->n_parts);
    if (!parts)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < args->n_parts; i++) {
        MPT_TRY(check_name(nn, "part", args->parts[i]));
        parts[i] = mpt_arena_strdup(&graph->arena, args->parts[i]);
        if (!parts[i])
            return MPT_OUT_OF_MEMORY;
    }
    layer->part_rows =
        mpt_arena_alloc(&graph->arena, sizeof *layer->part_rows * (size_t)args->n_parts);
    if (!layer->part_rows)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < args->n_parts; i++)
        if (args->out_features % args->n_parts == 0)
            layer->part_rows[i] = args->out_features / args->n_parts;
    layer->parts = parts;
    layer->n_parts = args->n_parts;
    return MPT_OK;
}

/* A split of a fused layer's output into as many pieces as it has parts says how wide each part
 * is; without one they are alike. */
static void learn_parts(mpt_graph *graph, const mpt_node *split) {
    if (split->op != MPT_OP_split)
        return;
    int32_t producer = graph->values[split->in[0]].producer;
    int32_t layer = producer < 0 ? -1 : graph->nodes[producer].layer;
    if (layer < 0 || graph->layers[layer].n_parts != split->attrs.n_sizes)
        return;
    for (int i = 0; i < split->attrs.n_sizes; i++)
        graph->layers[layer].part_rows[i] = split->attrs.sizes[i];
}

/* Appends the layer that rules and messages will name; its index goes into the node. */
static mpt_status add_layer(mpt_nn *nn, const nn_word *word, const mpt_nn_args *args,
                            mpt_node *node) {
    mpt_graph *graph = nn->graph;
    MPT_TRY(check_name(nn, "layer", args->name));
    const char *path = mpt_arena_printf(&graph->arena, "%s%s", prefix_of(nn), args->name);
    mpt_layer *layers = mpt_arena_grow(&graph->arena, graph->layers, sizeof *layers,
                                       graph->n_layers, &graph->cap_layers);
    if (!path || !layers)
        return MPT_OUT_OF_MEMORY;
    graph->layers = layers;
    if (mpt_name_index_find(&graph->layer_names, path) >= 0)
        return MPT_FAIL(graph->ctx, MPT_INVALID, nn->where,
                        "%s: the model has a layer of this name already", path);
    mpt_layer *layer = &layers[graph->n_layers];
    *layer =
        (mpt_layer){.path = path, .kind = word->kind, .block = nn->block, .where = nn->where};
    layer->op = mpt_op_get(word->op)->name;
    if (args->head)
        layer->kind = MPT_LAYER_HEAD;
    if (args->router)
        layer->kind = MPT_LAYER_ROUTER;
    MPT_TRY(copy_parts(nn, layer, args));
    node->layer = graph->n_layers++;
    return mpt_name_index_add(&graph->layer_names, &graph->arena, path, node->layer);
}

/* ---- the call ---- */

/* Checks what holds for every word, and copies the inputs. */
static mpt_status check_call(const mpt_nn *nn, const nn_word *word, const mpt_nn_args *args,
                             mpt_node *node) {
    const mpt_graph *graph = nn->graph;
    int most = word->n_in == MPT_ANY ? MPT_MAX_PARTS : word->n_in;
    if (graph->loss >= 0)
        return MPT_OP_FAIL(graph, node, "the model has ended with cross_entropy");
    if (word->named && (!args->name || !*args->name))
        return MPT_OP_FAIL(graph, node, "needs a name");
    if (args->n_in > most || args->n_in < (word->n_in == MPT_ANY ? 1 : word->n_in))
        return MPT_OP_FAIL(graph, node, "%d inputs, expected %s%d", args->n_in,
                           word->n_in == MPT_ANY ? "1 to " : "", most);
    if (args->n_parts < 0 || args->n_parts > MPT_MAX_PARTS || args->n_parts == 1)
        return MPT_OP_FAIL(graph, node, "%d parts, expected 2 to %d", args->n_parts,
                           MPT_MAX_PARTS);
    for (int i = 0; i < args->n_in; i++) {
        if (args->in[i] < 0 || args->in[i] >= graph->n_values)
            return MPT_OP_FAIL(graph, node, "input %d is no value of this model", i + 1);
        node->in[i] = args->in[i];
    }
    return MPT_OK;
}

/* Nameless ops are called after their block, so that a dump reads well. */
mpt_status mpt_nn_name_outputs(mpt_nn *nn, const mpt_node *node) {
    for (int i = 0; node->layer < 0 && nn->block >= 0 && i < node->n_out; i++) {
        if (node->out[i] < 0)
            continue;
        mpt_value *v = &nn->graph->values[node->out[i]];
        const char *name = mpt_arena_printf(&nn->graph->arena, "%s%s", prefix_of(nn), v->name);
        if (!name)
            return MPT_OUT_OF_MEMORY;
        v->name = name;
    }
    return MPT_OK;
}

static mpt_status call(mpt_nn *nn, mpt_op op, const mpt_nn_args *args, mpt_value_id *out,
                       int *n_out) {
    mpt_graph *graph = nn->graph;
    mpt_node node = mpt_node_make(op, MPT_PASS_FORWARD, -1);
    const nn_word *word = find_word(op);
    int index;
    node.where = nn->where;
    node.block = nn->block;
    if (!word)
        return MPT_OP_FAIL(graph, &node, "no op that a model can use");
    node.attrs = args->attrs;
    node.attrs.batch = graph->batch;
    node.attrs.sequence = graph->sequence;
    MPT_TRY(check_call(nn, word, args, &node));
    if (op == MPT_OP_dropout && args->attrs.p == 0) { /* nothing is dropped: no operation */
        out[(*n_out)++] = node.in[0];
        return mpt_op_expect(graph, &node, 0, "x");
    }
    if (args->name && *args->name)
        MPT_TRY(add_layer(nn, word, args, &node));
    MPT_TRY(mpt_nn_add_params(nn, &node, args));
    if (op == MPT_OP_linear && args->attrs.experts > 0)
        node.in[5] = args->offsets;
    MPT_TRY(mpt_graph_append(graph, &node, &index));
    const mpt_node *made = &graph->nodes[index];
    MPT_TRY(mpt_nn_name_outputs(nn, made));
    learn_parts(graph, made);
    *n_out = word->n_out == MPT_ANY ? made->n_out : word->n_out;
    memcpy(out, made->out, sizeof *out * (size_t)*n_out);
    if (op == MPT_OP_cross_entropy) {
        graph->logits = made->in[0];
        graph->loss = made->out[0];
    }
    return MPT_OK;
}

mpt_status mpt_nn_call(mpt_nn *nn, mpt_op op, const mpt_nn_args *args, mpt_value_id *out,
                       int *n_out) {
    *n_out = 0;
    return nn->failed ? nn->graph->ctx->error.code : guard(nn, call(nn, op, args, out, n_out));
}
