/* The map from parameters to the tensors of a checkpoint: weights.h says what they are.
 *
 * Layer paths are the names of Hugging Face, so only four things need rules: parts of a fused
 * layer, experts, stored transposes and tied weights. Next: weights_load.c. */
#include "train/weights.h"

#include <string.h>

/* ---- names ---- */

/* "layers.3.mixer.qkv_proj.weight" with part q_proj: "layers.3.mixer.q_proj.weight". What takes
 * the part's place is the last word of the layer's path; `name` may have an expert's number. */
static const char *part_name(mpt_weights_map *map, const mpt_weight *whole, const char *part) {
    const mpt_param *param = &map->graph->params[whole->param];
    const char *path = map->graph->layers[param->layer].path, *dot = strrchr(path, '.');
    const char *suffix = param->name + strlen(path);
    size_t stem = strlen(whole->name) - strlen(suffix) - strlen(dot ? dot + 1 : path);
    return mpt_arena_printf(&map->arena, "%.*s%s%s", (int)stem, whole->name, part, suffix);
}

static mpt_status add_name(mpt_weights_map *map, const mpt_layer *layer, const char *name,
                           int index) {
    if (mpt_name_index_find(&map->names, name) >= 0)
        return MPT_FAIL(map->ctx, MPT_INVALID, layer->where,
                        "%s: a checkpoint would have two tensors '%s'", layer->path, name);
    return mpt_name_index_add(&map->names, &map->arena, name, index);
}

/* ---- tensors ---- */

static mpt_status add_weight(mpt_weights_map *map, const mpt_weight *weight) {
    if (!weight->name)
        return MPT_OUT_OF_MEMORY;
    mpt_weight *weights =
        mpt_arena_grow(&map->arena, map->weights, sizeof *weights, map->n, &map->cap);
    if (!weights)
        return MPT_OUT_OF_MEMORY;
    map->weights = weights;
    weights[map->n] = *weight;
    int32_t layer = map->graph->params[weight->param].layer;
    return add_name(map, &map->graph->layers[layer], weight->name, map->n++);
}

/* The parts of rows first ... first + rows - 1 of a fused layer's parameter, or those rows as
 * they are. */
static mpt_status add_rows(mpt_weights_map *map, const mpt_weight *whole) {
    const mpt_graph *graph = map->graph;
    const mpt_param *param = &graph->params[whole->param];
    const mpt_layer *layer = &graph->layers[param->layer];
    mpt_weight part = *whole;
    if (layer->n_parts == 0)
        return add_weight(map, whole);
    for (int i = 0; i < layer->n_parts; i++) {
        part.rows = layer->part_rows[i];
        part.name = part_name(map, whole, layer->parts[i]);
        part.dims[part.transposed ? 1 : 0] = part.rows;
        MPT_TRY(add_weight(map, &part));
        part.first += part.rows;
    }
    if (part.first == whole->first + whole->rows)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(map->ctx, MPT_INVALID, layer->where,
                 "%s: the widths of its %d parts are unknown", layer->path, layer->n_parts);
    mpt_hint(map->ctx, "split its output into as many pieces as it has parts");
    return status;
}

/* The weights of experts, which lie one below the other: each a tensor, and the parts of each
 * where the layer is a fused one. */
static mpt_status add_experts(mpt_weights_map *map, const mpt_weight *whole) {
    static const char word[] = ".experts.";
    int32_t n = map->graph->params[whole->param].n_experts;
    const char *at = n > 0 ? strstr(whole->name, word) : NULL;
    mpt_weight expert = *whole;
    if (!at)
        return add_rows(map, whole);
    expert.rows = expert.dims[0] = whole->rows / n;
    for (int32_t e = 0; e < n; e++) {
        expert.first = e * expert.rows;
        expert.name = mpt_arena_printf(&map->arena, "%.*s%s%d.%s", (int)(at - whole->name),
                                       whole->name, word, (int)e, at + strlen(word));
        if (!expert.name)
            return MPT_OUT_OF_MEMORY;
        MPT_TRY(add_rows(map, &expert));
    }
    return MPT_OK;
}

static mpt_status add_param(mpt_weights_map *map, int index, mpt_weights_layout layout) {
    const mpt_graph *graph = map->graph;
    const mpt_param *param = &graph->params[index];
    const mpt_value *value = &graph->values[param->value];
    mpt_weight whole = {.name = param->name,
                        .param = index,
                        .rows = value->rank ? value->dims[0] : 1,
                        .rootless = graph->layers[param->layer].kind == MPT_LAYER_HEAD,
                        .rank = value->rank};
    memcpy(whole.dims, value->dims, sizeof whole.dims);
    if (param->transposed && layout == MPT_WEIGHTS_HF && value->rank == 2) {
        whole.transposed = true;
        whole.dims[0] = value->dims[1];
        whole.dims[1] = value->dims[0];
    }
    return add_experts(map, &whole);
}

