/* Fields and models of two recipes, side by side.
 *
 * The canonical text (recipe/print.c) has a line a field. Its lines on rules and phases are
 * left to diff_layers.c, which compares what they come to. */
#include "plan/diff.h"

#include <stdio.h>
#include <string.h>

#include "plan/fields.h"
#include "plan/text.h"

enum { NAME = 128, MOST_SHAPES = 9 };

typedef mpt_field_line line;

/* The line of the same name in another text. */
static bool find_line(const char *text, const line *wanted, line *out) {
    while (mpt_field_next(&text, out))
        if (out->n_name == wanted->n_name && !memcmp(out->name, wanted->name, out->n_name))
            return true;
    return false;
}

/* The rows that a field belongs to; NULL: it is told of elsewhere, or counted for the proxy. */
static mpt_diff_rows *rows_of(mpt_diff *diff, const line *l) {
    bool proxy = diff->side[0]->proxy || diff->side[1]->proxy;
    if (mpt_field_starts(l, "precision."))
        return &diff->precision;
    if (mpt_field_starts(l, "train.proxy"))
        return proxy ? &diff->training : NULL;
    if (mpt_field_starts(l, "train"))
        return proxy ? NULL : &diff->training;
    if (mpt_field_starts(l, "data"))
        return &diff->training;
    if (proxy ? mpt_field_starts(l, "proxy.") : mpt_field_starts(l, "model."))
        return &diff->model; /* a field of a table; its first line is told of by the plan */
    return mpt_field_starts(l, "proxy") && !proxy ? &diff->model : NULL;
}

/* Whether it is a field of a table that gives a model's size. */
static bool is_size(const line *l) {
    return mpt_field_starts(l, "model.") || mpt_field_starts(l, "proxy.");
}

/* One field; NULL: that side has none. */
static mpt_status add_field(mpt_diff *diff, const line *a, const line *b) {
    const line *any = a ? a : b;
    mpt_diff_rows *rows = rows_of(diff, any);
    const char *value[2] = {NULL, NULL};
    if (a && b && a->n_value == b->n_value && !memcmp(a->value, b->value, a->n_value))
        return MPT_OK;
    if (is_size(any) && !(a && b))
        return MPT_OK; /* the other side is a named size: its shapes are compared */
    if (!rows) {
        diff->n_proxy += a && b && mpt_field_starts(any, "train.");
        return MPT_OK;
    }
    const char *name = mpt_arena_printf(diff->arena, "%.*s", (int)any->n_name, any->name);
    for (int s = 0; name && s < 2; s++) {
        const line *l = s == 0 ? a : b;
        if (l && !(value[s] = mpt_field_readable(diff->arena, name, l->value, l->n_value)))
            return MPT_OUT_OF_MEMORY;
    }
    return name ? mpt_diff_add(diff, rows, name, value[0], value[1]) : MPT_OUT_OF_MEMORY;
}

static mpt_status compare_texts(mpt_diff *diff, const char *a, const char *b) {
    line one, other;
    const char *rest = a;
    while (mpt_field_next(&rest, &one))
        MPT_TRY(add_field(diff, &one, find_line(b, &one, &other) ? &other : NULL));
    for (rest = b; mpt_field_next(&rest, &one);)
        if (!find_line(a, &one, &other))
            MPT_TRY(add_field(diff, NULL, &one));
    return MPT_OK;
}

/* What evaluation lays over all rules, in full. */
static mpt_status compare_eval_use(mpt_diff *diff) {
    mpt_str text[2];
    const char *use[2] = {"none", "none"};
    for (int s = 0; s < 2; s++) {
        mpt_str_init(&text[s], diff->ctx);
        if (mpt_program_eval_text(diff->side[s], false, &text[s]) && text[s].data)
            use[s] = text[s].data;
    }
    mpt_status status =
        text[0].failed || text[1].failed
            ? MPT_OUT_OF_MEMORY
            : mpt_diff_add(diff, &diff->training, "train.eval.use", use[0], use[1]);
    mpt_str_deinit(&text[0]);
    mpt_str_deinit(&text[1]);
    return status;
}

/* Fields without an effect on numbers stand in no canonical text. */
static mpt_status compare_eval(mpt_diff *diff) {
    char text[2][2][32];
    for (int s = 0; s < 2; s++) {
        const mpt_train *train = &diff->side[s]->train;
        snprintf(text[s][0], sizeof text[s][0], "%lld", (long long)train->eval_every);
        snprintf(text[s][1], sizeof text[s][1], "%lld", (long long)train->eval_batches);
    }
    MPT_TRY(mpt_diff_add(diff, &diff->training, "train.eval.every", text[0][0], text[1][0]));
    MPT_TRY(mpt_diff_add(diff, &diff->training, "train.eval.batches", text[0][1], text[1][1]));
    return compare_eval_use(diff);
}

