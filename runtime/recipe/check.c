/* Stage 3: what is allowed but known to go wrong, each under a name that `allow` silences.
 *
 * A warning is given once, for the first phase it holds in, with the number of layers and the
 * rule to blame. Nothing here changes the recipe. */
#include "recipe/check.h"
#include "recipe/schema_store.h"
#include "recipe/use.h"

#include <stdio.h>
#include <string.h>

/* X(ENUM, "name", "what it says") in the order they are reported. */
#define WARNING_LIST(X)                                                                        \
    X(RULE_SHADOWED, "rule-shadowed", "A rule that decides nothing, because later ones do.")   \
    X(NOTHING_QUANTIZED, "nothing-quantized",                                                  \
      "Rules name narrow formats, but every linear layer ends up without one.")                \
    X(NO_EFFECT, "no-effect", "A field that changes no step of this run.")                     \
    X(SR_FORWARD, "sr-forward", "Stochastic rounding in fprop, which is known to diverge.")    \
    X(ALL_FP4, "all-fp4",                                                                      \
      "In every phase each linear layer of the last block multiplies FP4 by FP4.")             \
    X(RHT_FORWARD, "rht-forward", "A Hadamard rotation in fprop, where it costs accuracy.")    \
    X(SHORT_HISTORY, "short-history",                                                          \
      "Delayed scaling with a window under 16 steps: one quiet stretch makes scales too "      \
      "large.")                                                                                \
    X(FP8_SOFTMAX, "fp8-softmax",                                                              \
      "Attention's probabilities in 8 bits: small ones vanish, and their gradients with "      \
      "them.")                                                                                 \
    X(FP8_NORM, "fp8-norm", "What norms put out in 8 bits, under no scale.")                   \
    X(NO_CLIP, "no-clip", "Gradients are not clipped: one bad batch can ruin the weights.")    \
    X(FP16_NO_LOSS_SCALE, "fp16-no-loss-scale",                                                \
      "Something is in FP16 and no loss scale keeps small gradients from vanishing.")          \
    X(LOSS_SCALE_UNUSED, "loss-scale-unused", "A loss scale, but nothing is in FP16.")         \
    X(LOSS_SCALE_BELOW_ONE, "loss-scale-below-one",                                            \
      "A loss scale under 1, which makes small gradients smaller.")                            \
    X(LOW_PRECISION_ACCUMULATE, "low-precision-accumulate",                                    \
      "Long sums whose running value is kept in 16 bits: small terms no longer count.")        \
    X(LOST_UPDATE, "lost-update",                                                              \
      "A state of 16 bits that changes by less than half an ulp a step, and so not at all.")   \
    X(NO_WARMUP, "no-warmup", "The first steps run at the full learning rate.")                \
    X(NOT_NATIVE, "not-native",                                                                \
      "A GEMM that the GPU named by --target has to emulate. Given where a GPU is named.")

enum { SHORT_HISTORY = 16 };

typedef enum warning {
#define WARNING_ENUM(id, name, doc) WARNING_##id,
    WARNING_LIST(WARNING_ENUM)
#undef WARNING_ENUM
} warning;

static const char *const warning_names[] = {
#define WARNING_NAME(id, name, doc) name,
    WARNING_LIST(WARNING_NAME)
#undef WARNING_NAME
};
static const char *const warning_docs[] = {
#define WARNING_DOC(id, name, doc) doc,
    WARNING_LIST(WARNING_DOC)
#undef WARNING_DOC
};

const char *const *mpt_warning_names(int *out_n) {
    *out_n = (int)MPT_COUNT(warning_names);
    return warning_names;
}

const char *mpt_warning_doc(int index) {
    return warning_docs[index];
}

typedef mpt_checker checker;

static bool is_allowed(const mpt_recipe *recipe, const char *name) {
    for (int i = 0; i < recipe->n_allow; i++)
        if (strcmp(recipe->allow[i], name) == 0)
            return true;
    return false;
}

