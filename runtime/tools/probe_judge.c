/* Which matrices a format damages so much that they need a rule.
 *
 * A matrix is told by the others: one stands out whose SQNR is more than a bit below the
 * median, or which loses far more of its values than the median. Such as hold NaN or Inf are a
 * matter of the checkpoint, and what is zero or exact is never damaged. Where each matrix is
 * badly off there is nothing to stand out from, and the format itself fails. Next:
 * probe_text.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/probe.h"

double mpt_probe_share(const mpt_probe_cell *cell, uint64_t n) {
    return cell->counts.elements ? (double)n / (double)cell->counts.elements : 0;
}

void mpt_probe_settle(const mpt_probe_line *line, mpt_probe_cell *cell) {
    cell->sqnr = mpt_quantize_sqnr(&cell->counts);
    if (line->nonfinite || cell->destroyed)
        cell->state = MPT_PROBE_NONFINITE;
    else if (isnan(cell->sqnr))
        cell->state = MPT_PROBE_ZERO;
    else
        cell->state = isinf(cell->sqnr) ? MPT_PROBE_EXACT : MPT_PROBE_OK;
}

static double lost(const mpt_probe_cell *cell) {
    return mpt_probe_share(cell, cell->counts.underflow);
}

/* ---- medians ---- */

static int compare_doubles(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Of an even number the better one is taken, so that one of two can stand out. */
static void find_medians(const mpt_probe *probe, int f, double *room, mpt_probe_verdict *v) {
    double *share = room + probe->n_lines;
    size_t n = 0;
    for (int i = 0; i < probe->n_lines; i++) {
        const mpt_probe_cell *cell = &probe->lines[i].cells[f];
        if (cell->state == MPT_PROBE_OK) {
            room[n] = cell->sqnr;
            share[n++] = lost(cell);
        }
    }
    qsort(room, n, sizeof *room, compare_doubles);
    qsort(share, n, sizeof *share, compare_doubles);
    v->sqnr = n ? room[n / 2] : (double)NAN;
    v->lost = n ? share[(n - 1) / 2] : (double)NAN;
}

/* ---- verdicts ---- */

static mpt_probe_damage damage_of(const mpt_probe_line *line, const mpt_probe_cell *cell,
                                  const mpt_probe_verdict *v) {
    if (line->nonfinite)
        return MPT_DAMAGE_INPUT;
    if (cell->destroyed)
        return MPT_DAMAGE_DESTROYED;
    if (cell->state != MPT_PROBE_OK)
        return MPT_DAMAGE_NONE;
    if (cell->sqnr < v->sqnr - MPT_PROBE_NOISE)
        return MPT_DAMAGE_NOISE;
    if (lost(cell) > MPT_PROBE_LOST && lost(cell) > MPT_PROBE_TIMES * v->lost)
        return MPT_DAMAGE_LOST;
    return MPT_DAMAGE_NONE;
}

/* Whether a matrix is badly off by itself, whatever the others are. */
static bool is_badly_off(const mpt_probe_cell *cell) {
    return cell->destroyed || cell->sqnr < MPT_PROBE_FAILING || lost(cell) > MPT_PROBE_LOST;
}

static void judge(mpt_probe *probe, int f, double *room) {
    mpt_probe_verdict *v = &probe->verdict[f];
    int n_badly = 0;
    find_medians(probe, f, room, v);
    for (int i = 0; i < probe->n_lines; i++) {
        const mpt_probe_line *line = &probe->lines[i];
        mpt_probe_cell *cell = &line->cells[f];
        cell->damage = damage_of(line, cell, v);
        if (line->nonfinite || cell->state == MPT_PROBE_ZERO)
            continue;
        v->n_judged++;
        n_badly += is_badly_off(cell);
        v->n_damaged += cell->damage != MPT_DAMAGE_NONE;
    }
    v->fails = v->n_judged > 0 && n_badly == v->n_judged;
}

/* ---- order ---- */

static int rank(const mpt_probe_cell *cell) {
    static const int ranks[] = {[MPT_PROBE_NONFINITE] = 0,
                                [MPT_PROBE_OK] = 1,
                                [MPT_PROBE_EXACT] = 2,
                                [MPT_PROBE_ZERO] = 3};
    return ranks[cell->state];
}

/* Below 0 where a is damaged more than b. */
static int compare_cells(const mpt_probe_cell *a, const mpt_probe_cell *b) {
    if (rank(a) != rank(b))
        return rank(a) < rank(b) ? -1 : 1;
    return a->state == MPT_PROBE_OK ? (a->sqnr > b->sqnr) - (a->sqnr < b->sqnr) : 0;
}

static int compare_lines(const void *a, const void *b) {
    const mpt_probe_line *x = a, *y = b;
    int order = compare_cells(&x->cells[0], &y->cells[0]);
    return order ? order : strcmp(x->tensor->name, y->tensor->name);
}

mpt_status mpt_probe_judge(mpt_probe *probe) {
    size_t n = (size_t)probe->n_lines;
    double *room = mpt_arena_alloc(&probe->arena, mpt_size_mul(2 * n, sizeof *room));
    if (!room)
        return MPT_OUT_OF_MEMORY; /* the arena has said so */
    for (int f = 0; f < probe->n_formats; f++)
        judge(probe, f, room);
    qsort(probe->lines, n, sizeof *probe->lines, compare_lines);
    return MPT_OK;
}

const mpt_probe_line *mpt_probe_worst(const mpt_probe *probe, int format) {
    const mpt_probe_line *worst = &probe->lines[0];
    for (int i = 1; i < probe->n_lines; i++)
        if (compare_cells(&probe->lines[i].cells[format], &worst->cells[format]) < 0)
            worst = &probe->lines[i];
    return worst->cells[format].state == MPT_PROBE_ZERO ? NULL : worst;
}
