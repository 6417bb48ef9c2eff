/* Stage 3: formats, roundings and rotations that are known to go wrong, of linear layers and of
 * other operations, and the loss scale that FP16 needs. */
#include "recipe/check.h"
#include "recipe/use.h"

typedef mpt_checker checker;

enum { SHORT_HISTORY = 16 };

/* ---- operands ---- */

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
static void check_operands(checker *c, mpt_warning_kind which, slot_test test, mpt_slot last,
                           const char *what) {
    for (int p = 0; p < c->recipe->n_phases; p++) {
        int n = 0, first = 0, first_slot = 0;
        for (int i = 0; i < c->model.n; i++) {
            int slot = slot_that(&c->policies[p][i], test, last);
            if (!mpt_layer_has_gemms(c->model.layers[i].kind) || slot < 0)
                continue;
            if (n++ == 0) {
                first = i;
                first_slot = slot;
            }
        }
        if (n == 0)
            continue;
        mpt_checker_warn(c, which, mpt_checker_blame(c, p, &c->policies[p][first], first_slot),
                         "%s of %d layer%s, first %s (%s)", what, n, n == 1 ? "" : "s",
                         c->model.layers[first].path, mpt_slot_name((mpt_slot)first_slot));
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
        mpt_checker_warn(
            c, MPT_WARNING_ALL_FP4, where,
            "all linear layers of the last block multiply FP4 by FP4; runs keep a few late "
            "blocks in bf16");
}

/* ---- operations ---- */

/* Rows of precision.ops that no op of this model follows, and what is kept for backward. */
static void check_unused_ops(checker *c) {
    const mpt_recipe *r = c->recipe;
    for (int i = 0; i < MPT_OPS_COUNT; i++)
        if (r->ops[i].format != MPT_DTYPE_COUNT && !r->ops[i].decides)
            mpt_checker_warn(
                c, MPT_WARNING_NO_EFFECT, r->ops[i].where,
                "precision.ops.%s: no operation of this model takes its format from it",
                mpt_ops_word_name((mpt_ops_word)i));
    if (r->activation != MPT_DTYPE_COUNT && !r->activation_decides)
        mpt_checker_warn(
            c, MPT_WARNING_NO_EFFECT, r->activation_where,
            "precision.state.activation: nothing that is kept for backward is wider than %s",
            mpt_dtype_name(r->activation));
}

/* Formats of 8 bits where published runs keep 16 or more, each blamed on its row. */
static void check_narrow_ops(checker *c) {
    static const mpt_ops_word norms[] = {MPT_OPS_NORM, MPT_OPS_RMSNORM, MPT_OPS_LAYERNORM,
                                         MPT_OPS_GATED_RMSNORM};
    const mpt_ops_use *softmax = &c->recipe->ops[MPT_OPS_SOFTMAX];
    if (softmax->decides && mpt_dtype_bits(softmax->format) == 8)
        mpt_checker_warn(
            c, MPT_WARNING_FP8_SOFTMAX, softmax->where,
            "precision.ops.softmax is %s: probabilities below 2^-%d of the largest vanish",
            mpt_dtype_name(softmax->format), softmax->format == MPT_DTYPE_E4M3 ? 10 : 17);
    for (size_t i = 0; i < MPT_COUNT(norms); i++) {
        const mpt_ops_use *norm = &c->recipe->ops[norms[i]];
        if (norm->decides && mpt_dtype_bits(norm->format) == 8)
            mpt_checker_warn(
                c, MPT_WARNING_FP8_NORM, norm->where,
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
void mpt_check_nothing_quantized(mpt_checker *c) {
    const mpt_rule *rule = narrow_rule(c->recipe);
    for (int p = 0; p < c->recipe->n_phases; p++)
        for (int i = 0; i < c->model.n; i++)
            if (mpt_layer_has_gemms(c->model.layers[i].kind) &&
                slot_that(&c->policies[p][i], is_narrow, MPT_SLOT_WGRAD_X) >= 0)
                return;
    if (rule)
        mpt_checker_warn(c, MPT_WARNING_NOTHING_QUANTIZED, rule->where,
                         "0 of %d blocks are quantized: no linear layer keeps a narrow format",
                         c->model.n_blocks);
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
            for (int s = 0; mpt_layer_has_gemms(c->model.layers[i].kind) && s < MPT_SLOT_COUNT;
                 s++)
                fp16 = fp16 || policy->slot[s].format == MPT_DTYPE_FP16;
            for (int g = 0; mpt_layer_has_gemms(c->model.layers[i].kind) && g < MPT_GEMM_WGRAD;
                 g++)
                fp16 = fp16 || policy->output[g] == MPT_DTYPE_FP16;
            for (int g = 0; mpt_layer_has_gemms(c->model.layers[i].kind) && g < MPT_GEMM_COUNT;
                 g++)
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

void mpt_check_loss_scale(mpt_checker *c) {
    const mpt_recipe *r = c->recipe;
    mpt_where where;
    const mpt_loss_scale *scale = &r->loss_scale;
    bool fp16 = uses_fp16(c, &where), dynamic = scale->kind == MPT_LOSS_SCALE_DYNAMIC;
    mpt_where said = scale->where.file ? scale->where : r->where;
    if (scale->kind == MPT_LOSS_SCALE_NONE) {
        if (fp16)
            mpt_checker_warn(
                c, MPT_WARNING_FP16_NO_LOSS_SCALE, where,
                "fp16 gradients below 6e-8 vanish: give precision.loss_scale = static(1024), "
                "or dynamic { }");
        return;
    }
    if (!fp16 && dynamic)
        mpt_checker_warn(c, MPT_WARNING_LOSS_SCALE_UNUSED, said,
                         "precision.loss_scale is dynamic, but nothing is in fp16");
    else if (!fp16)
        mpt_checker_warn(c, MPT_WARNING_LOSS_SCALE_UNUSED, said,
                         "precision.loss_scale is %g, but nothing is in fp16", scale->scale);
    double least = dynamic ? scale->min : scale->scale;
    if (least < 1)
        mpt_checker_warn(c, MPT_WARNING_LOSS_SCALE_BELOW_ONE, said,
                         "precision.loss_scale%s is %g: it makes small gradients smaller",
                         dynamic ? ".min" : "", least);
}

/* What evaluation lays over fprop: its policies are not among those of the phases. */
static void check_evaluation(mpt_checker *c, const mpt_rule *rule) {
    for (int s = MPT_SLOT_FPROP_X; rule && s <= MPT_SLOT_FPROP_W; s++)
        if ((rule->use.slot[s].has_format || rule->use.slot[s].set) &&
            rounds_stochastically(&rule->use.slot[s].q)) {
            mpt_checker_warn(c, MPT_WARNING_SR_FORWARD, rule->where,
                             "train.eval.use: stochastic rounding in fprop, whose noise is in "
                             "every loss of an evaluation");
            return;
        }
}

void mpt_check_formats(mpt_checker *c) {
    check_operands(c, MPT_WARNING_SR_FORWARD, rounds_stochastically, MPT_SLOT_FPROP_W,
                   "stochastic rounding, known to diverge, in fprop");
    check_evaluation(c, c->recipe->train.eval_use);
    check_all_fp4(c);
    check_operands(c, MPT_WARNING_RHT_FORWARD, is_rotated, MPT_SLOT_FPROP_W,
                   "a Hadamard rotation, which costs accuracy there, in fprop");
    check_operands(c, MPT_WARNING_SHORT_HISTORY, has_short_history, MPT_SLOT_WGRAD_X,
                   "a window of less than 16 steps for delayed scales");
    check_unused_ops(c);
    check_narrow_ops(c);
}
