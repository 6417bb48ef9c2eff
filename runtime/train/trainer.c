/* Stage 10: a trainer's life, from its memory to the last line of its metrics.
 *
 * One executor a phase shares the one state; a switch takes another executor and moves nothing.
 * Everything is allocated by mpt_trainer_create. A step: trainer_step.c; validation: eval.c. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "io/system.h"
#include "mpt/checkpoint.h"

/* ---- life ---- */

void mpt_trainer_destroy(mpt_trainer *trainer) {
    if (!trainer)
        return;
    for (int i = 0; i < trainer->n_executors; i++)
        mpt_executor_destroy(trainer->executors[i]);
    mpt_state_destroy(trainer->state);
    mpt_faults_free(&trainer->faults);
    mpt_gemms_free(&trainer->gemms);
    mpt_free(trainer->ctx, trainer->counts);
    mpt_free(trainer->ctx, trainer->executors);
    mpt_free(trainer->ctx, trainer->tokens);
    mpt_free(trainer->ctx, trainer->weights);
    mpt_free(trainer->ctx, trainer->checkpoints);
    mpt_free(trainer->ctx, trainer->loaded_in);
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
    const mpt_phase_program *largest = mpt_program_part(program, largest_part(program));
    size_t need = mpt_state_bytes(phases_of(program));
    if (!largest
             ->storage) /* else that memory is a device's, which says itself how much it has */
        need = mpt_size_add(need, largest->arena_bytes);
    uint64_t have = mpt_system_memory();
    if (have == 0 || need <= have)
        return MPT_OK;
    mpt_status status = MPT_FAIL(program->ctx, MPT_OUT_OF_MEMORY, MPT_NOWHERE,
                                 "training needs %.1f GB of memory, and %.1f GB are free",
                                 (double)need / 1e9, (double)have / 1e9);
    mpt_hint(program->ctx, "train the proxy, or choose a smaller model, batch or sequence");
    return status;
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
    MPT_TRY(mpt_state_place(trainer->state, program->phases[0], *owner));
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

/* What a loss comes to where only the words are counted, or where that is unknown all are taken
 * for equally likely. */
static double entropy_of(const mpt_program *program) {
    double unigram = program->data ? mpt_data_unigram_entropy(program->data) : NAN;
    return isnan(unigram) ? log((double)mpt_graph_n_logits(program->phases[0]->graph))
                          : unigram;
}

/* Kernels of a device do not reach the channel: each rank would go on with its own gradients,
 * norm and scales. */
mpt_status mpt_trainer_expect_ranks(const mpt_trainer *trainer) {
    const mpt_backend *backend = trainer->program->phases[0]->backend;
    if (trainer->comm->count < 2 || !backend || !backend->device)
        return MPT_OK;
    mpt_status status = MPT_FAIL(trainer->ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                                 "training on the device %s takes one rank, and this is rank "
                                 "%d of %d",
                                 backend->name, trainer->comm->rank, trainer->comm->count);
    mpt_hint(trainer->ctx, "train with one rank, or all ranks with --device cpu");
    return status;
}

static mpt_status create_parts(mpt_trainer *trainer) {
    const mpt_program *program = trainer->program;
    const mpt_train *train = &program->train;
    const mpt_graph *graph = program->phases[0]->graph;
    size_t n = mpt_size_mul((size_t)train->batch, (size_t)train->sequence);
    size_t bytes = mpt_size_mul(2 * sizeof(int32_t), n);
    MPT_TRY(mpt_trainer_expect_ranks(trainer));
    MPT_TRY(check_memory(program));
    trainer->tokens = mpt_alloc(trainer->ctx, bytes);
    if (!trainer->tokens)
        return mpt_fail_memory(trainer->ctx, bytes);
    trainer->targets = trainer->tokens + n;
    MPT_TRY(create_counts(trainer));
    mpt_watch_begin(&train->watch.spike, entropy_of(program), &trainer->watch);
    mpt_watch_scale(&trainer->watch, 0, trainer->scaler.loss_scale);
    MPT_TRY(mpt_gemms_find(&trainer->gemms, program));
    MPT_TRY(mpt_state_create(phases_of(program), &trainer->state));
    mpt_state_initialize(trainer->state, graph, train->seed, program->n_threads);
    return create_executors(trainer);
}

/* How long the metrics are is part of a checkpoint: they go on behind what was there by then.
 */
static bool count_metrics(void *ud, const char *text, size_t length) {
    mpt_trainer *trainer = ud;
    if (!trainer->host_metrics(trainer->host_metrics_ud, text, length))
        return false;
    trainer->metrics_bytes += (int64_t)length;
    return true;
}

static mpt_status take_options(mpt_trainer *trainer, const mpt_trainer_options *o) {
    trainer->host_metrics = o->metrics;
    trainer->host_metrics_ud = o->metrics_ud;
    trainer->metrics = o->metrics ? count_metrics : NULL;
    trainer->metrics_ud = trainer;
    return mpt_trainer_set_checkpoints(trainer, o->checkpoints);
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
    trainer->comm = mpt_comm_self();
    trainer->telemetry = o.telemetry;
    trainer->telemetry_ud = o.telemetry_ud;
    trainer->announced = -1;
    trainer->bad = (mpt_bad_step){.step = -1, .param = -1};
    trainer->counted = -1;
    trainer->saved_at = trainer->told_at = -1;
    trainer->last_eval = NAN;
    trainer->scaler = mpt_scaler_start(&program->recipe->loss_scale);
    mpt_status status = take_options(trainer, &o);
    if (status == MPT_OK)
        status = mpt_faults_read(program->phases[0]->graph, program->train.steps, o.inject,
                                 o.n_inject, &trainer->faults);
    if (status == MPT_OK)
        status = create_parts(trainer);
    if (status != MPT_OK) {
        mpt_trainer_destroy(trainer);
        return status;
    }
    *out = trainer;
    return MPT_OK;
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

/* So many skipped steps at the end are no accident: the weights are those from before. And so
 * many losses tell a level, where a run is as short as that. */
enum { MOST_SKIPS_AT_END = 2, LEAST_LOSSES_AT_END = 3 };

/* Whether a run that trained some steps has gone wrong all the same. Steps that a dynamic loss
 * scale may cure do not count: it finds its place with them. */
static mpt_stop_reason end_reason(const mpt_trainer *trainer) {
    bool untrained = trainer->attempted > 0 && trainer->applied == 0;
    if (untrained || trainer->skips_in_a_row > MOST_SKIPS_AT_END ||
        trainer->lost > trainer->attempted / 2)
        return MPT_STOP_DIVERGED;
    return mpt_watch_level(&trainer->watch, LEAST_LOSSES_AT_END).high ? MPT_STOP_HIGH_LOSS
                                                                      : MPT_STOP_NONE;
}

static mpt_status fail_skips(const mpt_trainer *trainer) {
    mpt_status status;
    if (trainer->skips_in_a_row > MOST_SKIPS_AT_END)
        status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                          "the last %d steps were skipped: training has diverged",
                          trainer->skips_in_a_row);
    else
        status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                          "%lld of %lld steps were skipped: training has diverged",
                          (long long)trainer->lost, (long long)trainer->attempted);
    mpt_hint(trainer->ctx, "the metrics name the first bad tensor of each: keep its layer in a "
                           "wider format, or lower the learning rate");
    return status;
}

