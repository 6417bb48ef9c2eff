/* `mptrun diff`: what differs between two compiled recipes; pairs their phases over the run. */
#include "plan/diff.h"

#include <math.h>
#include <string.h>

bool mpt_diff_is_empty(const mpt_diff *diff) {
    int n = diff->model.n + diff->precision.n + diff->training.n + diff->n_proxy;
    for (int i = 0; i < diff->n_pairs; i++)
        n += diff->pairs[i].n_groups + diff->pairs[i].n_covers;
    return n == 0;
}

mpt_status mpt_diff_add(const mpt_diff *diff, mpt_diff_rows *rows, const char *name,
                        const char *a, const char *b) {
    if (a && b && strcmp(a, b) == 0)
        return MPT_OK;
    mpt_diff_row *grown =
        mpt_arena_grow(diff->arena, rows->rows, sizeof *grown, rows->n, &rows->cap);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    rows->rows = grown;
    mpt_diff_row row = {mpt_arena_strdup(diff->arena, name),
                        a ? mpt_arena_strdup(diff->arena, a) : NULL,
                        b ? mpt_arena_strdup(diff->arena, b) : NULL};
    if (!row.name || (a && !row.a) || (b && !row.b))
        return MPT_OUT_OF_MEMORY;
    grown[rows->n++] = row;
    return MPT_OK;
}

/* ---- phases ---- */

/* Where a phase starts, as a fraction of the run. */
static double start_of(const mpt_program *program, int phase) {
    const mpt_phase *said = &program->recipe->phases[phase];
    if (said->from_is_fraction)
        return said->from;
    return (double)program->phase_start[phase] / (double)program->train.steps;
}

/* Steps to the phases that begin next in the run; false at its end. */
static bool next_pair(const mpt_diff *diff, int phase[2]) {
    double next[2];
    for (int s = 0; s < 2; s++)
        next[s] =
            phase[s] + 1 < diff->side[s]->n_phases ? start_of(diff->side[s], phase[s] + 1) : 2;
    double first = fmin(next[0], next[1]);
    if (first >= 1)
        return false;
    for (int s = 0; s < 2; s++)
        phase[s] += next[s] <= first + 1e-9;
    return true;
}

static mpt_status pair_phases(mpt_diff *diff) {
    size_t most = (size_t)(diff->side[0]->n_phases + diff->side[1]->n_phases);
    int phase[2] = {0, 0};
    diff->pairs = mpt_arena_alloc(diff->arena, most * sizeof *diff->pairs);
    if (!diff->pairs)
        return MPT_OUT_OF_MEMORY;
    do {
        mpt_diff_pair *pair = &diff->pairs[diff->n_pairs++];
        memcpy(pair->phase, phase, sizeof phase);
        MPT_TRY(mpt_diff_layers(diff, pair));
    } while (next_pair(diff, phase));
    return MPT_OK;
}

/* ---- the whole ---- */

static bool same_layers(const mpt_graph *a, const mpt_graph *b) {
    bool same = a->n_layers == b->n_layers;
    for (int i = 0; same && i < a->n_layers; i++)
        same = strcmp(a->layers[i].path, b->layers[i].path) == 0 &&
               a->layers[i].kind == b->layers[i].kind;
    return same;
}

static bool same_schedules(const mpt_program *a, const mpt_program *b) {
    bool same = a->n_phases == b->n_phases;
    for (int p = 0; same && p < a->n_phases; p++)
        same = strcmp(a->phases[p]->schedule_hash, b->phases[p]->schedule_hash) == 0;
    return same;
}

mpt_status mpt_diff_collect(mpt_diff *diff) {
    const mpt_program *a = diff->side[0], *b = diff->side[1];
    diff->same_layers = same_layers(a->phases[0]->graph, b->phases[0]->graph);
    diff->same_schedules = same_schedules(a, b);
    MPT_TRY(mpt_diff_model(diff));
    MPT_TRY(mpt_diff_fields(diff));
    return pair_phases(diff);
}

mpt_status mpt_program_diff(const mpt_program *a, const mpt_program *b,
                            const mpt_diff_options *options, mpt_write_fn write, void *ud) {
    mpt_diff_options o = MPT_DIFF_OPTIONS_INIT;
    mpt_arena arena;
    mpt_str text;
    MPT_REQUIRE_OBJECT(a);
    MPT_REQUIRE(a->ctx, b);
    MPT_REQUIRE(a->ctx, write);
    MPT_TRY(mpt_options_read(a->ctx, __func__, options, &o, sizeof o));
    mpt_arena_init(&arena, a->ctx);
    mpt_str_init(&text, a->ctx);
    mpt_diff diff = {.ctx = a->ctx, .arena = &arena, .side = {a, b}, .color = o.color};
    mpt_status status = mpt_diff_collect(&diff);
    if (status == MPT_OK && o.json)
        status = mpt_diff_json(&diff, &text);
    else if (status == MPT_OK)
        mpt_diff_text(&diff, &text);
    if (status == MPT_OK && text.failed)
        status = mpt_fail_memory(a->ctx, text.cap);
    if (status == MPT_OK && text.len > 0 && !write(ud, text.data, text.len))
        status = MPT_FAIL(a->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(&text);
    mpt_arena_deinit(&arena);
    return status;
}
