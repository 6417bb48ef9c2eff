/* Stage 10, one step: the batch, the phase, PREPARE once, FORWARD and BACKWARD for each
 * micro-batch, UPDATE once, and what the metrics say of it. It allocates nothing. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "train/lr.h"
#include "train/telemetry.h"

enum { POSITIONS = 1024 }; /* at a time */

/* 0 ... sequence - 1 in each row: written anew for each micro-batch, because the phases share
 * one block of memory. */
static void fill_positions(const mpt_graph *graph, mpt_executor *executor) {
    int32_t positions[POSITIONS];
    int64_t all = graph->positions < 0 ? 0 : graph->batch * graph->sequence;
    for (int64_t at = 0, n; at < all; at += n) {
        n = all - at < POSITIONS ? all - at : POSITIONS;
        for (int64_t i = 0; i < n; i++)
            positions[i] = (int32_t)((at + i) % graph->sequence);
        mpt_executor_write(executor, graph->positions, at, n, positions);
    }
}

/* ---- the batch of a step ---- */

static void draw_batch(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    const mpt_train *train = &program->train;
    if (trainer->data == 0)
        mpt_data_begin(program->data, train);
    for (int64_t row = 0; row < train->batch; row++) {
        int64_t at = row * train->sequence;
        mpt_data_train(program->data, train->seed, trainer->data, row, trainer->tokens + at,
                       trainer->targets + at);
    }
}

/* The caller's rows are one longer than a sequence: the last token is only a target. */
static mpt_status take_batch(mpt_trainer *trainer, const int32_t *tokens) {
    const mpt_train *train = &trainer->program->train;
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    int64_t n_ids = mpt_graph_n_ids(graph), n_logits = mpt_graph_n_logits(graph);
    int64_t vocab = n_ids < n_logits ? n_ids : n_logits, length = train->sequence + 1;
    for (int64_t i = 0; i < train->batch * length; i++) {
        if (tokens[i] >= 0 && tokens[i] < vocab)
            continue;
        mpt_status status =
            MPT_FAIL(trainer->ctx, MPT_DATA, MPT_NOWHERE,
                     "tokens[%lld][%lld]: %ld is no token of this model",
                     (long long)(i / length), (long long)(i % length), (long)tokens[i]);
        mpt_hint(trainer->ctx, "ids run from 0 to %lld", (long long)vocab - 1);
        return status;
    }
    for (int64_t row = 0; row < train->batch; row++) {
        size_t bytes = (size_t)train->sequence * sizeof *tokens;
        memcpy(trainer->tokens + row * train->sequence, tokens + row * length, bytes);
        memcpy(trainer->targets + row * train->sequence, tokens + row * length + 1, bytes);
    }
    return MPT_OK;
}

/* ---- one step ---- */

mpt_run_env mpt_trainer_env(const mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    const mpt_train *train = &program->train;
    double beta1 = (double)(float)train->optimizer.beta1; /* as the kernels have them */
    double beta2 = (double)(float)train->optimizer.beta2;
    double t = (double)trainer->applied + 1;
    return (mpt_run_env){
        .seed = train->seed,
        .step = (uint32_t)trainer->attempted,
        .grad_unscale = (float)(1 / trainer->scaler.loss_scale),
        .lr = (float)mpt_lr_at(train, trainer->applied),
        .bias_correction1 = (float)(1 - pow(beta1, t)),
        .bias_correction2 = (float)(1 - pow(beta2, t)),
        .n_threads = program->n_threads,
        .comm = trainer->comm,
    };
}

mpt_runner mpt_trainer_runner(const mpt_trainer *trainer, bool evaluation) {
    const mpt_program *program = trainer->program;
    bool own = evaluation && program->n_evals > 0;
    int part = trainer->phase + (own ? program->n_phases : 0);
    const mpt_phase_program *runs = mpt_program_part(program, part);
    return (mpt_runner){runs, runs->graph, trainer->executors[part]};
}

void mpt_runner_fill(const mpt_runner *runner, const int32_t *tokens, const int32_t *targets) {
    const mpt_graph *graph = runner->graph;
    mpt_executor *executor = runner->executor;
    int64_t n = graph->batch * graph->sequence;
    if (graph->tokens >= 0)
        mpt_executor_write(executor, graph->tokens, 0, n, tokens);
    mpt_executor_write(executor, graph->targets, 0, n, targets);
    fill_positions(graph, executor);
}

double mpt_runner_loss(const mpt_runner *runner) {
    float loss;
    mpt_executor_read(runner->executor, runner->graph->loss, 0, 1, &loss);
    return (double)loss;
}

