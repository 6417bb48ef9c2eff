/* Precision of two compiled phases, side by side.
 *
 * Models with the same layers are compared path by path, and layers that differ alike stand
 * together. Other models are compared by kind: which layers of each have which precision, and
 * what the precisions are that only one of them has. */
#include "plan/diff.h"

#include <string.h>

#include "plan/text.h"

static const mpt_phase_program *phase_of(const mpt_diff *diff, const mpt_diff_pair *pair,
                                         int side) {
    return diff->side[side]->phases[pair->phase[side]];
}

/* ---- one policy beside another ---- */

static bool same_quantizer(const mpt_quantizer *a, const mpt_quantizer *b) {
    return mpt_quantizer_equal(a, b) && a->pad == b->pad;
}

/* The two quantizers in brief, or whole where that does not tell them apart. */
static void quantizer_texts(const mpt_quantizer *a, const mpt_quantizer *b,
                            char text[2][MPT_QUANTIZER_TEXT]) {
    mpt_quantizer_brief(a, text[0]);
    mpt_quantizer_brief(b, text[1]);
    if (!same_quantizer(a, b) && strcmp(text[0], text[1]) == 0) {
        mpt_quantizer_text(a, text[0]);
        mpt_quantizer_text(b, text[1]);
    }
}

/* Rows of the slots that differ, those with the same two values on one; `a` or `b` may be NULL.
 */
static mpt_status add_slots(const mpt_diff *diff, mpt_diff_rows *rows, const mpt_policy *a,
                            const mpt_policy *b) {
    bool done[MPT_SLOT_COUNT];
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        done[s] = a && b && same_quantizer(&a->slot[s], &b->slot[s]);
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        char text[2][MPT_QUANTIZER_TEXT] = {"", ""};
        mpt_words names = {.len = 0};
        int n = 0;
        if (done[s])
            continue;
        for (int t = s; t < MPT_SLOT_COUNT; t++) {
            if (done[t] || (a && !same_quantizer(&a->slot[s], &a->slot[t])) ||
                (b && !same_quantizer(&b->slot[s], &b->slot[t])))
                continue;
            mpt_words_add(&names, "%s%s", n++ ? ", " : "", mpt_slot_name((mpt_slot)t));
            done[t] = true;
        }
        quantizer_texts(a ? &a->slot[s] : &b->slot[s], b ? &b->slot[s] : &a->slot[s], text);
        MPT_TRY(mpt_diff_add(diff, rows, n == MPT_SLOT_COUNT ? "all six operands" : names.data,
                             a ? text[0] : NULL, b ? text[1] : NULL));
    }
    return MPT_OK;
}

static mpt_status add_product(const mpt_diff *diff, mpt_diff_rows *rows, int gemm,
                              const char *field, const char *a, const char *b) {
    mpt_words name = {.len = 0};
    mpt_words_add(&name, "%s.%s", mpt_gemm_name((mpt_gemm)gemm), field);
    return mpt_diff_add(diff, rows, name.data, a, b);
}

static void promote_text(int32_t promote, mpt_words *out) {
    if (promote > 0)
        mpt_words_add(out, "%d", (int)promote);
    else
        mpt_words_add(out, "never");
}

static mpt_status add_outputs(const mpt_diff *diff, mpt_diff_rows *rows, const mpt_policy *a,
                              const mpt_policy *b) {
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        mpt_words promote[2] = {{.len = 0}, {.len = 0}};
        promote_text(a->promote[g], &promote[0]);
        promote_text(b->promote[g], &promote[1]);
        MPT_TRY(add_product(diff, rows, g, "output", mpt_dtype_name(a->output[g]),
                            mpt_dtype_name(b->output[g])));
        MPT_TRY(add_product(diff, rows, g, "accumulate", mpt_dtype_name(a->accumulate[g]),
                            mpt_dtype_name(b->accumulate[g])));
        MPT_TRY(add_product(diff, rows, g, "promote", promote[0].data, promote[1].data));
    }
    return MPT_OK;
}

static mpt_status compare_policies(const mpt_diff *diff, mpt_layer_kind kind,
                                   const mpt_policy *a, const mpt_policy *b,
                                   mpt_diff_rows *rows) {
    if (kind == MPT_LAYER_ATTENTION)
        MPT_TRY(mpt_diff_add(diff, rows, "softmax", mpt_dtype_name(a->softmax),
                             mpt_dtype_name(b->softmax)));
    if (!mpt_layer_has_gemms(kind))
        return mpt_diff_add(diff, rows, "compute", mpt_dtype_name(a->compute),
                            mpt_dtype_name(b->compute));
    MPT_TRY(add_slots(diff, rows, a, b));
    return add_outputs(diff, rows, a, b);
}

static bool same_policy(mpt_layer_kind kind, const mpt_policy *a, const mpt_policy *b) {
    if (!mpt_layer_has_gemms(kind))
        return a->compute == b->compute &&
               (kind != MPT_LAYER_ATTENTION || a->softmax == b->softmax);
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (!same_quantizer(&a->slot[s], &b->slot[s]))
            return false;
    return memcmp(a->output, b->output, sizeof a->output) == 0 &&
           memcmp(a->accumulate, b->accumulate, sizeof a->accumulate) == 0 &&
           memcmp(a->promote, b->promote, sizeof a->promote) == 0;
}

