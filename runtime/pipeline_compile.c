/* Compiling: stages 2 to 8 of one recipe, once a phase; pipeline_draw.c draws its model,
 * pipeline_device.c takes the device.
 *
 * In: a recipe and the host's wishes. Out: a program, which holds no tensor yet. The choice
 * between full model and proxy is made here, because it needs the full model's plan. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exec/backend.h"
#include "io/system.h"
#include "pipeline_stages.h"
#include "plan/plan.h"
#include "recipe/target.h"
#include "recipe/select.h"

/* What the host asked for, and what all models of this recipe share. */
typedef struct compiling {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_compile_options options;
    mpt_device_choice on;
    int n_threads;
    mpt_data *data;
} compiling;

/* ---- stage 4 ---- */

mpt_status mpt_pipeline_grow(mpt_graph *graph, const mpt_train *train) {
    MPT_TRY(mpt_graph_autodiff(graph));
    MPT_TRY(mpt_graph_append_update(graph, train));
    return mpt_graph_verify(graph, "grad");
}

/* ---- training settings ---- */

static int64_t count_parameters(const mpt_graph *graph) {
    int64_t n = 0;
    for (int i = 0; i < graph->n_params; i++)
        n += mpt_value_elements(&graph->values[graph->params[i].value]);
    return n;
}

/* One sequence at a time is the default of a full model, since its activations fill the
 * machine. A recipe without a proxy that is small all the same takes the whole batch at once,
 * as a proxy does. The recipe keeps the answer, so that its text and its hash say what runs. */
static mpt_status measure_size(const compiling *c, mpt_program *program) {
    static const int64_t small = 100 * 1000 * 1000;
    mpt_drawing drawing = {false, 1, program->train.sequence, mpt_data_vocab(c->data),
                           !mpt_data_states_vocab(c->data)};
    mpt_graph *graph;
    MPT_TRY(mpt_pipeline_draw(c->recipe, &drawing, c->options.own_tokens, &graph));
    c->recipe->small = count_parameters(graph) < small;
    mpt_graph_destroy(graph);
    program->train = mpt_recipe_train(c->recipe, false);
    return MPT_OK;
}

/* The length of a run that is given in epochs, now that its data is known. */
static mpt_status settle_epochs(const compiling *c, mpt_program *program) {
    int64_t steps;
    MPT_TRY(mpt_data_settle(c->data, &program->train));
    MPT_TRY(mpt_data_steps(c->data, program->train.epochs, &steps));
    MPT_TRY(mpt_recipe_settle_epochs(c->recipe, program->proxy, steps));
    program->train = mpt_recipe_train(c->recipe, program->proxy);
    return MPT_OK;
}

static mpt_status settle_train(const compiling *c, mpt_program *program) {
    const mpt_recipe *recipe = c->recipe;
    program->train = mpt_recipe_train(recipe, program->proxy);
    if (program->train.epochs > 0)
        MPT_TRY(settle_epochs(c, program));
    if (!c->options.own_tokens)
        MPT_TRY(mpt_data_settle(c->data, &program->train));
    if (program->proxy || recipe->proxy.present || recipe->train.micro_batch > 0)
        return MPT_OK;
    return measure_size(c, program);
}

/* ---- one phase: stages 4 to 8 ---- */

static mpt_status schedule(const compiling *c, mpt_phase_program *phase) {
    mpt_schedule_options options = {c->on.backend->tables, c->n_threads, c->on.target};
    phase->backend = c->on.backend;
    mpt_schedule_hash(phase->graph, phase->schedule_hash);
    MPT_TRY(mpt_schedule_select(phase, &options));
    MPT_TRY(mpt_schedule_order(phase));
    return mpt_schedule_plan_memory(phase);
}

/* The precision of the layers drawn in one phase; `over` is laid over its rules, or NULL. */
static mpt_status resolve(const compiling *c, mpt_program *program, int phase, mpt_rule *over,
                          const mpt_graph *graph, mpt_policy **out) {
    mpt_layer_list model = {graph->layers, graph->n_layers, graph->n_blocks};
    size_t bytes = mpt_size_mul((size_t)graph->n_layers, sizeof(mpt_policy));
    *out = mpt_arena_alloc(&program->arena, bytes);
    if (!*out)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_recipe_resolve_under(c->recipe, phase, model, over, *out));
    return mpt_graph_settle_pads(graph, *out);
}

