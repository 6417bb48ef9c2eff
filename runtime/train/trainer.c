/* Stage 10: optimizer steps over a program, from data to updated weights.
 *
 * A step: PREPARE once, FORWARD and BACKWARD for each micro-batch, UPDATE once. One executor a
 * phase shares the one state; a switch takes another executor and moves nothing. Everything is
 * allocated by mpt_trainer_create; a step allocates nothing. Validation: eval.c. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "io/system.h"
#include "train/lr.h"

/* ---- life ---- */

void mpt_trainer_destroy(mpt_trainer *trainer) {
    if (!trainer)
        return;
    for (int i = 0; i < trainer->n_executors; i++)
        mpt_executor_destroy(trainer->executors[i]);
    mpt_state_destroy(trainer->state);
    mpt_faults_free(&trainer->faults);
    mpt_free(trainer->ctx, trainer->counts);
    mpt_free(trainer->ctx, trainer->executors);
    mpt_free(trainer->ctx, trainer->tokens);
    mpt_free(trainer->ctx, trainer->weights);
    mpt_free(trainer->ctx, trainer);
}

static mpt_phase_list phases_of(const mpt_program *program) {
    return (mpt_phase_list){program->phases, program->n_phases};
}

/* Of the phases and evaluations, the one that needs most memory. */
static int largest_part(const mpt_program *program) {
    int largest = 0;
    for (int i = 1; i < program->n_phases + program->n_evals; i++)
        if (mpt_program_part(program, i)->arena_bytes >
            mpt_program_part(program, largest)->arena_bytes)
            largest = i;
    return largest;
}

/* Refuses before touching anything: an allocator that promises more than there is would let the
 * system kill the host later. */
static mpt_status check_memory(const mpt_program *program) {
    size_t need = mpt_size_add(mpt_state_bytes(phases_of(program)),
                               mpt_program_part(program, largest_part(program))->arena_bytes);
    uint64_t have = mpt_system_memory();
    if (have == 0 || need <= have)
        return MPT_OK;
    mpt_status status = MPT_FAIL(program->ctx, MPT_OUT_OF_MEMORY, MPT_NOWHERE,
                                 "training needs %.1f GB of memory, and %.1f GB are free",
                                 (double)need / 1e9, (double)have / 1e9);
    mpt_hint(program->ctx, "train the proxy, or choose a smaller model, batch or sequence");
    return status;
}

/* 0 ... sequence - 1 in each row: written anew for each micro-batch, because the phases share
 * one block of memory. */
static void fill_positions(const mpt_graph *graph, mpt_executor *executor) {
    if (graph->positions < 0)
        return;
    int32_t *positions = mpt_executor_tensor(executor, graph->positions)->data;
    for (int64_t i = 0; positions && i < graph->batch * graph->sequence; i++)
        positions[i] = (int32_t)(i % graph->sequence);
}

/* One executor a phase or evaluation. The one that needs most memory owns the block in which
 * all work, so a switch costs nothing and a run needs what its largest part needs. */
static mpt_status create_executors(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    int n = program->n_phases + program->n_evals, largest = largest_part(program);
    size_t bytes = (size_t)n * sizeof(mpt_executor *);
    trainer->executors = mpt_alloc(trainer->ctx, bytes);
    if (!trainer->executors)
        return mpt_fail_memory(trainer->ctx, bytes);
    trainer->n_executors = n;
    mpt_executor **owner = &trainer->executors[largest];
    MPT_TRY(mpt_executor_create(mpt_program_part(program, largest), owner));
    for (int i = 0; i < n; i++) {
        const mpt_phase_program *part = mpt_program_part(program, i);
        if (i != largest)
            MPT_TRY(mpt_executor_create_within(part, *owner, &trainer->executors[i]));
        mpt_state_bind(trainer->state, part->graph, trainer->executors[i]);
    }
    return MPT_OK;
}

/* Room for the counts of the phase with most operands, so that any step can be counted. */
static mpt_status create_counts(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    int most = 0;
    for (int p = 0; p < program->n_phases; p++)
        if (program->phases[p]->graph->n_operands > most)
            most = program->phases[p]->graph->n_operands;
    size_t bytes = mpt_size_mul((size_t)most, sizeof *trainer->counts);
    trainer->counts = most > 0 ? mpt_alloc(trainer->ctx, bytes) : NULL;
    return most > 0 && !trainer->counts ? mpt_fail_memory(trainer->ctx, bytes) : MPT_OK;
}

