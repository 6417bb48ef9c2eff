/* The texts of faults by request: "grad:wte.weight=inf@3". See inject.h. */
#include "train/inject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/weights.h"

/* ---- reading ---- */

/* What one text is made of, and who is told of it. */
typedef struct fault_text {
    const mpt_graph *graph;
    mpt_arena *arena;
    const char *whole;
    char *place, *name, *value, *step; /* cut out of a copy */
} fault_text;

static const char *const places[] = {"grad", "act", "weight"};

static mpt_status fail_form(const fault_text *t) {
    mpt_status status =
        MPT_FAIL(t->graph->ctx, MPT_INVALID, MPT_NOWHERE, "inject: '%s' is no fault", t->whole);
    mpt_hint(t->graph->ctx, "write grad:NAME=inf@STEP, act:LAYER=nan@STEP or "
                            "weight:NAME=1e30@STEP");
    return status;
}

/* PLACE:NAME=VALUE@STEP into its four words. */
static mpt_status cut(fault_text *t) {
    t->place = mpt_arena_strdup(t->arena, t->whole);
    if (!t->place)
        return MPT_OUT_OF_MEMORY;
    char *colon = strchr(t->place, ':'), *equals = strrchr(t->place, '=');
    char *at = strrchr(t->place, '@');
    if (!colon || !equals || !at || colon > equals || equals > at)
        return fail_form(t);
    *colon = *equals = *at = 0;
    t->name = colon + 1;
    t->value = equals + 1;
    t->step = at + 1;
    return *t->name && *t->value && *t->step ? MPT_OK : fail_form(t);
}

static mpt_status read_place(const fault_text *t, mpt_fault *fault) {
    for (size_t i = 0; i < MPT_COUNT(places); i++) {
        if (strcmp(t->place, places[i]) != 0)
            continue;
        fault->place = (mpt_fault_place)i;
        return MPT_OK;
    }
    mpt_status status = MPT_FAIL(t->graph->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "inject: '%s': no place '%s'", t->whole, t->place);
    const char *near = mpt_nearest(t->place, places, (int)MPT_COUNT(places));
    if (near)
        mpt_hint(t->graph->ctx, "did you mean '%s'?", near);
    else
        mpt_hint(t->graph->ctx, "the places are grad, act and weight");
    return status;
}

static bool is_value(const char *text, float *out) {
    char *end;
    if (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0)
        *out = *text == '-' ? -INFINITY : INFINITY;
    else if (strcmp(text, "nan") == 0)
        *out = NAN;
    else if (text[strspn(text, "0123456789.+-eE")])
        return false;
    else
        return (*out = strtof(text, &end), end != text && !*end && isfinite(*out));
    return true;
}

static mpt_status read_value(const fault_text *t, mpt_fault *fault) {
    if (is_value(t->value, &fault->value))
        return MPT_OK;
    mpt_status status = MPT_FAIL(t->graph->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "inject: '%s': '%s' is no value", t->whole, t->value);
    mpt_hint(t->graph->ctx, "a value is inf, -inf, nan or a number that FP32 holds");
    return status;
}

static mpt_status read_step(const fault_text *t, int64_t steps, mpt_fault *fault) {
    size_t digits = strspn(t->step, "0123456789");
    if (digits != strlen(t->step) || digits > 18)
        return fail_form(t);
    fault->step = strtoll(t->step, NULL, 10);
    if (fault->step < steps)
        return MPT_OK;
    mpt_status status = MPT_FAIL(t->graph->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "inject: '%s': there is no step %lld in a run of %lld",
                                 t->whole, (long long)fault->step, (long long)steps);
    mpt_hint(t->graph->ctx, "steps are numbered from 0 to %lld", (long long)steps - 1);
    return status;
}

/* ---- names ---- */

/* A name without each root that a checkpoint may give it, one after the other; NULL past the
 * last. `i` counts the roots. */
static const char *rootless(const mpt_graph *graph, const char *name, int i) {
    const char *root = mpt_weights_root(graph, i);
    if (!root)
        return NULL;
    size_t n = strlen(root);
    return strncmp(name, root, n) == 0 ? name + n : name;
}

