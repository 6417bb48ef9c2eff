/* Validation: mean loss over fixed windows, in the current phase's forward precision or in that
 * of train.eval.use.
 *
 * It uses the block of memory between two steps, when nothing in it is needed any more: PREPARE
 * makes the working weights from the masters again and may zero gradients that the next step
 * zeroes anyway. Masters, moments, amax histories and counters are not touched, so training
 * goes on with the same bits whether there was an evaluation or not. */
#include "train/trainer.h"

#include <math.h>

int mpt_trainer_enter_end(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    int before = trainer->phase;
    for (int p = before + 1; trainer->attempted == 0 && trainer->weights; p++) {
        if (p >= program->n_phases)
            break;
        if (program->phase_start[p] < program->train.steps)
            trainer->phase = p;
    }
    return before;
}

void mpt_trainer_fill_windows(mpt_trainer *trainer, int64_t first, int64_t n, int64_t n_all) {
    const mpt_graph *graph = mpt_trainer_graph(trainer); /* evaluations have its shapes */
    int64_t sequence = graph->sequence;
    for (int64_t row = 0; row < graph->batch; row++) {
        int64_t i = first + row < n ? first + row : n - 1, at = row * sequence;
        mpt_data_window(trainer->program->data, i * n_all / n, trainer->tokens + at,
                        trainer->targets + at);
        for (int64_t k = 0; first + row >= n && k < sequence; k++)
            trainer->targets[at + k] = -1;
    }
}

static double mean_loss(mpt_trainer *trainer, int64_t n, int64_t n_all) {
    mpt_runner runner = mpt_trainer_runner(trainer, true);
    int64_t batch = runner.graph->batch;
    mpt_run_env env = mpt_trainer_env(trainer);
    env.evaluating = true; /* what is seen here must not enter the amax histories */
    double loss = 0, sequences = (double)n;
    trainer->has_gradients = false;
    mpt_state_push(trainer->state);
    mpt_executor_run(runner.executor, MPT_PASS_PREPARE, &env);
    for (int64_t first = 0; first < n; first += batch, env.micro_batch++) {
        int64_t rows = n - first < batch ? n - first : batch;
        mpt_trainer_fill_windows(trainer, first, n, n_all);
        double mean = mpt_runner_forward(&runner, trainer->tokens, trainer->targets, &env);
        loss += mean * ((double)rows / sequences);
    }
    return loss;
}

mpt_status mpt_trainer_eval(mpt_trainer *trainer, int64_t max_windows, double *out_loss) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, out_loss);
    if (max_windows < 0)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: max_windows is %lld, expected 0 (all) or more", __func__,
                        (long long)max_windows);
    const mpt_program *program = trainer->program;
    if (mpt_trainer_graph(trainer)->own_tokens)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: the program was compiled with own_tokens, and has no data",
                        __func__);
    int64_t n_all = mpt_data_n_windows(program->data);
    int64_t n = max_windows > 0 && max_windows < n_all ? max_windows : n_all;
    *out_loss = n > 0 ? mean_loss(trainer, n, n_all) : NAN;
    MPT_TRY(mpt_executor_status(mpt_trainer_runner(trainer, true).executor));
    if (n == 0 && !trainer->told_empty)
        mpt_log(trainer->ctx, MPT_LOG_WARNING,
                "no validation: %s leave no sequence over for it",
                mpt_data_describe(program->data));
    trainer->told_empty |= n == 0;
    trainer->last_eval = *out_loss;
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "eval");
    mpt_metrics_integer(&line, "step", trainer->attempted);
    mpt_metrics_integer(&line, "tokens", (int64_t)trainer->tokens_seen);
    mpt_metrics_number(&line, "loss", *out_loss);
    mpt_metrics_integer(&line, "windows", n);
    mpt_metrics_string(&line, "phase", program->phases[trainer->phase]->phase);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}
