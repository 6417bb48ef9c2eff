/* Stage 8: an offset for every value that lives in the program's block.
 *
 * Masters, gradients and moments have buffers of their own. The rest shares one block: first
 * what lives through the whole step (inputs, status, working weights and all else made in
 * PREPARE, which every micro-batch reads), then activations, whose places are used again when
 * they are done, then the one scratch of all kernels. Stage 9 (exec/executor.c) is next. */
#include "sched/program.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static size_t align_up(size_t bytes) {
    size_t padded = mpt_size_add(bytes, ALIGN - 1);
    return padded == SIZE_MAX ? SIZE_MAX : padded / ALIGN * ALIGN;
}

/* ---- the planner ---- */

/* Largest first; where sizes are equal the one that starts first, so that the plan depends on
 * nothing but the lives. */
static int by_size(const void *a, const void *b) {
    const mpt_lifetime *x = *(mpt_lifetime *const *)a, *y = *(mpt_lifetime *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The smallest gap between the placed lives that overlap `life` in time and that it fits in;
 * behind all of them where there is none. `placed` stands in order of offset. */
static size_t best_gap(mpt_lifetime *const *placed, int n, const mpt_lifetime *life) {
    size_t end = 0, best = SIZE_MAX, best_room = SIZE_MAX, need = align_up(life->bytes);
    for (int i = 0; i < n; i++) {
        const mpt_lifetime *other = placed[i];
        if (other->last < life->first || life->last < other->first)
            continue;
        if (other->offset > end && other->offset - end >= need &&
            other->offset - end < best_room) {
            best_room = other->offset - end;
            best = end;
        }
        size_t other_end = mpt_size_add(other->offset, align_up(other->bytes));
        if (other_end > end)
            end = other_end;
    }
    return best == SIZE_MAX ? end : best;
}

/* Keeps `placed` in order of offset. */
static void insert(mpt_lifetime **placed, int n, mpt_lifetime *life) {
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (placed[middle]->offset <= life->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(placed + low + 1, placed + low, (size_t)(n - low) * sizeof(mpt_lifetime *));
    placed[low] = life;
}

mpt_status mpt_memplan(mpt_ctx *ctx, mpt_lifetime *lives, int n, size_t *out_bytes) {
    *out_bytes = 0;
    if (n == 0)
        return MPT_OK;
    size_t bytes = mpt_size_mul((size_t)n, 2 * sizeof(mpt_lifetime *));
    mpt_lifetime **order = mpt_alloc(ctx, bytes);
    if (!order)
        return mpt_fail_memory(ctx, bytes);
    mpt_lifetime **placed = order + n;
    for (int i = 0; i < n; i++)
        order[i] = &lives[i];
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        order[i]->offset = best_gap(placed, i, order[i]);
        insert(placed, i, order[i]);
        size_t end = mpt_size_add(order[i]->offset, align_up(order[i]->bytes));
        if (end > *out_bytes)
            *out_bytes = end;
    }
    mpt_free(ctx, order);
    return MPT_OK;
}

/* ---- the program's values ---- */

static bool is_state(mpt_value_kind kind) {
    return kind == MPT_VALUE_PARAM || kind == MPT_VALUE_GRAD || kind == MPT_VALUE_MOMENT;
}

/* On the host every element takes 4 bytes, whatever its format: see the head of graph.h. */
static size_t value_bytes(const mpt_value *value) {
    size_t bytes = sizeof(float);
    for (int i = 0; i < value->rank; i++)
        bytes = mpt_size_mul(bytes, (size_t)value->dims[i]);
    return bytes;
}

/* First and last step of each value; last -1 where no step touches it. */
static void find_lives(mpt_phase_program *program) {
    const mpt_graph *graph = program->graph;
    mpt_placement *place = program->placement;
    for (int v = 0; v < graph->n_values; v++)
        place[v] = (mpt_placement){.state = is_state(graph->values[v].kind),
                                   .bytes = value_bytes(&graph->values[v]),
                                   .first = program->n_steps,
                                   .last = -1};
    for (int s = 0; s < program->n_steps; s++) {
        const mpt_node *node = &graph->nodes[program->steps[s].node];
        for (int i = 0; i < node->n_in + node->n_out; i++) {
            mpt_value_id v = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
            if (v < 0)
                continue;
            if (s < place[v].first)
                place[v].first = s;
            place[v].last = s;
        }
    }
}

/* What has one place from the first step to the last. */
static bool lives_all_step(const mpt_phase_program *program, int v) {
    mpt_value_kind kind = program->graph->values[v].kind;
    return kind == MPT_VALUE_INPUT || kind == MPT_VALUE_STATUS || kind == MPT_VALUE_WORKING ||
           program->placement[v].first < program->segment[MPT_PASS_PREPARE + 1];
}

static mpt_memory_class class_of(const mpt_value *value) {
    switch (value->kind) {
    case MPT_VALUE_PARAM:
        return MPT_MEMORY_MASTER;
    case MPT_VALUE_GRAD:
        return MPT_MEMORY_GRADIENT;
    case MPT_VALUE_MOMENT:
        return MPT_MEMORY_OPTIMIZER;
    case MPT_VALUE_WORKING:
        return MPT_MEMORY_WORKING_WEIGHTS;
    default:
        return MPT_MEMORY_ACTIVATIONS;
    }
}

/* Places what lives all step, counts the classes, and hands back the rest as lives. */
static int place_lasting(mpt_phase_program *program, mpt_lifetime *lives, int32_t *owner) {
    const mpt_graph *graph = program->graph;
    int n = 0;
    for (int v = 0; v < graph->n_values; v++) {
        mpt_placement *place = &program->placement[v];
        size_t *class_bytes = &program->bytes[class_of(&graph->values[v])];
        bool used = place->last >= 0 || v == graph->tokens || v == graph->targets;
        if (place->state) {
            *class_bytes = mpt_size_add(*class_bytes, place->bytes);
        } else if (used && lives_all_step(program, v)) {
            place->first = 0;
            place->last = program->n_steps - 1;
            place->offset = program->arena_bytes;
            program->arena_bytes = mpt_size_add(program->arena_bytes, align_up(place->bytes));
            *class_bytes = mpt_size_add(*class_bytes, align_up(place->bytes));
        } else if (used) {
            lives[n] = (mpt_lifetime){place->first, place->last, place->bytes, 0};
            owner[n++] = v;
        }
    }
    return n;
}

static mpt_status place_rest(mpt_phase_program *program, mpt_lifetime *lives,
                             const int32_t *owner, int n) {
    size_t peak;
    MPT_TRY(mpt_memplan(program->ctx, lives, n, &peak));
    for (int i = 0; i < n; i++)
        program->placement[owner[i]].offset =
            mpt_size_add(program->arena_bytes, lives[i].offset);
    program->arena_bytes = mpt_size_add(program->arena_bytes, peak);
    program->bytes[MPT_MEMORY_ACTIVATIONS] =
        mpt_size_add(program->bytes[MPT_MEMORY_ACTIVATIONS], peak);
    size_t scratch = 0;
    for (int s = 0; s < program->n_steps; s++)
        if (program->steps[s].scratch_bytes > scratch)
            scratch = program->steps[s].scratch_bytes;
    program->scratch_offset = program->arena_bytes;
    program->bytes[MPT_MEMORY_WORKSPACE] = align_up(scratch);
    program->arena_bytes = mpt_size_add(program->arena_bytes, align_up(scratch));
    return MPT_OK;
}

mpt_status mpt_schedule_plan_memory(mpt_phase_program *program) {
    size_t n_values = (size_t)program->graph->n_values;
    program->placement =
        mpt_arena_alloc(&program->arena, mpt_size_mul(n_values, sizeof(mpt_placement)));
    if (!program->placement)
        return MPT_OUT_OF_MEMORY;
    size_t bytes = mpt_size_mul(n_values, sizeof(mpt_lifetime) + sizeof(int32_t));
    mpt_lifetime *lives = mpt_alloc(program->ctx, bytes);
    if (!lives)
        return mpt_fail_memory(program->ctx, bytes);
    int32_t *owner = (int32_t *)(lives + n_values);
    find_lives(program);
    int n = place_lasting(program, lives, owner);
    mpt_status status = place_rest(program, lives, owner, n);
    mpt_free(program->ctx, lives);
    return status;
}
