/* Sets of layers: found by name, printed in few words.
 *
 * A set is printed by kind. The layers of a kind are told by their blocks where whole blocks
 * are meant, as a rule would say it, else by path, with the block numbers folded. */
#include "plan/layer_set.h"

#include <stdio.h>
#include <string.h>

#include "recipe/select.h"

enum { PATH_TEXT = 256, MOST_RANGES = 6, MOST_PATHS = 6 };

mpt_status mpt_layer_set_make(mpt_arena *arena, const mpt_graph *graph, mpt_layer_set *out) {
    size_t n = (size_t)graph->n_layers;
    *out = (mpt_layer_set){.graph = graph};
    out->in = mpt_arena_alloc(arena, n * sizeof *out->in);
    out->part = mpt_arena_alloc(arena, n * sizeof *out->part);
    return out->in && out->part ? MPT_OK : MPT_OUT_OF_MEMORY;
}

void mpt_layer_set_add(mpt_layer_set *set, int layer) {
    set->n += !set->in[layer];
    set->in[layer] = true;
}

/* ---- finding ---- */

/* Elementwise operations follow their inputs: they are meant only where they are named. */
static bool is_named(const mpt_layer *layer, const char *name) {
    mpt_layer_kind kind = mpt_selector_kind(name);
    if (kind != MPT_LAYER_KIND_COUNT)
        return layer->kind == kind;
    return strcmp(layer->path, name) == 0 ||
           (layer->kind != MPT_LAYER_OTHER && mpt_glob_match(name, layer->path));
}

/* The part that a name, or a glob, means. */
static const char *named_part(const mpt_layer *layer, const char *name) {
    char path[PATH_TEXT];
    for (int i = 0; i < layer->n_parts; i++) {
        mpt_layer_part_path(layer, i, path, sizeof path);
        if (mpt_glob_match(name, path))
            return layer->parts[i];
    }
    return NULL;
}

static void match_name(mpt_layer_set *set, const char *name) {
    for (int i = 0; i < set->graph->n_layers; i++) {
        const mpt_layer *layer = &set->graph->layers[i];
        bool whole = is_named(layer, name);
        const char *part = whole ? NULL : named_part(layer, name);
        if (!whole && !part)
            continue;
        mpt_layer_set_add(set, i);
        set->part[i] = part;
    }
}

/* A checkpoint's root, which paths leave out. */
static const char *without_root(const char *name) {
    static const char *const roots[] = {"model.", "backbone.", "transformer."};
    for (size_t i = 0; i < MPT_COUNT(roots); i++)
        if (strncmp(name, roots[i], strlen(roots[i])) == 0)
            return name + strlen(roots[i]);
    return name;
}

/* A checkpoint's last word, which paths leave out. */
static void cut_tensor(char *name) {
    static const char *const ends[] = {".weight", ".bias"};
    for (size_t i = 0; i < MPT_COUNT(ends); i++) {
        size_t n = strlen(name), length = strlen(ends[i]);
        if (n > length && strcmp(name + n - length, ends[i]) == 0)
            name[n - length] = 0;
    }
}

/* The paths of a block, or (block -1) all paths, with those of parts. */
static int list_names(mpt_arena *arena, const mpt_graph *graph, int block, const char **names) {
    char path[PATH_TEXT];
    int n = 0;
    for (int i = 0; i < graph->n_layers; i++) {
        const mpt_layer *layer = &graph->layers[i];
        if (block >= 0 && layer->block != block)
            continue;
        names[n++] = layer->path;
        for (int k = 0; k < layer->n_parts; k++) {
            mpt_layer_part_path(layer, k, path, sizeof path);
            names[n] = mpt_arena_strdup(arena, path);
            n += names[n] != NULL;
        }
    }
    return n;
}

/* The block whose number a name carries: its layers begin as the name does. -1: none. */
static int block_of(const mpt_graph *graph, const char *name) {
    for (int i = 0; i < graph->n_layers; i++) {
        const mpt_layer *layer = &graph->layers[i];
        const char *digits = layer->path + strcspn(layer->path, "0123456789");
        size_t n = (size_t)(digits - layer->path) + strspn(digits, "0123456789");
        if (layer->block >= 0 && strncmp(name, layer->path, n) == 0 && name[n] == '.')
            return layer->block;
    }
    return -1;
}

