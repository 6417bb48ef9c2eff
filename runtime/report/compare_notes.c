/* What a reader of a comparison must know before he believes it: labels that did not hold, what
 * differs besides precision, what is missing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/text.h"
#include "report/compare.h"

enum { MOST_FIELDS = 6 };

MPT_PRINTF(3, 4)
static mpt_status add(mpt_comparison *c, int recipe, const char *fmt, ...) {
    char text[1536];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_compare_flag *grown =
        mpt_arena_grow(&c->arena, c->flags, sizeof *grown, c->n_flags, &c->cap_flags);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    c->flags = grown;
    grown[c->n_flags] = (mpt_compare_flag){recipe, mpt_arena_strdup(&c->arena, text)};
    return grown[c->n_flags++].text ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* "recipe hash X", or where the base's is another "recipe hash X, that of BASE is Y". */
static void hashes(const mpt_compared *r, const mpt_compared *base, char out[256]) {
    if (strcmp(r->row.recipe_hash, base->row.recipe_hash) == 0)
        snprintf(out, 256, "recipe hash %s%s%s", r->row.recipe_hash,
                 r == base ? "" : ", as that of ", r == base ? "" : base->row.recipe);
    else
        snprintf(out, 256, "recipe hash %s, that of %s is %s", r->row.recipe_hash,
                 base->row.recipe, base->row.recipe_hash);
}

static mpt_status note_labels(mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    const mpt_comparison_row *row = &r->row, *base = &c->recipes[0].row;
    char ran[256], hash[256];
    if (row->gemms == 0 || row->quantized_gemms > 0)
        return MPT_OK;
    mpt_gemm_list_text(&r->gemms, ran, sizeof ran);
    hashes(r, &c->recipes[0], hash);
    if (row->empty_label)
        return add(c, i, "%s: its name says %s, but 0 quantized GEMMs ran: %s (%s)",
                   row->recipe, r->said, ran, hash);
    if (i == 0 || !r->as_base)
        return MPT_OK;
    return add(c, i, "%s: 0 quantized GEMMs ran, all in the formats of %s: %s (%s)",
               row->recipe, base->recipe, ran, hash);
}

/* The same schedule is the same computation only with the same training. */
static mpt_status note_schedule(mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    const char *base = c->recipes[0].row.recipe;
    if (!r->same_schedule || r->differs)
        return MPT_OK; /* the fields that differ are told, below */
    if (r->same_recipe && mpt_compare_same_losses(c, i))
        return add(c, i, "%s: has recipe hash, schedule and every loss of %s", r->row.recipe,
                   base);
    if (r->same_recipe)
        return add(c, i,
                   "%s: has recipe hash and schedule of %s, and not the same losses: other "
                   "seeds, steps, first weights or injected faults, another machine or mpt",
                   r->row.recipe, base);
    return add(c, i,
               "%s: compiles to the same schedule as %s, though their recipes are not the same",
               r->row.recipe, base);
}

static mpt_status note_fields(mpt_comparison *c, int i) {
    const mpt_compared_run *a = mpt_compare_first(c, 0), *b = mpt_compare_first(c, i);
    mpt_words line = {.len = 0};
    mpt_field_pair pair;
    int n = 0;
    for (int at = 0; mpt_compare_differs(a, b, &at, &pair); n++)
        if (n < MOST_FIELDS)
            mpt_words_add(&line, "%s%s (%s in %s, %s here)", n ? ", " : "", pair.name,
                          pair.a ? pair.a : "none", a->name, pair.b ? pair.b : "none");
    if (n > MOST_FIELDS)
        mpt_words_add(&line, " and %d more", n - MOST_FIELDS);
    if (n == 0)
        return MPT_OK;
    if (c->recipes[i].same_schedule)
        return add(c, i, "%s: compiles to the same schedule as %s; what differs is %s", b->name,
                   a->name, line.data);
    return add(c, i, "%s: not precision alone: %s differ%s, too", b->name, line.data,
               n == 1 ? "s" : "");
}

/* What is not there of a recipe. */
static mpt_status note_runs(mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    const mpt_comparison_row *row = &r->row;
    if (row->n_runs == 0)
        return add(c, i, "%s: not begun", row->recipe);
    if (row->n_runs == 1 && r->reached > 0 && row->n_planned == 1)
        return add(c, i, "%s: ended by a signal after %lld of %lld steps", row->recipe,
                   (long long)r->reached, (long long)c->planned);
    if (row->n_whole < row->n_planned && r->n_broke == 0)
        return add(c, i, "%s: %d of %d seeds trained to the end", row->recipe, row->n_whole,
                   row->n_planned);
    return MPT_OK;
}

static mpt_status note_recipe(mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    MPT_TRY(note_runs(c, i));
    MPT_TRY(note_labels(c, i));
    if (i > 0)
        MPT_TRY(note_schedule(c, i));
    if (i > 0)
        MPT_TRY(note_fields(c, i));
    if (r->row.gemms == 0 && r->row.n_runs > 0)
        MPT_TRY(add(c, i,
                    "%s: its metrics do not say which GEMMs ran, as they do at the end of a "
                    "run",
                    r->row.recipe));
    if (r->skipped > 0)
        MPT_TRY(add(c, i, "%s: %lld step%s skipped", r->row.recipe, (long long)r->skipped,
                    r->skipped == 1 ? " was" : "s were"));
    return MPT_OK;
}

static mpt_status note_noise(mpt_comparison *c) {
    const mpt_comparison_row *base = &c->recipes[0].row;
    char spread[MPT_COMPARE_PERCENT];
    if (base->n_planned < 2)
        return add(
            c, 0,
            "one seed says nothing of noise: training with --seeds 3, or folders of runs "
            "of more seeds, give a band");
    if (isnan(base->noise))
        return MPT_OK;
    mpt_compare_percent(base->noise, false, spread);
    return add(
        c, 0,
        "noise is one standard deviation of the differences to %s, seed by seed; its own "
        "loss varies by %s over the seeds",
        base->recipe, spread);
}

mpt_status mpt_compare_note(mpt_comparison *c) {
    for (int i = 0; i < c->n; i++)
        MPT_TRY(note_recipe(c, i));
    return note_noise(c);
}
