/* cpu.quantize: plans each copy and shares its panels among the threads.
 *
 * Bytes do not depend on the threads: maxima are exact in any order, random bits are keyed by
 * the element, and no block is split. What has no plan (casts with counts, a scale a row in
 * column copies) goes the definition's way, its pieces in parallel. The kernels are in
 * quantize_strip.h.
 */
#include "kernels/cpu/quantize.h"

enum {
    SMALL = 16384, /* values: below it one thread is faster */
    PANELS = 128,  /* that a large matrix is cut into, for the threads to share */
    STRIPS = 4     /* one below the other in a panel of high strips, where half as many do */
};

mpt_quantize_level mpt_quantize_best_level(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return MPT_LEVEL_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return MPT_LEVEL_AVX2;
#endif
    return MPT_LEVEL_PORTABLE;
}

const mpt_quantize_kernels *mpt_quantize_kernels_of(mpt_quantize_level level) {
#if defined(__x86_64__)
    if (level == MPT_LEVEL_AVX512)
        return &mpt_quantize_avx512;
    if (level == MPT_LEVEL_AVX2)
        return &mpt_quantize_avx2;
#endif
    (void)level;
    return &mpt_quantize_portable;
}

/* ---- panels ---- */

/* How a matrix is cut into panels, row of panels by row. */
typedef struct cut {
    int64_t rows, cols;             /* of the matrix */
    int64_t panel_rows, panel_cols; /* multiples of what the kernels ask for */
    int64_t across, count;          /* panels in a row of them, and in all */
    bool back;                      /* the last one comes first */
} cut;

/* Row copies are read in the order of memory; a panel of a large matrix has so many strips that
 * it matters little that nothing fetches the first one ahead. Column copies are read by panels
 * of whole lines of codes. */
static cut cut_of(const mpt_quantize_plan *plan, bool panels) {
    cut c = {plan->rows, plan->cols, MPT_PANEL_ROWS, MPT_PANEL_COLS, 0, 0, false};
    if (!panels) {
        int64_t values = plan->rows * plan->cols / PANELS;
        values = values > SMALL ? values : SMALL;
        values = values < 8 * SMALL ? values : 8 * SMALL;
        int64_t rows = values / (plan->cols + 1) / plan->strip * plan->strip;
        int64_t strips = plan->rows / (plan->strip * (PANELS / 2));
        strips = strips < 1 ? 1 : strips > STRIPS ? STRIPS : strips;
        c.panel_rows = rows > strips * plan->strip ? rows : strips * plan->strip;
        c.panel_cols = plan->cols ? plan->cols : 1;
    }
    c.across = (c.cols + c.panel_cols - 1) / c.panel_cols;
    c.count = c.across * ((c.rows + c.panel_rows - 1) / c.panel_rows);
    return c;
}

/* The same from the end on: after a pass over the matrix its last part is still in a cache. */
static cut cut_back(const mpt_quantize_plan *plan, bool panels) {
    cut c = cut_of(plan, panels);
    c.back = true;
    return c;
}

static mpt_panel panel_at(const cut *c, int64_t i) {
    i = c->back ? c->count - 1 - i : i;
    mpt_panel p = {i / c->across * c->panel_rows, i % c->across * c->panel_cols, c->panel_rows,
                   c->panel_cols};
    p.rows = p.rows < c->rows - p.row ? p.rows : c->rows - p.row;
    p.cols = p.cols < c->cols - p.col ? p.cols : c->cols - p.col;
    return p;
}

#pragma omp declare reduction(see:mpt_quantize_amax                                            \
                              : mpt_quantize_amax_merge(&omp_out, omp_in))                     \
    initializer(omp_priv = (mpt_quantize_amax){0, false, false})

typedef mpt_quantize_amax panel_fn(const mpt_quantize_plan *plan, const mpt_panel *panel);

static mpt_quantize_amax each_panel(const mpt_quantize_plan *plan, panel_fn *run, cut c) {
    mpt_quantize_amax seen = {0, false, false};
#pragma omp parallel for schedule(dynamic) reduction(see : seen) if (c.rows * c.cols > SMALL)
    for (int64_t i = 0; i < c.count; i++) {
        mpt_panel p = panel_at(&c, i);
        mpt_quantize_amax_merge(&seen, run(plan, &p));
    }
    return seen;
}