void mpt_checker_warn(checker *c, const char *name, mpt_where where, const char *fmt, ...) {
    char text[512];
    va_list args;
    if (c->failed || is_allowed(c->recipe, name))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_warning *grown = mpt_arena_grow(c->arena, c->list, sizeof *grown, c->n, &c->cap);
    const char *copy = grown ? mpt_arena_strdup(c->arena, text) : NULL;
    c->failed = copy == NULL;
    if (c->failed)
        return;
    c->list = grown;
    c->list[c->n++] = (mpt_warning){name, where, copy};
}

/* Adds a warning unless the recipe allows it. */
#define warn(c, which, where, ...)                                                             \
    mpt_checker_warn((c), warning_names[(which)], (where), __VA_ARGS__)

/* ---- rules ---- */

static void check_shadowed(checker *c, mpt_cascade_rule rule) {
    char path[MPT_RULE_PATH];
    mpt_rule_path(&rule, path);
    if (!rule.rule->decides)
        warn(c, WARNING_RULE_SHADOWED, rule.rule->where,
             "%s decides nothing: later rules overrule it on every layer, or its function "
             "refused them all",
             path);
}

static void check_all_shadowed(checker *c) {
    mpt_recipe *r = c->recipe;
    for (int i = 0; i < r->n_rules; i++)
        check_shadowed(c, (mpt_cascade_rule){&r->rules[i], -1, i});
    for (int p = 0; p < r->n_phases; p++)
        for (int i = 0; i < r->phases[p].n_rules; i++)
            check_shadowed(c, mpt_phase_rule(r, p, i));
}

static void check_no_effect(checker *c) {
    const mpt_recipe *r = c->recipe;
    const mpt_field *decay = mpt_record_lookup(&mpt_record_train, "decay");
    const mpt_field *eval = mpt_record_lookup(&mpt_record_train, "eval");
    if (mpt_record_has(&mpt_record_train, &r->train, decay) &&
        r->train.optimizer.weight_decay == 0)
        warn(c, WARNING_NO_EFFECT, r->where,
             "train.decay chooses what weight decay applies to, but weight_decay is 0");
    if (mpt_record_has(&mpt_record_train, &r->train, eval) && r->train.eval_every == 0 &&
        !r->train.eval_use)
        warn(c, WARNING_NO_EFFECT, r->where,
             "train.eval.batches counts for evaluations in between, but eval.every is 0");
    bool recomputes = r->train.recompute.every > 0 ||
                      (r->proxy.present && r->train_proxy.recompute.every > 0);
    if (recomputes && c->model.n_blocks == 0)
        warn(c, WARNING_NO_EFFECT, r->where,
             "train.recompute: the model has no blocks to recompute");
    if (r->train_proxy.set && !r->proxy.present)
        warn(c, WARNING_NO_EFFECT, r->where,
             "train.proxy is for a proxy, but the recipe has none");
}

/* ---- policies ---- */

static bool is_gemm_layer(const mpt_layer *layer) {
    return layer->kind == MPT_LAYER_LINEAR || layer->kind == MPT_LAYER_HEAD;
}

/* The last deciding rule that speaks of a slot at all. */
static mpt_where blame(checker *c, int phase, const mpt_policy *policy, int slot) {
    mpt_arena arena;
    mpt_arena_init(&arena, c->recipe->ctx);
    int n = 0;
    mpt_where where = c->recipe->where;
    mpt_cascade_rule *rules = mpt_cascade_list(c->recipe, phase, &arena, &n);
    c->failed = c->failed || !rules;
    for (int r = 0; rules && r < n; r++) {
        const mpt_slot_use *use = &rules[r].rule->use.slot[slot];
        mpt_where rule_where = rules[r].rule->where;
        for (int i = 0; i < policy->n_decided; i++)
            if ((use->has_format || use->set) &&
                rule_where.line == policy->decided_by[i].line &&
                rule_where.file == policy->decided_by[i].file)
                where = rule_where;
    }
    mpt_arena_deinit(&arena);
    return where;
}

typedef bool (*slot_test)(const mpt_quantizer *q);

