/* Stage 8: an offset for every value that lives in the program's block.
 *
 * Masters, gradients, moments and delayed scales have buffers of their own. The rest shares one
 * block: first what lives through the whole step (inputs, status, working weights and all else
 * made in PREPARE, which every micro-batch reads), then activations, whose places are used
 * again when they are done, then the one scratch of all kernels. Stage 9 (exec/executor.c) is
 * next. */
#include "sched/program.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static size_t align_up(size_t bytes) {
    size_t padded = mpt_size_add(bytes, ALIGN - 1);
    return padded == SIZE_MAX ? SIZE_MAX : padded / ALIGN * ALIGN;
}

/* ---- the planner ---- */

/* A stretch of the block that no life holds now. */
typedef struct gap {
    size_t offset, end;
} gap;

/* The block as it is at one step: gaps in order of offset, none touching another, and `top`,
 * behind which nothing is held. */
typedef struct block {
    gap *gaps; /* room for one more than there are lives */
    int n;
    size_t top;
} block;

/* By start; of those that start together the largest first, so that the plan depends on nothing
 * but the lives. */
static int by_first(const void *a, const void *b) {
    const mpt_lifetime *x = *(mpt_lifetime *const *)a, *y = *(mpt_lifetime *const *)b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static int by_last(const void *a, const void *b) {
    const mpt_lifetime *x = *(mpt_lifetime *const *)a, *y = *(mpt_lifetime *const *)b;
    if (x->last != y->last)
        return x->last < y->last ? -1 : 1;
    return x < y ? -1 : x > y;
}

static size_t end_of(const mpt_lifetime *life) {
    return mpt_size_add(life->offset, align_up(life->bytes));
}

/* Puts a life into the smallest gap that it fits in, or on top of all that is held. */
static void hold(block *b, mpt_lifetime *life) {
    size_t need = align_up(life->bytes), room = SIZE_MAX;
    int best = -1;
    for (int i = 0; i < b->n; i++) {
        size_t here = b->gaps[i].end - b->gaps[i].offset;
        if (here >= need && here < room) {
            room = here;
            best = i;
        }
    }
    if (best < 0) {
        life->offset = b->top;
        b->top = end_of(life);
        return;
    }
    life->offset = b->gaps[best].offset;
    b->gaps[best].offset += need;
    if (room == need) {
        b->n--;
        memmove(b->gaps + best, b->gaps + best + 1, (size_t)(b->n - best) * sizeof(gap));
    }
}

/* Gives a life's place back, joined with the gaps beside it. */
static void release(block *b, const mpt_lifetime *life) {
    gap freed = {life->offset, end_of(life)};
    int low = 0, high = b->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (b->gaps[middle].offset < freed.offset)
            low = middle + 1;
        else
            high = middle;
    }
    int from = low, to = low; /* the gaps that go up in the freed one */
    if (from > 0 && b->gaps[from - 1].end == freed.offset)
        freed.offset = b->gaps[--from].offset;
    if (to < b->n && b->gaps[to].offset == freed.end)
        freed.end = b->gaps[to++].end;
    int kept = freed.end == b->top ? 0 : 1;
    if (!kept)
        b->top = freed.offset;
    memmove(b->gaps + from + kept, b->gaps + to, (size_t)(b->n - to) * sizeof(gap));
    if (kept)
        b->gaps[from] = freed;
    b->n += kept - (to - from);
}

/* What one plan needs besides the lives. */
typedef struct planner {
    mpt_lifetime *lives;
    int n;
    mpt_lifetime **starts, **ends; /* the lives in order of first and of last */
    gap *gaps;
} planner;

/* Goes through the lives by their start, with the block as it is then: so two that live at one
 * step can never share a byte, and the work grows with the lives and the few gaps between them,
 * not with their square. Gives the bytes needed. */
static size_t sweep(const planner *p) {
    size_t peak = 0, n = (size_t)p->n;
    block b = {p->gaps, 0, 0};
    for (int i = 0; i < p->n; i++)
        p->starts[i] = p->ends[i] = &p->lives[i];
    qsort(p->starts, n, sizeof *p->starts, by_first);
    qsort(p->ends, n, sizeof *p->ends, by_last);
    for (int i = 0, ended = 0; i < p->n; i++) {
        for (; ended < p->n && p->ends[ended]->last < p->starts[i]->first; ended++)
            release(&b, p->ends[ended]);
        hold(&b, p->starts[i]);
        if (b.top > peak)
            peak = b.top;
    }
    return peak;
}

/* Turns time round. */
static void mirror(mpt_lifetime *lives, int n) {
    for (int i = 0; i < n; i++) {
        int32_t first = lives[i].first;
        lives[i].first = -lives[i].last;
        lives[i].last = -first;
    }
}

/* Sweeps in both directions of time, as either can pack better, and keeps the smaller block. */
mpt_status mpt_memplan(mpt_ctx *ctx, mpt_lifetime *lives, int n, size_t *out_bytes) {
    *out_bytes = 0;
    if (n == 0)
        return MPT_OK;
    size_t count = (size_t)n;
    size_t bytes =
        mpt_size_mul(count + 1, sizeof(gap) + 2 * sizeof(mpt_lifetime *) + sizeof(size_t));
    gap *gaps = mpt_alloc(ctx, bytes);
    if (!gaps)
        return mpt_fail_memory(ctx, bytes);
    size_t *offsets = (size_t *)(gaps + count + 1);
    mpt_lifetime **order = (mpt_lifetime **)(offsets + count);
    planner p = {lives, n, order, order + count, gaps};
    size_t forward = sweep(&p);
    for (int i = 0; i < n; i++)
        offsets[i] = lives[i].offset;
    mirror(lives, n);
    size_t backward = sweep(&p);
    mirror(lives, n);
    for (int i = 0; forward <= backward && i < n; i++)
        lives[i].offset = offsets[i];
    *out_bytes = forward <= backward ? forward : backward;
    mpt_free(ctx, gaps);
    return MPT_OK;
}

/* ---- the program's values ---- */

/* On the host every element takes 4 bytes, whatever its format: see the head of graph.h. A
 * device has what is stored. */
static size_t value_bytes(const mpt_phase_program *program, int v) {
    const mpt_value *value = &program->graph->values[v];
    mpt_storage storage = program->storage ? program->storage[v] : MPT_STORAGE_HOST;
    if (storage == MPT_STORAGE_PACKED)
        return program->packed[v].bytes;
    size_t bytes = mpt_storage_bytes(storage);
    for (int i = 0; i < value->rank; i++)
        bytes = mpt_size_mul(bytes, (size_t)value->dims[i]);
    return bytes;
}

/* First and last step of each value; last -1 where no step touches it. */
static void find_lives(mpt_phase_program *program) {
    const mpt_graph *graph = program->graph;
    mpt_placement *place = program->placement;
    for (int v = 0; v < graph->n_values; v++)
        place[v] = (mpt_placement){.state = mpt_value_is_state(graph->values[v].kind),
                                   .bytes = value_bytes(program, v),
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

mpt_memory_class mpt_memory_class_of(const mpt_value *value) {
    switch (value->kind) {
    case MPT_VALUE_PARAM:
        return MPT_MEMORY_MASTER;
    case MPT_VALUE_GRAD:
        return MPT_MEMORY_GRADIENT;
    case MPT_VALUE_MOMENT:
    case MPT_VALUE_SCALE:
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
        size_t *class_bytes = &program->bytes[mpt_memory_class_of(&graph->values[v])];
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
    MPT_TRY(mpt_schedule_choose_storage(program));
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