/* All panels of a job that counts. Sums of doubles are added within groups of panels, then
 * group by group, and the groups do not depend on the threads. */
static mpt_quantize_amax count_panels(const mpt_quantize_plan *plan, panel_fn *run) {
    cut c = cut_of(plan, plan->job->column);
    mpt_quantize_amax seen = {0, false, false};
    mpt_quantize_counts part[MPT_QUANTIZE_PIECES] = {{0}};
#pragma omp parallel for schedule(dynamic) reduction(see : seen) if (c.rows * c.cols > SMALL)
    for (int g = 0; g < MPT_QUANTIZE_PIECES; g++) {
        mpt_quantize_plan own = *plan;
        mpt_quantize_counts counts = {0};
        own.counts = &counts;
        int64_t last = c.count * (g + 1) / MPT_QUANTIZE_PIECES;
        for (int64_t i = c.count * g / MPT_QUANTIZE_PIECES; i < last; i++) {
            mpt_panel p = panel_at(&c, i);
            mpt_quantize_amax_merge(&seen, run(&own, &p));
        }
        part[g] = counts;
    }
    *plan->job->counts = (mpt_quantize_counts){.capped = plan->tensor.capped};
    for (int g = 0; g < MPT_QUANTIZE_PIECES; g++)
        mpt_quantize_counts_add(plan->job->counts, &part[g]);
    return seen;
}

/* Rows that have an outer scale each, one after the other: the largest magnitude first, then
 * all else while the row is in a near cache. */
static mpt_quantize_amax panel_by_rows(const mpt_quantize_plan *plan, const mpt_panel *panel) {
    const mpt_quantize_job *job = plan->job;
    mpt_quantize_plan own = *plan;
    for (int64_t r = panel->row; r < panel->row + panel->rows; r++) {
        mpt_panel line = {r, panel->col, 1, panel->cols};
        own.tensor = mpt_quantize_row_scale(
            &plan->tensor,
            mpt_quantize_own_amax(plan->tensor.propagate, plan->kernels->amax(plan, &line)));
        if (job->amax)
            job->amax[r] = own.tensor.amax;
        if (job->factor)
            job->factor[r] = own.tensor.amax;
        if (own.counts)
            own.counts->capped += own.tensor.capped;
        mpt_quantize_plan_restore(&own);
        plan->kernels->panel(&own, &line);
    }
    return (mpt_quantize_amax){0, false, false};
}

/* Codes, scales and values, and the counts where they are asked for. */
static mpt_quantize_amax make_all(const mpt_quantize_kernels *kernels,
                                  mpt_quantize_plan *plan) {
    panel_fn *run = plan->job->q->outer == MPT_OUTER_ROW ? panel_by_rows : kernels->panel;
    plan->kernels = kernels;
    mpt_quantize_plan_restore(plan);
    return plan->job->counts ? count_panels(plan, run)
                             : each_panel(plan, run, cut_back(plan, plan->job->column));
}

/* ---- one copy ---- */

/* Whether the scale of the tensor is known before its values are. */
static bool scale_is_given(const mpt_quantize_job *job) {
    return job->q->scale.kind == MPT_SCALING_STATIC ||
           (job->q->scale.kind == MPT_SCALING_DELAYED && job->scale && *job->scale != 0.0f);
}

/* The tensor's scale from what its values are, and the outputs that follow from it. */
static void settle(mpt_quantize_plan *plan, mpt_quantize_amax seen) {
    plan->tensor = mpt_quantize_tensor_scale(plan->job, seen);
    mpt_quantize_put_tensor(plan->job, &plan->tensor);
}

/* After a pass with a given scale: false where a value that is not finite turned up which only
 * that scale can show, so that all has to be done again. */
static bool settle_given(mpt_quantize_plan *plan, mpt_quantize_amax seen) {
    settle(plan, seen);
    return plan->tensor.scale == plan->tensor.scale;
}