double mpt_runner_forward(const mpt_runner *runner, const int32_t *tokens,
                          const int32_t *targets, const mpt_run_env *env) {
    mpt_runner_fill(runner, tokens, targets);
    mpt_executor_run(runner->executor, MPT_PASS_FORWARD, env);
    return mpt_runner_loss(runner);
}

/* One pass of a micro-batch, the first one with the step's faults. */
static void run_pass(const mpt_trainer *trainer, const mpt_runner *runner, mpt_pass pass,
                     const mpt_run_env *env) {
    if (env->micro_batch == 0 &&
        mpt_faults_due(&trainer->faults, trainer->attempted, MPT_FAULT_ACT))
        mpt_faults_run(&trainer->faults, trainer->attempted, runner->program, runner->executor,
                       pass, env);
    else
        mpt_executor_run(runner->executor, pass, env);
}

/* Targets of the step on all ranks. */
static int64_t count_step_targets(const mpt_trainer *trainer) {
    const mpt_train *train = &trainer->program->train;
    int64_t own = mpt_count_targets(trainer->targets, train->batch * train->sequence);
    return mpt_comm_sum_int(trainer->comm, own);
}

/* Mean loss over the targets of all micro-batches; their gradients are summed up. A micro-batch
 * without a target adds nothing to either. `targets` are those of the step on all ranks. */
static double run_micro_batches(mpt_trainer *trainer, mpt_run_env *env, double targets,
                                int64_t *out_empty) {
    mpt_runner runner = mpt_trainer_runner(trainer, false);
    const mpt_train *train = &trainer->program->train;
    int64_t n = train->batch * train->sequence;
    int64_t step = runner.graph->batch * runner.graph->sequence, empty = 0;
    double loss = 0;
    env->loss_seed = (float)(trainer->scaler.loss_scale / targets);
    for (int64_t at = 0; at < n; at += step, env->micro_batch++) {
        int64_t own = mpt_count_targets(trainer->targets + at, step);
        mpt_runner_fill(&runner, trainer->tokens + at, trainer->targets + at);
        run_pass(trainer, &runner, MPT_PASS_FORWARD, env);
        run_pass(trainer, &runner, MPT_PASS_BACKWARD, env);
        if (own > 0) /* read last, so that a device goes through both without the host */
            loss += mpt_runner_loss(&runner) * ((double)own / targets);
        empty += own == 0;
    }
    *out_empty = mpt_comm_sum_int(trainer->comm, empty);
    return mpt_comm_sum_double(trainer->comm, loss);
}

/* What stands in a gradient that was found bad: looked at only then, since a good step need not
 * know. */
static void look_at_bad(const mpt_trainer *trainer, int param, mpt_step_result *r) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    const float *grad = trainer->state->grad[param];
    int64_t n = mpt_value_elements(&graph->values[graph->params[param].value]);
    r->bad_tensor = graph->params[param].name;
    if (mpt_state_see(trainer->state, MPT_STATE_GRADS) != MPT_OK)
        return; /* the device has failed, which the step says */
    for (int64_t i = 0; i < n; i++) {
        r->bad_nan = r->bad_nan || isnan(grad[i]);
        r->bad_inf = r->bad_inf || isinf(grad[i]);
        if (isfinite(grad[i]) && fabs((double)grad[i]) > r->bad_amax)
            r->bad_amax = fabs((double)grad[i]);
    }
}

/* Index of the parameter whose gradient fills this row of the norms. */
static int param_of_row(const mpt_graph *graph, int32_t row) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->op == MPT_OP_grad_norm && node->attrs.row_index == row)
            return graph->values[node->in[0]].param;
    }
    return 0;
}

/* Whether the start of phase p has come. */
static bool has_come(const mpt_trainer *trainer, int p) {
    bool applied = mpt_program_by_applied(trainer->program, p);
    return (applied ? trainer->applied : trainer->attempted) >=
           trainer->program->phase_start[p];
}

/* Goes on to the phase of this step, the last whose start has come: steps that were skipped may
 * put one off until the next is due. Scales that it does not share with the one before begin
 * anew. */
static mpt_status enter_phase(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    const mpt_graph *before = mpt_trainer_graph(trainer);
    for (int p = trainer->phase + 1; p < program->n_phases; p++)
        if (has_come(trainer, p))
            trainer->phase = p;
    if (trainer->announced == trainer->phase)
        return MPT_OK;
    trainer->announced = trainer->phase;
    mpt_state_switch(trainer->state, before, mpt_trainer_graph(trainer));
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "phase");
    mpt_metrics_integer(&line, "step", trainer->attempted);
    mpt_metrics_string(&line, "phase", program->phases[trainer->phase]->phase);
    mpt_metrics_string(&line, "schedule_hash", program->phases[trainer->phase]->schedule_hash);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

