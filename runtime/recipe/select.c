/* Selectors: from "linear", "*.o_proj" and first(2) to the layers of a model.
 *
 * A selector that names nothing is almost always a slip of the pen, so it is an error that
 * shows the nearest name the model has. */
#include "recipe/select.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void mpt_rule_path(const mpt_cascade_rule *rule, char out[MPT_RULE_PATH]) {
    if (rule->rule->lift)
        snprintf(out, MPT_RULE_PATH, "precision.lift");
    else if (rule->phase < 0 && rule->index < 0)
        snprintf(out, MPT_RULE_PATH, "train.eval");
    else if (rule->phase < 0)
        snprintf(out, MPT_RULE_PATH, "precision.rules[%d]", rule->index + 1);
    else if (rule->index < 0)
        snprintf(out, MPT_RULE_PATH, "phases[%d]", rule->phase + 1);
    else
        snprintf(out, MPT_RULE_PATH, "phases[%d].rules[%d]", rule->phase + 1, rule->index + 1);
}

mpt_cascade_rule mpt_phase_rule(const mpt_recipe *recipe, int phase, int i) {
    const mpt_phase *p = &recipe->phases[phase];
    return (mpt_cascade_rule){&p->rules[i], phase, i - p->has_use};
}

mpt_cascade_rule *mpt_cascade_list(mpt_recipe *recipe, int phase, mpt_arena *arena,
                                   int *out_n) {
    mpt_phase *p = phase < recipe->n_phases ? &recipe->phases[phase] : NULL;
    int n = recipe->n_rules, n_phase = p ? p->n_rules : 0;
    size_t most = (size_t)n + (size_t)n_phase + (size_t)recipe->n_lifts + 1;
    mpt_cascade_rule *list = mpt_arena_alloc(arena, mpt_size_mul(sizeof *list, most));
    for (int i = 0; list && i < n; i++)
        list[i] = (mpt_cascade_rule){&recipe->rules[i], -1, i};
    for (int i = 0; list && i < n_phase; i++)
        list[n + i] = mpt_phase_rule(recipe, phase, i);
    for (int i = 0; list && i < recipe->n_lifts; i++)
        list[n + n_phase + i] = (mpt_cascade_rule){&recipe->lifts[i], -1, -2};
    *out_n = n + n_phase + recipe->n_lifts;
    return list;
}

mpt_layer_kind mpt_selector_kind(const char *selector) {
    for (int k = 0; k < MPT_LAYER_OTHER; k++)
        if (strcmp(mpt_layer_kind_name((mpt_layer_kind)k), selector) == 0)
            return (mpt_layer_kind)k;
    return MPT_LAYER_KIND_COUNT;
}

/* ---- blocks ---- */

mpt_status mpt_blocks_check(mpt_ctx *ctx, const mpt_blocks *blocks, const char *path,
                            mpt_where where) {
    const char *fault = NULL, *way = NULL;
    switch (blocks->kind) {
    case MPT_BLOCKS_ALL:
        break;
    case MPT_BLOCKS_FIRST:
    case MPT_BLOCKS_LAST:
    case MPT_BLOCKS_EVERY:
        if (blocks->a < 1) {
            fault = "needs a number of blocks";
            way = "give 1 or more";
        }
        break;
    case MPT_BLOCKS_RANGE:
        if (blocks->a < 0 || blocks->b < blocks->a) {
            fault = "is no range of blocks";
            way = "give the first and the last block, counted from 0";
        }
        break;
    case MPT_BLOCKS_LAST_FRACTION:
        if (!(blocks->fraction > 0 && blocks->fraction <= 1)) {
            fault = "needs a fraction of the blocks";
            way = "give a number above 0 and at most 1";
        }
        break;
    case MPT_BLOCKS_ONLY:
        if (blocks->n_only < 1) {
            fault = "names no block";
            way = "list blocks, counted from 0";
        }
        for (int i = 0; i < blocks->n_only; i++)
            if (blocks->only[i] < 0) {
                fault = "has a negative block";
                way = "blocks are counted from 0; last(n) counts from the end";
            }
        break;
    }
    if (!fault)
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s.blocks: %s", path, fault);
    mpt_hint(ctx, "%s", way);
    return status;
}