static bool rounds_stochastically(const mpt_quantizer *q) {
    return q->rounding == MPT_ROUNDING_STOCHASTIC;
}

static bool is_rotated(const mpt_quantizer *q) {
    return q->hadamard.size != 0;
}

static bool has_short_history(const mpt_quantizer *q) {
    return q->scale.kind == MPT_SCALING_DELAYED && q->scale.history < SHORT_HISTORY;
}

/* The first slot of a policy, up to `last`, that passes the test; -1 where none does. */
static int slot_that(const mpt_policy *policy, slot_test test, mpt_slot last) {
    for (int s = 0; s <= (int)last; s++)
        if (test(&policy->slot[s]))
            return s;
    return -1;
}

/* Layers of which an operand up to `last` passes the test, in the first phase that has some. */
static void check_operands(checker *c, warning which, slot_test test, mpt_slot last,
                           const char *what) {
    for (int p = 0; p < c->recipe->n_phases; p++) {
        int n = 0, first = 0, first_slot = 0;
        for (int i = 0; i < c->model.n; i++) {
            int slot = slot_that(&c->policies[p][i], test, last);
            if (!is_gemm_layer(&c->model.layers[i]) || slot < 0)
                continue;
            if (n++ == 0) {
                first = i;
                first_slot = slot;
            }
        }
        if (n == 0)
            continue;
        warn(c, which, blame(c, p, &c->policies[p][first], first_slot),
             "%s of %d layer%s, first %s (%s)", what, n, n == 1 ? "" : "s",
             c->model.layers[first].path, mpt_slot_name((mpt_slot)first_slot));
        return;
    }
}

/* The second copy of a tensor is what another product reads: of fprop.x it is wgrad.x. A source
 * said of the first alone changes nothing. */
static void check_sources(checker *c) {
    static const mpt_slot copies[3][2] = {{MPT_SLOT_FPROP_X, MPT_SLOT_WGRAD_X},
                                          {MPT_SLOT_FPROP_W, MPT_SLOT_DGRAD_W},
                                          {MPT_SLOT_DGRAD_DY, MPT_SLOT_WGRAD_DY}};
    for (int p = 0; p < c->recipe->n_phases; p++)
        for (int i = 0; i < c->model.n; i++)
            for (int k = 0; is_gemm_layer(&c->model.layers[i]) && k < 3; k++) {
                const mpt_policy *policy = &c->policies[p][i];
                if (policy->slot[copies[k][0]].source != MPT_SOURCE_DEQUANTIZED ||
                    policy->slot[copies[k][1]].source == MPT_SOURCE_DEQUANTIZED)
                    continue;
                warn(c, WARNING_NO_EFFECT, blame(c, p, policy, (int)copies[k][0]),
                     "%s.%s.source: it is of the second copy of a tensor, which %s is",
                     c->model.layers[i].path, mpt_slot_name(copies[k][0]),
                     mpt_slot_name(copies[k][1]));
                return;
            }
}

/* Whether a product has both operands in FP4. One alone, as where weights only are stored so,
 * loses less: that is no case of what runs keep late blocks from. */
static bool is_fp4(const mpt_policy *policy) {
    bool fp4 = false;
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        mpt_slot slots[2];
        mpt_gemm_slots((mpt_gemm)g, slots);
        fp4 = fp4 || (policy->slot[slots[0]].format == MPT_DTYPE_E2M1 &&
                      policy->slot[slots[1]].format == MPT_DTYPE_E2M1);
    }
    return fp4;
}

/* The last block all in FP4, in every phase: a late phase in BF16 is a remedy too. */
static void check_all_fp4(checker *c) {
    mpt_where where = c->recipe->where;
    for (int p = 0; p < c->recipe->n_phases; p++) {
        bool all = false, higher = false;
        for (int i = 0; i < c->model.n; i++) {
            const mpt_layer *layer = &c->model.layers[i];
            const mpt_policy *policy = &c->policies[p][i];
            if (layer->kind != MPT_LAYER_LINEAR || layer->block != c->model.n_blocks - 1)
                continue;
            all = true;
            higher = higher || !is_fp4(policy);
            where = policy->n_decided ? policy->decided_by[policy->n_decided - 1] : where;
        }
        if (!all || higher)
            return;
    }
    if (c->recipe->n_phases)
        warn(c, WARNING_ALL_FP4, where,
             "all linear layers of the last block multiply FP4 by FP4; runs keep a few late "
             "blocks in bf16");
}