/* The way out: the nearest of the block, else what the block has, else the nearest of all. */
static void hint_names(mpt_arena *arena, const mpt_graph *graph, const char *name) {
    int most = 0, n, block = block_of(graph, name);
    char list[512] = "";
    for (int i = 0; i < graph->n_layers; i++)
        most += 1 + graph->layers[i].n_parts;
    const char **names = mpt_arena_alloc(arena, mpt_size_mul(sizeof *names, (size_t)most));
    if (!names)
        return;
    n = list_names(arena, graph, block, names);
    const char *near = mpt_nearest(name, names, n);
    for (int i = 0; block >= 0 && i < n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s'%s'", used ? ", " : "", names[i]);
    }
    if (near)
        mpt_hint(graph->ctx, "did you mean '%s'?", near);
    else if (block >= 0)
        mpt_hint(graph->ctx, "block %d has %s", block, list);
    else if (graph->n_layers > 0)
        mpt_hint(graph->ctx, "name one such as '%s', a kind such as 'norm', or a glob",
                 graph->layers[graph->n_layers / 2].path);
}

mpt_status mpt_layer_set_find(mpt_arena *arena, const mpt_graph *graph, const char *name,
                              mpt_layer_set *out) {
    char text[PATH_TEXT];
    MPT_TRY(mpt_layer_set_make(arena, graph, out));
    match_name(out, name);
    snprintf(text, sizeof text, "%s", without_root(name));
    if (out->n == 0)
        match_name(out, text);
    cut_tensor(text);
    if (out->n == 0)
        match_name(out, text);
    if (out->n > 0)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(graph->ctx, MPT_INVALID, MPT_NOWHERE, "the model has no layer '%s'", name);
    hint_names(arena, graph, text);
    return status;
}

/* ---- blocks in words ---- */

/* Of one kind: how many layers the set has, and how many there are; in a block, or (-1) in all.
 */
static void count_kind(const mpt_layer_set *set, mpt_layer_kind kind, int block, int *have,
                       int *all) {
    *have = *all = 0;
    for (int i = 0; i < set->graph->n_layers; i++) {
        const mpt_layer *layer = &set->graph->layers[i];
        if (layer->kind != kind || (block >= 0 && layer->block != block))
            continue;
        *all += 1;
        *have += set->in[i];
    }
}

/* "2..53", "0..1, 54..61": ranges over the blocks that have layers of the kind. False where a
 * block is meant in part, a layer lies outside of blocks, or the ranges are many. */
static bool block_ranges(const mpt_layer_set *set, mpt_layer_kind kind, char *out,
                         size_t size) {
    int have, all, n_ranges = 0, first = -1, last = -1;
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < set->graph->n_layers; i++)
        if (set->in[i] && set->graph->layers[i].kind == kind && set->graph->layers[i].block < 0)
            return false;
    for (int b = 0; b <= set->graph->n_blocks; b++) {
        count_kind(set, kind, b, &have, &all);
        bool end = b == set->graph->n_blocks;
        if (have > 0 && have < all)
            return false;
        if (have > 0 && !end) {
            first = first < 0 ? b : first;
            last = b;
        } else if ((all > 0 || end) && first >= 0) {
            int n = snprintf(out + used, size - used, first == last ? "%s%d" : "%s%d..%d",
                             n_ranges ? ", " : "", first, last);
            used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
            first = -1;
            if (++n_ranges > MOST_RANGES)
                return false;
        }
    }
    return n_ranges > 0;
}

/* ---- paths in words ---- */

size_t mpt_block_number(const char *path, size_t *begin) {
    for (const char *p = path; *p; p += strcspn(p, "."), p += *p == '.') {
        size_t n = strspn(p, "0123456789");
        if (n > 0 && p[n] == '.') {
            *begin = (size_t)(p - path);
            return n;
        }
    }
    return 0;
}

