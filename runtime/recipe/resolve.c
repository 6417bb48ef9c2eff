/* Stage 2's second half: the cascade. Rules in order, later wins, into one policy a layer.
 *
 * First every rule is matched against the whole model (select.c), so that errors come in the
 * order of the rules; then each layer takes the rules that speak of it, field by field, and the
 * result is checked: from here on a policy holds only what the kernels can do. */
#include "recipe/lift.h"
#include "recipe/schema_store.h"
#include "recipe/use.h"

#include <stdio.h>
#include <string.h>

typedef mpt_layer_state layer_state;
typedef mpt_cascade cascade;

static bool is_compute_format(mpt_dtype dtype) {
    return dtype == MPT_DTYPE_FP32 || dtype == MPT_DTYPE_BF16 || dtype == MPT_DTYPE_FP16;
}

/* ---- defaults ---- */

mpt_dtype mpt_stored_format(mpt_dtype compute) {
    return compute == MPT_DTYPE_TF32 ? MPT_DTYPE_FP32 : compute;
}

/* Logits stay FP32, because the loss reads them, or the choice of experts; dW takes the format
 * of the gradients. */
static mpt_dtype default_output(const cascade *c, const mpt_layer *layer, int gemm) {
    bool logits = (layer->kind == MPT_LAYER_HEAD || layer->kind == MPT_LAYER_ROUTER) &&
                  gemm == MPT_GEMM_FPROP;
    return logits || gemm == MPT_GEMM_WGRAD ? MPT_DTYPE_FP32
                                            : mpt_stored_format(c->base.format);
}

/* The row of the autocast table that a layer's op has. A host's list of layers may know kinds
 * only. */
static const mpt_ops_row *ops_row(const mpt_layer *layer) {
    static const char *const of_kind[MPT_LAYER_KIND_COUNT] = {
        [MPT_LAYER_ATTENTION] = "attention",
        [MPT_LAYER_NORM] = "rmsnorm",
        [MPT_LAYER_EMBEDDING] = "embedding",
        [MPT_LAYER_SCAN] = "ssm_scan",
        [MPT_LAYER_CONV] = "conv1d"};
    return of_kind[layer->kind] ? mpt_ops_find(layer->op ? layer->op : of_kind[layer->kind])
                                : NULL;
}

static void clear_sum(layer_state *s, int gemm) {
    s->accumulate[gemm] = MPT_DTYPE_FP32;
    s->promote[gemm] = 0;
    s->accumulate_decider[gemm] = s->promote_decider[gemm] = -1;
}

static void start(const cascade *c, const mpt_layer *layer, layer_state *s) {
    s->layer = layer;
    s->compute = mpt_stored_format(c->base.format);
    s->compute_decider = -1;
    s->compute_word = mpt_ops_said(c->recipe->ops, ops_row(layer));
    if (s->compute_word != MPT_OPS_COUNT)
        s->compute = c->recipe->ops[s->compute_word].format;
    mpt_quantizer operand = c->base;
    if (layer->kind == MPT_LAYER_ROUTER) /* routers are FP32 where no rule names them */
        (void)mpt_quantizer_by_name("fp32", &operand);
    for (int i = 0; i < MPT_SLOT_COUNT; i++) {
        s->slot[i] = (mpt_slot_use){.has_format = true, .q = operand};
        s->format_decider[i] = -1;
        for (int f = 0; f < MPT_SLOT_FIELDS; f++)
            s->decider[i][f] = -1;
    }
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        s->output[g] = default_output(c, layer, g);
        s->output_decider[g] = -1;
        clear_sum(s, g);
    }
}

/* ---- one rule on one layer ---- */

static void apply_slot(layer_state *s, mpt_slot slot, const mpt_slot_use *use, int rule) {
    mpt_slot_use_merge(&s->slot[slot], use);
    if (use->has_format)
        s->format_decider[slot] = rule;
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++)
        if (use->has_format || use->set >> f & 1)
            s->decider[slot][f] = rule;
}

static void apply_sum(layer_state *s, int gemm, const mpt_use *use, int rule) {
    if (use->bare)
        clear_sum(s, gemm);
    if (use->has_accumulate[gemm]) {
        s->accumulate[gemm] = use->accumulate[gemm];
        s->accumulate_decider[gemm] = rule;
    }
    if (use->has_promote[gemm]) {
        s->promote[gemm] = use->promote[gemm];
        s->promote_decider[gemm] = rule;
    }
}

