/* quantize, record_amax and quantize_state: from nodes to quantized copies and their steps.
 *
 * All that changes from step to step (keys, the micro-batch, delayed scales) is read by kernels
 * from memory; what is decided here are the node's fields, `counting` and `evaluating`. Next:
 * quantize_amax.cu, then quantize_block.cu. */
#include "kernels/cuda/quantize_copy.h"

/* ---- scratch ---- */

/* Room that is handed out piece by piece; without a base it is only measured. */
struct quantize_room {
    uint8_t *base;
    size_t used;
};

template <typename T> static T *take(quantize_room *room, int64_t n) {
    size_t at = room->used;
    room->used = (at + (size_t)n * sizeof(T) + 255) / 256 * 256;
    return room->base ? reinterpret_cast<T *>(room->base + at) : nullptr;
}

/* Any step may be counted, so there is always room for that. */
static void place_scratch(quantize_copy *c, quantize_room *room) {
    int64_t rows = c->shape.rows, blocks = quantize_rows_of_blocks(*c) * c->shape.blocks_k;
    c->found = take<quantize_found>(room, 1);
    c->part = take<mpt_quantize_counts>(room, quantize_grid(quantize_groups(*c)));
    if (c->q.hadamard.size)
        c->rotated = take<float>(room, rows * c->shape.k);
    if (!c->shape.one_scale)
        c->blocks = take<quantize_block>(room, blocks);
    if (c->q.outer == MPT_OUTER_ROW)
        c->row_amax = take<uint32_t>(room, rows);
    if (c->q.scale_rule.kind == MPT_RULE_FOUR_OVER_SIX)
        c->errors = take<float>(room, 2 * rows * c->shape.blocks_k);
}

/* What a row copy stands for, and the operand that is made of it. */
struct quantize_source {
    float *stands_for, *x;
};

static quantize_source place_source(const quantize_copy &row, quantize_room *room) {
    quantize_source s = {nullptr, nullptr};
    s.stands_for = take<float>(room, row.shape.rows * row.shape.k);
    s.x = take<float>(room, row.shape.rows * row.shape.k_in);
    return s;
}

/* ---- copies ---- */

static quantize_copy copy_of_job(const mpt_quantize_job *job) {
    quantize_copy c = {};
    c.q = *job->q;
    c.constants = mpt_quantize_constants(job);
    c.shape = mpt_quantize_shape_of(job);
    c.bf16 = job->bf16;
    return c;
}

/* One side of a node, without its outputs. */
static quantize_copy copy_of(const mpt_node *node, bool column, const mpt_tensor *x) {
    const mpt_attrs *a = &node->attrs;
    mpt_quantize_job job = mpt_quantize_job_of(node, column, x);
    quantize_copy c = copy_of_job(&job);
    c.x = gpu_tensor_of(x);
    c.operand = column ? a->col_operand : a->row_operand;
    c.scope = column ? a->col_scope : a->row_scope;
    c.once = node->pass == MPT_PASS_PREPARE;
    return c;
}

/* A copy made before in this micro-batch is seen and counted once; an evaluation leaves no
 * trace in histories. */
static quantize_copy fill_copy(const mpt_kernel_args *args, bool column) {
    const mpt_attrs *a = &args->node->attrs;
    int in = column ? 3 : 1, out = column ? 2 : 0;
    bool again = column ? a->col_again : a->row_again;
    quantize_copy c = copy_of(args->node, column, &args->in[0]);
    c.env = args->gpu->env;
    c.delayed = (const float *)gpu_in(args, in).data;
    c.history = (float *)gpu_in(args, in + 1).data;
    c.records = !args->env->evaluating && !again;
    c.codes = (uint8_t *)args->out[out].data;
    if (c.codes)
        c.packed = *args->out[out].packed;
    c.factor = (float *)args->out[out + 1].data;
    if (args->gpu->counting && !again)
        c.counts = &args->gpu->counts[column ? a->col_index : a->row_index];
    return c;
}

/* Whether the tensor's amax is asked for, of values as they are. A static scale asks for it
 * only where elements cannot say NaN themselves. */
