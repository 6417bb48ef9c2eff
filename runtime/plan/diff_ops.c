/* What two models compute otherwise though their layers have the same shapes: their operations,
 * the attributes of these, and the initial weights. */
#include "plan/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"

enum { NAME = 256 };

/* ---- operations ---- */

/* Whether the model says this node: not its gradients, its formats or the optimizer. */
static bool is_said(const mpt_node *node) {
    unsigned flags = mpt_op_get(node->op)->flags;
    if (node->op == MPT_OP_moe_balance)
        return true;
    return node->pass == MPT_PASS_FORWARD && !(flags & (MPT_OP_GRAD | MPT_OP_CAST));
}

/* The first such node at or after `at`; NULL at the end. */
static const mpt_node *next_said(const mpt_graph *graph, int *at) {
    while (*at < graph->n_nodes) {
        const mpt_node *node = &graph->nodes[(*at)++];
        if (is_said(node))
            return node;
    }
    return NULL;
}

static const char *path_of(const mpt_graph *graph, const mpt_node *node) {
    return node->layer >= 0 ? graph->layers[node->layer].path : mpt_op_get(node->op)->name;
}

static int count_op(const mpt_graph *graph, mpt_op op) {
    int n = 0, at = 0;
    const mpt_node *node;
    while ((node = next_said(graph, &at)) != NULL)
        n += node->op == op;
    return n;
}

static mpt_status compare_counts(mpt_diff *diff, const mpt_graph *const graph[2]) {
    for (int op = 0; op < MPT_OP_COUNT; op++) {
        char name[NAME], n[2][16];
        snprintf(name, sizeof name, "operations %s", mpt_op_get((mpt_op)op)->name);
        for (int s = 0; s < 2; s++)
            snprintf(n[s], sizeof n[s], "%d", count_op(graph[s], (mpt_op)op));
        MPT_TRY(mpt_diff_add(diff, &diff->model, name, n[0], n[1]));
    }
    return MPT_OK;
}

/* ---- attributes ---- */

/* The next name and value of an attributes' text; false at its end. */
static bool next_pair(const char **text, char name[NAME], char value[NAME]) {
    int used = 0;
    if (sscanf(*text, " %255s %255s%n", name, value, &used) != 2 || used == 0)
        return false;
    *text += used;
    return true;
}

/* What is told of as training or as precision is no part of the model. */
static bool is_elsewhere(const char *name) {
    static const char *const names[] = {"batch",      "sequence", "alpha",
                                        "accumulate", "promote",  "softmax"};
    for (size_t i = 0; i < MPT_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* A float in the fewest digits that are it. */
static void float_text(float x, char out[NAME]) {
    int digits = 1;
    do
        snprintf(out, NAME, "%.*g", digits, (double)x);
    while (strtof(out, NULL) != x && ++digits <= 9);
}

static void shorten(char value[NAME]) {
    char *end;
    float x = strtof(value, &end);
    if (strpbrk(value, ".e") && end != value && *end == 0)
        float_text(x, value);
}

/* Whether a row speaks of this attribute with the same values: of another layer. */
static bool is_told(const mpt_diff_rows *rows, const char *name, const char *a, const char *b) {
    size_t length = strlen(name);
    for (int i = 0; i < rows->n; i++) {
        const mpt_diff_row *row = &rows->rows[i];
        if (row->a && row->b && strncmp(row->name, name, length) == 0 &&
            row->name[length] == ' ' && strcmp(row->a, a) == 0 && strcmp(row->b, b) == 0)
            return true;
    }
    return false;
}

static mpt_status compare_node(mpt_diff *diff, const mpt_node *a, const mpt_node *b,
                               const char *path) {
    char text[2][MPT_ATTRS_TEXT], name[2][NAME], value[2][NAME], of[2 * NAME + 8];
    const char *rest[2] = {text[0], text[1]};
    mpt_node_attrs_text(a, text[0], sizeof text[0]);
    mpt_node_attrs_text(b, text[1], sizeof text[1]);
    while (next_pair(&rest[0], name[0], value[0]) && next_pair(&rest[1], name[1], value[1]) &&
           strcmp(name[0], name[1]) == 0) {
        shorten(value[0]);
        shorten(value[1]);
        if (strcmp(value[0], value[1]) == 0 || is_elsewhere(name[0]) ||
            is_told(&diff->model, name[0], value[0], value[1]))
            continue;
        snprintf(of, sizeof of, "%s of %s", name[0], path);
        MPT_TRY(mpt_diff_add(diff, &diff->model, of, value[0], value[1]));
    }
    return MPT_OK;
}

/* Node by node up to the first pair that does not do the same in the same layer. */
static mpt_status compare_nodes(mpt_diff *diff, const mpt_graph *const graph[2]) {
    int at[2] = {0, 0};
    for (;;) {
        const mpt_node *a = next_said(graph[0], &at[0]), *b = next_said(graph[1], &at[1]);
        if (!a || !b || a->op != b->op ||
            strcmp(path_of(graph[0], a), path_of(graph[1], b)) != 0)
            break;
        MPT_TRY(compare_node(diff, a, b, path_of(graph[0], a)));
    }
    return MPT_OK;
}

/* ---- initial weights ---- */

static const char *const init_names[] = {"zero",    "one",   "normal",
                                         "uniform", "a_log", "dt_bias"};

static void init_text(const mpt_init *init, mpt_words *out) {
    char number[NAME];
    mpt_words_add(out, "%s", init_names[init->kind]);
    if (init->kind == MPT_INIT_ZERO || init->kind == MPT_INIT_ONE)
        return;
    float_text(init->a, number);
    mpt_words_add(out, " %s", number);
    float_text(init->b, number);
    if (init->kind == MPT_INIT_DT_BIAS)
        mpt_words_add(out, " to %s", number);
}

/* One row: the first parameter that starts otherwise, and how many more do. */
static mpt_status compare_initial(mpt_diff *diff, const mpt_graph *const graph[2]) {
    mpt_words first[2] = {{.len = 0}, {.len = 0}}, name = {.len = 0};
    int n = 0;
    for (int i = 0; i < graph[0]->n_params && i < graph[1]->n_params; i++) {
        const mpt_param *p[2] = {&graph[0]->params[i], &graph[1]->params[i]};
        mpt_words text[2] = {{.len = 0}, {.len = 0}};
        for (int s = 0; s < 2; s++)
            init_text(&p[s]->init, &text[s]);
        if (strcmp(p[0]->name, p[1]->name) != 0 || strcmp(text[0].data, text[1].data) == 0)
            continue;
        if (n++ == 0) {
            memcpy(first, text, sizeof first);
            mpt_words_add(&name, "initial weights differ: %s", p[0]->name);
        }
    }
    if (n == 0)
        return MPT_OK;
    if (n > 1)
        mpt_words_add(&name, " and %d more", n - 1);
    return mpt_diff_add(diff, &diff->model, name.data, first[0].data, first[1].data);
}

/* ---- the whole ---- */

mpt_status mpt_diff_operations(mpt_diff *diff) {
    const mpt_graph *graph[2];
    for (int s = 0; s < 2; s++)
        graph[s] = diff->side[s]->phases[0]->graph;
    MPT_TRY(compare_counts(diff, graph));
    MPT_TRY(compare_nodes(diff, graph));
    return compare_initial(diff, graph);
}
