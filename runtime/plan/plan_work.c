/* The work of a plan: FLOPs by pass, and what tensor cores make of the GEMMs.
 *
 * A GEMM runs at the rate of its wider operand; how much faster than in BF16 a run can be is
 * Amdahl's law over the FLOPs of its GEMMs, those of the head included: a bound, because all
 * else takes time too. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "recipe/use.h"

/* ---- one product ---- */

static int gemm_of(mpt_op op) {
    return op == MPT_OP_linear         ? MPT_GEMM_FPROP
           : op == MPT_OP_linear_dgrad ? MPT_GEMM_DGRAD
           : op == MPT_OP_linear_wgrad ? MPT_GEMM_WGRAD
                                       : -1;
}

bool mpt_plan_product(const mpt_phase_program *phase, const mpt_node *node, mpt_gemm *out_gemm,
                      mpt_product *out) {
    int gemm = gemm_of(node->op);
    if (gemm < 0 || node->layer < 0)
        return false;
    const mpt_policy *policy = &phase->policies[node->layer];
    const int64_t *a = phase->graph->values[node->in[0]].dims;
    const int64_t *b = phase->graph->values[node->in[1]].dims;
    mpt_slot slots[2];
    *out_gemm = (mpt_gemm)gemm;
    mpt_gemm_slots(*out_gemm, slots);
    bool turned = *out_gemm == MPT_GEMM_WGRAD; /* its dot products run along the rows */
    *out = (mpt_product){.a = &policy->slot[slots[0]],
                         .b = &policy->slot[slots[1]],
                         .rows = a[turned],
                         .cols = b[*out_gemm != MPT_GEMM_FPROP],
                         .k = a[!turned],
                         .grouped = node->n_in > 5 && node->in[5] >= 0,
                         .accumulate = node->attrs.sum.accumulate};
    return true;
}

/* ---- FLOPs ---- */

static double *flops_of(mpt_plan_flops *flops, const mpt_node *node) {
    if (node->recomputed)
        return &flops->recompute;
    switch (node->op) {
    case MPT_OP_linear:
        return &flops->fprop;
    case MPT_OP_linear_dgrad:
        return &flops->dgrad;
    case MPT_OP_linear_wgrad:
        return &flops->wgrad;
    case MPT_OP_attention:
    case MPT_OP_attention_grad:
        return &flops->attention;
    default:
        return &flops->other;
    }
}

static double cost_of(const mpt_graph *graph, const mpt_node *node) {
    const mpt_op_def *def = mpt_op_get(node->op)->def;
    return def && def->cost ? def->cost(graph, node).flops : 0;
}

/* What runs once a step is shared by all the step's tokens. */
static void sum_flops(mpt_plan *plan) {
    const mpt_graph *graph = plan->graph;
    const mpt_train *train = &plan->program->train;
    double micro = (double)graph->batch * (double)graph->sequence;
    double step = (double)train->batch * (double)train->sequence;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        bool once = node->pass == MPT_PASS_PREPARE || node->pass == MPT_PASS_UPDATE;
        *flops_of(&plan->flops, node) += cost_of(graph, node) / (once ? step : micro);
    }
}

/* ---- the bound ---- */

/* Time of the GEMMs of a phase's micro-batch where BF16 does one FLOP a second: as they are,
 * and all in BF16. */
static double gemm_time(const mpt_phase_program *phase, mpt_target target, double *out_bf16) {
    double time = 0;
    *out_bf16 = 0;
    for (int i = 0; i < phase->graph->n_nodes; i++) {
        mpt_gemm gemm;
        mpt_product product;
        if (!mpt_plan_product(phase, &phase->graph->nodes[i], &gemm, &product))
            continue;
        double flops = cost_of(phase->graph, &phase->graph->nodes[i]);
        *out_bf16 += flops;
        time += flops / mpt_target_rate(target, &product);
    }
    return time;
}

static void find_bounds(mpt_plan *plan) {
    double run = 0, run_bf16 = 0;
    for (int p = 0; p < plan->n_phases; p++) {
        double bf16, steps = (double)plan->phases[p].steps;
        double time = gemm_time(plan->program->phases[p], plan->program->target, &bf16);
        plan->phases[p].bound = time > 0 ? bf16 / time : 1;
        run += steps * time;
        run_bf16 += steps * bf16;
    }
    plan->bound = run > 0 ? run_bf16 / run : 1;
}

/* ---- what is native ---- */

