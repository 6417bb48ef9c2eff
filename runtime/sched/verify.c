/* A whole program, checked against what its graph says: for tests, which run it over every
 * shipped recipe. It believes neither stage 7 nor stage 8: lives are found anew from the steps,
 * and places are compared with each other.
 *
 * Order: each node is one step, in the segment of its pass, behind the makers of all it reads.
 * Places: inside the block, aligned, disjoint from all others that live at the same step, and
 * from the scratch. What PREPARE makes, the inputs and the status live from the first step to
 * the last, since forward and backward repeat for each micro-batch. */
#include "sched/program.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

/* A value that is in the block from step first to step last. */
typedef struct life {
    mpt_value_id value;
    int32_t first, last;
} life;

typedef struct verifier {
    const mpt_phase_program *program;
    const mpt_graph *graph;
    life *lives; /* one a value: last -1 where no step touches it */
    life **starts, **ends;
    life **held; /* those that live at the step at hand, by offset */
    bool *seen;  /* one a node, then one a value: there already */
    int n_held;
} verifier;

#define FAULT(v, ...) MPT_FAIL((v)->program->ctx, MPT_INTERNAL, MPT_NOWHERE, __VA_ARGS__)

static const char *op_name(const mpt_node *node) {
    return mpt_op_get(node->op)->name;
}

/* ---- order ---- */

static bool is_there_before(const mpt_value *value) {
    return mpt_value_is_state(value->kind) || value->kind == MPT_VALUE_INPUT;
}

static mpt_status check_step(const verifier *v, int s, mpt_pass pass, bool *made) {
    const mpt_step *step = &v->program->steps[s];
    const mpt_node *node = &v->graph->nodes[step->node];
    if (v->seen[step->node])
        return FAULT(v, "step %d (%s) runs node %d again", s, op_name(node), step->node);
    v->seen[step->node] = true;
    if (node->pass != pass)
        return FAULT(v, "step %d (%s) stands in pass %s", s, op_name(node),
                     mpt_pass_name(pass));
    if (!step->kernel || step->kernel->op != node->op)
        return FAULT(v, "step %d (%s) has no kernel of its op", s, op_name(node));
    for (int i = 0; i < node->n_in; i++) {
        mpt_value_id id = node->in[i];
        if (id >= 0 && !made[id] && !is_there_before(&v->graph->values[id]))
            return FAULT(v, "step %d (%s) reads %s before it is made", s, op_name(node),
                         v->graph->values[id].name);
    }
    for (int k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0)
            made[node->out[k]] = true;
    return MPT_OK;
}

static mpt_status check_order(const verifier *v) {
    const mpt_phase_program *program = v->program;
    bool *made = v->seen + v->graph->n_nodes;
    if (program->n_steps != v->graph->n_nodes || program->segment[0] != 0 ||
        program->segment[MPT_PASS_COUNT] != program->n_steps)
        return FAULT(v, "%d steps for %d nodes", program->n_steps, v->graph->n_nodes);
    for (int pass = 0; pass < MPT_PASS_COUNT; pass++)
        for (int s = program->segment[pass]; s < program->segment[pass + 1]; s++)
            MPT_TRY(check_step(v, s, (mpt_pass)pass, made));
    return MPT_OK;
}

/* ---- lives ---- */

static void touch(const verifier *v, mpt_value_id id, int s) {
    life *l = &v->lives[id];
    l->first = l->last < 0 ? s : l->first;
    l->last = s;
}

static void find_lives(const verifier *v) {
    const mpt_phase_program *program = v->program;
    for (int i = 0; i < v->graph->n_values; i++)
        v->lives[i] = (life){i, 0, -1};
    for (int s = 0; s < program->n_steps; s++) {
        const mpt_node *node = &v->graph->nodes[program->steps[s].node];
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] >= 0)
                touch(v, node->in[i], s);
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0)
                touch(v, node->out[k], s);
    }
    for (int i = 0; i < v->graph->n_values; i++) {
        mpt_value_kind kind = v->graph->values[i].kind;
        bool early = v->lives[i].first < program->segment[MPT_PASS_FORWARD];
        if (v->lives[i].last >= 0 &&
            (early || kind == MPT_VALUE_INPUT || kind == MPT_VALUE_STATUS))
            v->lives[i] = (life){i, 0, program->n_steps - 1};
    }
}

/* ---- places ---- */

static const mpt_placement *place_of(const verifier *v, const life *l) {
    return &v->program->placement[l->value];
}