/* ---- the same layers: path by path ---- */

static bool same_rows(const mpt_diff_rows *a, const mpt_diff_rows *b) {
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = strcmp(a->rows[i].name, b->rows[i].name) == 0 &&
               strcmp(a->rows[i].a, b->rows[i].a) == 0 &&
               strcmp(a->rows[i].b, b->rows[i].b) == 0;
    return same;
}

static mpt_status add_to_group(mpt_diff *diff, mpt_diff_pair *pair, const mpt_diff_rows *rows,
                               int layer) {
    int g = 0;
    while (g < pair->n_groups && !same_rows(&pair->groups[g].rows, rows))
        g++;
    if (g == pair->n_groups) {
        mpt_diff_group *grown = mpt_arena_grow(diff->arena, pair->groups, sizeof *grown,
                                               pair->n_groups, &pair->cap_groups);
        if (!grown)
            return MPT_OUT_OF_MEMORY;
        pair->groups = grown;
        grown[g] = (mpt_diff_group){.rows = *rows};
        MPT_TRY(mpt_layer_set_make(diff->arena, phase_of(diff, pair, 0)->graph, &grown[g].set));
        pair->n_groups++;
    }
    mpt_layer_set_add(&pair->groups[g].set, layer);
    return MPT_OK;
}

static mpt_status compare_paths(mpt_diff *diff, mpt_diff_pair *pair) {
    const mpt_phase_program *a = phase_of(diff, pair, 0), *b = phase_of(diff, pair, 1);
    for (int i = 0; i < a->graph->n_layers; i++) {
        mpt_diff_rows rows = {.n = 0};
        MPT_TRY(compare_policies(diff, a->graph->layers[i].kind, &a->policies[i],
                                 &b->policies[i], &rows));
        if (rows.n > 0)
            MPT_TRY(add_to_group(diff, pair, &rows, i));
    }
    return MPT_OK;
}

/* ---- other layers: kind by kind ---- */

/* The cover of a policy on one side, made where there is none yet. */
static mpt_diff_cover *find_cover(mpt_diff *diff, mpt_diff_pair *pair, int side, int layer) {
    const mpt_phase_program *program = phase_of(diff, pair, side);
    mpt_layer_kind kind = program->graph->layers[layer].kind;
    const mpt_policy *policy = &program->policies[layer];
    char label[MPT_PLAN_LABEL];
    for (int i = 0; i < pair->n_covers; i++) {
        mpt_diff_cover *c = &pair->covers[i];
        if (c->side == side && c->kind == kind && same_policy(kind, c->policy, policy))
            return c;
    }
    mpt_diff_cover *grown = mpt_arena_grow(diff->arena, pair->covers, sizeof *grown,
                                           pair->n_covers, &pair->cap_covers);
    if (!grown)
        return NULL;
    pair->covers = grown;
    mpt_diff_cover *cover = &grown[pair->n_covers];
    *cover = (mpt_diff_cover){.side = side, .kind = kind, .policy = policy};
    mpt_plan_label(policy, label);
    cover->label = mpt_arena_strdup(
        diff->arena, mpt_layer_has_gemms(kind) ? label : mpt_dtype_name(policy->compute));
    if (!cover->label || mpt_layer_set_make(diff->arena, program->graph, &cover->set) != MPT_OK)
        return NULL;
    pair->n_covers++;
    return cover;
}

static int count_kind(const mpt_graph *graph, mpt_layer_kind kind) {
    int n = 0;
    for (int i = 0; i < graph->n_layers; i++)
        n += graph->layers[i].kind == kind;
    return n;
}

/* A kind whose layers all have one precision, the same in both models, is no difference. */
static bool is_plain_kind(const mpt_diff *diff, const mpt_diff_pair *pair,
                          mpt_layer_kind kind) {
    const mpt_policy *first = NULL;
    for (int s = 0; s < 2; s++) {
        const mpt_phase_program *program = phase_of(diff, pair, s);
        for (int i = 0; i < program->graph->n_layers; i++) {
            if (program->graph->layers[i].kind != kind)
                continue;
            first = first ? first : &program->policies[i];
            if (!same_policy(kind, first, &program->policies[i]))
                return false;
        }
    }
    return true;
}

static mpt_status cover_kind(mpt_diff *diff, mpt_diff_pair *pair, mpt_layer_kind kind) {
    for (int s = 0; s < 2; s++) {
        const mpt_graph *graph = phase_of(diff, pair, s)->graph;
        for (int i = 0; i < graph->n_layers; i++) {
            if (graph->layers[i].kind != kind)
                continue;
            mpt_diff_cover *cover = find_cover(diff, pair, s, i);
            if (!cover)
                return MPT_OUT_OF_MEMORY;
            mpt_layer_set_add(&cover->set, i);
        }
    }
    return MPT_OK;
}

