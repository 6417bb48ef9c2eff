/* Reading a checkpoint into parameters: everything is checked before anything is written.
 *
 * The source is a list of stored tensors, whatever the file was. They are matched by name under
 * the root that most of them have; then shapes and types, then every value are looked at, and
 * each of the three passes names all that it finds in one error. What is written is the same
 * values, read once more from the map. */
#include "train/weights_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 4096, NAMES_SHOWN = 8 };

/* What can be wrong with single tensors. X(ENUM, "word") */
#define FAULT_LIST(X)                                                                          \
    X(MISSING, "missing")                                                                      \
    X(UNKNOWN, "that the model lacks")                                                         \
    X(MISSHAPEN, "of another shape")                                                           \
    X(MISTYPED, "of a type that holds no weights")                                             \
    X(UNSCALED, "of 8 bits without their scale")                                               \
    X(NONFINITE, "with values that are not finite")                                            \
    X(UNTIED, "tied but unequal")

typedef enum fault {
#define FAULT_ENUM(id, word) id,
    FAULT_LIST(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
} fault;

/* One fault's tensors: how many, and the first of them by name. */
typedef struct fault_list {
    int n;
    mpt_str names;
} fault_list;

typedef struct loader {
    const mpt_weights_map *map;
    const mpt_weights_source *source;
    const char *root;
    const mpt_stored_tensor **found;  /* of each weight and alias of the map, or NULL */
    const mpt_stored_tensor **scales; /* what it is multiplied by, or NULL */
    fault_list faults[FAULT_COUNT];
    bool other_words; /* a table is of another vocabulary than the data's */
    float *chunk;
} loader;

/* ---- faults ---- */

static MPT_PRINTF(3, 4) void add_fault(loader *l, fault f, const char *fmt, ...) {
    char text[256];
    fault_list *list = &l->faults[f];
    va_list args;
    if (++list->n > NAMES_SHOWN)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_str_printf(&list->names, "%s%s", list->n > 1 ? ", " : "", text);
}

static void hint_at(const loader *l) {
    const fault_list *f = l->faults;
    if (f[UNSCALED].n)
        mpt_hint(l->map->ctx, "such weights mean nothing without NAME.weight_scale_inv or "
                              "NAME.weight_scale: fetch a BF16 checkpoint");
    else if (f[NONFINITE].n)
        mpt_hint(l->map->ctx, "no training recovers from them: fetch or make the file again");
    else if (f[UNTIED].n)
        mpt_hint(l->map->ctx, "the model has one tensor for both: give it an output projection "
                              "of its own, or another checkpoint");
    else if (l->other_words)
        mpt_hint(l->map->ctx,
                 "the vocabulary of %lld words comes from the data: name the data that the "
                 "weights were trained on, by --data or data = ... of the recipe",
                 (long long)l->map->graph->vocab);
    else if (f[MISSING].n && !f[UNKNOWN].n)
        mpt_hint(l->map->ctx, "is it a checkpoint of this model and size? Those of its proxy "
                              "are for --model proxy");
    else
        mpt_hint(l->map->ctx, "is it a checkpoint of this model and size?");
}

/* One error for all that was found so far: counts, and names of the first of each kind. */
static mpt_status tell_faults(const loader *l) {
    static const char *const words[] = {
#define FAULT_WORD(id, word) word,
        FAULT_LIST(FAULT_WORD)
#undef FAULT_WORD
    };
    mpt_str text;
    int kinds = 0;
    mpt_str_init(&text, l->map->ctx);
    for (int f = 0; f < FAULT_COUNT; f++) {
        const fault_list *list = &l->faults[f];
        if (list->n == 0)
            continue;
        mpt_str_printf(&text, "%s%d tensor%s %s: %s", kinds++ ? "; " : "", list->n,
                       list->n > 1 ? "s" : "", words[f],
                       list->names.data ? list->names.data : "");
        if (list->n > NAMES_SHOWN)
            mpt_str_printf(&text, " and %d more", list->n - NAMES_SHOWN);
        text.failed |= list->names.failed;
    }
    mpt_status status = MPT_OK;
    if (text.failed)
        status = MPT_OUT_OF_MEMORY;
    else if (kinds > 0)
        status =
            MPT_FAIL(l->map->ctx, MPT_DATA, MPT_NOWHERE, "%s: %s", l->source->path, text.data);
    if (status == MPT_DATA)
        hint_at(l);
    mpt_str_deinit(&text);
    return status;
}

/* ---- names ---- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_rootless(const mpt_weights_map *map, int index) {
    return index < map->n ? map->weights[index].rootless
                          : map->aliases[index - map->n].rootless;
}

/* The weight or alias that a name of the file means under a root, or -1. */
static int index_of(const mpt_weights_map *map, const char *root, const char *name) {
    size_t n = strlen(root);
    int index = strncmp(name, root, n) == 0 ? mpt_name_index_find(&map->names, name + n) : -1;
    if (index >= 0 && !is_rootless(map, index))
        return index;
    index = mpt_name_index_find(&map->names, name);
    return index >= 0 && is_rootless(map, index) ? index : -1;
}

/* The root under which most names of the file are the model's; of equals the first. */
static const char *find_root(const loader *l) {
    const char *best = "", *root;
    int most = -1;
    for (int i = 0; (root = mpt_weights_root(l->map->graph, i)); i++) {
        int n = 0;
        for (int t = 0; t < l->source->n; t++)
            n += index_of(l->map, root, l->source->tensors[t].name) >= 0;
        if (n > most) {
            most = n;
            best = root;
        }
    }
    return best;
}

/* Whether a tensor is a constant that some programs store beside the weights. */
static bool is_constant(const char *name) {
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias",
                                       "rotary_emb.inv_freq"};
    for (size_t i = 0; i < MPT_COUNT(ends); i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

static bool is_narrow(const mpt_stored_tensor *tensor) {
    return tensor->type == MPT_TENSOR_F8_E4M3 || tensor->type == MPT_TENSOR_F8_E5M2;
}

/* Whether a tensor is the scale of an 8-bit weight: then it is kept beside that. The list is
 * sorted, so the weight has come before its scale. */
static bool take_scale(loader *l, const mpt_stored_tensor *tensor) {
    static const char *const ends[] = {"_scale_inv", "_scale"};
    char name[512];
    for (size_t i = 0; i < MPT_COUNT(ends); i++) {
        size_t n = strlen(tensor->name);
        if (!ends_with(tensor->name, ends[i]) || n >= sizeof name)
            continue;
        n -= strlen(ends[i]);
        memcpy(name, tensor->name, n);
        name[n] = 0;
        int index = index_of(l->map, l->root, name);
        if (index < 0 || !l->found[index] || !is_narrow(l->found[index]))
            continue;
        l->scales[index] = tensor;
        return true;
    }
    return false;
}

static void match_names(loader *l) {
    for (int t = 0; t < l->source->n; t++) {
        const mpt_stored_tensor *tensor = &l->source->tensors[t];
        int index = index_of(l->map, l->root, tensor->name);
        if (index >= 0)
            l->found[index] = tensor;
        else if (!is_constant(tensor->name) && !take_scale(l, tensor))
            add_fault(l, UNKNOWN, "%.120s", tensor->name);
    }
}

/* Where a file has a tied tensor under its second name only, that one is read. */
static void use_aliases(loader *l) {
    for (int i = 0; i < l->map->n_aliases; i++) {
        int alias = l->map->n + i, weight = l->map->aliases[i].weight;
        if (l->found[weight] || !l->found[alias])
            continue;
        l->found[weight] = l->found[alias];
        l->scales[weight] = l->scales[alias];
    }
}

/* ---- shapes and types ---- */

typedef struct shape_text {
    char text[128];
} shape_text;

static shape_text print_shape(const int64_t *dims, int rank) {
    shape_text out = {"["};
    size_t n = 1;
    for (int i = 0; i < rank && n < sizeof out.text - 2; i++)
        n += (size_t)snprintf(out.text + n, sizeof out.text - n, "%s%lld", i ? ", " : "",
                              (long long)dims[i]);
    if (n < sizeof out.text - 1)
        strcpy(out.text + n, "]");
    return out;
}

static bool same_shape(const mpt_weight *w, const mpt_stored_tensor *t) {
    return t->rank == w->rank &&
           memcmp(t->dims, w->dims, (size_t)w->rank * sizeof *w->dims) == 0;
}

static int64_t blocks(int64_t n) {
    return (n + MPT_SCALE_BLOCK - 1) / MPT_SCALE_BLOCK;
}

/* A scale is one number, one for each row, or one for each block of 128 x 128. */
static bool scale_fits(const mpt_weight *w, const mpt_stored_tensor *scale) {
    float probe;
    if (scale->elements < 1 || !mpt_stored_tensor_floats(scale, 0, 1, &probe))
        return false;
    if (scale->elements == 1)
        return true;
    if (w->rank != 2 || scale->rank < 1 || scale->rank > 2)
        return false;
    int64_t columns = scale->rank == 2 ? scale->dims[1] : 1;
    if (columns == 1 && scale->dims[0] == w->dims[0])
        return true;
    return scale->rank == 2 && scale->dims[0] == blocks(w->dims[0]) &&
           columns == blocks(w->dims[1]);
}

/* One stored tensor against what the map says of it. */
static void check_tensor(loader *l, int index) {
    int weight = index < l->map->n ? index : l->map->aliases[index - l->map->n].weight;
    const mpt_weight *w = &l->map->weights[weight];
    const mpt_stored_tensor *t = l->found[index], *scale = l->scales[index];
    float probe;
    if (!same_shape(w, t)) {
        l->other_words |= t->rank == 2 && w->rank == 2 && t->dims[1] == w->dims[1] &&
                          w->dims[0] == l->map->graph->vocab;
        add_fault(l, MISSHAPEN, "%.120s %s, expected %s", t->name,
                  print_shape(t->dims, t->rank).text, print_shape(w->dims, w->rank).text);
    } else if (!mpt_stored_tensor_floats(t, 0, t->elements > 0, &probe))
        add_fault(l, MISTYPED, "%.120s (%s)", t->name, mpt_tensor_type_name(t->type));
    else if (is_narrow(t) && !scale)
        add_fault(l, UNSCALED, "%.120s (%s)", t->name, mpt_tensor_type_name(t->type));
    else if (scale && !scale_fits(w, scale))
        add_fault(l, MISSHAPEN, "%.120s %s for a weight %s", scale->name,
                  print_shape(scale->dims, scale->rank).text,
                  print_shape(w->dims, w->rank).text);
}

static void check_shapes(loader *l) {
    for (int i = 0; i < l->map->n + l->map->n_aliases; i++) {
        if (l->found[i])
            check_tensor(l, i);
        else if (i < l->map->n)
            add_fault(l, MISSING, "%s%s", l->map->weights[i].rootless ? "" : l->root,
                      l->map->weights[i].name);
    }
}

/* ---- values ---- */

/* Multiplies elements first ... first + n - 1 of a matrix of 8-bit codes by their scales. */
static void apply_scale(const mpt_weight *w, const mpt_stored_tensor *scale, int64_t first,
                        int64_t n, float *values) {
    int64_t columns = w->rank == 2 ? w->dims[1] : 1, at, known = -1;
    bool by_row = scale->elements == w->dims[0] && scale->elements > 1;
    float factor = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = (first + i) / columns, column = (first + i) % columns;
        at = scale->elements == 1 ? 0
             : by_row && (scale->rank == 1 || scale->dims[1] == 1)
                 ? row
                 : row / MPT_SCALE_BLOCK * blocks(columns) + column / MPT_SCALE_BLOCK;
        if (at != known)
            (void)mpt_stored_tensor_floats(scale, at, 1, &factor);
        known = at;
        values[i] *= factor;
    }
}

/* Values of the tensor at this place of the map, into the loader's chunk. */
static const float *read_chunk(loader *l, int index, int64_t first, int64_t n, float *out) {
    int weight = index < l->map->n ? index : l->map->aliases[index - l->map->n].weight;
    (void)mpt_stored_tensor_floats(l->found[index], first, n, out);
    if (l->scales[index])
        apply_scale(&l->map->weights[weight], l->scales[index], first, n, out);
    return out;
}

static int64_t chunk_of(int64_t first, int64_t elements) {
    return elements - first < CHUNK ? elements - first : CHUNK;
}

static void check_finite(loader *l, int index) {
    const mpt_stored_tensor *t = l->found[index];
    int64_t nan = 0, inf = 0;
    for (int64_t at = 0, n; at < t->elements; at += n) {
        n = chunk_of(at, t->elements);
        const float *x = read_chunk(l, index, at, n, l->chunk);
        for (int64_t i = 0; i < n; i++) {
            nan += isnan(x[i]) != 0;
            inf += isinf(x[i]) != 0;
        }
    }
    if (nan + inf == 0)
        return;
    char nans[32] = "", infs[32] = "";
    if (nan)
        snprintf(nans, sizeof nans, "%lld NaN", (long long)nan);
    if (inf)
        snprintf(infs, sizeof infs, "%s%lld Inf", nan ? ", " : "", (long long)inf);
    add_fault(l, NONFINITE, "%.120s (%s%s of %lld)", t->name, nans, infs,
              (long long)t->elements);
}

/* A tied tensor that the file has twice. */
static void check_tied(loader *l, int alias) {
    int index = l->map->n + alias, weight = l->map->aliases[alias].weight;
    const mpt_stored_tensor *t = l->found[index], *other = l->found[weight];
    int64_t differ = 0;
    if (!t || t == other)
        return;
    for (int64_t at = 0, n; at < t->elements; at += n) {
        n = chunk_of(at, t->elements);
        const float *x = read_chunk(l, index, at, n, l->chunk);
        const float *y = read_chunk(l, weight, at, n, l->chunk + CHUNK);
        for (int64_t i = 0; i < n; i++)
            differ += x[i] != y[i];
    }
    if (differ)
        add_fault(l, UNTIED, "%.80s and %.80s differ in %lld of %lld", t->name, other->name,
                  (long long)differ, (long long)t->elements);
}

static void check_values(loader *l) {
    for (int i = 0; i < l->map->n + l->map->n_aliases; i++)
        if (l->found[i] &&
            (i < l->map->n || l->found[i] != l->found[l->map->aliases[i - l->map->n].weight]))
            check_finite(l, i);
    for (int i = 0; i < l->map->n_aliases && l->faults[NONFINITE].n == 0; i++)
        check_tied(l, i);
}

static void copy_values(loader *l, float *const *params) {
    for (int i = 0; i < l->map->n; i++) {
        const mpt_weight *w = &l->map->weights[i];
        for (int64_t at = 0, n, all = mpt_weight_elements(w); at < all; at += n) {
            n = chunk_of(at, all);
            mpt_weight_put(w, params[w->param], at, n, read_chunk(l, i, at, n, l->chunk));
        }
    }
}

/* ---- the call ---- */

static mpt_status load(loader *l, float *const *params) {
    mpt_ctx *ctx = l->map->ctx;
    size_t n = (size_t)(l->map->n + l->map->n_aliases), bytes = 2 * n * sizeof *l->found;
    l->found = mpt_alloc(ctx, bytes + 2 * CHUNK * sizeof *l->chunk);
    if (!l->found)
        return mpt_fail_memory(ctx, bytes);
    l->scales = l->found + n;
    l->chunk = (float *)(void *)(l->scales + n);
    l->root = find_root(l);
    match_names(l);
    use_aliases(l);
    check_shapes(l);
    MPT_TRY(tell_faults(l));
    check_values(l);
    MPT_TRY(tell_faults(l));
    copy_values(l, params);
    return MPT_OK;
}

mpt_status mpt_weights_load_source(const mpt_weights_map *map, const mpt_weights_source *source,
                                   float *const *params, const char **out_root) {
    loader l = {.map = map, .source = source};
    for (int f = 0; f < FAULT_COUNT; f++)
        mpt_str_init(&l.faults[f].names, map->ctx);
    mpt_status status = load(&l, params);
    if (status == MPT_OK)
        *out_root = l.root;
    for (int f = 0; f < FAULT_COUNT; f++)
        mpt_str_deinit(&l.faults[f].names);
    mpt_free(map->ctx, l.found);
    return status;
}