static void apply(const cascade *c, layer_state *s, int index) {
    const mpt_rule *rule = c->rules[index].rule;
    if (rule->lift) {
        mpt_lift_apply(rule, index, s);
        return;
    }
    if (!mpt_layer_has_gemms(s->layer->kind)) {
        s->compute = rule->use.slot[0].q.format;
        s->compute_decider = index;
        s->compute_word = MPT_OPS_COUNT;
        return;
    }
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        if (rule->gemms && !(rule->gemms >> g & 1))
            continue;
        mpt_slot slots[2];
        mpt_gemm_slots((mpt_gemm)g, slots);
        apply_slot(s, slots[0], &rule->use.slot[slots[0]], index);
        apply_slot(s, slots[1], &rule->use.slot[slots[1]], index);
        if (rule->use.bare) {
            s->output[g] = default_output(c, s->layer, g);
            s->output_decider[g] = -1;
        }
        if (rule->use.has_output[g]) {
            s->output[g] = rule->use.output[g];
            s->output_decider[g] = index;
        }
        apply_sum(s, g, &rule->use, index);
    }
}

/* Whether a layer can take what a rule says: products take all, other layers a compute format
 * that is named alone. */
static bool takes(const mpt_layer *layer, const mpt_rule *rule) {
    return mpt_layer_has_gemms(layer->kind) || (!rule->lift && rule->use.bare && !rule->gemms &&
                                                is_compute_format(rule->use.slot[0].q.format) &&
                                                mpt_quantizer_is_cast(&rule->use.slot[0].q));
}

/* A glob may catch norms beside the linear layers it is meant for; those are left out. A rule
 * that no layer can take is an error. */
static mpt_status drop_refusers(const cascade *c, int index, bool *match) {
    const mpt_rule *rule = c->rules[index].rule;
    const mpt_layer *refused = NULL;
    bool any = false;
    for (int i = 0; i < c->model.n; i++) {
        if (match[i] && !takes(&c->model.layers[i], rule)) {
            refused = &c->model.layers[i];
            match[i] = false;
        }
        any = any || match[i];
    }
    if (any || !refused)
        return MPT_OK;
    char path[MPT_RULE_PATH];
    const char *kind = mpt_layer_kind_name(refused->kind);
    mpt_ctx *ctx = c->recipe->ctx;
    mpt_rule_path(&c->rules[index], path);
    mpt_status status;
    if (rule->use.bare && !rule->gemms)
        status =
            MPT_FAIL(ctx, MPT_INVALID, rule->where, "%s.use: %s layers cannot compute in %s",
                     path, kind, rule->use.slot[0].q.name);
    else
        status = MPT_FAIL(ctx, MPT_INVALID, rule->where,
                          "%s.%s: %s layers have no gemm whose operands could differ", path,
                          rule->gemms ? "gemms" : "use", kind);
    mpt_hint(ctx, "use fp32, bf16 or fp16 for them");
    return status;
}

/* ---- checks of the result ---- */

/* The place to blame for a field of a slot. */
static mpt_where place(const cascade *c, const layer_state *s, mpt_slot slot,
                       const char *name) {
    const mpt_field *field = mpt_record_lookup(&mpt_record_quantizer, name);
    int rule = s->decider[slot][field - mpt_record_quantizer.fields];
    return rule < 0 ? s->layer->where : c->rules[rule].rule->where;
}

static mpt_status check_slots(const cascade *c, const layer_state *s) {
    char path[256];
    for (int i = 0; i < MPT_SLOT_COUNT; i++) {
        int last = s->format_decider[i];
        for (int f = 0; f < mpt_record_quantizer.n_fields; f++)
            last = s->decider[i][f] > last ? s->decider[i][f] : last;
        snprintf(path, sizeof path, "%s.%s", s->layer->path, mpt_slot_name((mpt_slot)i));
        MPT_TRY(
            mpt_quantizer_validate(c->recipe->ctx, &s->slot[i].q, path,
                                   last < 0 ? s->layer->where : c->rules[last].rule->where));
    }
    return MPT_OK;
}