/* A plain rounding of all values, in the layout of x. FP32 keeps NaN as it is only in casts. */
static bool is_round(const mpt_quantize_job *job) {
    return mpt_quantizer_is_cast(job->q) && job->q->format != MPT_DTYPE_FP32 && job->x &&
           job->decoded && !job->codes && !job->counts && !job->stands_for && !job->amax &&
           !job->amax_history;
}

/* Largest magnitudes first, where they are needed, then all else. */
static void two_passes(const mpt_quantize_kernels *kernels, mpt_quantize_plan *plan) {
    mpt_quantize_amax seen = {0, false, false};
    if (mpt_quantize_needs_amax(plan->job)) {
        seen = each_panel(plan, kernels->amax, cut_of(plan, false));
        plan->finite = !seen.inf && !seen.nan;
        plan->maxima = plan->encode != NULL;
    }
    settle(plan, seen);
    make_all(kernels, plan);
}

void mpt_quantize_operand_with(const mpt_quantize_kernels *kernels,
                               const mpt_quantize_job *job) {
    mpt_quantize_plan plan;
    if (is_round(job)) {
        mpt_round_copy_with(kernels, job->q->format, job->x, job->decoded,
                            (size_t)job->rows * (size_t)job->cols);
        plan.job = job;
        settle(&plan, (mpt_quantize_amax){0, false, false});
        return;
    }
    if (!mpt_quantize_plan_of(job, &plan)) {
        mpt_quantize_general(job);
        return;
    }
    mpt_quantize_plan_squares(&plan);
    if (scale_is_given(job)) {
        plan.tensor = mpt_quantize_tensor_scale(job, (mpt_quantize_amax){0, false, false});
        if (settle_given(&plan, make_all(kernels, &plan)))
            return;
    }
    two_passes(kernels, &plan);
}

void mpt_quantize_operand_at(mpt_quantize_level level, const mpt_quantize_job *job) {
    mpt_quantize_operand_with(mpt_quantize_kernels_of(level), job);
}

void mpt_quantize_operand(const mpt_quantize_job *job) {
    mpt_quantize_operand_at(mpt_quantize_best_level(), job);
}

/* ---- both copies ---- */

/* The panels of two plans over one matrix: both paddings are in them. */
static cut cut_of_both(const mpt_quantize_plan *row, const mpt_quantize_plan *col,
                       bool panels) {
    mpt_quantize_plan all = *col;
    all.rows = row->rows > col->rows ? row->rows : col->rows;
    all.cols = row->cols > col->cols ? row->cols : col->cols;
    all.strip = row->strip > col->strip ? row->strip : col->strip;
    return cut_of(&all, panels);
}

/* The largest magnitudes of those copies that need them before they are made. Without a
 * rotation both have the same, and they are read in the order of memory. */
static void amax_of_both(const mpt_quantize_kernels *kernels, mpt_quantize_plan *plan[2],
                         mpt_quantize_amax seen[2]) {
    bool needs[2], turns[2];
    for (int i = 0; i < 2; i++) {
        turns[i] = plan[i]->job->q->hadamard.size != 0;
        needs[i] = mpt_quantize_needs_amax(plan[i]->job) && !scale_is_given(plan[i]->job);
    }
    if (needs[0] && needs[1] && (turns[0] || turns[1])) {
        cut c = cut_of_both(plan[0], plan[1], false);
        mpt_quantize_amax row = seen[0], col = seen[1];
#pragma omp parallel for schedule(dynamic) reduction(see                                       \
                                                     : row, col) if (c.rows * c.cols > SMALL)
        for (int64_t i = 0; i < c.count; i++) {
            mpt_panel p = panel_at(&c, i);
            mpt_quantize_amax_merge(&row, kernels->amax(plan[0], &p));
            mpt_quantize_amax_merge(&col, kernels->amax(plan[1], &p));
        }
        seen[0] = row;
        seen[1] = col;
    } else if (needs[0]) {
        seen[0] = each_panel(plan[0], kernels->amax, cut_of(plan[0], false));
        if (needs[1])
            seen[1] = seen[0];
    } else if (needs[1]) {
        seen[1] = each_panel(plan[1], kernels->amax, cut_of(plan[1], false));
    }
    for (int i = 0; i < 2; i++)
        plan[i]->finite = needs[i] && !seen[i].inf && !seen[i].nan;
}