static bool has_equal(const mpt_diff_pair *pair, const mpt_diff_cover *cover) {
    for (int i = 0; i < pair->n_covers; i++) {
        const mpt_diff_cover *c = &pair->covers[i];
        if (c->side != cover->side && c->kind == cover->kind &&
            same_policy(c->kind, c->policy, cover->policy))
            return true;
    }
    return false;
}

/* A precision with products that only this cover's side has. */
static bool is_alone(const mpt_diff_pair *pair, const mpt_diff_cover *cover) {
    return mpt_layer_has_gemms(cover->kind) && !has_equal(pair, cover);
}

/* What stands beside a cover of a in b: of the same kind, alone as that is, of the same name
 * where there is one. */
static const mpt_diff_cover *counterpart(const mpt_diff_pair *pair, const mpt_diff_cover *one,
                                         const bool *taken) {
    const mpt_diff_cover *found = NULL;
    for (int k = 0; k < pair->n_covers; k++) {
        const mpt_diff_cover *c = &pair->covers[k];
        if (taken[k] || c->side == one->side || c->kind != one->kind || !is_alone(pair, c))
            continue;
        if (strcmp(c->label, one->label) == 0)
            return c;
        found = found ? found : c;
    }
    return found;
}

static mpt_status compare_ways(mpt_diff *diff, mpt_diff_pair *pair) {
    bool *taken = mpt_arena_alloc(diff->arena, (size_t)pair->n_covers + 1);
    if (!taken)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < pair->n_covers; i++) { /* those of a stand before those of b */
        const mpt_diff_cover *one = &pair->covers[i];
        if (taken[i] || !is_alone(pair, one))
            continue;
        const mpt_diff_cover *other = counterpart(pair, one, taken);
        if (other)
            taken[other - pair->covers] = true;
        const mpt_policy *a = one->side == 0 ? one->policy : NULL;
        const mpt_policy *b = one->side == 1 ? one->policy : other ? other->policy : NULL;
        MPT_TRY(add_slots(diff, &pair->ways, a, b));
        if (a && b)
            MPT_TRY(add_outputs(diff, &pair->ways, a, b));
    }
    return MPT_OK;
}

/* The n-th cover of a side with this kind and name, or NULL. */
static const mpt_diff_cover *nth_cover(const mpt_diff_pair *pair, int side,
                                       const mpt_diff_cover *like, int n) {
    for (int i = 0; i < pair->n_covers; i++) {
        const mpt_diff_cover *c = &pair->covers[i];
        if (c->side == side && c->kind == like->kind && strcmp(c->label, like->label) == 0 &&
            n-- == 0)
            return c;
    }
    return NULL;
}

/* How many covers before this one have its side, kind and name. */
static int rank_of(const mpt_diff_pair *pair, const mpt_diff_cover *cover) {
    int n = 0;
    while (nth_cover(pair, cover->side, cover, n) != cover)
        n++;
    return n;
}

/* "nvfp4 | linear in blocks 2..53 (104 layers) | linear in blocks 0..43 (88 layers)" */
static mpt_status compare_where(mpt_diff *diff, mpt_diff_pair *pair) {
    mpt_status status = MPT_OK;
    for (int i = 0; status == MPT_OK && i < pair->n_covers; i++) {
        const mpt_diff_cover *one = &pair->covers[i], *side[2];
        int rank = rank_of(pair, one);
        mpt_str text[2];
        mpt_words name = {.len = 0};
        for (int s = 0; s < 2; s++)
            side[s] = nth_cover(pair, s, one, rank);
        if (one->side == 1 && side[0])
            continue; /* told of with that */
        mpt_words_add(&name, rank ? "%s (%d)" : "%s", one->label, rank + 1);
        for (int s = 0; s < 2; s++) {
            mpt_str_init(&text[s], diff->ctx);
            if (side[s])
                mpt_layer_set_print(&side[s]->set, &text[s]);
        }
        status = text[0].failed || text[1].failed
                     ? MPT_OUT_OF_MEMORY
                     : mpt_diff_add(diff, &pair->where, name.data, text[0].data, text[1].data);
        mpt_str_deinit(&text[0]);
        mpt_str_deinit(&text[1]);
    }
    return status;
}

static mpt_status compare_kinds(mpt_diff *diff, mpt_diff_pair *pair) {
    for (int k = 0; k < MPT_LAYER_OTHER; k++) {
        mpt_layer_kind kind = (mpt_layer_kind)k;
        bool both = count_kind(phase_of(diff, pair, 0)->graph, kind) > 0 &&
                    count_kind(phase_of(diff, pair, 1)->graph, kind) > 0;
        if (!both || !is_plain_kind(diff, pair, kind))
            MPT_TRY(cover_kind(diff, pair, kind));
    }
    MPT_TRY(compare_where(diff, pair));
    return compare_ways(diff, pair);
}

mpt_status mpt_diff_layers(mpt_diff *diff, mpt_diff_pair *pair) {
    return diff->same_layers ? compare_paths(diff, pair) : compare_kinds(diff, pair);
}
