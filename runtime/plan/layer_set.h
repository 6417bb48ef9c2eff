/* Layers by name and in words: from what a person types to layers, and from layers back to the
 * few words a person reads. Used by explain and diff. */
#ifndef MPT_PLAN_LAYER_SET_H
#define MPT_PLAN_LAYER_SET_H

#include "graph/graph.h"

/* Which layers of a graph are meant. */
typedef struct mpt_layer_set {
    const mpt_graph *graph;
    bool *in;          /* one a layer */
    const char **part; /* one a layer: the part by which a fused layer was named, or NULL */
    int n;
} mpt_layer_set;

/* An empty set in `arena`. */
mpt_status mpt_layer_set_make(mpt_arena *arena, const mpt_graph *graph, mpt_layer_set *out);
void mpt_layer_set_add(mpt_layer_set *set, int layer);

/* The layers of a name: a path, a glob on paths, a kind ("norm"), a part of a fused layer; also
 * as a checkpoint has it, with its root and ".weight". MPT_INVALID: there is none, and the
 * nearest is named. */
mpt_status mpt_layer_set_find(mpt_arena *arena, const mpt_graph *graph, const char *name,
                              mpt_layer_set *out);

/* Whether two paths differ in the block's number only; where it stands in a path, and its
 * length, 0 where there is none. */
bool mpt_same_role(const char *a, const char *b);
size_t mpt_block_number(const char *path, size_t *begin);

/* "linear in blocks 2..53 (104 layers)", "layers.{8,19..41}.mixer.o_proj (5 layers)": a..b are
 * those of that name which the model has from a to b. */
void mpt_layer_set_print(const mpt_layer_set *set, mpt_str *out);

#endif