static mpt_precision_options options_of(mpt_recipe *recipe, const mpt_policy *policies) {
    return (mpt_precision_options){
        .base = mpt_stored_format(recipe->base),
        .residual = recipe->residual == MPT_DTYPE_COUNT ? mpt_stored_format(recipe->base)
                                                        : recipe->residual,
        .policies = policies,
        .state = recipe->state,
        .activation =
            recipe->activation == MPT_DTYPE_COUNT ? MPT_DTYPE_FP32 : recipe->activation,
        .activation_where = recipe->activation_where,
        .ops = recipe->ops,
        .out_activation = &recipe->activation_decides};
}

/* Stages 4 and 5 for policies that are settled: the whole graph, with the recipe's formats,
 * without what nobody reads, and with what is computed twice. */
static mpt_status grow_precise(const mpt_train *train, const mpt_precision_options *options,
                               mpt_graph *graph) {
    MPT_TRY(mpt_pipeline_grow(graph, train));
    MPT_TRY(mpt_graph_apply_precision(graph, options));
    MPT_TRY(mpt_graph_prune(graph));
    return mpt_graph_recompute(graph, train->recompute.every);
}

/* Resolves the rules of one phase for the layers drawn, and rewrites the graph to them. Where
 * the next one wants histories, its rules are resolved too. */
static mpt_status make_precise(const compiling *c, mpt_program *program, int phase,
                               mpt_graph *graph, mpt_policy **out_policies) {
    mpt_recipe *recipe = c->recipe;
    mpt_policy *next = NULL;
    MPT_TRY(resolve(c, program, phase, NULL, graph, out_policies));
    if (phase + 1 < recipe->n_phases && recipe->phases[phase + 1].warm_histories)
        MPT_TRY(resolve(c, program, phase + 1, NULL, graph, &next));
    mpt_precision_options options = options_of(recipe, *out_policies);
    options.next = next;
    return grow_precise(&program->train, &options, graph);
}

/* The forward graph of a phase as evaluation runs it: without backward pass and optimizer. */
static mpt_status make_eval(const compiling *c, mpt_program *program, int phase,
                            mpt_graph *graph, mpt_policy **out_policies) {
    MPT_TRY(resolve(c, program, phase, program->train.eval_use, graph, out_policies));
    mpt_precision_options options = options_of(c->recipe, *out_policies);
    options.evaluating = true;
    MPT_TRY(mpt_graph_apply_precision(graph, &options));
    return mpt_graph_prune(graph);
}

/* Whether the data can hold every id of the model. The graph is given up where they do not. */
static mpt_status check_vocab(const compiling *c, mpt_graph *graph) {
    int64_t logits = graph->values[graph->logits].dims[1];
    mpt_status status = mpt_data_check_model(c->data, logits);
    if (status != MPT_OK)
        mpt_graph_destroy(graph);
    return status;
}

/* Compiles a phase, or its evaluation, into the place that is next in the program's list. */
static mpt_status compile_phase(const compiling *c, mpt_program *program, int phase,
                                bool evaluation) {
    const mpt_train *train = &program->train;
    mpt_drawing drawing = {program->proxy, train->micro_batch, train->sequence,
                           mpt_data_vocab(c->data), !mpt_data_states_vocab(c->data)};
    mpt_graph *graph;
    mpt_policy *policies;
    MPT_TRY(mpt_pipeline_draw(c->recipe, &drawing, c->options.own_tokens, &graph));
    if (!c->options.own_tokens)
        MPT_TRY(check_vocab(c, graph));
    mpt_status status = evaluation ? make_eval(c, program, phase, graph, &policies)
                                   : make_precise(c, program, phase, graph, &policies);
    if (status != MPT_OK) {
        mpt_graph_destroy(graph);
        return status;
    }
    mpt_phase_program *made;
    MPT_TRY(mpt_phase_program_create(graph, c->recipe->phases[phase].name, &made));
    (evaluation ? program->evals : program->phases)[phase] = made;
    *(evaluation ? &program->n_evals : &program->n_phases) =
        phase + 1; /* owned from here: what fails later frees it */
    made->policies = policies;
    made->seed = train->seed;
    return schedule(c, made);
}

