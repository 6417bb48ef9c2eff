/* The cascade laid open (explain.h): the state of a layer behind its last rule, read for who
 * decided each field. */
#include "recipe/resolve.h"

#include "recipe/schema_store.h"

typedef mpt_cascade cascade;
typedef mpt_layer_state layer_state;

static mpt_origin origin_of(mpt_decision how, int rule, mpt_where where) {
    return (mpt_origin){.how = how, .rule = rule, .where = where, .word = MPT_OPS_COUNT};
}

static int row_index(const char *name) {
    return (int)(mpt_record_lookup(&mpt_record_quantizer, name) - mpt_record_quantizer.fields);
}

/* What mpt_slot_use_settle changed because scale_format was said and these were not. */
static bool follows(const mpt_slot_use *use, int field) {
    bool by_format = use->set >> row_index("scale_format") & 1;
    return by_format &&
           (field == row_index("scale_rule") ||
            (field == row_index("outer") && use->q.scale_format != MPT_SCALE_E4M3));
}

static mpt_origin why_field(const cascade *c, const layer_state *s, int slot, int field) {
    const mpt_slot_use *use = &s->slot[slot];
    int rule = s->decider[slot][field], row = row_index("scale_format");
    if (use->set >> field & 1)
        return origin_of(MPT_DECIDED_SAID, rule, use->said[field]);
    if (follows(use, field))
        return origin_of(MPT_DECIDED_FOLLOWS, s->decider[slot][row], use->said[row]);
    rule = s->format_decider[slot];
    if (rule < 0) /* the base is not a router's */
        return origin_of(MPT_DECIDED_DEFAULT, -1,
                         s->layer->kind == MPT_LAYER_ROUTER ? MPT_NOWHERE
                                                            : c->recipe->base_where);
    return origin_of(field == row_index("format") ? MPT_DECIDED_SAID : MPT_DECIDED_FORMAT, rule,
                     use->where);
}

static mpt_origin why_op(const cascade *c, mpt_ops_word word) {
    return (mpt_origin){MPT_DECIDED_OPS, -1, c->recipe->ops[word].where, word};
}

/* How products are summed up; the place is that of the rule. */
static void explain_sums(const layer_state *s, mpt_explanation *out) {
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        int sum = s->accumulate_decider[g], promote = s->promote_decider[g];
        out->accumulate[g] = s->accumulate[g];
        out->promote[g] = s->promote[g];
        out->accumulate_why[g] =
            origin_of(sum < 0 ? MPT_DECIDED_DEFAULT : MPT_DECIDED_SAID, sum, MPT_NOWHERE);
        out->promote_why[g] = origin_of(promote < 0 ? MPT_DECIDED_DEFAULT : MPT_DECIDED_SAID,
                                        promote, MPT_NOWHERE);
    }
}

static void explain_softmax(const cascade *c, const mpt_layer *layer, mpt_explanation *out) {
    mpt_dtype said = c->recipe->ops[MPT_OPS_SOFTMAX].format;
    out->has_softmax = layer->kind == MPT_LAYER_ATTENTION;
    out->softmax = said == MPT_DTYPE_COUNT ? MPT_DTYPE_FP32 : said;
    out->softmax_why = origin_of(MPT_DECIDED_DEFAULT, -1, MPT_NOWHERE);
    if (said != MPT_DTYPE_COUNT)
        out->softmax_why = why_op(c, MPT_OPS_SOFTMAX);
}

void mpt_cascade_explain(const mpt_cascade *c, int layer, mpt_explanation *out) {
    layer_state s;
    mpt_cascade_run(c, layer, &s);
    *out = (mpt_explanation){.has_gemms = mpt_layer_has_gemms(s.layer->kind),
                             .compute = s.compute};
    const mpt_origin base = origin_of(MPT_DECIDED_DEFAULT, -1, c->recipe->base_where);
    for (int i = 0; i < MPT_SLOT_COUNT; i++) {
        out->slot[i] = s.slot[i].q;
        for (int f = 0; f < mpt_record_quantizer.n_fields; f++)
            out->field[i][f] = why_field(c, &s, i, f);
    }
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        int rule = s.output_decider[g];
        bool logits = (s.layer->kind == MPT_LAYER_HEAD || s.layer->kind == MPT_LAYER_ROUTER) &&
                      g == MPT_GEMM_FPROP;
        out->output[g] = s.output[g];
        out->output_why[g] = logits || g == MPT_GEMM_WGRAD
                                 ? origin_of(MPT_DECIDED_DEFAULT, -1, MPT_NOWHERE)
                                 : base;
        if (rule >= 0)
            out->output_why[g] =
                origin_of(MPT_DECIDED_SAID, rule, c->rules[rule].rule->use.output_where[g]);
    }
    explain_sums(&s, out);
    explain_softmax(c, s.layer, out);
    out->compute_why = base;
    if (s.compute_word != MPT_OPS_COUNT)
        out->compute_why = why_op(c, s.compute_word);
    if (s.compute_decider >= 0)
        out->compute_why = origin_of(MPT_DECIDED_SAID, s.compute_decider,
                                     c->rules[s.compute_decider].rule->use.slot[0].where);
}