/* ---- operations ---- */

/* Rows of precision.ops that no op of this model follows, and what is kept for backward. */
static void check_unused_ops(checker *c) {
    const mpt_recipe *r = c->recipe;
    for (int i = 0; i < MPT_OPS_COUNT; i++)
        if (r->ops[i].format != MPT_DTYPE_COUNT && !r->ops[i].decides)
            warn(c, WARNING_NO_EFFECT, r->ops[i].where,
                 "precision.ops.%s: no operation of this model takes its format from it",
                 mpt_ops_word_name((mpt_ops_word)i));
    if (r->activation != MPT_DTYPE_COUNT && !r->activation_decides)
        warn(c, WARNING_NO_EFFECT, r->activation_where,
             "precision.state.activation: nothing that is kept for backward is wider than %s",
             mpt_dtype_name(r->activation));
}

/* Formats of 8 bits where published runs keep 16 or more, each blamed on its row. */
static void check_narrow_ops(checker *c) {
    static const mpt_ops_word norms[] = {MPT_OPS_NORM, MPT_OPS_RMSNORM, MPT_OPS_LAYERNORM,
                                         MPT_OPS_GATED_RMSNORM};
    const mpt_ops_use *softmax = &c->recipe->ops[MPT_OPS_SOFTMAX];
    if (softmax->decides && mpt_dtype_bits(softmax->format) == 8)
        warn(c, WARNING_FP8_SOFTMAX, softmax->where,
             "precision.ops.softmax is %s: probabilities below 2^-%d of the largest vanish",
             mpt_dtype_name(softmax->format), softmax->format == MPT_DTYPE_E4M3 ? 10 : 17);
    for (size_t i = 0; i < MPT_COUNT(norms); i++) {
        const mpt_ops_use *norm = &c->recipe->ops[norms[i]];
        if (norm->decides && mpt_dtype_bits(norm->format) == 8)
            warn(c, WARNING_FP8_NORM, norm->where,
                 "precision.ops.%s is %s: what norms put out keeps %d bits of mantissa",
                 mpt_ops_word_name(norms[i]), mpt_dtype_name(norm->format),
                 norm->format == MPT_DTYPE_E4M3 ? 3 : 2);
    }
}

/* Whether an operation without a layer of its own puts out FP16. */
static bool ops_use_fp16(const mpt_recipe *r, mpt_where *where) {
    for (int i = 0; i < MPT_OPS_COUNT; i++) {
        bool writes = i != MPT_OPS_SOFTMAX && i != MPT_OPS_CROSS_ENTROPY;
        if (!writes || r->ops[i].format != MPT_DTYPE_FP16 || !r->ops[i].decides)
            continue;
        *where = r->ops[i].where;
        return true;
    }
    return false;
}

static bool is_narrow(const mpt_quantizer *q) {
    return q->scale.kind != MPT_SCALING_NONE;
}

/* The first rule of any phase that names a format which needs scales; NULL: there is none. */
static const mpt_rule *narrow_rule(const mpt_recipe *r) {
    for (int p = -1; p < r->n_phases; p++) {
        const mpt_rule *rules = p < 0 ? r->rules : r->phases[p].rules;
        int n = p < 0 ? r->n_rules : r->phases[p].n_rules;
        for (int i = 0; i < n; i++)
            for (int s = 0; s < MPT_SLOT_COUNT; s++)
                if (rules[i].use.slot[s].has_format && is_narrow(&rules[i].use.slot[s].q))
                    return &rules[i];
    }
    return NULL;
}