void mpt_blocks_print(const mpt_blocks *blocks, mpt_str *out) {
    switch (blocks->kind) {
    case MPT_BLOCKS_ALL:
        mpt_str_printf(out, "all");
        return;
    case MPT_BLOCKS_FIRST:
        mpt_str_printf(out, "first %d", (int)blocks->a);
        return;
    case MPT_BLOCKS_LAST:
        mpt_str_printf(out, "last %d", (int)blocks->a);
        return;
    case MPT_BLOCKS_RANGE:
        mpt_str_printf(out, "range %d %d", (int)blocks->a, (int)blocks->b);
        return;
    case MPT_BLOCKS_EVERY:
        mpt_str_printf(out, "every %d", (int)blocks->a);
        return;
    case MPT_BLOCKS_LAST_FRACTION:
        mpt_str_printf(out, "last_fraction %.17g", blocks->fraction);
        return;
    case MPT_BLOCKS_ONLY:
        mpt_str_printf(out, "only");
        for (int i = 0; i < blocks->n_only; i++)
            mpt_str_printf(out, " %d", (int)blocks->only[i]);
        return;
    }
}

/* Blocks that last(n) or last_fraction(f) speaks of. */
static int n_last(const mpt_blocks *blocks, int n_blocks) {
    if (blocks->kind == MPT_BLOCKS_LAST)
        return blocks->a;
    /* Without the small slack, 0.15 of 20 blocks would be 4: 0.15 is a little more than 3/20.
     */
    return (int)ceil(blocks->fraction * n_blocks - 1e-9);
}

static bool has_block(const mpt_blocks *blocks, int block, int n_blocks) {
    if (blocks->kind == MPT_BLOCKS_ALL)
        return true;
    if (block < 0)
        return false;
    switch (blocks->kind) {
    case MPT_BLOCKS_FIRST:
        return block < blocks->a;
    case MPT_BLOCKS_LAST:
    case MPT_BLOCKS_LAST_FRACTION:
        return block >= n_blocks - n_last(blocks, n_blocks);
    case MPT_BLOCKS_RANGE:
        return block >= blocks->a && block <= blocks->b;
    case MPT_BLOCKS_EVERY:
        return block % blocks->a == 0;
    default:
        break;
    }
    for (int i = 0; i < blocks->n_only; i++)
        if (blocks->only[i] == block)
            return true;
    return false;
}

/* Blocks named beyond those the model has. */
static mpt_status check_reach(mpt_ctx *ctx, const mpt_rule *rule, const char *path,
                              int n_blocks) {
    const mpt_blocks *b = &rule->blocks;
    int need = 0;
    if (b->kind == MPT_BLOCKS_FIRST || b->kind == MPT_BLOCKS_LAST)
        need = b->a;
    else if (b->kind == MPT_BLOCKS_RANGE)
        need = b->b + 1;
    for (int i = 0; b->kind == MPT_BLOCKS_ONLY && i < b->n_only; i++)
        need = b->only[i] + 1 > need ? b->only[i] + 1 : need;
    if (need <= n_blocks && (n_blocks > 0 || b->kind == MPT_BLOCKS_ALL))
        return MPT_OK;
    mpt_str text;
    mpt_str_init(&text, ctx);
    mpt_blocks_print(b, &text);
    mpt_status status =
        text.failed ? MPT_OUT_OF_MEMORY
                    : MPT_FAIL(ctx, MPT_INVALID, rule->where,
                               "%s.blocks: '%s' exceeds the model, which has %d block%s", path,
                               text.data, n_blocks, n_blocks == 1 ? "" : "s");
    mpt_str_deinit(&text);
    if (status == MPT_INVALID && n_blocks == 0)
        mpt_hint(ctx, "leave blocks out, and select by kind or path");
    else if (status == MPT_INVALID)
        mpt_hint(ctx, "blocks are counted from 0 to %d", n_blocks - 1);
    return status;
}