static mpt_status fail_name(const fault_text *t, const char *kind, const char *const *names,
                            int n) {
    mpt_status status = MPT_FAIL(t->graph->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "inject: '%s': no %s '%s'", t->whole, kind, t->name);
    const char *near = NULL;
    for (int i = 0; !near && mpt_weights_root(t->graph, i); i++)
        near = mpt_nearest(rootless(t->graph, t->name, i), names, n);
    if (near)
        mpt_hint(t->graph->ctx, "did you mean '%s'?", near);
    else
        mpt_hint(t->graph->ctx,
                 "there are %s%s%s%s%s; mptrun plan --dump=load lists all of them", names[0],
                 n > 1 ? ", " : "", n > 1 ? names[1] : "", n > 2 ? ", " : "",
                 n > 2 ? names[2] : "");
    return status;
}

static mpt_status fail_layer(const fault_text *t) {
    const mpt_graph *graph = t->graph;
    size_t n = (size_t)graph->n_layers;
    const char **names = mpt_arena_alloc(t->arena, (n + 1) * sizeof *names);
    if (!names)
        return MPT_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        names[i] = graph->layers[i].path;
    return fail_name(t, "layer", names, (int)n);
}

static mpt_status find_layer(const fault_text *t, mpt_fault *fault) {
    for (int r = 0; mpt_weights_root(t->graph, r); r++)
        for (int i = 0; i < t->graph->n_layers; i++) {
            if (strcmp(t->graph->layers[i].path, rootless(t->graph, t->name, r)) != 0 ||
                !mpt_fault_maker(t->graph, i))
                continue;
            fault->index = i;
            return MPT_OK;
        }
    return fail_layer(t);
}

static mpt_status fail_param(const fault_text *t, const mpt_weights_map *map) {
    const mpt_graph *graph = t->graph;
    size_t n = (size_t)graph->n_params + (size_t)map->n;
    const char **names = mpt_arena_alloc(t->arena, (n + 1) * sizeof *names);
    if (!names)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_params; i++)
        names[i] = graph->params[i].name;
    for (int i = 0; i < map->n; i++)
        names[graph->n_params + i] = map->weights[i].name;
    return fail_name(t, "parameter", names, (int)n);
}

/* A tensor of the checkpoint: of a fused layer's part the first row. */
static bool find_stored(const fault_text *t, const mpt_weights_map *map, mpt_fault *fault) {
    for (int r = 0; mpt_weights_root(t->graph, r); r++) {
        int found = mpt_name_index_find(&map->names, rootless(t->graph, t->name, r));
        if (found < 0)
            continue;
        const mpt_weight *weight =
            &map->weights[found < map->n ? found : map->aliases[found - map->n].weight];
        const mpt_value *value = &t->graph->values[t->graph->params[weight->param].value];
        fault->index = weight->param;
        fault->element = mpt_value_elements(value) / value->dims[0] * weight->first;
        return true;
    }
    return false;
}

static mpt_status find_param(const fault_text *t, mpt_fault *fault) {
    mpt_weights_map map;
    fault->index = mpt_name_index_find(&t->graph->param_names, t->name);
    if (fault->index >= 0)
        return MPT_OK;
    mpt_status status = mpt_weights_map_create(t->graph, MPT_WEIGHTS_HF, &map);
    if (status == MPT_OK && !find_stored(t, &map, fault))
        status = fail_param(t, &map);
    mpt_weights_map_destroy(&map);
    return status;
}

static mpt_status read_one(fault_text *t, int64_t steps, mpt_fault *fault) {
    MPT_TRY(cut(t));
    MPT_TRY(read_place(t, fault));
    MPT_TRY(read_value(t, fault));
    MPT_TRY(read_step(t, steps, fault));
    fault->text = mpt_arena_printf(t->arena, "%s:%s=%s", t->place, t->name, t->value);
    if (!fault->text)
        return MPT_OUT_OF_MEMORY;
    return fault->place == MPT_FAULT_ACT ? find_layer(t, fault) : find_param(t, fault);
}

mpt_status mpt_faults_read(const mpt_graph *graph, int64_t steps, const char *const *texts,
                           int n, mpt_faults *out) {
    if (n == 0)
        return MPT_OK;
    mpt_arena_init(&out->arena, graph->ctx);
    out->n = n;
    out->faults = mpt_arena_alloc(&out->arena, (size_t)n * sizeof *out->faults);
    if (!out->faults)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++) {
        fault_text t = {.graph = graph, .arena = &out->arena, .whole = texts[i]};
        if (!texts[i])
            return MPT_FAIL(graph->ctx, MPT_INVALID, MPT_NOWHERE, "inject[%d] is NULL", i);
        MPT_TRY(read_one(&t, steps, &out->faults[i]));
    }
    return MPT_OK;
}

void mpt_faults_free(mpt_faults *faults) {
    if (faults->n > 0)
        mpt_arena_deinit(&faults->arena);
    faults->n = 0;
}
