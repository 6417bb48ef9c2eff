/* The memory of a plan by class and by format.
 *
 * For the host it is that of the memory plan, in which every number takes four bytes whatever
 * its format. For a GPU the same lives are planned again with packed operands: codes without
 * gaps, block scales, a second copy where a product reads along one side only, and in the
 * workspace the operands of the largest product that has to rewrite them. */
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/numerics_cast.h"

typedef struct counting {
    const mpt_phase_program *phase;
    mpt_target target;
    size_t *bytes;        /* one a value: what it takes on the target */
    const char **formats; /* one a value: of its numbers */
    unsigned char *sides; /* one a value: bit 0, 1: a product that reads along one side only
                             reads it along its rows, its columns */
    double *live;         /* one a step and one more: what lives then */
    mpt_lifetime *lives;
} counting;

/* ---- shares ---- */

static void add_share(mpt_plan_shares *shares, const char *format, size_t bytes) {
    int i = 0;
    while (i < shares->n && strcmp(shares->of[i].format, format) != 0)
        i++;
    if (i == MPT_PLAN_SHARES || bytes == 0)
        return;
    if (i == shares->n) {
        shares->of[shares->n].format = format;
        shares->of[shares->n++].bytes = 0;
    }
    shares->of[i].bytes = mpt_size_add(shares->of[i].bytes, bytes);
}

static void sort_shares(mpt_plan_shares *shares) {
    for (int i = 1; i < shares->n; i++)
        for (int k = i; k > 0 && shares->of[k].bytes > shares->of[k - 1].bytes; k--) {
            const char *format = shares->of[k].format;
            size_t bytes = shares->of[k].bytes;
            shares->of[k] = shares->of[k - 1];
            shares->of[k - 1].format = format;
            shares->of[k - 1].bytes = bytes;
        }
}

/* ---- one value ---- */

/* The copy that a value is of its producer; NULL where it is none. */
static const mpt_quantizer *quantizer_of(const mpt_graph *graph, int v, bool *out_column) {
    int32_t producer = graph->values[v].producer;
    const mpt_node *node = producer >= 0 ? &graph->nodes[producer] : NULL;
    if (!node || node->op != MPT_OP_quantize || (node->out[0] != v && node->out[2] != v))
        return NULL;
    *out_column = node->out[2] == v;
    return *out_column ? &node->attrs.col : &node->attrs.row;
}

/* Which side of its operands each product reads, where it reads one only. */
static void find_sides(counting *c) {
    const mpt_graph *graph = c->phase->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        mpt_gemm gemm;
        mpt_product product;
        char why[MPT_TARGET_WHY];
        const mpt_node *node = &graph->nodes[i];
        if (!mpt_plan_product(c->phase, node, &gemm, &product) ||
            !mpt_target_multiplies(c->target, &product, why))
            continue;
        /* Dot products run along the rows of x and w in fprop and of dy in dgrad. */
        bool first = gemm == MPT_GEMM_WGRAD, second = gemm != MPT_GEMM_FPROP;
        if (mpt_target_wants_both(c->target, product.a))
            c->sides[node->in[0]] |= first ? 2 : 1;
        if (mpt_target_wants_both(c->target, product.b))
            c->sides[node->in[1]] |= second ? 2 : 1;
    }
}

static size_t packed_bytes(const counting *c, int v) {
    const mpt_value *value = &c->phase->graph->values[v];
    bool column = false;
    const mpt_quantizer *q = quantizer_of(c->phase->graph, v, &column);
    if (value->kept) {
        int64_t n = mpt_value_elements(value), rows = value->rank > 1 ? value->dims[0] : 1;
        return (size_t)ceil(
            mpt_target_bytes(c->target, value->kept, rows, rows ? n / rows : 0));
    }
    if (!q)
        return (size_t)ceil((double)mpt_value_elements(value) * mpt_dtype_bits(value->dtype) /
                            8);
    double bytes = mpt_target_bytes(c->target, q, value->dims[column], value->dims[!column]);
    return (size_t)ceil(c->sides[v] == 3 ? 2 * bytes : bytes);
}