/* A rotation cancels only where both operands of the product are rotated alike. */
static mpt_status check_rotation(const cascade *c, const layer_state *s) {
    mpt_ctx *ctx = c->recipe->ctx;
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        mpt_slot slots[2];
        mpt_gemm_slots((mpt_gemm)g, slots);
        const mpt_quantizer *a = &s->slot[slots[0]].q, *b = &s->slot[slots[1]].q;
        if (!a->hadamard.size && !b->hadamard.size)
            continue;
        mpt_slot rotated = slots[a->hadamard.size ? 0 : 1];
        mpt_where where = place(c, s, rotated, "hadamard");
        if (!mpt_hadamard_equal(&a->hadamard, &b->hadamard)) {
            mpt_status status =
                MPT_FAIL(ctx, MPT_INVALID, where,
                         "%s.%s.hadamard: the two operands are not rotated alike",
                         s->layer->path, mpt_gemm_name((mpt_gemm)g));
            mpt_hint(ctx, "set it on both: %s = { hadamard = hadamard{...} }",
                     mpt_gemm_name((mpt_gemm)g));
            return status;
        }
        if (g != MPT_GEMM_WGRAD && b->block_rows > 1) {
            mpt_status status = MPT_FAIL(
                ctx, MPT_INVALID, where,
                "%s.%s.hadamard: the weight has square blocks of %dx%d", s->layer->path,
                mpt_gemm_name((mpt_gemm)g), (int)b->block_rows, (int)b->block_cols);
            mpt_hint(ctx, "rotate wgrad only, or give the weight blocks of {1, %d}",
                     (int)b->block_cols);
            return status;
        }
    }
    return MPT_OK;
}

/* ---- the policy ---- */

/* Collects the rules that still decide something, in order, into the policy and the rules. */
static void note_deciders(const cascade *c, const layer_state *s, bool *decides,
                          mpt_policy *policy) {
    memset(decides, 0, (size_t)c->n_rules);
    for (int i = 0; mpt_layer_has_gemms(s->layer->kind) && i < MPT_SLOT_COUNT; i++) {
        if (s->format_decider[i] >= 0)
            decides[s->format_decider[i]] = true;
        for (int f = 0; f < mpt_record_quantizer.n_fields; f++)
            if (s->decider[i][f] >= 0)
                decides[s->decider[i][f]] = true;
    }
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        const int deciders[] = {s->output_decider[g], s->accumulate_decider[g],
                                s->promote_decider[g]};
        for (size_t i = 0; i < MPT_COUNT(deciders); i++)
            if (deciders[i] >= 0)
                decides[deciders[i]] = true;
    }
    if (s->compute_decider >= 0)
        decides[s->compute_decider] = true;
    policy->n_decided = 0;
    for (int r = 0; r < c->n_rules; r++) {
        if (!decides[r])
            continue;
        c->rules[r].rule->decides = true;
        if (policy->n_decided == MPT_DECIDED_MAX) { /* the latest matter most */
            memmove(policy->decided_by, policy->decided_by + 1,
                    (MPT_DECIDED_MAX - 1) * sizeof *policy->decided_by);
            policy->n_decided--;
        }
        policy->decided_by[policy->n_decided++] = c->rules[r].rule->where;
    }
}

/* What precision.ops decides of a layer; marks the rows that it comes from. */
static void take_ops(const cascade *c, const layer_state *s, mpt_policy *policy) {
    mpt_ops_use *softmax = &c->recipe->ops[MPT_OPS_SOFTMAX];
    policy->softmax = MPT_DTYPE_FP32;
    if (s->layer->kind == MPT_LAYER_ATTENTION && softmax->format != MPT_DTYPE_COUNT) {
        policy->softmax = softmax->format;
        softmax->decides = true;
    }
    if (s->compute_word == MPT_OPS_COUNT)
        return;
    policy->by_ops = true;
    policy->ops_where = c->recipe->ops[s->compute_word].where;
    c->recipe->ops[s->compute_word].decides = true;
}

void mpt_cascade_run(const cascade *c, int i, layer_state *s) {
    start(c, &c->model.layers[i], s);
    for (int r = 0; r < c->n_rules; r++)
        if (mpt_cascade_matches(c, r, i))
            apply(c, s, r);
    if (mpt_layer_has_gemms(s->layer->kind))
        s->compute = s->output[MPT_GEMM_FPROP];
}

