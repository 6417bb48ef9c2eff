/* Stage 10, one step: the batch, the phase, PREPARE once, FORWARD and BACKWARD for each
 * micro-batch, UPDATE once, and what the metrics say of it. It allocates nothing. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "train/lr.h"
#include "train/telemetry.h"

/* 0 ... sequence - 1 in each row: written anew for each micro-batch, because the phases share
 * one block of memory. */
static void fill_positions(const mpt_graph *graph, mpt_executor *executor) {
    if (graph->positions < 0)
        return;
    int32_t *positions = mpt_executor_tensor(executor, graph->positions)->data;
    for (int64_t i = 0; positions && i < graph->batch * graph->sequence; i++)
        positions[i] = (int32_t)(i % graph->sequence);
}

/* ---- the batch of a step ---- */

static void draw_batch(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    const mpt_train *train = &program->train;
    if (trainer->data == 0)
        mpt_data_begin(program->data, train);
    for (int64_t row = 0; row < train->batch; row++) {
        int64_t at = row * train->sequence;
        mpt_data_train(program->data, train->seed, trainer->data, row, train->sequence,
                       trainer->tokens + at, trainer->targets + at);
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
    size_t bytes = (size_t)(graph->batch * graph->sequence) * sizeof *tokens;
    if (graph->tokens >= 0)
        memcpy(mpt_executor_tensor(executor, graph->tokens)->data, tokens, bytes);
    memcpy(mpt_executor_tensor(executor, graph->targets)->data, targets, bytes);
    fill_positions(graph, executor);
}

double mpt_runner_loss(const mpt_runner *runner) {
    mpt_value_id loss = runner->graph->loss;
    return (double)*(const float *)mpt_executor_tensor(runner->executor, loss)->data;
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

/* Mean loss over the targets of all micro-batches; their gradients are summed up. */
static double run_micro_batches(mpt_trainer *trainer, mpt_run_env *env) {
    mpt_runner runner = mpt_trainer_runner(trainer, false);
    const mpt_train *train = &trainer->program->train;
    int64_t n = train->batch * train->sequence;
    int64_t step = runner.graph->batch * runner.graph->sequence;
    double targets = (double)mpt_count_targets(trainer->targets, n), loss = 0;
    env->loss_seed = (float)(trainer->scaler.loss_scale / targets);
    for (int64_t at = 0; at < n; at += step, env->micro_batch++) {
        mpt_runner_fill(&runner, trainer->tokens + at, trainer->targets + at);
        run_pass(trainer, &runner, MPT_PASS_FORWARD, env);
        double share = (double)mpt_count_targets(trainer->targets + at, step) / targets;
        loss += mpt_runner_loss(&runner) * share;
        run_pass(trainer, &runner, MPT_PASS_BACKWARD, env);
    }
    return loss;
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

mpt_status mpt_trainer_step_batch(mpt_trainer *trainer, mpt_step_result *out) {
    const mpt_train *train = &trainer->program->train;
    MPT_TRY(enter_phase(trainer));
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    mpt_executor *executor = trainer->executors[trainer->phase];
    mpt_run_env env = mpt_trainer_env(trainer);
    mpt_step_result r = {.step = trainer->attempted, .loss_scale = trainer->scaler.loss_scale};
    r.phase = trainer->program->phases[trainer->phase]->phase;
    r.lr = (double)env.lr;
    start_counts(trainer, &env);
    env.tally = mpt_gemms_tally(&trainer->gemms, trainer->phase);
    MPT_TRY(mpt_trainer_announce_faults(trainer));
    mpt_faults_weights(&trainer->faults, r.step, trainer->state);
    mpt_executor_run(executor, MPT_PASS_PREPARE, &env);
    r.loss = run_micro_batches(trainer, &env);
    mpt_faults_restore(&trainer->faults, r.step, trainer->state);
    mpt_faults_gradients(&trainer->faults, r.step, graph, trainer->state, r.loss_scale);
    mpt_executor_run(executor, MPT_PASS_UPDATE, &env);
    r.grad_norm = (double)*(const float *)mpt_executor_tensor(executor, graph->norm)->data;
    int32_t bad = *(const int32_t *)mpt_executor_tensor(executor, graph->finite)->data;
    int param = bad < 0 ? -1 : param_of_row(graph, bad);
    r.skipped = bad >= 0;
    r.bad_tensor = bad < 0 ? NULL : graph->params[param].name;
    trainer->tokens_seen += (double)(train->batch * train->sequence);
    r.tokens = trainer->tokens_seen;
    trainer->attempted++;
    trainer->applied += !r.skipped;
    *out = r;
    MPT_TRY(write_step(trainer, &r));
    MPT_TRY(mpt_telemetry_write(trainer, r.step));
    if (r.skipped)
        return mpt_trainer_skip(trainer, &r, param);
    trainer->skips_in_a_row = 0;
    mpt_scaler_update(&trainer->scaler, &trainer->program->recipe->loss_scale, false);
    return MPT_OK;
}

mpt_status mpt_trainer_step(mpt_trainer *trainer, const int32_t *tokens, mpt_step_result *out) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, out);
    trainer->has_gradients = false;
    if (!tokens && mpt_trainer_graph(trainer)->own_tokens)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: tokens is NULL, and the program was compiled with own_tokens",
                        __func__);
    if (tokens) {
        MPT_TRY(take_batch(trainer, tokens));
    } else {
        draw_batch(trainer);
        trainer->data++;
    }
    mpt_status status = mpt_trainer_step_batch(trainer, out);
    if (status == MPT_STOPPED) /* no last line comes any more */
        MPT_TRY(mpt_trainer_write_gemms(trainer));
    return status;
}