/* A place is large enough for float32, aligned, and ends before the scratch. */
static mpt_status check_place(const verifier *v, const life *l) {
    const mpt_placement *place = place_of(v, l);
    const mpt_value *value = &v->graph->values[l->value];
    size_t need = mpt_size_mul((size_t)mpt_value_elements(value), sizeof(float));
    if (place->last < 0 || place->bytes < need || place->offset % ALIGN != 0)
        return FAULT(v, "%s has %zu bytes at %zu, and needs %zu", value->name, place->bytes,
                     place->offset, need);
    if (mpt_size_add(place->offset, place->bytes) > v->program->scratch_offset)
        return FAULT(v, "%s reaches past the scratch at %zu", value->name,
                     v->program->scratch_offset);
    return MPT_OK;
}

static mpt_status check_scratch(const verifier *v) {
    const mpt_phase_program *program = v->program;
    for (int s = 0; s < program->n_steps; s++)
        if (mpt_size_add(program->scratch_offset, program->steps[s].scratch_bytes) >
            program->arena_bytes)
            return FAULT(v, "the scratch of step %d reaches past the block", s);
    return MPT_OK;
}

/* Where a place stands, or would stand, among those held. */
static int find_held(const verifier *v, size_t offset) {
    int low = 0, high = v->n_held;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (place_of(v, v->held[middle])->offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mpt_status fail_overlap(const verifier *v, const life *a, const life *b) {
    return FAULT(v, "%s and %s share memory at step %d", v->graph->values[a->value].name,
                 v->graph->values[b->value].name, a->first > b->first ? a->first : b->first);
}

static mpt_status hold(verifier *v, life *l) {
    const mpt_placement *place = place_of(v, l);
    int at = find_held(v, place->offset);
    if (at < v->n_held && place_of(v, v->held[at])->offset < place->offset + place->bytes)
        return fail_overlap(v, l, v->held[at]);
    if (at > 0) {
        const mpt_placement *below = place_of(v, v->held[at - 1]);
        if (below->offset + below->bytes > place->offset)
            return fail_overlap(v, l, v->held[at - 1]);
    }
    memmove(v->held + at + 1, v->held + at, (size_t)(v->n_held - at) * sizeof *v->held);
    v->held[at] = l;
    v->n_held++;
    return MPT_OK;
}

static void release(verifier *v, const life *l) {
    int at = find_held(v, place_of(v, l)->offset);
    v->n_held--;
    memmove(v->held + at, v->held + at + 1, (size_t)(v->n_held - at) * sizeof *v->held);
}

static int by_first(const void *a, const void *b) {
    const life *x = *(life *const *)a, *y = *(life *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->value - y->value;
}

static int by_last(const void *a, const void *b) {
    const life *x = *(life *const *)a, *y = *(life *const *)b;
    return x->last != y->last ? (x->last < y->last ? -1 : 1) : x->value - y->value;
}

/* Goes through the steps with the places that are held then. */
static mpt_status check_places(verifier *v) {
    int n = 0;
    for (int i = 0; i < v->graph->n_values; i++)
        if (v->lives[i].last >= 0 && !mpt_value_is_state(v->graph->values[i].kind))
            v->starts[n] = v->ends[n] = &v->lives[i], n++;
    for (int i = 0; i < n; i++)
        MPT_TRY(check_place(v, v->starts[i]));
    qsort(v->starts, (size_t)n, sizeof *v->starts, by_first);
    qsort(v->ends, (size_t)n, sizeof *v->ends, by_last);
    for (int i = 0, ended = 0; i < n; i++) {
        for (; v->ends[ended]->last < v->starts[i]->first; ended++)
            release(v, v->ends[ended]);
        MPT_TRY(hold(v, v->starts[i]));
    }
    return check_scratch(v);
}

mpt_status mpt_schedule_verify(const mpt_phase_program *program) {
    const mpt_graph *graph = program->graph;
    size_t n = (size_t)graph->n_values + 1, n_nodes = (size_t)graph->n_nodes;
    size_t bytes = mpt_size_mul(n, sizeof(life) + 3 * sizeof(life *) + 1) + n_nodes;
    char *memory = mpt_alloc(program->ctx, bytes);
    if (!memory)
        return mpt_fail_memory(program->ctx, bytes);
    life **lists = (life **)memory;
    verifier v = {program,
                  graph,
                  (life *)(lists + 3 * n),
                  lists,
                  lists + n,
                  lists + 2 * n,
                  (bool *)(lists + 3 * n) + n * sizeof(life),
                  0};
    mpt_status status = check_order(&v);
    if (status == MPT_OK) {
        find_lives(&v);
        status = check_places(&v);
    }
    mpt_free(program->ctx, memory);
    return status;
}