static mpt_status resolve_layer(const cascade *c, int i, bool *decides, mpt_policy *policy) {
    layer_state s;
    mpt_cascade_run(c, i, &s);
    if (mpt_layer_has_gemms(s.layer->kind)) {
        MPT_TRY(check_slots(c, &s));
        MPT_TRY(check_rotation(c, &s));
    }
    memset(policy, 0, sizeof *policy);
    for (int k = 0; k < MPT_SLOT_COUNT; k++)
        policy->slot[k] = s.slot[k].q;
    memcpy(policy->output, s.output, sizeof policy->output);
    memcpy(policy->accumulate, s.accumulate, sizeof policy->accumulate);
    memcpy(policy->promote, s.promote, sizeof policy->promote);
    policy->compute = s.compute;
    take_ops(c, &s, policy);
    note_deciders(c, &s, decides, policy);
    return MPT_OK;
}

/* Which rules speak of which layers. */
static mpt_status match_all(cascade *c) {
    for (int r = 0; r < c->n_rules; r++) {
        bool *match = c->matches + (size_t)r * (size_t)c->model.n;
        MPT_TRY(mpt_rule_match(c->recipe, &c->rules[r], &c->model, match));
        MPT_TRY(drop_refusers(c, r, match));
    }
    return mpt_cascade_overlaps(c->recipe->ctx, c->rules, c->n_rules, c->model.n_blocks);
}

/* A rule counts as deciding over all phases; the first phase starts the count again. Rows of
 * precision.ops are the same in all phases. What is laid over for evaluation takes nothing from
 * that. */
static void forget_deciders(const cascade *c, int phase) {
    for (int i = 0; phase == 0 && i < MPT_OPS_COUNT; i++)
        c->recipe->ops[i].decides = false;
    if (phase == 0)
        c->recipe->activation_decides = false;
    for (int r = 0; r < c->n_rules; r++)
        if (phase == 0 || c->rules[r].phase >= 0)
            c->rules[r].rule->decides = false;
}

/* The cascade of one phase with `over`, where there is one, as its last rule. */
static mpt_status make_cascade(mpt_recipe *recipe, int phase, const mpt_layer_list *model,
                               mpt_rule *over, mpt_arena *arena, mpt_cascade *out) {
    *out = (mpt_cascade){.recipe = recipe, .model = *model};
    mpt_dtype base = recipe->base == MPT_DTYPE_COUNT ? MPT_DTYPE_BF16 : recipe->base;
    (void)mpt_quantizer_by_name(mpt_dtype_name(base), &out->base);
    mpt_cascade_rule *rules = mpt_cascade_list(recipe, phase, arena, &out->n_rules);
    if (rules && over)
        rules[out->n_rules++] = (mpt_cascade_rule){over, -1, -1};
    out->rules = rules;
    out->matches = mpt_arena_alloc(arena, mpt_size_mul((size_t)out->n_rules, (size_t)model->n));
    return out->rules && out->matches ? match_all(out) : MPT_OUT_OF_MEMORY;
}

mpt_status mpt_cascade_make(mpt_recipe *recipe, int phase, const mpt_layer_list *model,
                            mpt_arena *arena, mpt_cascade *out) {
    return make_cascade(recipe, phase, model, NULL, arena, out);
}

mpt_status mpt_recipe_resolve_under(mpt_recipe *recipe, int phase, mpt_layer_list model,
                                    mpt_rule *over, mpt_policy *policies) {
    cascade c;
    mpt_arena arena;
    mpt_arena_init(&arena, recipe->ctx);
    mpt_status status = make_cascade(recipe, phase, &model, over, &arena, &c);
    bool *decides =
        status == MPT_OK ? mpt_arena_alloc(&arena, (size_t)c.n_rules) : (bool *)NULL;
    if (status == MPT_OK && !decides)
        status = MPT_OUT_OF_MEMORY;
    if (status == MPT_OK && !over)
        forget_deciders(&c, phase);
    for (int i = 0; status == MPT_OK && i < model.n; i++)
        status = resolve_layer(&c, i, decides, &policies[i]);
    mpt_arena_deinit(&arena);
    return status;
}

mpt_status mpt_recipe_resolve(mpt_recipe *recipe, int phase, const mpt_layer *layers,
                              int n_layers, int n_blocks, mpt_policy *policies) {
    mpt_layer_list model = {layers, n_layers, n_blocks};
    return mpt_recipe_resolve_under(recipe, phase, model, NULL, policies);
}