bool mpt_same_role(const char *a, const char *b) {
    size_t at_a, at_b, n_a = mpt_block_number(a, &at_a), n_b = mpt_block_number(b, &at_b);
    if (!n_a || !n_b)
        return strcmp(a, b) == 0;
    return at_a == at_b && strncmp(a, b, at_a) == 0 &&
           strcmp(a + at_a + n_a, b + at_b + n_b) == 0;
}

/* One end of a range of layers of a role. */
static void print_number(const mpt_graph *graph, int layer, mpt_str *out) {
    size_t at = 0, n = mpt_block_number(graph->layers[layer].path, &at);
    mpt_str_printf(out, "%.*s", (int)n, graph->layers[layer].path + at);
}

/* "layers.{2..53}.mixer.in_proj (22 layers)": the layers of the set that have the role of
 * `first`, the first of them. */
static void print_role(const mpt_layer_set *set, int first, mpt_str *out) {
    const mpt_graph *graph = set->graph;
    const char *path = graph->layers[first].path;
    size_t at = 0, n = mpt_block_number(path, &at);
    int count = 0, begin = -1, last = -1, n_ranges = 0;
    mpt_str_printf(out, "%.*s{", (int)at, path);
    for (int i = 0; i <= graph->n_layers; i++) {
        bool role = i < graph->n_layers && mpt_same_role(graph->layers[i].path, path);
        bool in = role && set->in[i];
        count += in;
        if (in) {
            begin = begin < 0 ? i : begin;
            last = i;
        } else if ((role || i == graph->n_layers) && begin >= 0) {
            mpt_str_printf(out, "%s", n_ranges++ ? "," : "");
            print_number(graph, begin, out);
            mpt_str_printf(out, "%s", begin == last ? "" : "..");
            if (begin != last)
                print_number(graph, last, out);
            begin = -1;
        }
    }
    mpt_str_printf(out, "}%s (%d layers)", path + at + n, count);
}

/* How many layers of the set have the role of this one, and whether one stands before it. */
static int count_role(const mpt_layer_set *set, int layer, bool *seen) {
    int n = 0;
    *seen = false;
    for (int i = 0; i < set->graph->n_layers; i++) {
        bool role = set->in[i] &&
                    mpt_same_role(set->graph->layers[i].path, set->graph->layers[layer].path);
        n += role;
        *seen = *seen || (role && i < layer);
    }
    return n;
}

static void print_paths(const mpt_layer_set *set, mpt_layer_kind kind, mpt_str *out) {
    int n = 0, left_out = 0;
    for (int i = 0; i < set->graph->n_layers; i++) {
        bool seen;
        if (!set->in[i] || set->graph->layers[i].kind != kind)
            continue;
        int count = count_role(set, i, &seen);
        if (seen)
            continue;
        if (n == MOST_PATHS) {
            left_out += count;
            continue;
        }
        mpt_str_printf(out, "%s", n++ ? ", " : "");
        if (count > 1)
            print_role(set, i, out);
        else
            mpt_str_printf(out, "%s", set->graph->layers[i].path);
    }
    if (left_out)
        mpt_str_printf(out, " and %d more", left_out);
}

void mpt_layer_set_print(const mpt_layer_set *set, mpt_str *out) {
    char ranges[128];
    bool any = false;
    for (int k = 0; k < MPT_LAYER_KIND_COUNT; k++) {
        mpt_layer_kind kind = (mpt_layer_kind)k;
        int have, all;
        count_kind(set, kind, -1, &have, &all);
        if (have == 0)
            continue;
        mpt_str_printf(out, "%s", any ? "; " : "");
        any = true;
        if (have > 1 && have == all)
            mpt_str_printf(out, "%s (all %d layers)", mpt_layer_kind_name(kind), all);
        else if (have > 1 && block_ranges(set, kind, ranges, sizeof ranges))
            mpt_str_printf(out, "%s in block%s %s (%d layers)", mpt_layer_kind_name(kind),
                           strpbrk(ranges, ".,") ? "s" : "", ranges, have);
        else
            print_paths(set, kind, out);
    }
}
