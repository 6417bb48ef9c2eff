/* The eval command. With --tokens the file decides batch and sequence, and everything goes to
 * --out; without, the validation windows of the data are measured. */
#include "cli/eval.h"

#include <inttypes.h>
#include <math.h>

#include "cli/run.h"
#include "cli/signals.h"
#include "mpt/eval.h"

typedef struct evaluation {
    mpt_ctx *ctx;
    const mpt_options *options;
    mpt_progress *progress;
    mpt_options shaped; /* with the batch and sequence of the tokens, where there are some */
    char numbers[2][32];
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_program_info info;
    mpt_trainer *trainer;
    mpt_eval_result result;
    mpt_signals signals;
} evaluation;

/* ---- before anything is computed ---- */

static mpt_exit add_set(evaluation *e, const char *path, const char *value) {
    if (e->shaped.n_sets == MPT_CLI_SETS) {
        fprintf(stderr, "mptrun: too many --set: write a recipe with derive() instead\n");
        return MPT_EXIT_USAGE;
    }
    e->shaped.sets[e->shaped.n_sets++] = (mpt_set){path, value};
    return MPT_EXIT_DONE;
}

/* The model is compiled for the rows of the file, whatever the recipe trains with. */
static mpt_exit take_shape(evaluation *e) {
    int64_t batch, sequence;
    mpt_status status = mpt_tokens_shape(e->ctx, e->options->tokens, &batch, &sequence);
    if (status != MPT_OK)
        return mpt_cli_fail(e->ctx, status);
    snprintf(e->numbers[0], sizeof e->numbers[0], "%" PRId64, batch);
    snprintf(e->numbers[1], sizeof e->numbers[1], "%" PRId64, sequence);
    mpt_exit added = add_set(e, "train.batch", e->numbers[0]);
    if (added == MPT_EXIT_DONE)
        added = add_set(e, "train.micro_batch", e->numbers[0]);
    return added == MPT_EXIT_DONE ? add_set(e, "train.sequence", e->numbers[1]) : added;
}

static mpt_status prepare(evaluation *e) {
    mpt_status status = mpt_cli_load(e->ctx, &e->shaped, e->options->words[0], &e->recipe);
    if (status == MPT_OK)
        status = mpt_cli_compile(e->recipe, &e->shaped, MPT_MODEL_FULL, &e->program);
    if (status == MPT_OK)
        status = mpt_trainer_create(e->program, NULL, &e->trainer);
    if (status == MPT_OK)
        status = mpt_trainer_load_weights(e->trainer, e->options->weights);
    e->info = mpt_program_get_info(e->program);
    if (status == MPT_OK)
        mpt_cli_note_choices(&e->info, e->progress);
    return status;
}

/* ---- the result ---- */

static void put_number(const char *name, double x) {
    printf(", \"%s\": ", name);
    if (isfinite(x))
        printf("%.9g", x);
    else
        printf("null");
}

/* A name from the recipe, which may hold any byte. */
static void print_text_json(const char *text) {
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    putchar('"');
}

static void print_json(const evaluation *e) {
    const mpt_eval_result *r = &e->result;
    printf("{\"parameters\": %" PRId64 ", \"windows\": %" PRId64 ", \"tokens\": %" PRId64,
           e->info.parameters, r->n_windows, r->n_targets);
    put_number("loss", r->loss);
    put_number("bits_per_token", r->loss / log(2));
    put_number("perplexity", exp(r->loss));
    put_number("accuracy", r->accuracy);
    printf(", \"phase\": ");
    print_text_json(r->phase);
    printf(", \"eval_use\": %s}\n", r->eval_use ? "true" : "false");
}

static void print_loss(const mpt_eval_result *r) {
    if (r->n_targets == 0)
        printf("no loss: all targets are masked\n");
    else if (!isfinite(r->loss))
        printf("loss %s\n", isnan(r->loss) ? "NaN" : "Inf");
    else
        printf("loss %.4f nats a token, %.4f bits; perplexity %.4g; accuracy %.2f %%\n",
               r->loss, r->loss / log(2), exp(r->loss), 100 * r->accuracy);
}