/* ---- overlaps ---- */

static bool same_selectors(const mpt_rule *a, const mpt_rule *b) {
    uint32_t all = (1U << MPT_GEMM_COUNT) - 1;
    if (((a->gemms ? a->gemms : all) & (b->gemms ? b->gemms : all)) == 0 ||
        a->n_selectors != b->n_selectors || a->predicate != b->predicate)
        return false;
    for (int i = 0; i < a->n_selectors; i++)
        if (strcmp(a->selectors[i], b->selectors[i]) != 0)
            return false;
    return true;
}

mpt_status mpt_cascade_overlaps(mpt_ctx *ctx, const mpt_cascade_rule *rules, int n,
                                int n_blocks) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            const mpt_blocks *first = &rules[i].rule->blocks, *last = &rules[k].rule->blocks;
            bool pair =
                first->kind == MPT_BLOCKS_FIRST &&
                (last->kind == MPT_BLOCKS_LAST || last->kind == MPT_BLOCKS_LAST_FRACTION) &&
                same_selectors(rules[i].rule, rules[k].rule);
            if (!pair || first->a + n_last(last, n_blocks) <= n_blocks)
                continue;
            char a[MPT_RULE_PATH], b[MPT_RULE_PATH];
            mpt_rule_path(&rules[i], a);
            mpt_rule_path(&rules[k], b);
            mpt_status status =
                MPT_FAIL(ctx, MPT_INVALID, rules[i > k ? i : k].rule->where,
                         "%s.blocks and %s.blocks: the first %d and the last %d of %d blocks "
                         "overlap",
                         a, b, (int)first->a, n_last(last, n_blocks), n_blocks);
            mpt_hint(ctx, "make them smaller, or leave blocks out to speak of all");
            return status;
        }
    }
    return MPT_OK;
}

/* ---- paths ---- */

void mpt_layer_part_path(const mpt_layer *layer, int part, char *out, size_t size) {
    const char *last = strrchr(layer->path, '.');
    int n = last ? (int)(last + 1 - layer->path) : 0;
    snprintf(out, size, "%.*s%s", n, layer->path, layer->parts[part]);
}

/* How many parts of a fused layer a glob matches. */
static int n_parts_matched(const char *glob, const mpt_layer *layer) {
    char path[256];
    int n = 0;
    for (int i = 0; i < layer->n_parts; i++) {
        mpt_layer_part_path(layer, i, path, sizeof path);
        n += mpt_glob_match(glob, path);
    }
    return n;
}

/* The selector of whole layers in place of one of parts: as wide as that, where it is a pattern
 * in what stands before the last dot, and the one path where it names a single layer. */
static const char *widened(const char *path, const char *glob, char *out, size_t size) {
    const char *last = strrchr(path, '.'), *dot = strrchr(glob, '.');
    if (!last || !dot || !strpbrk(glob, "*?[{"))
        return path;
    snprintf(out, size, "%.*s%s", (int)(dot - glob), glob, last);
    return mpt_glob_match(out, path) ? out : path;
}

static mpt_status fail_part(mpt_ctx *ctx, const mpt_rule *rule, const char *path,
                            const char *glob, const mpt_layer *layer) {
    char parts[256] = "", whole[256];
    for (int i = 0; i < layer->n_parts; i++) {
        size_t used = strlen(parts);
        snprintf(parts + used, sizeof parts - used, "%s%s", i ? ", " : "", layer->parts[i]);
    }
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, rule->where,
                                 "%s: '%s' names only a part of '%s', which computes %s in one "
                                 "product",
                                 path, glob, layer->path, parts);
    mpt_hint(ctx, "name the whole: '%s'", widened(layer->path, glob, whole, sizeof whole));
    return status;
}

