/* What a model makes of its validation data: loss as eval.c has it, and how often the largest
 * logit is the next token. */
#include "mpt/eval.h"

#include <math.h>

#include "kernels/tensor.h"
#include "train/trainer.h"

typedef struct measuring {
    const int32_t *targets;
    int64_t hits;
    int64_t sequence, first; /* of a window; the number of the micro-batch's first */
    int64_t bad;             /* the first window that is not finite, or -1 */
} measuring;

/* A mpt_logits_fn. */
static void count_hits(void *ud, const mpt_tensor *logits) {
    measuring *m = ud;
    const float *x = logits->data;
    int64_t n = mpt_tensor_rows(logits), width = mpt_tensor_cols(logits);
    for (int64_t t = 0; t < n; t++) {
        if (m->targets[t] < 0)
            continue;
        m->hits += mpt_foretells(x + t * width, width, m->targets[t]);
        if (m->bad < 0 && !mpt_all_finite(x + t * width, width))
            m->bad = m->first + t / m->sequence;
    }
}

static mpt_status run(mpt_trainer *trainer, int64_t n, mpt_measure_fn progress, void *ud,
                      mpt_eval_result *out) {
    mpt_runner runner = mpt_trainer_runner(trainer, true);
    int64_t batch = runner.graph->batch, tokens = batch * runner.graph->sequence;
    measuring m = {.targets = trainer->targets, .sequence = runner.graph->sequence, .bad = -1};
    mpt_run_env env = mpt_trainer_env(trainer);
    env.evaluating = true; /* what is seen here must not enter the amax histories */
    trainer->has_gradients = false;
    *out = (mpt_eval_result){.n_windows = n,
                             .bad_window = -1,
                             .phase = mpt_trainer_phase(trainer),
                             .eval_use = trainer->program->n_evals > 0};
    mpt_state_push(trainer->state);
    mpt_executor_run(runner.executor, MPT_PASS_PREPARE, &env);
    for (int64_t first = 0; first < n; first += batch, env.micro_batch++) {
        int64_t rows = n - first < batch ? n - first : batch;
        mpt_trainer_fill_windows(trainer, first, n, n);
        m.first = first;
        mpt_runner_fill(&runner, trainer->tokens, trainer->targets);
        mpt_runner_look(&runner, &env, count_hits, &m);
        out->loss += mpt_runner_loss(&runner) * ((double)rows / (double)n);
        out->n_targets += mpt_count_targets(trainer->targets, tokens);
        if (progress && !progress(ud, first + rows, n))
            return MPT_FAIL(trainer->ctx, MPT_INTERRUPTED, MPT_NOWHERE,
                            "stopped after %lld of %lld windows", (long long)(first + rows),
                            (long long)n);
    }
    out->bad_window = m.bad;
    out->accuracy = (double)m.hits / (double)out->n_targets;
    return mpt_executor_status(runner.executor);
}

mpt_status mpt_trainer_measure(mpt_trainer *trainer, mpt_measure_fn progress, void *ud,
                               mpt_eval_result *out) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, out);
    const mpt_program *program = trainer->program;
    if (mpt_trainer_graph(trainer)->own_tokens)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: the program was compiled with own_tokens, and has no data",
                        __func__);
    int64_t n = mpt_data_n_windows(program->data);
    mpt_status status = MPT_OK;
    if (n > 0) {
        int phase = mpt_trainer_enter_end(trainer);
        status = run(trainer, n, progress, ud, out);
        trainer->phase = phase;
        return status;
    }
    status = MPT_FAIL(trainer->ctx, MPT_DATA, MPT_NOWHERE,
                      "the validation part of %s has no window of %lld tokens",
                      mpt_data_describe(program->data), (long long)program->train.sequence);
    mpt_hint(trainer->ctx, "its last tenth must be longer than train.sequence");
    return status;
}