static mpt_status create_parts(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    const mpt_train *train = &program->train;
    const mpt_graph *graph = program->phases[0]->graph;
    size_t n = mpt_size_mul((size_t)train->batch, (size_t)train->sequence);
    size_t bytes = mpt_size_mul(2 * sizeof(int32_t), n);
    MPT_TRY(check_memory(program));
    trainer->tokens = mpt_alloc(trainer->ctx, bytes);
    if (!trainer->tokens)
        return mpt_fail_memory(trainer->ctx, bytes);
    trainer->targets = trainer->tokens + n;
    MPT_TRY(create_counts(trainer));
    MPT_TRY(mpt_state_create(phases_of(program), &trainer->state));
    mpt_state_initialize(trainer->state, graph, train->seed, program->n_threads);
    return create_executors(trainer);
}

mpt_status mpt_trainer_create(const mpt_program *program, const mpt_trainer_options *options,
                              mpt_trainer **out) {
    MPT_REQUIRE_OBJECT(program);
    mpt_ctx *ctx = program->ctx;
    mpt_trainer_options o = MPT_TRAINER_OPTIONS_INIT;
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_TRY(mpt_options_read(ctx, __func__, options, &o, sizeof o));
    if (o.n_inject < 0 || (o.n_inject > 0 && !o.inject))
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: n_inject is %d, which does not fit inject", __func__, o.n_inject);
    mpt_trainer *trainer = mpt_alloc(ctx, sizeof *trainer);
    if (!trainer)
        return mpt_fail_memory(ctx, sizeof *trainer);
    trainer->ctx = ctx;
    trainer->program = program;
    trainer->metrics = o.metrics;
    trainer->metrics_ud = o.metrics_ud;
    trainer->announced = -1;
    trainer->counted = -1;
    trainer->last_eval = NAN;
    trainer->scaler = mpt_scaler_start(&program->recipe->loss_scale);
    mpt_status status = mpt_faults_read(program->phases[0]->graph, program->train.steps,
                                        o.inject, o.n_inject, &trainer->faults);
    if (status == MPT_OK)
        status = create_parts(trainer);
    if (status != MPT_OK) {
        mpt_trainer_destroy(trainer);
        return status;
    }
    *out = trainer;
    return MPT_OK;
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

/* Where the host asked for it, the step counts into the trainer's array. */
static void start_counts(mpt_trainer *trainer, mpt_run_env *env) {
    size_t n = (size_t)mpt_trainer_graph(trainer)->n_operands;
    if (!trainer->count_next)
        return;
    trainer->count_next = false;
    trainer->counted = trainer->phase;
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
    return mpt_trainer_step_batch(trainer, out);
}

/* ---- the end ---- */

static mpt_status fail_untrained(const mpt_trainer *trainer) {
    mpt_status status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                                 "all %lld steps were skipped, so nothing was trained",
                                 (long long)trainer->attempted);
    mpt_hint(trainer->ctx, "the metrics name the first bad tensor of each: keep its layer in a "
                           "wider format, or lower the learning rate");
    return status;
}

/* So many skipped steps at the end are no accident: the weights are those from before. */
enum { MOST_SKIPS_AT_END = 2 };

/* Whether a run that trained some steps has gone wrong all the same. Steps that a dynamic loss
 * scale may cure do not count: it finds its place with them. */
static mpt_status check_skips(const mpt_trainer *trainer) {
    mpt_status status;
    if (trainer->skips_in_a_row > MOST_SKIPS_AT_END)
        status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                          "the last %d steps were skipped: training has diverged",
                          trainer->skips_in_a_row);
    else if (trainer->lost > trainer->attempted / 2)
        status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                          "%lld of %lld steps were skipped: training has diverged",
                          (long long)trainer->lost, (long long)trainer->attempted);
    else
        return MPT_OK;
    mpt_hint(trainer->ctx, "the metrics name the first bad tensor of each: keep its layer in a "
                           "wider format, or lower the learning rate");
    return status;
}

mpt_status mpt_trainer_finish(mpt_trainer *trainer) {
    mpt_metrics_line line;
    MPT_REQUIRE_OBJECT(trainer);
    mpt_metrics_begin(&line, "done");
    mpt_metrics_integer(&line, "step", trainer->attempted);
    mpt_metrics_integer(&line, "tokens", (int64_t)trainer->tokens_seen);
    mpt_metrics_integer(&line, "applied", trainer->applied);
    mpt_metrics_integer(&line, "skipped", trainer->attempted - trainer->applied);
    mpt_metrics_number(&line, "eval_loss", trainer->last_eval);
    MPT_TRY(mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud));
    bool untrained = trainer->attempted > 0 && trainer->applied == 0;
    return untrained ? fail_untrained(trainer) : check_skips(trainer);
}