/* "layers.3.mixer.up_proj" as "layers.*.mixer.up_proj": block numbers become '*'. */
static const char *generic_path(mpt_arena *arena, const char *path) {
    char *out = mpt_arena_alloc(arena, strlen(path) + 1), *w = out;
    for (const char *p = path; out && *p;) {
        size_t digits = strspn(p, "0123456789");
        bool number = digits && (p == path || p[-1] == '.') && (p[digits] == '.' || !p[digits]);
        if (number) {
            *w++ = '*';
            p += digits;
        } else {
            *w++ = *p++;
        }
    }
    return out;
}

/* A kind that this model has no layer of: names those it has. */
static mpt_status fail_kind(mpt_ctx *ctx, const mpt_rule *rule, const char *path,
                            const char *selector, const mpt_layer_list *model) {
    char kinds[128] = "";
    for (int k = 0; k < MPT_LAYER_OTHER; k++) {
        bool has = false;
        for (int i = 0; i < model->n; i++)
            has = has || (int)model->layers[i].kind == k;
        size_t used = strlen(kinds);
        if (has)
            snprintf(kinds + used, sizeof kinds - used, "%s%s", used ? ", " : "",
                     mpt_layer_kind_name((mpt_layer_kind)k));
    }
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, rule->where,
                                 "%s: the model has no '%s' layer", path, selector);
    mpt_hint(ctx, "it has %s", kinds);
    return status;
}

/* The head, where a selector that matches nothing means it: its name differs between models. */
static const char *head_path(const char *selector, const mpt_layer_list *model) {
    static const char *const words[] = {"output", "head", "logit", "classifier", "unembed"};
    bool meant = false;
    for (size_t i = 0; i < MPT_COUNT(words); i++)
        meant = meant || strstr(selector, words[i]);
    for (int i = 0; meant && i < model->n; i++)
        if (model->layers[i].kind == MPT_LAYER_HEAD)
            return model->layers[i].path;
    return NULL;
}

/* Whether the selector speaks of layers of kind other, of which no rule can say anything. */
static bool means_other(const char *selector, const mpt_layer_list *model) {
    if (strcmp(selector, "other") == 0)
        return true;
    for (int i = 0; i < model->n; i++)
        if (model->layers[i].kind == MPT_LAYER_OTHER &&
            mpt_glob_match(selector, model->layers[i].path))
            return true;
    return false;
}

static mpt_status fail_other(mpt_ctx *ctx, const mpt_rule *rule, const char *path,
                             const char *selector) {
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, rule->where,
                 "%s: '%s': no rule speaks of layers of kind other", path, selector);
    mpt_hint(ctx, "they take the widest input; precision.ops sets the formats of operations");
    return status;
}

/* Nearest names to a selector that matches nothing: kinds, "*.o_proj", "layers.*.o_proj", and
 * the paths themselves. */
static mpt_status fail_unmatched(mpt_ctx *ctx, const mpt_rule *rule, const char *path,
                                 const char *selector, const mpt_layer_list *model) {
    mpt_arena arena;
    if (means_other(selector, model))
        return fail_other(ctx, rule, path, selector);
    mpt_arena_init(&arena, ctx);
    int n = 0, cap = MPT_LAYER_OTHER + 3 * model->n;
    const char **names = mpt_arena_alloc(&arena, mpt_size_mul(sizeof *names, (size_t)cap));
    bool failed = names == NULL;
    for (int k = 0; !failed && k < MPT_LAYER_OTHER; k++)
        names[n++] = mpt_layer_kind_name((mpt_layer_kind)k);
    for (int i = 0; !failed && i < model->n; i++) {
        const char *layer = model->layers[i].path, *last = strrchr(layer, '.');
        names[n] = mpt_arena_printf(&arena, "*.%s", last ? last + 1 : layer);
        names[n + 1] = generic_path(&arena, layer);
        names[n + 2] = layer;
        failed = !names[n] || !names[n + 1];
        n += 3;
    }
    mpt_status status = MPT_OUT_OF_MEMORY;
    if (!failed) {
        status = MPT_FAIL(ctx, MPT_INVALID, rule->where, "%s: no layer matches '%s'", path,
                          selector);
        const char *near = mpt_nearest(selector, names, n);
        near = near ? near : head_path(selector, model);
        if (near)
            mpt_hint(ctx, "did you mean '%s'?", near);
        else if (model->n)
            mpt_hint(ctx, "select a kind such as 'linear', or a path such as '%s'",
                     model->layers[0].path);
    }
    mpt_arena_deinit(&arena);
    return status;
}

