/* Open addressing over the hash of the name; a table is at most half full, so a walk is short.
 *
 * Called by nn.c and nn_params.c when a model is drawn. */
#include "graph/name_index.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

/* The slot of the name: its own, or the free one where it belongs. */
static mpt_named *slot_of(mpt_named *slots, int n_slots, const char *name) {
    size_t mask = (size_t)n_slots - 1, at = (size_t)mpt_hash(name, strlen(name)) & mask;
    while (slots[at].name && strcmp(slots[at].name, name) != 0)
        at = (at + 1) & mask;
    return &slots[at];
}

int mpt_name_index_find(const mpt_name_index *names, const char *name) {
    if (names->n_slots == 0)
        return -1;
    const mpt_named *slot = slot_of(names->slots, names->n_slots, name);
    return slot->name ? slot->index : -1;
}

static mpt_status grow(mpt_name_index *names, mpt_arena *arena) {
    if (names->n_slots > INT32_MAX / 2)
        return MPT_OUT_OF_MEMORY;
    int n_slots = names->n_slots ? 2 * names->n_slots : FIRST_SLOTS;
    mpt_named *slots = mpt_arena_alloc(arena, sizeof *slots * (size_t)n_slots);
    if (!slots)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < names->n_slots; i++)
        if (names->slots[i].name)
            *slot_of(slots, n_slots, names->slots[i].name) = names->slots[i];
    names->slots = slots;
    names->n_slots = n_slots;
    return MPT_OK;
}

mpt_status mpt_name_index_add(mpt_name_index *names, mpt_arena *arena, const char *name,
                              int index) {
    if (names->n >= names->n_slots / 2)
        MPT_TRY(grow(names, arena));
    *slot_of(names->slots, names->n_slots, name) = (mpt_named){name, index};
    names->n++;
    return MPT_OK;
}