static mpt_status fail_level(const mpt_trainer *trainer) {
    mpt_level level = mpt_watch_level(&trainer->watch, LEAST_LOSSES_AT_END);
    mpt_status status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                                 "the last %lld losses are all above %.4g, and the first was "
                                 "%.4g: training has diverged",
                                 (long long)level.n, level.bound, trainer->watch.first_loss);
    mpt_hint(trainer->ctx, "lower the learning rate or warm up longer; where another precision "
                           "does train, mptrun sweep tells which format is to blame");
    return status;
}

mpt_status mpt_trainer_finish(mpt_trainer *trainer) {
    mpt_metrics_line line;
    MPT_REQUIRE_OBJECT(trainer);
    mpt_stop_reason reason = end_reason(trainer);
    MPT_TRY(mpt_trainer_tell_device(trainer));
    if (reason != MPT_STOP_NONE)
        MPT_TRY(mpt_trainer_diagnose_end(trainer, reason));
    MPT_TRY(mpt_trainer_write_gemms(trainer));
    mpt_metrics_begin(&line, "done");
    mpt_metrics_integer(&line, "step", trainer->attempted);
    mpt_metrics_integer(&line, "tokens", (int64_t)trainer->tokens_seen);
    mpt_metrics_integer(&line, "applied", trainer->applied);
    mpt_metrics_integer(&line, "skipped", trainer->watch.counts.skipped);
    mpt_metrics_number(&line, "eval_loss", trainer->last_eval);
    MPT_TRY(mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud));
    if (reason == MPT_STOP_NONE)
        return MPT_OK;
    return reason == MPT_STOP_HIGH_LOSS ? fail_level(trainer)
           : trainer->applied == 0      ? fail_untrained(trainer)
                                        : fail_skips(trainer);
}