static bool is_used(const counting *c, int v) {
    const mpt_graph *graph = c->phase->graph;
    return c->phase->placement[v].last >= 0 || v == graph->tokens || v == graph->targets;
}

static void measure(counting *c) {
    const mpt_graph *graph = c->phase->graph;
    bool host = c->target == MPT_TARGET_HOST;
    if (!host)
        find_sides(c);
    for (int v = 0; v < graph->n_values; v++) {
        bool column;
        const mpt_quantizer *q = quantizer_of(graph, v, &column);
        const mpt_quantizer *kept = graph->values[v].kept;
        q = kept ? kept : q;
        c->formats[v] = q ? mpt_plan_format(q) : mpt_dtype_name(graph->values[v].dtype);
        c->bytes[v] = host ? c->phase->placement[v].bytes : packed_bytes(c, v);
    }
}

/* ---- classes ---- */

/* The step at which most of the values that do not outlive it live. */
static int find_fullest(counting *c) {
    const mpt_phase_program *phase = c->phase;
    double live = 0, most = -1;
    int fullest = 0;
    for (int v = 0; v < phase->graph->n_values; v++) {
        const mpt_placement *place = &phase->placement[v];
        if (place->state || !is_used(c, v) || place->last < 0)
            continue;
        c->live[place->first] += (double)c->bytes[v];
        c->live[place->last + 1] -= (double)c->bytes[v];
    }
    for (int s = 0; s < phase->n_steps; s++) {
        live += c->live[s];
        if (live > most) {
            most = live;
            fullest = s;
        }
    }
    return fullest;
}

static void share_out(counting *c, mpt_plan_bytes *out) {
    const mpt_graph *graph = c->phase->graph;
    int fullest = find_fullest(c);
    for (int v = 0; v < graph->n_values; v++) {
        const mpt_placement *place = &c->phase->placement[v];
        mpt_memory_class class = mpt_memory_class_of(&graph->values[v]);
        bool column = false;
        if (class == MPT_MEMORY_ACTIVATIONS &&
            (place->first > fullest || place->last < fullest))
            continue;
        if (class == MPT_MEMORY_WORKING_WEIGHTS)
            (void)quantizer_of(graph, v, &column);
        size_t twice = c->sides[v] == 3 ? 2 : 1; /* one of the two copies is turned round */
        bool other = twice == 2 && class == MPT_MEMORY_WORKING_WEIGHTS && !column;
        if (!place->state && !is_used(c, v))
            continue;
        add_share(column ? &out->columns : &out->shares[class], c->formats[v],
                  c->bytes[v] / twice);
        if (twice == 2)
            add_share(other ? &out->columns : &out->shares[class], c->formats[v],
                      c->bytes[v] / 2);
    }
    for (int i = 0; i < MPT_MEMORY_CLASS_COUNT; i++)
        sort_shares(&out->shares[i]);
    sort_shares(&out->columns);
}

/* Bytes of an operand that a product does not read as it is kept, as the way has it. */
static double decoded_operand(mpt_way way, const mpt_quantizer *q, double elements) {
    mpt_dtype format = mpt_way_format(way, q);
    bool as_it_is = way == MPT_WAY_PLAIN || format == q->format;
    return as_it_is ? 0 : elements * mpt_code_bits(format) / 8;
}

/* The rewritten operands of the largest product that is not made of the codes as they are. */
static size_t decoded_bytes(const counting *c) {
    double most = 0;
    for (int i = 0; i < c->phase->graph->n_nodes; i++) {
        mpt_gemm gemm;
        mpt_product p;
        char why[MPT_TARGET_WHY];
        if (!mpt_plan_product(c->phase, &c->phase->graph->nodes[i], &gemm, &p))
            continue;
        mpt_way way = mpt_target_way(c->target, &p, why);
        most = fmax(most, decoded_operand(way, p.a, (double)p.rows * (double)p.k) +
                              decoded_operand(way, p.b, (double)p.k * (double)p.cols));
    }
    return (size_t)most;
}