/* A run whose recipe speaks of FP8 and that is all BF16 is taken for what it is called. */
static void check_nothing_quantized(checker *c) {
    const mpt_rule *rule = narrow_rule(c->recipe);
    for (int p = 0; p < c->recipe->n_phases; p++)
        for (int i = 0; i < c->model.n; i++)
            if (is_gemm_layer(&c->model.layers[i]) &&
                slot_that(&c->policies[p][i], is_narrow, MPT_SLOT_WGRAD_X) >= 0)
                return;
    if (rule)
        warn(c, WARNING_NOTHING_QUANTIZED, rule->where,
             "0 of %d blocks are quantized: no linear layer keeps a narrow format",
             c->model.n_blocks);
}

/* ---- phases ---- */

/* Whether an operand is scaled by its history in phase p and was not in the one before. */
static bool enters_delayed(const checker *c, int p) {
    for (int i = 0; i < c->model.n; i++)
        for (int s = 0; is_gemm_layer(&c->model.layers[i]) && s < MPT_SLOT_COUNT; s++)
            if (c->policies[p][i].slot[s].scale.kind == MPT_SCALING_DELAYED &&
                c->policies[p - 1][i].slot[s].scale.kind != MPT_SCALING_DELAYED)
                return true;
    return false;
}

static void check_phase(checker *c, int p) {
    const mpt_phase *phase = &c->recipe->phases[p];
    if (p == 0 && phase->by == MPT_BY_APPLIED)
        warn(c, WARNING_NO_EFFECT, phase->where,
             "phases[1].by: the first phase starts with the run, whatever is counted");
    if (phase->warm_histories && p == 0)
        warn(c, WARNING_NO_EFFECT, phase->where,
             "phases[1].warm_histories: no phase before it could record them");
    else if (phase->warm_histories && !enters_delayed(c, p))
        warn(c, WARNING_NO_EFFECT, phase->where,
             "phases[%d].warm_histories: no operand enters delayed scaling in '%s'", p + 1,
             phase->name);
    for (int proxy = 0; p > 0 && proxy <= c->recipe->proxy.present; proxy++) {
        mpt_train train = mpt_recipe_train(c->recipe, proxy);
        if (mpt_phase_start(phase, &train) < train.steps)
            continue;
        warn(c, WARNING_NO_EFFECT, phase->where,
             "phases[%d]: '%s' starts after the %s %lld steps", p + 1, phase->name,
             proxy ? "proxy's" : "run's", (long long)train.steps);
        return;
    }
}

/* ---- the loss scale ---- */

/* Whether any value of any phase is FP16, and where the first rule says so. */
static bool uses_fp16(const checker *c, mpt_where *where) {
    const mpt_recipe *r = c->recipe;
    *where = r->where;
    if (r->base == MPT_DTYPE_FP16 || r->residual == MPT_DTYPE_FP16 ||
        r->state.gradient == MPT_DTYPE_FP16 || r->state.reduce == MPT_DTYPE_FP16)
        return true;
    for (int p = 0; p < r->n_phases; p++) {
        for (int i = 0; i < c->model.n; i++) {
            const mpt_policy *policy = &c->policies[p][i];
            bool fp16 = policy->compute == MPT_DTYPE_FP16;
            for (int s = 0; is_gemm_layer(&c->model.layers[i]) && s < MPT_SLOT_COUNT; s++)
                fp16 = fp16 || policy->slot[s].format == MPT_DTYPE_FP16;
            for (int g = 0; is_gemm_layer(&c->model.layers[i]) && g < MPT_GEMM_WGRAD; g++)
                fp16 = fp16 || policy->output[g] == MPT_DTYPE_FP16;
            for (int g = 0; is_gemm_layer(&c->model.layers[i]) && g < MPT_GEMM_COUNT; g++)
                fp16 = fp16 || policy->accumulate[g] == MPT_DTYPE_FP16;
            if (!fp16)
                continue;
            if (policy->by_ops)
                *where = policy->ops_where;
            else if (policy->n_decided)
                *where = policy->decided_by[policy->n_decided - 1];
            return true;
        }
    }
    return ops_use_fp16(r, where);
}

