/* The plan as text: what a person reads before a run, whole on one screen.
 *
 * One function a section, in reading order: the model and its training, which formats
 * (plan_formats.c), what changes over time, memory, work and hardware (plan_figures.c), what
 * was filled in, warnings. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "plan/plan_watch.h"
#include "plan/text.h"

enum { MOST_WARNINGS = 8, COVERS_WIDTH = 36 };

/* ---- the model and its training ---- */

static void add_span(mpt_words *text, const char *name, int64_t steps) {
    mpt_words_add(text, ", %s ", name);
    mpt_words_things(text, steps, "step");
}

static void print_lr(const mpt_train *train, mpt_str *out) {
    static const char *const names[] = {"constant", "linear", "cosine", "wsd"};
    mpt_words text = {.len = 0};
    mpt_words_add(&text, "%s, peak %g", names[train->lr.kind], train->lr.peak);
    if (train->lr.kind != MPT_LR_CONSTANT)
        mpt_words_add(&text, ", final %g", train->lr.final);
    add_span(&text, "warmup", mpt_span_steps(&train->lr.warmup, train));
    if (train->lr.kind == MPT_LR_WSD)
        add_span(&text, "decay", mpt_span_steps(&train->lr.decay, train));
    mpt_text_line(out, "lr", text.data);
}

static void print_optimizer(const mpt_train *train, mpt_str *out) {
    const mpt_optimizer *o = &train->optimizer;
    mpt_words text = {.len = 0};
    if (o->kind == MPT_OPTIMIZER_ADAMW)
        mpt_words_add(&text, "adamw, betas %g %g, eps %g", o->beta1, o->beta2, o->eps);
    else
        mpt_words_add(&text, "sgd, momentum %g", o->momentum);
    mpt_words_add(&text, ", weight decay %g on %s", o->weight_decay,
                  train->decay == MPT_DECAY_ALL ? "all parameters" : "matrices");
    if (train->clip > 0)
        mpt_words_add(&text, ", clip %g", train->clip);
    mpt_text_line(out, "optimizer", text.data);
}

static void print_loss_scale(const mpt_loss_scale *scale, mpt_str *out) {
    if (scale->kind == MPT_LOSS_SCALE_STATIC)
        mpt_text_linef(out, "loss scale", "%g", scale->scale);
    if (scale->kind == MPT_LOSS_SCALE_DYNAMIC)
        mpt_text_linef(out, "loss scale",
                       "dynamic from %g: times %g after %lld good steps, times %g after a "
                       "skipped one%s, from %g to %g",
                       scale->init, scale->growth, (long long)scale->interval, scale->backoff,
                       scale->hysteresis > 1 ? " beyond its hysteresis" : "", scale->min,
                       scale->max);
}

/* Where evaluation has a precision of its own. */
static void print_evaluation(const mpt_program *program, mpt_str *out) {
    mpt_str text;
    mpt_str_init(&text, out->ctx);
    if (mpt_program_eval_text(program, true, &text))
        mpt_text_linef(out, "evaluation", "%s in fprop of all linear layers",
                       text.data ? text.data : "");
    out->failed |= text.failed;
    mpt_str_deinit(&text);
}

static void print_training(const mpt_train *train, mpt_str *out) {
    mpt_words text = {.len = 0};
    mpt_words_things(&text, train->steps, "step");
    mpt_words_add(&text, " of ");
    mpt_words_count(&text, train->batch);
    mpt_words_add(&text, " x ");
    mpt_words_count(&text, train->sequence);
    mpt_words_add(&text, " tokens, ");
    mpt_words_about(&text,
                    (double)train->steps * (double)train->batch * (double)train->sequence);
    mpt_words_add(&text, " in all; micro-batch %" PRId64, train->micro_batch);
    mpt_text_line(out, "training", text.data);
}

/* The model's, which may be larger than what its data uses. */
static int64_t vocabulary(const mpt_graph *graph) {
    for (int i = 0; i < graph->n_layers; i++)
        if (graph->layers[i].kind == MPT_LAYER_HEAD)
            return graph->layers[i].out_features;
    return graph->vocab;
}

static void print_head(const mpt_plan *plan, mpt_str *out) {
    const mpt_program *p = plan->program;
    char model[256];
    mpt_words text = {.len = 0};
    mpt_plan_model(p, model, sizeof model);
    mpt_str_printf(out, "%s: %s%s\n\n", p->recipe->name, model, p->proxy ? ", the proxy" : "");
    mpt_words_things(&text, plan->n_parameters, "parameter");
    if (plan->n_active < plan->n_parameters) {
        mpt_words_add(&text, " (");
        mpt_words_count(&text, plan->n_active);
        mpt_words_add(&text, " active a token)");
    }
    mpt_words_add(&text, ", ");
    mpt_words_things(&text, plan->graph->n_blocks, "block");
    mpt_words_add(&text, ", ");
    mpt_words_things(&text, plan->n_linear, "linear layer");
    mpt_words_add(&text, ", vocabulary ");
    mpt_words_count(&text, vocabulary(plan->graph));
    mpt_text_line(out, "model", text.data);
    if (p->data)
        mpt_text_line(out, "data", mpt_data_describe(p->data));
    if (p->data && mpt_data_describe_run(p->data))
        mpt_text_line(out, "windows", mpt_data_describe_run(p->data));
    print_training(&p->train, out);
    print_optimizer(&p->train, out);
    print_lr(&p->train, out);
    print_loss_scale(&p->recipe->loss_scale, out);
    print_evaluation(p, out);
    mpt_plan_print_watch(&p->train, out);
}

