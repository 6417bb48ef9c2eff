/* One pass over the caller's tokens: logits, loss and gradients without an optimizer step.
 *
 * As in an evaluation (eval.c), which runs between two steps as well, nothing that outlives a
 * step is written but the gradients, which the next step zeroes. Logits are an activation whose
 * memory later steps of the program use again, so they are copied right before the loss reads
 * them: FORWARD runs in two parts. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "kernels/tensor.h"

mpt_status mpt_trainer_check_ids(const mpt_trainer *trainer, const char *name,
                                 const int32_t *ids, bool targets) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    int64_t n = targets ? mpt_graph_n_logits(graph) : mpt_graph_n_ids(graph);
    for (int64_t i = 0; i < graph->batch * graph->sequence; i++) {
        if ((ids[i] >= 0 && ids[i] < n) || (targets && ids[i] == -1))
            continue;
        mpt_status status = MPT_FAIL(trainer->ctx, MPT_DATA, MPT_NOWHERE,
                                     "%s[%lld][%lld]: %ld is no token of this model", name,
                                     (long long)(i / graph->sequence),
                                     (long long)(i % graph->sequence), (long)ids[i]);
        mpt_hint(trainer->ctx, "ids run from 0 to %lld%s", (long long)n - 1,
                 targets ? ", and -1 masks a target" : "");
        return status;
    }
    return MPT_OK;
}

static mpt_status check_options(const mpt_trainer *trainer, const mpt_forward_options *o) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    MPT_REQUIRE(trainer->ctx, o->tokens);
    MPT_TRY(mpt_trainer_check_ids(trainer, "tokens", o->tokens, false));
    if (o->targets)
        MPT_TRY(mpt_trainer_check_ids(trainer, "targets", o->targets, true));
    if (!o->gradients)
        return MPT_OK;
    if (o->targets && mpt_count_targets(o->targets, graph->batch * graph->sequence) > 0)
        return MPT_OK;
    mpt_status status = MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "mpt_trainer_forward: gradients without a target");
    mpt_hint(trainer->ctx, "the loss needs a target that is not masked");
    return status;
}

void mpt_runner_look(const mpt_runner *runner, const mpt_run_env *env, mpt_logits_fn look,
                     void *ud) {
    const int *segment = runner->program->segment;
    int from = segment[MPT_PASS_FORWARD], end = segment[MPT_PASS_FORWARD + 1];
    for (int i = from; i < end; i++) {
        const mpt_node *node = &runner->graph->nodes[runner->program->steps[i].node];
        if (node->op != MPT_OP_cross_entropy)
            continue;
        mpt_executor_run_range(runner->executor, from, i, env);
        look(ud, mpt_executor_fetch(runner->executor, node->in[0]));
        from = i;
    }
    mpt_executor_run_range(runner->executor, from, end, env);
}

/* A mpt_logits_fn: copies them to where `ud` points, where it does. */
static void copy_logits(void *ud, const mpt_tensor *logits) {
    if (ud)
        memcpy(ud, logits->data, (size_t)mpt_tensor_elements(logits) * sizeof(float));
}

/* Takes the loss scale out of the gradients: exact where it is a power of two. */
static mpt_status unscale(const mpt_trainer *trainer) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    float factor = (float)(1 / trainer->scaler.loss_scale);
    if (factor == 1.0f)
        return MPT_OK;
    MPT_TRY(mpt_state_edit(trainer->state, MPT_STATE_GRADS));
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_value *value = &graph->values[graph->params[p].grad];
        int64_t n = mpt_value_elements(value);
        float *grad = trainer->state->grad[p];
        for (int64_t i = 0; i < n; i++)
            grad[i] *= factor;
        mpt_round_to(value->dtype, grad, (size_t)n);
    }
    return MPT_OK;
}

mpt_status mpt_trainer_forward(mpt_trainer *trainer, const mpt_forward_options *options,
                               float *logits, double *out_loss) {
    mpt_forward_options o = MPT_FORWARD_OPTIONS_INIT;
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, options);
    MPT_TRY(mpt_options_read(trainer->ctx, __func__, options, &o, sizeof o));
    MPT_TRY(check_options(trainer, &o));
    mpt_runner runner = mpt_trainer_runner(trainer, !o.gradients);
    int64_t n = runner.graph->batch * runner.graph->sequence;
    int64_t n_targets = o.targets ? mpt_count_targets(o.targets, n) : 0;
    for (int64_t i = 0; i < n; i++)
        trainer->targets[i] = o.targets ? o.targets[i] : -1;
    mpt_run_env env = mpt_trainer_env(trainer);
    env.evaluating = true; /* what is seen here must not enter the amax histories */
    if (n_targets > 0)
        env.loss_seed = (float)(trainer->scaler.loss_scale / (double)n_targets);
    trainer->has_gradients = o.gradients;
    mpt_state_push(trainer->state);
    mpt_executor_run(runner.executor, MPT_PASS_PREPARE, &env);
    mpt_runner_fill(&runner, o.tokens, trainer->targets);
    mpt_runner_look(&runner, &env, copy_logits, logits);
    if (out_loss)
        *out_loss = n_targets > 0 ? mpt_runner_loss(&runner) : NAN;
    if (o.gradients) {
        mpt_executor_run(runner.executor, MPT_PASS_BACKWARD, &env);
        MPT_TRY(unscale(trainer));
    }
    return mpt_executor_status(runner.executor);
}
