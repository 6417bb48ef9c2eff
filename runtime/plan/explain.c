/* `mptrun explain`: collects, for the layers of a name, what decided each of their fields.
 *
 * The recipe's cascade runs again for these layers (recipe/resolve.c), so nothing had to be
 * kept while compiling. What pad changed afterwards is seen by comparing with the compiled
 * policies.
 */
#include "plan/explain.h"

#include <stdio.h>
#include <string.h>

#include "recipe/schema_store.h"

/* ---- words of origins ---- */

static void place_text(mpt_where where, char out[MPT_ORIGIN_TEXT]) {
    if (where.line > 0)
        snprintf(out, MPT_ORIGIN_TEXT, "%s:%d", where.file, where.line);
    else
        snprintf(out, MPT_ORIGIN_TEXT, "%s", where.file ? where.file : "host");
}

void mpt_rule_place(const mpt_rule *rule, char out[MPT_ORIGIN_TEXT]) {
    place_text(rule->where, out);
}

bool mpt_origin_is_said(const mpt_origin *origin) {
    return origin->how == MPT_DECIDED_SAID || origin->how == MPT_DECIDED_PAD ||
           origin->how == MPT_DECIDED_OPS;
}

const char *mpt_compute_default(const mpt_recipe *recipe, mpt_layer_kind kind) {
    return kind == MPT_LAYER_EMBEDDING && recipe->residual != MPT_DTYPE_COUNT
               ? "precision.state.residual"
               : "precision.base";
}

/* Whether the recipe, or somebody who loaded it, set a field that is no rule's. */
static bool is_set(const mpt_recipe *recipe, const char *name) {
    if (strcmp(name, "precision.base") == 0)
        return recipe->base_set;
    return strcmp(name, "precision.state.residual") == 0;
}

/* Origins outside of rules. */
static void other_words(const mpt_recipe *recipe, const mpt_origin *origin,
                        const char *fallback, mpt_origin_text *out) {
    bool ops = origin->how == MPT_DECIDED_OPS, set = ops || is_set(recipe, fallback);
    const char *setter = recipe->source_text ? "--set" : "host";
    if (ops)
        snprintf(out->by, sizeof out->by, "precision.ops.%s", mpt_ops_word_name(origin->word));
    else
        snprintf(out->by, sizeof out->by, "%s", fallback);
    if (set && origin->where.file)
        place_text(origin->where, out->at);
    else
        snprintf(out->at, sizeof out->at, "%s", set ? setter : "default");
}

void mpt_origin_words(const mpt_explained_phase *phase, const mpt_origin *origin,
                      const char *format, const char *fallback, mpt_origin_text *out) {
    char rule[MPT_RULE_PATH] = "";
    mpt_where where = origin->where;
    if (origin->rule < 0) {
        other_words(phase->cascade.recipe, origin, fallback, out);
        return;
    }
    const mpt_cascade_rule *said = &phase->cascade.rules[origin->rule];
    mpt_rule_path(said, rule);
    place_text(where.file ? where : said->rule->where, out->at);
    switch (origin->how) {
    case MPT_DECIDED_FORMAT:
        snprintf(out->by, sizeof out->by, "%s of %s", format, rule);
        return;
    case MPT_DECIDED_FOLLOWS:
        snprintf(out->by, sizeof out->by, "scale_format of %s", rule);
        return;
    case MPT_DECIDED_PAD:
        snprintf(out->by, sizeof out->by, "pad of %s: the blocks do not fit", rule);
        return;
    default:
        snprintf(out->by, sizeof out->by, "%s", rule);
        return;
    }
}

/* ---- what was compiled ---- */

static int pad_row(void) {
    return (int)(mpt_record_lookup(&mpt_record_quantizer, "pad") - mpt_record_quantizer.fields);
}

static mpt_status fail_changed(const mpt_explained *e, const char *path) {
    mpt_status status =
        MPT_FAIL(e->program->ctx, MPT_INVALID, MPT_NOWHERE,
                 "%s: a rule's where gave another answer than while compiling", path);
    mpt_hint(e->program->ctx, "let it depend on the layer alone");
    return status;
}

/* Operands that pad turned to BF16 show that, with the place of the pad: their own, or that of
 * the product's other operand, whose rotation they shared. All else is as it was compiled. */
static mpt_status put_pads(const mpt_explained *e, const mpt_policy *policy, const char *path,
                           mpt_explanation *out) {
    mpt_explanation before = *out;
    int pad = pad_row();
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        if (mpt_quantizer_equal(&before.slot[s], &policy->slot[s]))
            continue;
        int from = before.slot[s].pad == MPT_PAD_BF16 ? s : s ^ 1;
        if (before.slot[from].pad != MPT_PAD_BF16)
            return fail_changed(e, path);
        mpt_origin origin = before.field[from][pad];
        origin.how = MPT_DECIDED_PAD;
        out->slot[s] = policy->slot[s];
        for (int f = 0; f < MPT_SLOT_FIELDS; f++)
            out->field[s][f] = origin;
    }
    return MPT_OK;
}