/* ---- phases ---- */

/* "nvfp4 104, bf16 20", as many as the line has room for. */
static void add_covers(mpt_words *covers, const mpt_plan_phase *phase) {
    for (int i = 0; i < phase->n_covers; i++) {
        size_t before = covers->len;
        mpt_words_add(covers, "%s%s %d", i ? ", " : "", phase->covers[i].label,
                      phase->covers[i].n_layers);
        if (i == 0 || covers->len <= COVERS_WIDTH)
            continue;
        covers->len = before;
        mpt_words_add(covers, ", %d more", phase->n_covers - i);
        return;
    }
}

/* Below the table: starts that skipped steps move, and scales of operands that begin to follow
 * their history. */
static void print_switches(const mpt_plan *plan, mpt_str *out) {
    for (int p = 1; p < plan->n_phases; p++) {
        const mpt_plan_phase *phase = &plan->phases[p];
        if (phase->by_applied)
            mpt_str_printf(out,
                           "  %s: after %lld applied steps, at the step given where none is "
                           "skipped\n",
                           phase->name, (long long)plan->program->phase_start[p]);
        if (phase->n_entering == 0)
            continue;
        mpt_str_printf(out, "  %s: %d operand%s enter%s delayed scaling, ", phase->name,
                       phase->n_entering, phase->n_entering == 1 ? "" : "s",
                       phase->n_entering == 1 ? "s" : "");
        if (phase->n_warm == phase->n_entering)
            mpt_str_printf(out, "by histories that '%s' records\n", plan->phases[p - 1].name);
        else
            mpt_str_printf(out, "with current scales at the first step\n");
    }
}

static void print_phases(const mpt_plan *plan, mpt_str *out) {
    mpt_table table;
    mpt_str_printf(out, "\nphases\n");
    mpt_table_init(&table, out->ctx,
                   "name|>from step|>steps|>changed|schedule hash|>speed-up|layers");
    for (int p = 0; p < plan->n_phases; p++) {
        const mpt_plan_phase *phase = &plan->phases[p];
        mpt_words from = {.len = 0}, steps = {.len = 0}, covers = {.len = 0};
        add_covers(&covers, phase);
        if (phase->by_applied)
            mpt_words_add(&from, "about ");
        mpt_words_count(&from, phase->from);
        mpt_words_count(&steps, phase->steps);
        mpt_table_cell(&table, "%s", phase->name);
        mpt_table_cell(&table, "%s", from.data);
        mpt_table_cell(&table, "%s", steps.data);
        if (p == 0)
            mpt_table_cell(&table, "-");
        else
            mpt_table_cell(&table, "%d", phase->n_changed);
        mpt_table_cell(&table, "%s", phase->hash);
        mpt_table_cell(&table, "%.2fx", phase->bound);
        mpt_table_cell(&table, "%s", covers.data);
    }
    mpt_text_table(out, &table);
    print_switches(plan, out);
}

/* ---- what was filled in, warnings ---- */

/* In the words of --set, none of them broken over two lines. Those of the autocast table
 * (plan_ops.c) and of what is saved and watched (plan_watch.c) have lines of their own above.
 */
static void print_defaults(const mpt_plan *plan, mpt_str *out) {
    static const char ops[] = "precision.ops.";
    mpt_str text;
    mpt_str_init(&text, out->ctx);
    for (int i = 0; i < plan->n_defaults; i++)
        if (strncmp(plan->defaults[i].path, ops, sizeof ops - 1) != 0 &&
            !mpt_plan_watch_has(plan->defaults[i].path))
            mpt_str_printf(&text, "%s%s=%s", text.len ? " " : "", plan->defaults[i].path,
                           plan->defaults[i].value);
    out->failed |= text.failed;
    mpt_str_append(out, "\n", 1);
    mpt_text_line(out, "defaults",
                  text.data && !text.failed ? text.data : "none: the recipe says it all");
    mpt_str_deinit(&text);
}

static void print_warnings(const mpt_program *program, mpt_str *out) {
    for (int i = 0; i < program->n_warnings && i < MOST_WARNINGS; i++) {
        const mpt_warning *w = &program->warnings[i];
        if (w->where.file && w->where.line == 0)
            mpt_text_linef(out, "warning", "%s: %s: %s", w->where.file, w->name, w->text);
        else if (w->where.file)
            mpt_text_linef(out, "warning", "%s:%d: %s: %s", w->where.file, w->where.line,
                           w->name, w->text);
        else
            mpt_text_linef(out, "warning", "%s: %s", w->name, w->text);
    }
    if (program->n_warnings > MOST_WARNINGS)
        mpt_text_linef(out, "", "and %d more: see mptrun check",
                       program->n_warnings - MOST_WARNINGS);
    if (program->n_warnings == 0)
        mpt_text_line(out, "warnings", "none");
}

mpt_status mpt_plan_print(const mpt_program *program, mpt_str *out) {
    mpt_plan plan;
    mpt_arena arena;
    mpt_arena_init(&arena, program->ctx);
    mpt_status status = mpt_plan_collect(program, &arena, &plan);
    if (status == MPT_OK) {
        print_head(&plan, out);
        mpt_plan_print_formats(&plan, out);
        print_phases(&plan, out);
        mpt_plan_print_figures(&plan, out);
        print_defaults(&plan, out);
        print_warnings(program, out);
        mpt_text_line(out, "recipe hash", program->recipe_hash);
    }
    mpt_arena_deinit(&arena);
    return status;
}