/* A model that has diverged is no success, though its numbers were printed. */
static mpt_exit judge(const evaluation *e) {
    const mpt_eval_result *r = &e->result;
    if (r->n_targets == 0 || isfinite(r->loss))
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: the loss is not finite");
    if (r->bad_window >= 0)
        fprintf(stderr, ", first in %s %" PRId64 " of %" PRId64,
                e->options->tokens ? "row" : "window", r->bad_window + 1, r->n_windows);
    fprintf(stderr, ": the weights have diverged, or the forward formats overflow\n");
    return MPT_EXIT_STOPPED;
}

static void print_text(const evaluation *e) {
    const mpt_eval_result *r = &e->result;
    const mpt_options *o = e->options;
    printf("%s %s, weights of %s\n", e->info.model, e->info.size_name, o->weights);
    if (o->tokens)
        printf("%s: %" PRId64 " rows of %" PRId64 " tokens, %" PRId64 " targets\n", o->tokens,
               r->n_windows, e->info.sequence, r->n_targets);
    else
        printf("validation part of %s: %" PRId64 " windows of %" PRId64 " tokens\n",
               e->info.data, r->n_windows, e->info.sequence);
    if (r->eval_use)
        printf("in the precision of train.eval.use\n");
    else if (e->info.n_phases > 1)
        printf("in the precision of phase '%s'\n", r->phase);
    print_loss(r);
    if (o->tokens)
        printf("logits, loss%s in %s\n", o->grads ? " and gradients" : "", o->out);
}

/* ---- the command ---- */

/* A mpt_measure_fn: ends the work once a signal asked for it. */
static bool watched(void *ud, int64_t done, int64_t all) {
    evaluation *e = ud;
    mpt_progress_file(e->progress, "validation", (uint64_t)done, (uint64_t)all,
                      mpt_cli_seconds());
    return mpt_signals_asked(&e->signals) == 0;
}

static mpt_status measure(evaluation *e) {
    mpt_progress_begin_file(e->progress, e->options->quiet, mpt_cli_seconds());
    mpt_signals_training(&e->signals, true);
    mpt_status status = mpt_trainer_measure(e->trainer, watched, e, &e->result);
    mpt_signals_training(&e->signals, false);
    mpt_progress_end(e->progress);
    return status;
}

static mpt_status evaluate(evaluation *e) {
    mpt_eval_options eval = MPT_EVAL_OPTIONS_INIT;
    if (!e->options->tokens)
        return measure(e);
    eval.tokens = e->options->tokens;
    eval.out = e->options->out;
    eval.gradients = e->options->grads;
    return mpt_trainer_eval_file(e->trainer, &eval, &e->result);
}

static mpt_exit run(evaluation *e) {
    mpt_exit ready = e->options->tokens ? take_shape(e) : MPT_EXIT_DONE;
    if (ready != MPT_EXIT_DONE)
        return ready;
    mpt_status status = prepare(e);
    if (status == MPT_OK)
        status = evaluate(e);
    int asked = mpt_signals_asked(&e->signals);
    if (status == MPT_INTERRUPTED && asked) {
        fprintf(stderr, "mptrun: stopped early; there is no result\n");
        return (mpt_exit)(128 + asked);
    }
    if (status != MPT_OK)
        return mpt_cli_fail(e->ctx, status);
    if (e->options->json)
        print_json(e);
    else
        print_text(e);
    return judge(e);
}

mpt_exit mpt_cli_eval(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    evaluation e = {.ctx = ctx, .options = options, .progress = progress, .shaped = *options};
    mpt_signals_begin(&e.signals, "window");
    mpt_exit result = run(&e);
    mpt_signals_end(&e.signals);
    mpt_trainer_destroy(e.trainer);
    mpt_program_destroy(e.program);
    mpt_recipe_destroy(e.recipe);
    return result;
}