static bool wants_plain(const quantize_copy &c) {
    bool one =
        c.constants.one && (c.q.scale.kind != MPT_SCALING_STATIC || !mpt_has_nan(c.q.format));
    return c.q.hadamard.size == 0 &&
           (one || c.q.outer == MPT_OUTER_TENSOR || (c.history && c.records));
}

/* Rotation, amax, and all that follows from them. */
static void find(const quantize_copy &c, mpt_gpu *gpu) {
    quantize_begin(c, gpu);
    if (c.q.hadamard.size)
        quantize_rotate(c, gpu);
    else if (wants_plain(c))
        quantize_amax(c, nullptr, gpu);
    quantize_settle(c, gpu);
}

static void run(const quantize_copy &c, mpt_gpu *gpu) {
    find(c, gpu);
    quantize_blocks(c, gpu);
}

/* Whether the copy is made by the fast kernels, which keep less in scratch: rotated values and
 * blocks stay in their tiles, and where there is a delayed scale x is read once. */
static bool prepare_tile(quantize_copy *c, bool column) {
    if (!quantize_tile_takes(*c, column))
        return false;
    c->rotated = nullptr;
    c->blocks = nullptr;
    c->late = c->delayed && c->q.scale.kind == MPT_SCALING_DELAYED;
    return true;
}

static void raise(const quantize_copy &c, mpt_gpu *gpu) {
    if (c.late && c.history && c.records)
        quantize_raise(c, gpu);
}

static void make(const quantize_copy &c, bool tile, bool column, mpt_gpu *gpu) {
    if (tile)
        quantize_tile(c, column, gpu);
    else
        quantize_blocks(c, gpu);
    raise(c, gpu);
}

static void run_one(quantize_copy *c, bool column, mpt_gpu *gpu) {
    bool tile = prepare_tile(c, column);
    if (tile && c->q.hadamard.size) {
        quantize_begin(*c, gpu);
        quantize_tile_amax(*c, nullptr, gpu);
        quantize_settle(*c, gpu);
    } else {
        find(*c, gpu);
    }
    make(*c, tile, column, gpu);
}

/* Both amaxes of copies that are made by tiles, in one read where both are wanted now. */
static void find_both(const quantize_copy &row, const quantize_copy &col, mpt_gpu *gpu) {
    bool row_now = wants_plain(row) && !row.late, col_now = wants_plain(col) && !col.late;
    bool turns = col.q.hadamard.size != 0;
    bool together = row_now && (turns || col_now);
    quantize_begin(row, gpu);
    quantize_begin(col, gpu);
    if (turns)
        quantize_tile_amax(col, together ? row.found : nullptr, gpu);
    else if (wants_plain(col))
        quantize_amax(col, together ? row.found : nullptr, gpu);
    if (wants_plain(row) && !together)
        quantize_amax(row, nullptr, gpu);
    quantize_settle(row, gpu);
    quantize_settle(col, gpu);
}

static void run_both(quantize_copy *row, quantize_copy *col, mpt_gpu *gpu) {
    if (!quantize_tile_takes(*row, false) || !quantize_tile_takes(*col, true)) {
        run_one(row, false, gpu);
        run_one(col, true, gpu);
        return;
    }
    (void)prepare_tile(row, false);
    (void)prepare_tile(col, true);
    find_both(*row, *col, gpu);
    quantize_tile_both(*row, *col, gpu);
    raise(*row, gpu);
    raise(*col, gpu);
}

/* ---- quantize ---- */

/* Whether the column copy is made of what the row copy stands for. */
static bool in_turn(const mpt_attrs *a) {
    return a->has_row && a->has_col && a->col.source == MPT_SOURCE_DEQUANTIZED;
}

/* The row copy, then the column copy of what that stands for. */
static void run_in_turn(quantize_copy row, quantize_copy col, quantize_source source,
                        mpt_gpu *gpu) {
    row.stands_for = source.stands_for;
    run(row, gpu);
    quantize_unrotate(row, source.x, gpu);
    col.x = {source.x, MPT_DTYPE_FP32, MPT_STORAGE_HOST, col.x.n};
    run(col, gpu);
}

