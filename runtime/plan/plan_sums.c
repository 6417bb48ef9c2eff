/* The part of the text plan on sums and states: lines that stand there where a recipe departs
 * from FP32. */
#include "plan/plan.h"
#include "plan/text.h"

static bool is_plain(const mpt_policy *policy, int gemm) {
    return policy->accumulate[gemm] == MPT_DTYPE_FP32 && policy->promote[gemm] == 0;
}

static bool same_sum(const mpt_policy *a, const mpt_policy *b, int gemm) {
    return a->accumulate[gemm] == b->accumulate[gemm] && a->promote[gemm] == b->promote[gemm];
}

/* Linear layers whose product is summed up as layer `like` does it; 0 where one before it does
 * so too, which was counted then. */
static int count_alike(const mpt_plan *plan, const mpt_policy *policies, int like, int gemm) {
    int n = 0;
    for (int i = 0; i < plan->graph->n_layers; i++) {
        if (plan->graph->layers[i].kind != plan->graph->layers[like].kind ||
            !same_sum(&policies[i], &policies[like], gemm))
            continue;
        if (i < like)
            return 0;
        n++;
    }
    return n;
}

/* "fprop in bf16, to fp32 each 128 (12 layers)". */
static void add_sum(mpt_words *text, const mpt_policy *policy, int gemm, int n) {
    mpt_words_add(text, "%s%s in %s", text->len ? "; " : "", mpt_gemm_name((mpt_gemm)gemm),
                  mpt_dtype_name(policy->accumulate[gemm]));
    if (policy->promote[gemm])
        mpt_words_add(text, ", to a total in fp32 each %d", (int)policy->promote[gemm]);
    mpt_words_add(text, " (");
    mpt_words_things(text, n, "layer");
    mpt_words_add(text, ")");
}

static void print_products(const mpt_plan *plan, mpt_str *out) {
    const mpt_policy *policies = plan->program->phases[plan->first]->policies;
    mpt_words text = {.len = 0};
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        for (int i = 0; i < plan->graph->n_layers; i++) {
            mpt_layer_kind kind = plan->graph->layers[i].kind;
            bool gemms = kind == MPT_LAYER_LINEAR || kind == MPT_LAYER_HEAD;
            if (!gemms || is_plain(&policies[i], g))
                continue;
            int n = count_alike(plan, policies, i, g);
            if (n > 0)
                add_sum(&text, &policies[i], g, n);
        }
    if (text.len)
        mpt_text_line(out, "sums", text.data);
}

static void print_state(const mpt_plan *plan, mpt_str *out) {
    const mpt_state_formats *state = &plan->program->recipe->state;
    const struct {
        const char *name;
        mpt_dtype dtype;
    } rows[] = {{"master", state->master},
                {"gradient", state->gradient},
                {"reduce", state->reduce},
                {"adam_m", state->adam_m},
                {"adam_v", state->adam_v}};
    mpt_words text = {.len = 0};
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        if (rows[i].dtype != MPT_DTYPE_FP32)
            mpt_words_add(&text, "%s%s %s", text.len ? ", " : "", rows[i].name,
                          mpt_dtype_name(rows[i].dtype));
    if (text.len)
        mpt_text_line(out, "state", text.data);
}

void mpt_plan_print_sums(const mpt_plan *plan, mpt_str *out) {
    print_products(plan, out);
    print_state(plan, out);
}