static mpt_status plan_packed(counting *c, mpt_plan_bytes *out) {
    const mpt_graph *graph = c->phase->graph;
    int n = 0;
    for (int v = 0; v < graph->n_values; v++) {
        const mpt_placement *place = &c->phase->placement[v];
        mpt_memory_class class = mpt_memory_class_of(&graph->values[v]);
        if (!place->state && !is_used(c, v))
            continue;
        if (class != MPT_MEMORY_ACTIVATIONS)
            out->of[class] = mpt_size_add(out->of[class], c->bytes[v]);
        else if (!place->state && place->last >= 0)
            c->lives[n++] = (mpt_lifetime){place->first, place->last, c->bytes[v], 0};
    }
    out->of[MPT_MEMORY_WORKSPACE] =
        mpt_size_add(mpt_target_workspace(c->target), decoded_bytes(c));
    return mpt_memplan(c->phase->ctx, c->lives, n, &out->of[MPT_MEMORY_ACTIVATIONS]);
}

static mpt_status count_phase(const mpt_phase_program *phase, mpt_target target,
                              mpt_plan_bytes *out) {
    mpt_arena arena;
    size_t n = (size_t)phase->graph->n_values;
    mpt_arena_init(&arena, phase->ctx);
    counting c = {.phase = phase,
                  .target = target,
                  .bytes = mpt_arena_alloc(&arena, mpt_size_mul(n, sizeof *c.bytes)),
                  .formats = mpt_arena_alloc(&arena, mpt_size_mul(n, sizeof *c.formats)),
                  .sides = mpt_arena_alloc(&arena, n),
                  .live = mpt_arena_alloc(
                      &arena, mpt_size_mul((size_t)phase->n_steps + 1, sizeof *c.live)),
                  .lives = mpt_arena_alloc(&arena, mpt_size_mul(n, sizeof *c.lives))};
    mpt_status status = MPT_OUT_OF_MEMORY;
    *out = (mpt_plan_bytes){.phase = phase->phase};
    if (c.bytes && c.formats && c.sides && c.live && c.lives) {
        measure(&c);
        share_out(&c, out);
        memcpy(out->of, phase->bytes, sizeof out->of);
        status = MPT_OK;
    }
    if (status == MPT_OK && target != MPT_TARGET_HOST) {
        memset(out->of, 0, sizeof out->of);
        status = plan_packed(&c, out);
    }
    mpt_arena_deinit(&arena);
    for (int i = 0; i < MPT_MEMORY_CLASS_COUNT; i++)
        out->total = mpt_size_add(out->total, out->of[i]);
    return status;
}

/* The activations of a phase if `every` blocks at a time were recomputed: as compiled, or else
 * compiled again, which takes no longer than the first time. */
static mpt_status measure_activations(const mpt_program *program, int phase, int every,
                                      const mpt_plan *plan, size_t *out) {
    mpt_phase_program *other;
    mpt_plan_bytes bytes;
    *out = plan->bytes.of[MPT_MEMORY_ACTIVATIONS];
    if (every == program->train.recompute.every || program->phases[phase]->graph->n_blocks == 0)
        return MPT_OK;
    MPT_TRY(mpt_pipeline_recompile(program, phase, every, &other));
    mpt_status status = count_phase(other, program->target, &bytes);
    *out = bytes.of[MPT_MEMORY_ACTIVATIONS];
    mpt_phase_program_destroy(other);
    return status;
}

mpt_status mpt_plan_sum_bytes(const mpt_program *program, mpt_plan *out) {
    int largest = 0;
    for (int p = 0; p < program->n_phases; p++) {
        mpt_plan_bytes phase;
        MPT_TRY(count_phase(program->phases[p], program->target, &phase));
        if (p > 0 && phase.total <= out->bytes.total)
            continue;
        out->bytes = phase;
        largest = p;
    }
    out->recompute = program->train.recompute.every > 0 ? program->train.recompute.every : 1;
    MPT_TRY(measure_activations(program, largest, 0, out, &out->activations_kept));
    return measure_activations(program, largest, out->recompute, out,
                               &out->activations_recomputed);
}