extern "C" void mpt_cuda_quantize(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    quantize_room room = {(uint8_t *)args->scratch, 0};
    quantize_copy row = {}, col = {};
    if (a->has_row) {
        row = fill_copy(args, false);
        place_scratch(&row, &room);
    }
    if (a->has_col) {
        col = fill_copy(args, true);
        place_scratch(&col, &room);
    }
    if (in_turn(a))
        run_in_turn(row, col, place_source(row, &room), args->gpu);
    else if (a->has_row && a->has_col)
        run_both(&row, &col, args->gpu);
    else
        run_one(a->has_row ? &row : &col, !a->has_row, args->gpu);
}

/* A tensor without data, of a value whose shape is all that is known yet. */
static mpt_tensor shape_of(const mpt_graph *graph, mpt_value_id id) {
    const mpt_value *v = &graph->values[id];
    mpt_tensor x = {};
    x.dtype = v->dtype;
    x.rank = v->rank;
    for (int i = 0; i < v->rank; i++)
        x.dims[i] = v->dims[i];
    return x;
}

extern "C" size_t mpt_cuda_quantize_scratch(const mpt_graph *graph, const mpt_node *node,
                                            int n_threads) {
    (void)n_threads;
    quantize_room room = {nullptr, 0};
    mpt_tensor x = shape_of(graph, node->in[0]);
    for (int column = 0; column < 2; column++) {
        quantize_copy c = copy_of(node, column != 0, &x);
        if (!(column ? node->attrs.has_col : node->attrs.has_row))
            continue;
        place_scratch(&c, &room);
        if (column && in_turn(&node->attrs))
            (void)place_source(copy_of(node, false, &x), &room);
    }
    return room.used;
}

/* ---- record_amax ---- */

extern "C" void mpt_cuda_record_amax(const mpt_kernel_args *args) {
    quantize_room room = {(uint8_t *)args->scratch, 0};
    if (args->env->evaluating)
        return;
    quantize_copy c = copy_of(args->node, args->node->attrs.has_col, &args->in[1]);
    c.env = args->gpu->env;
    c.history = (float *)args->in[0].data;
    c.records = true;
    c.found = take<quantize_found>(&room, 1);
    find(c, args->gpu);
}

extern "C" size_t mpt_cuda_record_amax_scratch(const mpt_graph *graph, const mpt_node *node,
                                               int n_threads) {
    (void)graph;
    (void)node;
    (void)n_threads;
    return sizeof(quantize_found);
}

/* ---- quantize_state ---- */

/* A vector is one row; a tensor of more than two dimensions has a row for each of its first. */
static quantize_copy state_copy(const mpt_node *node, const mpt_tensor *t) {
    mpt_quantize_job job = {};
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    job.q = &node->attrs.row;
    job.rows = t->rank > 1 ? t->dims[0] : 1;
    job.cols = job.rows ? n / job.rows : 0;
    quantize_copy c = copy_of_job(&job);
    c.x = gpu_tensor_of(t);
    c.operand = node->attrs.row_operand;
    c.once = true;
    return c;
}

extern "C" void mpt_cuda_quantize_state(const mpt_kernel_args *args) {
    quantize_room room = {(uint8_t *)args->scratch, 0};
    quantize_copy c = state_copy(args->node, &args->out[0]);
    place_scratch(&c, &room);
    c.env = args->gpu->env;
    c.skip = (const float *)args->in[1].data;
    c.stands_for = (float *)args->out[0].data;
    run(c, args->gpu);
}

extern "C" size_t mpt_cuda_quantize_state_scratch(const mpt_graph *graph, const mpt_node *node,
                                                  int n_threads) {
    (void)n_threads;
    quantize_room room = {nullptr, 0};
    mpt_tensor t = shape_of(graph, node->in[0]);
    quantize_copy c = state_copy(node, &t);
    place_scratch(&c, &room);
    return room.used;
}