/* ---- matching ---- */

/* Sets hit[i] for the layers of one selector, whatever their block. */
static mpt_status match_selector(mpt_recipe *recipe, const mpt_rule *rule, const char *path,
                                 const char *selector, const mpt_layer_list *model, bool *hit) {
    mpt_layer_kind kind = mpt_selector_kind(selector);
    bool any = false;
    for (int i = 0; i < model->n; i++) {
        const mpt_layer *layer = &model->layers[i];
        bool yes = kind != MPT_LAYER_KIND_COUNT ? layer->kind == kind
                                                : mpt_glob_match(selector, layer->path);
        if (!yes && kind == MPT_LAYER_KIND_COUNT && layer->n_parts) {
            int n = n_parts_matched(selector, layer);
            if (n && n < layer->n_parts)
                return fail_part(recipe->ctx, rule, path, selector, layer);
            yes = n > 0;
        }
        /* Elementwise operations follow their inputs: no rule speaks of them. */
        yes = yes && layer->kind != MPT_LAYER_OTHER;
        any = any || yes;
        hit[i] = hit[i] || yes;
    }
    if (any || (kind != MPT_LAYER_KIND_COUNT && rule->n_selectors > 1))
        return MPT_OK;
    if (kind != MPT_LAYER_KIND_COUNT)
        return fail_kind(recipe->ctx, rule, path, selector, model);
    return fail_unmatched(recipe->ctx, rule, path, selector, model);
}

/* The rule's own function, once for each layer that kinds, paths and blocks let through. */
static mpt_status ask_predicate(mpt_recipe *recipe, const mpt_cascade_rule *rule,
                                const mpt_layer_list *model, bool *match) {
    for (int i = 0; i < model->n; i++)
        if (match[i])
            MPT_TRY(recipe->source.where(recipe->source.ud, rule->rule->predicate,
                                         &model->layers[i], &match[i]));
    return MPT_OK;
}

mpt_status mpt_rule_match(mpt_recipe *recipe, const mpt_cascade_rule *cascade_rule,
                          const mpt_layer_list *model, bool *match) {
    const mpt_rule *rule = cascade_rule->rule;
    char path[MPT_RULE_PATH];
    bool any = false;
    mpt_rule_path(cascade_rule, path);
    MPT_TRY(check_reach(recipe->ctx, rule, path, model->n_blocks));
    for (int i = 0; i < rule->n_selectors; i++)
        MPT_TRY(match_selector(recipe, rule, path, rule->selectors[i], model, match));
    for (int i = 0; i < model->n; i++) {
        match[i] =
            match[i] && has_block(&rule->blocks, model->layers[i].block, model->n_blocks);
        any = any || match[i];
    }
    if (!any) {
        mpt_status status = MPT_FAIL(recipe->ctx, MPT_INVALID, rule->where,
                                     "%s: matches no layer in these blocks", path);
        mpt_hint(recipe->ctx, "'%s' lies in other blocks, or outside of all",
                 rule->selectors[0]);
        return status;
    }
    return rule->predicate >= 0 ? ask_predicate(recipe, cascade_rule, model, match) : MPT_OK;
}