/* "four_bit, settle from 0.82": the phases, each with its start as it was declared, or in
 * steps.
 */
static void phases_text(const mpt_program *program, mpt_words *out) {
    for (int p = 0; p < program->n_phases; p++) {
        const mpt_phase *phase = &program->recipe->phases[p];
        mpt_words_add(out, "%s%s", p ? ", " : "", phase->name);
        if (p > 0 && phase->from_is_fraction)
            mpt_words_add(out, " from %g", phase->from);
        else if (p > 0)
            mpt_words_add(out, " from step ");
        if (p > 0 && !phase->from_is_fraction)
            mpt_words_count(out, program->phase_start[p]);
    }
}

mpt_status mpt_diff_fields(mpt_diff *diff) {
    mpt_words phases[2] = {{.len = 0}, {.len = 0}};
    for (int s = 0; s < 2; s++)
        phases_text(diff->side[s], &phases[s]);
    MPT_TRY(compare_texts(diff, diff->side[0]->fields, diff->side[1]->fields));
    MPT_TRY(mpt_diff_add(diff, &diff->precision, "phases", phases[0].data, phases[1].data));
    return compare_eval(diff);
}

/* ---- models ---- */

/* "27 x 5,120 -> 22,656": how many layers have this one's role, and its shape; "" for none. */
static void role_text(const mpt_graph *graph, const char *path, mpt_words *out) {
    int n = 0;
    const mpt_layer *first = NULL;
    for (int i = 0; i < graph->n_layers; i++) {
        if (!mpt_same_role(graph->layers[i].path, path))
            continue;
        first = first ? first : &graph->layers[i];
        n++;
    }
    if (!first)
        return;
    mpt_words_add(out, "%d", n);
    if (first->in_features > 0 && first->out_features > 0) {
        mpt_words_add(out, " x ");
        mpt_words_count(out, first->in_features);
        mpt_words_add(out, " -> ");
        mpt_words_count(out, first->out_features);
    }
}

/* "layers.*.mixer.in_proj" */
static void role_name(const char *path, char out[NAME]) {
    size_t at = 0, n = mpt_block_number(path, &at);
    if (n)
        snprintf(out, NAME, "%.*s*%s", (int)at, path, path + at + n);
    else
        snprintf(out, NAME, "%s", path);
}

static bool is_first_of_role(const mpt_graph *graph, int layer) {
    for (int i = 0; i < layer; i++)
        if (mpt_same_role(graph->layers[i].path, graph->layers[layer].path))
            return false;
    return true;
}

static bool has_role(const mpt_graph *graph, const char *path) {
    mpt_words text = {.len = 0};
    role_text(graph, path, &text);
    return text.len > 0;
}

/* Layers with a weight, by role: those of a, then those that only b has. */
static mpt_status compare_roles(mpt_diff *diff) {
    const mpt_graph *graph[2];
    int n_told = 0;
    for (int s = 0; s < 2; s++)
        graph[s] = diff->side[s]->phases[0]->graph;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < graph[s]->n_layers; i++) {
            const mpt_layer *layer = &graph[s]->layers[i];
            mpt_words text[2] = {{.len = 0}, {.len = 0}};
            char name[NAME];
            if (layer->out_features <= 0 || !is_first_of_role(graph[s], i) ||
                (s == 1 && has_role(graph[0], layer->path)) || n_told == MOST_SHAPES)
                continue;
            role_text(graph[0], layer->path, &text[0]);
            role_text(graph[1], layer->path, &text[1]);
            n_told += strcmp(text[0].data, text[1].data) != 0;
            role_name(layer->path, name);
            MPT_TRY(mpt_diff_add(diff, &diff->model, name, text[0].len ? text[0].data : NULL,
                                 text[1].len ? text[1].data : NULL));
        }
    }
    return MPT_OK;
}

mpt_status mpt_diff_model(mpt_diff *diff) {
    char model[2][256];
    mpt_words text[2][3] = {{{.len = 0}}};
    static const char *const names[] = {"parameters", "blocks", "linear layers"};
    for (int s = 0; s < 2; s++) {
        mpt_program_info info = mpt_program_get_info(diff->side[s]);
        mpt_plan_model(diff->side[s], model[s], sizeof model[s]);
        mpt_words_count(&text[s][0], info.parameters);
        mpt_words_count(&text[s][1], info.n_blocks);
        mpt_words_count(&text[s][2], info.n_linear_layers);
    }
    MPT_TRY(mpt_diff_add(diff, &diff->model, "model", model[0], model[1]));
    for (int i = 0; i < 3; i++)
        MPT_TRY(mpt_diff_add(diff, &diff->model, names[i], text[0][i].data, text[1][i].data));
    bool same_shapes = diff->same_layers || strcmp(text[0][0].data, text[1][0].data) == 0;
    MPT_TRY(compare_roles(diff));
    return same_shapes ? mpt_diff_operations(diff) : MPT_OK;
}