void mpt_trainer_enter_anew(mpt_trainer *trainer) {
    trainer->phase = 0;
    trainer->announced = -1;
    for (int p = 1; p < trainer->program->n_phases; p++)
        if (has_come(trainer, p))
            trainer->phase = p;
}

mpt_status mpt_trainer_tell_device(mpt_trainer *trainer) {
    mpt_metrics_line line;
    if (!*trainer->came_from)
        return MPT_OK;
    mpt_metrics_begin(&line, "device");
    mpt_metrics_integer(&line, "step", trainer->attempted);
    mpt_metrics_string(&line, "from", trainer->came_from);
    mpt_metrics_string(&line, "to", trainer->program->phases[0]->backend->name);
    trainer->came_from[0] = 0;
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

static mpt_status write_step(const mpt_trainer *trainer, const mpt_step_result *r) {
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "step");
    mpt_metrics_integer(&line, "step", r->step);
    mpt_metrics_integer(&line, "tokens", (int64_t)r->tokens);
    mpt_metrics_number(&line, "loss", r->loss);
    mpt_metrics_number(&line, "lr", r->lr);
    mpt_metrics_number(&line, "grad_norm", r->grad_norm);
    mpt_metrics_number(&line, "loss_scale", r->loss_scale);
    mpt_metrics_boolean(&line, "skipped", r->skipped);
    if (r->empty_microbatches > 0)
        mpt_metrics_integer(&line, "empty_microbatches", r->empty_microbatches);
    mpt_metrics_string(&line, "phase", r->phase);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

/* Where the host asked for it or telemetry is due, the step counts into the trainer's array. */
static void start_counts(mpt_trainer *trainer, mpt_run_env *env) {
    size_t n = (size_t)mpt_trainer_graph(trainer)->n_operands;
    if (!trainer->count_next && !mpt_telemetry_due(trainer))
        return;
    trainer->count_next = false;
    trainer->counted = trainer->phase;
    trainer->counted_step = trainer->attempted;
    if (n > 0)
        memset(trainer->counts, 0, n * sizeof *trainer->counts);
    env->counts = trainer->counts;
}

/* The first step of UPDATE that moves anything: all before it only measure. */
static int first_moving(const mpt_phase_program *program) {
    int step = program->segment[MPT_PASS_UPDATE];
    while (program->graph->nodes[program->steps[step].node].op != MPT_OP_clip_factor)
        step++;
    return step + 1;
}

/* UPDATE in two parts, since what is watched for is known in the middle of it. A step that is
 * left out for a spike runs the same steps as any other; its factor on the gradients becomes
 * NaN, as it is where a gradient is not finite, and by that the optimizer knows. Gives the
 * parameter whose gradient was bad, or -1. */
static int run_update(mpt_trainer *trainer, const mpt_run_env *env, mpt_step_result *r,
                      mpt_watch_verdict *out_verdict) {
    mpt_runner runner = mpt_trainer_runner(trainer, false);
    const int *segment = runner.program->segment;
    int middle = first_moving(runner.program);
    const mpt_node *clip = &runner.graph->nodes[runner.program->steps[middle - 1].node];
    float norm, leave = NAN;
    int32_t bad;
    mpt_executor_run_range(runner.executor, segment[MPT_PASS_UPDATE], middle, env);
    mpt_executor_read(runner.executor, runner.graph->norm, 0, 1, &norm);
    mpt_executor_read(runner.executor, runner.graph->finite, 0, 1, &bad);
    r->grad_norm = (double)norm;
    if (bad < 0)
        *out_verdict = mpt_watch_judge(&trainer->watch, r->loss, r->grad_norm);
    r->spike = out_verdict->action != MPT_SPIKE_OFF;
    r->skipped = bad >= 0 || out_verdict->action >= MPT_SPIKE_SKIP;
    if (r->skipped)
        mpt_executor_write(runner.executor, clip->out[0], 0, 1, &leave);
    mpt_executor_run_range(runner.executor, middle, segment[MPT_PASS_UPDATE + 1], env);
    int param = bad < 0 ? -1 : param_of_row(runner.graph, bad);
    if (param >= 0)
        look_at_bad(trainer, param, r);
    return param;
}

/* A step of which every target is masked: nothing is run, and no counter but that of attempts
 * moves. */
static mpt_status pass_empty(mpt_trainer *trainer, mpt_step_result *r) {
    const mpt_train *train = &trainer->program->train;
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    r->loss = r->grad_norm = (double)NAN;
    r->skipped = true;
    r->empty_microbatches = train->batch / graph->batch;
    trainer->watch.counts.skipped++;
    MPT_TRY(write_step(trainer, r));
    mpt_log(trainer->ctx, MPT_LOG_WARNING,
            "step %lld skipped: all its targets are masked, so it has no loss",
            (long long)r->step);
    return MPT_OK;
}

/* What follows from a step for those to come. */
static mpt_status end_step(mpt_trainer *trainer, const mpt_step_result *r, int param,
                           const mpt_watch_verdict *verdict) {
    mpt_status status;
    if (param >= 0) {
        status = mpt_trainer_skip(trainer, r, param);
    } else {
        if (!r->skipped)
            trainer->skips_in_a_row = 0;
        mpt_scaler_update(&trainer->scaler, &trainer->program->recipe->loss_scale, false);
        status = mpt_trainer_settle_spike(trainer, r, verdict);
    }
    mpt_watch_scale(&trainer->watch, trainer->attempted, trainer->scaler.loss_scale);
    int64_t every = trainer->program->train.checkpoint.every;
    if (every > 0 && trainer->attempted % every == 0 && !mpt_trainer_is_sound(trainer))
        trainer->watch.counts.checkpoint_due = 1;
    return status;
}

/* What has to hold before a step. */
static mpt_status begin_step(mpt_trainer *trainer) {
    MPT_TRY(mpt_trainer_expect_ranks(trainer));
    MPT_TRY(mpt_trainer_tell_device(trainer));
    return enter_phase(trainer);
}

mpt_status mpt_trainer_step_batch(mpt_trainer *trainer, mpt_step_result *out) {
    MPT_TRY(begin_step(trainer));
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    mpt_executor *executor = trainer->executors[trainer->phase];
    mpt_run_env env = mpt_trainer_env(trainer);
    mpt_watch_verdict verdict = {.action = MPT_SPIKE_OFF};
    mpt_step_result r = {.step = trainer->attempted, .loss_scale = trainer->scaler.loss_scale};
    r.phase = trainer->program->phases[trainer->phase]->phase;
    r.lr = (double)env.lr;
    start_counts(trainer, &env);
    int64_t targets = count_step_targets(trainer);
    trainer->tokens_seen += (double)targets;
    r.tokens = trainer->tokens_seen;
    if (targets == 0) {
        trainer->attempted++;
        mpt_status status = pass_empty(trainer, &r);
        *out = r;
        return status;
    }
    env.tally = mpt_gemms_tally(&trainer->gemms, trainer->phase);
    MPT_TRY(mpt_trainer_announce_faults(trainer));
    MPT_TRY(mpt_faults_weights(&trainer->faults, r.step, trainer->state));
    mpt_trainer_start_range(trainer);
    mpt_state_push(trainer->state);
    mpt_executor_run(executor, MPT_PASS_PREPARE, &env);
    r.loss = run_micro_batches(trainer, &env, (double)targets, &r.empty_microbatches);
    MPT_TRY(mpt_faults_restore(&trainer->faults, r.step, trainer->state));
    MPT_TRY(
        mpt_faults_gradients(&trainer->faults, r.step, graph, trainer->state, r.loss_scale));
    mpt_state_push(trainer->state);
    int param = run_update(trainer, &env, &r, &verdict);
    MPT_TRY(mpt_executor_status(executor));
    trainer->attempted++;
    trainer->applied += !r.skipped;
    trainer->watch.counts.skipped += r.skipped;
    *out = r;
    MPT_TRY(mpt_trainer_end_range(trainer, r.step));
    MPT_TRY(write_step(trainer, &r));
    MPT_TRY(mpt_telemetry_write(trainer, r.step));
    return end_step(trainer, &r, param, &verdict);
}

mpt_status mpt_trainer_step(mpt_trainer *trainer, const int32_t *tokens, mpt_step_result *out) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, out);
    trainer->has_gradients = false;
    trainer->drawn = -1;
    if (!tokens && mpt_trainer_graph(trainer)->own_tokens)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: tokens is NULL, and the program was compiled with own_tokens",
                        __func__);
    if (tokens) {
        MPT_TRY(take_batch(trainer, tokens));
    } else {
        draw_batch(trainer);
        trainer->drawn = trainer->data++;
    }
    mpt_status status = mpt_trainer_step_batch(trainer, out);
    if (status == MPT_STOPPED) /* no last line comes any more */
        MPT_TRY(mpt_trainer_write_gemms(trainer));
    return status;
}