mpt_status mpt_pipeline_recompile(const mpt_program *program, int phase, int every,
                                  mpt_phase_program **out) {
    const mpt_phase_program *like = program->phases[phase];
    compiling c = {.ctx = program->ctx, .n_threads = program->n_threads};
    mpt_train train = program->train;
    mpt_drawing drawing = {program->proxy, train.micro_batch, train.sequence,
                           like->graph->vocab, false};
    mpt_graph *graph;
    *out = NULL;
    c.on.backend = like->backend;
    c.on.target = program->target;
    train.recompute.every = every;
    MPT_TRY(mpt_pipeline_draw(program->recipe, &drawing, like->graph->own_tokens, &graph));
    mpt_precision_options options = options_of(program->recipe, like->policies);
    mpt_status status = grow_precise(&train, &options, graph);
    if (status != MPT_OK) {
        mpt_graph_destroy(graph);
        return status;
    }
    MPT_TRY(mpt_phase_program_create(graph, like->phase, out));
    (*out)->policies = like->policies;
    status = schedule(&c, *out);
    if (status != MPT_OK) {
        mpt_phase_program_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- the whole program ---- */

static mpt_status check_recipe(const compiling *c, mpt_program *program) {
    const mpt_graph *graph = program->phases[0]->graph;
    size_t bytes = mpt_size_mul((size_t)program->n_phases, sizeof(mpt_policy *));
    mpt_policy **policies = mpt_arena_alloc(&program->arena, bytes);
    if (!policies)
        return MPT_OUT_OF_MEMORY;
    for (int p = 0; p < program->n_phases; p++)
        policies[p] = program->phases[p]->policies;
    MPT_TRY(mpt_recipe_check(c->recipe, &program->arena, graph->layers, graph->n_layers,
                             graph->n_blocks, policies, &program->warnings,
                             &program->n_warnings));
    const char *doubt = c->data ? mpt_data_doubt(c->data) : NULL;
    return doubt ? mpt_recipe_warn_binary_text(c->recipe, &program->arena,
                                               mpt_data_where(c->data), doubt,
                                               &program->warnings, &program->n_warnings)
                 : MPT_OK;
}

/* The recipe as text with all defaults settled, which may be others when it is compiled again.
 */
static mpt_status keep_fields(const compiling *c, mpt_program *program) {
    mpt_str text;
    mpt_str_init(&text, c->ctx);
    mpt_recipe_canonical(c->recipe, &text);
    program->fields = text.failed ? NULL : mpt_arena_strdup(&program->arena, text.data);
    mpt_str_deinit(&text);
    return program->fields ? mpt_recipe_hash(c->recipe, program->recipe_hash)
                           : MPT_OUT_OF_MEMORY;
}

static mpt_status fill_program(const compiling *c, mpt_program *program) {
    size_t n = (size_t)c->recipe->n_phases;
    MPT_TRY(settle_train(c, program));
    program->phases = mpt_arena_alloc(&program->arena, 2 * n * sizeof *program->phases);
    program->phase_start = mpt_arena_alloc(&program->arena, n * sizeof(int64_t));
    program->phase_applied = mpt_arena_alloc(&program->arena, n * sizeof(bool));
    if (!program->phases || !program->phase_start || !program->phase_applied)
        return MPT_OUT_OF_MEMORY;
    program->evals = program->phases + n;
    for (int p = 0; p < c->recipe->n_phases; p++) {
        const mpt_phase *phase = &c->recipe->phases[p];
        program->phase_start[p] = mpt_phase_start(phase, &program->train);
        program->phase_applied[p] = phase->by == MPT_BY_APPLIED;
        MPT_TRY(compile_phase(c, program, p, false));
    }
    for (int p = 0; program->train.eval_use && p < c->recipe->n_phases; p++)
        MPT_TRY(compile_phase(c, program, p, true));
    MPT_TRY(check_recipe(c, program));
    MPT_TRY(mpt_plan_check_target(program));
    return keep_fields(c, program);
}

/* A program of the full model or of the proxy, without data: the caller keeps that. */
static mpt_status compile_model(const compiling *c, bool proxy, mpt_program **out) {
    mpt_program *program = mpt_alloc(c->ctx, sizeof *program);
    *out = NULL;
    if (!program)
        return mpt_fail_memory(c->ctx, sizeof *program);
    *program = (mpt_program){.ctx = c->ctx,
                             .recipe = c->recipe,
                             .proxy = proxy,
                             .device = c->on.device,
                             .target = c->on.target,
                             .data_given = c->options.data != NULL,
                             .n_threads = c->n_threads,
                             .why = ""};
    mpt_arena_init(&program->arena, c->ctx);
    program->no_device = mpt_arena_strdup(&program->arena, c->on.no_device);
    mpt_status status = program->no_device ? fill_program(c, program) : MPT_OUT_OF_MEMORY;
    if (status != MPT_OK) {
        mpt_program_destroy(program);
        return status;
    }
    *out = program;
    return MPT_OK;
}

/* ---- full model or proxy ---- */

/* Seconds that a run would take at least, with 6 operations a parameter and token. */
static double estimate_seconds(const compiling *c, const mpt_program *program) {
    const mpt_train *train = &program->train;
    double tokens = (double)train->steps * (double)train->batch * (double)train->sequence;
    return 6.0 * (double)count_parameters(program->phases[0]->graph) * tokens / c->on.rate;
}

/* Whether the full model can be trained here, and the sentence that says so. */
static mpt_status judge_full(const compiling *c, mpt_program *full, bool *out_fits) {
    static const double day = 86400.0, giga = 1e9;
    double here = (double)c->on.memory, need = 0;
    double seconds = estimate_seconds(c, full);
    for (int p = 0; p < full->n_phases + full->n_evals; p++)
        need = fmax(need, (double)mpt_phase_program_bytes(mpt_program_part(full, p)));
    *out_fits = (here == 0 || need <= here) && seconds <= day;
    if (here > 0 && need > here)
        full->why = mpt_arena_printf(&full->arena,
                                     "the full model needs %.3g GB and %s has %.3g GB, so the "
                                     "proxy is trained",
                                     need / giga, c->on.whose, here / giga);
    else if (seconds > day)
        full->why = mpt_arena_printf(&full->arena,
                                     "the full model would train for about %.2g days on this "
                                     "machine, so the proxy is trained",
                                     seconds / day);
    else
        full->why = "the full model fits this machine and ends within a day, so it is trained";
    return full->why ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status compile_auto(const compiling *c, mpt_program **out) {
    mpt_program *full, *proxy = NULL;
    bool fits;
    MPT_TRY(compile_model(c, false, &full));
    mpt_status status = judge_full(c, full, &fits);
    if (status == MPT_OK && fits) {
        *out = full;
        return MPT_OK;
    }
    if (status == MPT_OK)
        status = compile_model(c, true, &proxy);
    if (status == MPT_OK && !(proxy->why = mpt_arena_strdup(&proxy->arena, full->why)))
        status = MPT_OUT_OF_MEMORY;
    mpt_program_destroy(full);
    if (status != MPT_OK) {
        mpt_program_destroy(proxy);
        return status;
    }
    *out = proxy;
    return MPT_OK;
}

static mpt_status compile_choice(const compiling *c, mpt_program **out) {
    mpt_model_choice choice = c->options.model;
    if (choice == MPT_MODEL_PROXY && !c->recipe->proxy.present) {
        mpt_status status =
            MPT_FAIL(c->ctx, MPT_INVALID, c->recipe->where, "the recipe names no proxy");
        mpt_hint(c->ctx, "add `proxy = ...` to it, or take the full model");
        return status;
    }
    if (choice == MPT_MODEL_AUTO && c->recipe->proxy.present)
        return compile_auto(c, out);
    return compile_model(c, choice == MPT_MODEL_PROXY, out);
}

enum { MOST_THREADS = 4096 }; /* more is a slip, and each takes a stack */

/* The host's wishes, each of them possible. */
static mpt_status read_options(compiling *c, const mpt_compile_options *options) {
    mpt_compile_options *o = &c->options;
    MPT_TRY(mpt_options_read(c->ctx, "mpt_compile", options, o, sizeof *o));
    if ((unsigned)o->model > MPT_MODEL_PROXY)
        return MPT_FAIL(c->ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_compile: options.model is %d, which is no choice of a model",
                        (int)o->model);
    if ((unsigned)o->device > MPT_DEVICE_CUDA)
        return MPT_FAIL(c->ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_compile: options.device is %d, which is no device",
                        (int)o->device);
    if ((unsigned)o->target >= MPT_TARGET_COUNT)
        return MPT_FAIL(c->ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_compile: options.target is %d, which is no target",
                        (int)o->target);
    if (o->n_threads < 0 || o->n_threads > MOST_THREADS)
        return MPT_FAIL(c->ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_compile: options.n_threads is %d, expected 0 (all cores) to %d",
                        o->n_threads, MOST_THREADS);
    return MPT_OK;
}

mpt_status mpt_compile(mpt_recipe *recipe, const mpt_compile_options *options,
                       mpt_program **out) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, out);
    *out = NULL;
    compiling c = {.ctx = recipe->ctx, .recipe = recipe, .options = MPT_COMPILE_OPTIONS_INIT};
    MPT_TRY(read_options(&c, options));
    c.n_threads = c.options.n_threads > 0 ? c.options.n_threads : mpt_system_processors();
    c.on.target = c.options.target;
    MPT_TRY(mpt_pipeline_choose_device(c.ctx, c.options.device, c.n_threads, &c.on));
    if (!recipe->frozen)
        MPT_TRY(mpt_recipe_freeze(recipe));
    memset(recipe->drawn, 0, sizeof recipe->drawn); /* a host may have changed its model */
    recipe->small = false;
    MPT_TRY(mpt_data_open(c.ctx, &recipe->data, c.options.data, recipe->file, &c.data));
    mpt_status status = compile_choice(&c, out);
    if (status == MPT_OK)
        (*out)->data = c.data;
    else
        mpt_data_close(c.data);
    return status;
}
