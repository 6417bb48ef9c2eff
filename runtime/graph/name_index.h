/* Names of a graph's layers and parameters, found without reading them all: a model of
 * thousands of blocks asks for each name that it gives. Memory is the graph's arena. */
#ifndef MPT_GRAPH_NAME_INDEX_H
#define MPT_GRAPH_NAME_INDEX_H

#include "base/base.h"

typedef struct mpt_named {
    const char *name; /* NULL: free */
    int index;
} mpt_named;

typedef struct mpt_name_index {
    int n, n_slots; /* a power of two, or 0 */
    mpt_named *slots;
} mpt_name_index;

/* The number that was added under the name, or -1. */
int mpt_name_index_find(const mpt_name_index *names, const char *name);

/* Adds a name that is not in it; the text is lent. MPT_OUT_OF_MEMORY leaves all as it was. */
mpt_status mpt_name_index_add(mpt_name_index *names, mpt_arena *arena, const char *name,
                              int index);

#endif
