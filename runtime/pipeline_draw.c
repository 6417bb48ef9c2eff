/* Stage 1, second half: the recipe's model draws its forward graph, and what it drew is checked
 * before anything is made of it. Next: pipeline_compile.c. */
#include <string.h>

#include "graph/nn.h"
#include "pipeline_stages.h"
#include "train/weights.h"

/* A build function is the host's: what it gives back may be no status, or come without a word,
 * or hide a failure of the builder. */
static mpt_status run_build(mpt_recipe *recipe, mpt_nn *nn, bool proxy) {
    mpt_ctx *ctx = recipe->ctx;
    mpt_status before = ctx->error.code;
    ctx->error.code = MPT_OK;
    mpt_status status = recipe->source.build(recipe->source.ud, nn, proxy);
    mpt_status said = ctx->error.code;
    if (said == MPT_OK)
        ctx->error.code = before;
    if ((unsigned)status >= MPT_STATUS_COUNT)
        return MPT_FAIL(ctx, MPT_INVALID, nn->where,
                        "the model's build function returned %d, which is no status",
                        (int)status);
    if (status != MPT_OK && said == MPT_OK)
        return MPT_FAIL(ctx, status, nn->where,
                        "the model's build function returned %s and named no fault",
                        mpt_status_name(status));
    return status != MPT_OK || nn->failed ? said : MPT_OK;
}

/* Each parameter must have its tensors in a checkpoint, or a run could not save what it learnt.
 */
static mpt_status check_names(const mpt_graph *graph) {
    mpt_weights_map map;
    mpt_status status = mpt_weights_map_create(graph, MPT_WEIGHTS_HF, &map);
    mpt_weights_map_destroy(&map);
    return status;
}

static uint64_t hash_parameters(const mpt_graph *graph) {
    uint64_t chain[4] = {0};
    for (int i = 0; i < graph->n_params; i++) {
        const mpt_param *p = &graph->params[i];
        float init[4] = {(float)p->init.kind, p->init.a, p->init.b, p->rate};
        chain[1] = mpt_hash(p->name, strlen(p->name));
        chain[2] = mpt_hash(init, sizeof init);
        chain[3] = mpt_hash(graph->values[p->value].dims, sizeof graph->values[0].dims);
        chain[0] = mpt_hash(chain, sizeof chain);
    }
    return chain[0];
}

/* A model is drawn more than once: for each phase, and again for figures. Where drawings
 * differ, one would be planned and another trained. */
static mpt_status check_same(mpt_recipe *recipe, bool proxy, const mpt_graph *graph) {
    const mpt_model_ref *model = proxy ? &recipe->proxy : &recipe->model;
    const mpt_drawn *last = &recipe->drawn[proxy];
    mpt_drawn now = {graph->batch, graph->sequence, graph->vocab, hash_parameters(graph), 0};
    char nodes[17];
    mpt_schedule_hash(graph, nodes);
    now.hash = mpt_hash(nodes, sizeof nodes);
    bool alike = now.sequence == last->sequence && now.vocab == last->vocab;
    if (alike && (now.parameters != last->parameters ||
                  (now.batch == last->batch && now.hash != last->hash))) {
        mpt_status status = MPT_FAIL(graph->ctx, MPT_INVALID, model->where,
                                     "the model %s draws another graph each time", model->name);
        mpt_hint(graph->ctx, "its graph must depend on its size alone: count nothing between "
                             "drawings, and ask nothing that changes");
        return status;
    }
    recipe->drawn[proxy] = now;
    return MPT_OK;
}

static mpt_status draw(mpt_recipe *recipe, const mpt_drawing *drawing, mpt_graph *graph) {
    const mpt_model_ref *model = drawing->proxy ? &recipe->proxy : &recipe->model;
    mpt_nn nn = {.graph = graph, .where = model->where, .prefix = "", .block = -1};
    MPT_TRY(run_build(recipe, &nn, drawing->proxy));
    if (graph->loss < 0) {
        mpt_status status = MPT_FAIL(graph->ctx, MPT_INVALID, model->where,
                                     "the model %s has no loss", model->name);
        mpt_hint(graph->ctx, "end its graph with nn.cross_entropy{logits}");
        return status;
    }
    if (graph->n_params == 0)
        return MPT_FAIL(graph->ctx, MPT_INVALID, model->where,
                        "the model %s has no parameters to train", model->name);
    MPT_TRY(check_names(graph));
    return check_same(recipe, drawing->proxy, graph);
}

mpt_status mpt_pipeline_draw(mpt_recipe *recipe, const mpt_drawing *drawing, bool own_tokens,
                             mpt_graph **out) {
    mpt_graph *graph;
    *out = NULL;
    if (!recipe->source.build)
        return MPT_FAIL(recipe->ctx, MPT_INVALID, recipe->where, "the recipe has no model");
    MPT_TRY(mpt_graph_create(recipe->ctx, drawing->batch, drawing->sequence, drawing->vocab,
                             &graph));
    graph->vocab_unstated = drawing->vocab_unstated;
    graph->own_tokens = own_tokens;
    mpt_status status = draw(recipe, drawing, graph);
    if (status != MPT_OK) {
        mpt_graph_destroy(graph);
        return status;
    }
    *out = graph;
    return MPT_OK;
}