/* GEMMs of a phase, and those that each GPU multiplies by itself. */
static int count_phase(const mpt_phase_program *phase, int n_native[MPT_TARGET_COUNT]) {
    int n = 0;
    for (int i = 0; i < phase->graph->n_nodes; i++) {
        mpt_gemm gemm;
        mpt_product product;
        char why[MPT_TARGET_WHY];
        if (!mpt_plan_product(phase, &phase->graph->nodes[i], &gemm, &product))
            continue;
        n++;
        for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++)
            n_native[t] += mpt_target_multiplies((mpt_target)t, &product, why);
    }
    return n;
}

/* Each GPU is told by the phase in which it has fewest of its own, so that no phase has less
 * than the plan promises. All phases have the same GEMMs. */
static void count_natives(mpt_plan *plan) {
    for (int p = plan->first; p < plan->n_phases; p++) {
        int native[MPT_TARGET_COUNT] = {0};
        if (plan->phases[p].steps == 0)
            continue;
        plan->n_gemms = count_phase(plan->program->phases[p], native);
        for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++)
            if (p == plan->first || native[t] < plan->n_native[t])
                plan->n_native[t] = native[t];
    }
}

/* A layer that runs several times is told by its slowest way. */
static mpt_status judge_layers(mpt_arena *arena, mpt_plan *plan) {
    const mpt_phase_program *phase = plan->program->phases[plan->first];
    plan->natives = mpt_arena_alloc(
        arena, mpt_size_mul((size_t)plan->graph->n_layers, sizeof *plan->natives));
    if (!plan->natives)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        const mpt_node *node = &plan->graph->nodes[i];
        mpt_gemm gemm;
        mpt_product product;
        char why[MPT_TARGET_WHY];
        if (!mpt_plan_product(phase, node, &gemm, &product))
            continue;
        mpt_plan_native *native = &plan->natives[node->layer][gemm];
        mpt_way way = mpt_target_way(plan->program->target, &product, why);
        if (native->there && way >= native->way)
            continue;
        *native = (mpt_plan_native){.there = true, .native = way >= MPT_WAY_E4M3, .way = way};
        if (*why && !(native->why = mpt_arena_strdup(arena, why)))
            return MPT_OUT_OF_MEMORY;
    }
    return MPT_OK;
}

mpt_status mpt_plan_sum_work(mpt_arena *arena, mpt_plan *plan) {
    sum_flops(plan);
    find_bounds(plan);
    count_natives(plan);
    return plan->program->target == MPT_TARGET_HOST ? MPT_OK : judge_layers(arena, plan);
}

/* ---- the warning ---- */

/* GEMMs of a phase that the target emulates, and the first of them. */
static int count_emulated(const mpt_phase_program *phase, mpt_target target,
                          const mpt_node **out_first, char first_why[MPT_TARGET_WHY]) {
    int n = 0;
    for (int i = 0; i < phase->graph->n_nodes; i++) {
        mpt_gemm gemm;
        mpt_product product;
        char why[MPT_TARGET_WHY];
        const mpt_node *node = &phase->graph->nodes[i];
        if (!mpt_plan_product(phase, node, &gemm, &product) ||
            mpt_target_multiplies(target, &product, why))
            continue;
        if (n++ == 0) {
            *out_first = node;
            memcpy(first_why, why, sizeof why);
        }
    }
    return n;
}

mpt_status mpt_plan_check_target(mpt_program *program) {
    char why[MPT_TARGET_WHY], text[512];
    const mpt_node *first = NULL;
    int n = 0, p = 0;
    if (program->target == MPT_TARGET_HOST)
        return MPT_OK;
    for (; n == 0 && p < program->n_phases; p++)
        n = count_emulated(program->phases[p], program->target, &first, why);
    if (n == 0)
        return MPT_OK;
    const mpt_phase_program *phase = program->phases[p - 1];
    const mpt_policy *policy = &phase->policies[first->layer];
    mpt_where where =
        policy->n_decided ? policy->decided_by[policy->n_decided - 1] : program->recipe->where;
    snprintf(text, sizeof text, "%s emulates %d GEMM%s, first %s.%s: %s",
             mpt_target_name(program->target), n, n == 1 ? "" : "s",
             phase->graph->layers[first->layer].path,
             mpt_gemm_name((mpt_gemm)gemm_of(first->op)), why);
    return mpt_recipe_warn_not_native(program->recipe, &program->arena, where, text,
                                      &program->warnings, &program->n_warnings);
}