static void run_both(const mpt_quantize_kernels *kernels, mpt_quantize_plan *plan[2]) {
    mpt_quantize_amax before[2] = {{0, false, false}}, row = before[0], col = before[0];
    amax_of_both(kernels, plan, before);
    for (int i = 0; i < 2; i++)
        plan[i]->tensor = mpt_quantize_tensor_scale(plan[i]->job, before[i]);
    cut c = cut_of_both(plan[0], plan[1], true);
    c.back = true;
#pragma omp parallel for schedule(dynamic) reduction(see                                       \
                                                     : row, col) if (c.rows * c.cols > SMALL)
    for (int64_t i = 0; i < c.count; i++) {
        mpt_panel p = panel_at(&c, i);
        mpt_quantize_amax part[2] = {{0, false, false}};
        kernels->both(plan[0], plan[1], &p, part);
        mpt_quantize_amax_merge(&row, part[0]);
        mpt_quantize_amax_merge(&col, part[1]);
    }
    for (int i = 0; i < 2; i++)
        if (!scale_is_given(plan[i]->job))
            settle(plan[i], before[i]);
        else if (!settle_given(plan[i], i ? col : row))
            two_passes(kernels, plan[i]);
}

void mpt_quantize_both_with(const mpt_quantize_kernels *kernels, const mpt_quantize_job *row,
                            const mpt_quantize_job *col) {
    mpt_quantize_plan row_plan, col_plan, *plan[2] = {&row_plan, &col_plan};
    if (col->q->source != MPT_SOURCE_ORIGINAL) {
        mpt_quantize_both_by(row, col, mpt_quantize_operand);
    } else if (row->column || !col->column || row->x != col->x || row->x_bf16 != col->x_bf16 ||
               row->counts || col->counts || row->stands_for ||
               row->q->outer == MPT_OUTER_ROW || !mpt_quantize_plan_of(row, &row_plan) ||
               !mpt_quantize_plan_of(col, &col_plan)) {
        mpt_quantize_operand_with(kernels, row);
        mpt_quantize_operand_with(kernels, col);
    } else {
        run_both(kernels, plan);
    }
}

void mpt_quantize_both_at(mpt_quantize_level level, const mpt_quantize_job *row,
                          const mpt_quantize_job *col) {
    mpt_quantize_both_with(mpt_quantize_kernels_of(level), row, col);
}

void mpt_quantize_both(const mpt_quantize_job *row, const mpt_quantize_job *col) {
    mpt_quantize_both_at(mpt_quantize_best_level(), row, col);
}

/* ---- the graph node ---- */

/* Only the general path keeps rotated values, and it keeps no scales. */
static size_t scratch(const mpt_quantize_job *job) {
    mpt_quantize_plan plan;
    if (!mpt_quantize_plan_of(job, &plan))
        return mpt_quantize_rotated_bytes(job);
    return job->q->hadamard.size ? 0 : mpt_quantize_scratch(job);
}

static const mpt_quantize_backend backend = {mpt_quantize_operand, mpt_quantize_both, scratch};

void mpt_cpu_quantize(const mpt_kernel_args *args) {
    mpt_quantize_node(args, &backend);
}

void mpt_cpu_record_amax(const mpt_kernel_args *args) {
    const mpt_quantize_kernels *kernels = mpt_quantize_kernels_of(mpt_quantize_best_level());
    mpt_quantize_job job = mpt_quantize_record_job(args);
    mpt_quantize_plan plan;
    if (args->env->evaluating)
        return;
    if (mpt_quantize_plan_of(&job, &plan))
        settle(&plan, each_panel(&plan, kernels->amax, cut_of(&plan, false)));
    else
        (void)mpt_quantize_general_scale(&job);
}

size_t mpt_cpu_record_amax_scratch(const mpt_graph *graph, const mpt_node *node,
                                   int n_threads) {
    (void)n_threads;
    return mpt_quantize_record_scratch(graph, node, scratch);
}

size_t mpt_cpu_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    return mpt_quantize_node_scratch(graph, node, &backend);
}
