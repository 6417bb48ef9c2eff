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
            bool gemms = mpt_layer_has_gemms(plan->graph->layers[i].kind);
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
    mpt_state_format state;
    mpt_words text = {.len = 0};
    char brief[MPT_QUANTIZER_TEXT];
    for (int i = 0; mpt_state_format_at(&plan->program->recipe->state, i, &state); i++) {
        mpt_quantizer_brief(&state.q, brief);
        if (state.q.format != MPT_DTYPE_FP32)
            mpt_words_add(&text, "%s%s %s", text.len ? ", " : "", state.name, brief);
    }
    if (text.len)
        mpt_text_line(out, "state", text.data);
}

void mpt_plan_print_sums(const mpt_plan *plan, mpt_str *out) {
    print_products(plan, out);
    print_state(plan, out);
}