static void check_loss_scale(checker *c) {
    const mpt_recipe *r = c->recipe;
    mpt_where where;
    const mpt_loss_scale *scale = &r->loss_scale;
    bool fp16 = uses_fp16(c, &where), dynamic = scale->kind == MPT_LOSS_SCALE_DYNAMIC;
    mpt_where said = scale->where.file ? scale->where : r->where;
    if (scale->kind == MPT_LOSS_SCALE_NONE) {
        if (fp16)
            warn(c, WARNING_FP16_NO_LOSS_SCALE, where,
                 "fp16 gradients below 6e-8 vanish: give precision.loss_scale = static(1024), "
                 "or dynamic { }");
        return;
    }
    if (!fp16 && dynamic)
        warn(c, WARNING_LOSS_SCALE_UNUSED, said,
             "precision.loss_scale is dynamic, but nothing is in fp16");
    else if (!fp16)
        warn(c, WARNING_LOSS_SCALE_UNUSED, said,
             "precision.loss_scale is %g, but nothing is in fp16", scale->scale);
    double least = dynamic ? scale->min : scale->scale;
    if (least < 1)
        warn(c, WARNING_LOSS_SCALE_BELOW_ONE, said,
             "precision.loss_scale%s is %g: it makes small gradients smaller",
             dynamic ? ".min" : "", least);
}

/* ---- training ---- */

static void check_training(checker *c, bool proxy) {
    mpt_train train = mpt_recipe_train(c->recipe, proxy);
    const char *path = proxy ? "train.proxy" : "train";
    mpt_train full = mpt_recipe_train(c->recipe, false);
    if (train.clip == 0 && (!proxy || full.clip != 0))
        warn(c, WARNING_NO_CLIP, c->recipe->where,
             "%s.clip is 0: one bad batch can throw the weights far away", path);
    if (train.lr.warmup.value == 0 && (!proxy || full.lr.warmup.value != 0))
        warn(c, WARNING_NO_WARMUP, c->recipe->where,
             "%s.lr.warmup is 0: the first steps run at %s learning rate", path,
             train.lr.kind == MPT_LR_CONSTANT ? "the full" : "the peak");
}

mpt_status mpt_recipe_check(mpt_recipe *recipe, mpt_arena *arena, const mpt_layer *layers,
                            int n_layers, int n_blocks, mpt_policy *const *policies,
                            mpt_warning **out_warnings, int *out_n) {
    checker c = {.recipe = recipe,
                 .arena = arena,
                 .model = {layers, n_layers, n_blocks},
                 .policies = policies};
    check_all_shadowed(&c);
    check_nothing_quantized(&c);
    check_no_effect(&c);
    for (int p = 0; p < recipe->n_phases; p++)
        check_phase(&c, p);
    check_sources(&c);
    check_operands(&c, WARNING_SR_FORWARD, rounds_stochastically, MPT_SLOT_FPROP_W,
                   "stochastic rounding, known to diverge, in fprop");
    check_all_fp4(&c);
    check_operands(&c, WARNING_RHT_FORWARD, is_rotated, MPT_SLOT_FPROP_W,
                   "a Hadamard rotation, which costs accuracy there, in fprop");
    check_operands(&c, WARNING_SHORT_HISTORY, has_short_history, MPT_SLOT_WGRAD_X,
                   "a window of less than 16 steps for delayed scales");
    check_unused_ops(&c);
    check_narrow_ops(&c);
    check_training(&c, false);
    if (recipe->proxy.present)
        check_training(&c, true);
    check_loss_scale(&c);
    mpt_check_numbers(&c);
    *out_warnings = c.list;
    *out_n = c.n;
    return c.failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}

mpt_status mpt_recipe_warn_not_native(mpt_recipe *recipe, mpt_arena *arena, mpt_where where,
                                      const char *text, mpt_warning **list, int *n) {
    checker c = {.recipe = recipe, .arena = arena, .list = *list, .n = *n, .cap = *n};
    warn(&c, WARNING_NOT_NATIVE, where, "%s", text);
    *list = c.list;
    *n = c.n;
    return c.failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}