/* ---- tied weights ---- */

/* The parameter that a linear layer multiplies with, seen through the casts of stage 5. */
static int param_of(const mpt_graph *graph, const mpt_node *node) {
    const mpt_value *value = &graph->values[node->in[1]];
    while (value->kind != MPT_VALUE_PARAM && value->producer >= 0 &&
           graph->nodes[value->producer].in[0] >= 0)
        value = &graph->values[graph->nodes[value->producer].in[0]];
    return value->kind == MPT_VALUE_PARAM ? value->param : -1;
}

static mpt_status add_alias(mpt_weights_map *map, const mpt_layer *layer, int param) {
    int weight = 0;
    while (weight < map->n && map->weights[weight].param != param)
        weight++;
    mpt_weight_alias *aliases = mpt_arena_grow(&map->arena, map->aliases, sizeof *aliases,
                                               map->n_aliases, &map->cap_aliases);
    const char *name = mpt_arena_printf(&map->arena, "%s.weight", layer->path);
    if (!aliases || !name)
        return MPT_OUT_OF_MEMORY;
    map->aliases = aliases;
    aliases[map->n_aliases] = (mpt_weight_alias){name, weight, layer->kind == MPT_LAYER_HEAD};
    return add_name(map, layer, name, map->n + map->n_aliases++);
}

/* A linear layer whose weight is another layer's. Of its nodes that of the forward pass is
 * looked at; a recomputed one says the same. */
static mpt_status add_aliases(mpt_weights_map *map) {
    const mpt_graph *graph = map->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->op != MPT_OP_linear || node->pass != MPT_PASS_FORWARD)
            continue;
        int param = param_of(graph, node);
        if (param >= 0 && graph->params[param].layer != node->layer)
            MPT_TRY(add_alias(map, &graph->layers[node->layer], param));
    }
    return MPT_OK;
}

/* ---- the map ---- */

mpt_status mpt_weights_map_create(const mpt_graph *graph, mpt_weights_layout layout,
                                  mpt_weights_map *out) {
    *out = (mpt_weights_map){.ctx = graph->ctx, .graph = graph};
    mpt_arena_init(&out->arena, graph->ctx);
    for (int i = 0; i < graph->n_params; i++)
        MPT_TRY(add_param(out, i, layout));
    return add_aliases(out);
}

void mpt_weights_map_destroy(mpt_weights_map *map) {
    mpt_arena_deinit(&map->arena);
}

const char *mpt_weights_root(const mpt_graph *graph, int index) {
    static const char *const known[] = {"", "model.", "transformer.", "backbone."};
    if (index == 0 && graph->root)
        return graph->root;
    index -= graph->root ? 1 : 0;
    return (size_t)index < MPT_COUNT(known) ? known[index] : NULL;
}

/* ---- values ---- */

int64_t mpt_weight_elements(const mpt_weight *weight) {
    int64_t n = 1;
    for (int i = 0; i < weight->rank; i++)
        n *= weight->dims[i];
    return n;
}

/* Where element i of the tensor lies in the parameter. */
static int64_t place_of(const mpt_weight *w, int64_t i) {
    int64_t in = w->dims[0], out = w->dims[1];
    return (w->first + i % out) * in + i / out;
}

/* Elements of the parameter in front of the tensor's rows. */
static int64_t elements_before(const mpt_weight *w) {
    return w->rows ? mpt_weight_elements(w) / w->rows * w->first : 0;
}

void mpt_weight_get(const mpt_weight *weight, const float *param, int64_t first, int64_t n,
                    float *out) {
    if (weight->transposed)
        for (int64_t i = 0; i < n; i++)
            out[i] = param[place_of(weight, first + i)];
    else
        memcpy(out, param + elements_before(weight) + first, (size_t)n * sizeof *out);
}

void mpt_weight_put(const mpt_weight *weight, float *param, int64_t first, int64_t n,
                    const float *in) {
    if (weight->transposed)
        for (int64_t i = 0; i < n; i++)
            param[place_of(weight, first + i)] = in[i];
    else
        memcpy(param + elements_before(weight) + first, in, (size_t)n * sizeof *in);
}