static mpt_status compare_compiled(const mpt_explained *e, const mpt_policy *policy,
                                   const char *path, mpt_explanation *out) {
    if (out->has_gemms)
        MPT_TRY(put_pads(e, policy, path, out));
    bool same = out->compute == policy->compute &&
                memcmp(out->output, policy->output, sizeof out->output) == 0;
    return same ? MPT_OK : fail_changed(e, path);
}

/* What tables give goes into the stream between blocks, whose format it has. */
static void put_residual(const mpt_recipe *recipe, mpt_explanation *out) {
    if (recipe->residual == MPT_DTYPE_COUNT || out->compute_why.how != MPT_DECIDED_DEFAULT)
        return;
    out->compute = recipe->residual;
    out->compute_why.where = recipe->residual_where;
}

static mpt_status explain_phase(const mpt_explained *e, mpt_arena *arena,
                                mpt_explained_phase *out) {
    const mpt_phase_program *program = e->program->phases[out->index];
    const mpt_graph *graph = program->graph;
    mpt_layer_list model = {graph->layers, graph->n_layers, graph->n_blocks};
    size_t bytes = mpt_size_mul((size_t)graph->n_layers, sizeof *out->layers);
    out->name = program->phase;
    out->from = e->program->phase_start[out->index];
    MPT_TRY(mpt_cascade_make(e->program->recipe, out->index, &model, arena, &out->cascade));
    out->layers = mpt_arena_alloc(arena, bytes);
    if (!out->layers)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_layers; i++) {
        if (!e->set.in[i])
            continue;
        const mpt_layer *layer = &graph->layers[i];
        mpt_cascade_explain(&out->cascade, i, &out->layers[i]);
        MPT_TRY(compare_compiled(e, &program->policies[i], layer->path, &out->layers[i]));
        if (layer->kind == MPT_LAYER_EMBEDDING)
            put_residual(e->program->recipe, &out->layers[i]);
    }
    return MPT_OK;
}

/* ---- the whole ---- */

static mpt_status fail_phase(const mpt_program *program, const char *name) {
    mpt_ctx *ctx = program->ctx;
    const char *names[64];
    int n = program->n_phases < 64 ? program->n_phases : 64;
    for (int p = 0; p < n; p++)
        names[p] = program->phases[p]->phase;
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "the recipe has no phase '%s'", name);
    const char *near = mpt_nearest(name, names, n);
    mpt_hint(ctx, near ? "did you mean '%s'?" : "its first is '%s'", near ? near : names[0]);
    return status;
}

static mpt_status collect(const mpt_program *program, const char *layer,
                          const mpt_explain_options *options, mpt_arena *arena,
                          mpt_explained *out) {
    *out = (mpt_explained){.program = program, .color = options->color};
    out->graph = program->phases[0]->graph;
    MPT_TRY(mpt_layer_set_find(arena, out->graph, layer, &out->set));
    size_t bytes = mpt_size_mul((size_t)program->n_phases, sizeof *out->phases);
    out->phases = mpt_arena_alloc(arena, bytes);
    if (!out->phases)
        return MPT_OUT_OF_MEMORY;
    for (int p = 0; p < program->n_phases; p++) {
        if (options->phase && strcmp(options->phase, program->phases[p]->phase) != 0)
            continue;
        out->phases[out->n_phases].index = p;
        MPT_TRY(explain_phase(out, arena, &out->phases[out->n_phases]));
        out->n_phases++;
    }
    return out->n_phases ? MPT_OK : fail_phase(program, options->phase);
}

mpt_status mpt_program_explain(const mpt_program *program, const char *layer,
                               const mpt_explain_options *options, mpt_write_fn write,
                               void *ud) {
    mpt_explain_options o = MPT_EXPLAIN_OPTIONS_INIT;
    mpt_explained explained;
    mpt_arena arena;
    mpt_str text;
    MPT_REQUIRE_OBJECT(program);
    MPT_REQUIRE(program->ctx, layer);
    MPT_REQUIRE(program->ctx, write);
    MPT_TRY(mpt_options_read(program->ctx, __func__, options, &o, sizeof o));
    mpt_arena_init(&arena, program->ctx);
    mpt_str_init(&text, program->ctx);
    mpt_status status = collect(program, layer, &o, &arena, &explained);
    if (status == MPT_OK && o.json)
        status = mpt_explain_json(&explained, &text);
    else if (status == MPT_OK)
        mpt_explain_text(&explained, &text);
    if (status == MPT_OK && text.failed)
        status = mpt_fail_memory(program->ctx, text.cap);
    if (status == MPT_OK && text.len > 0 && !write(ud, text.data, text.len))
        status = MPT_FAIL(program->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(&text);
    mpt_arena_deinit(&arena);
    return status;
}
