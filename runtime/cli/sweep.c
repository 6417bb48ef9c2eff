/* The sweep command: one recipe as it is, with everything in BF16, and with one thing in BF16
 * at a time. All are compiled before the first is trained; how long it will take is said once
 * the recipe itself was timed. */
#include "cli/sweep.h"

#include <string.h>

#include "cli/run.h"
#include "cli/runs.h"

enum { NAME_MAX_TEXT = 512 };

/* ---- what is lifted ---- */

static const char *kind_word(mpt_lift_kind kind) {
    static const char *const words[] = {"layers", "products", "operands"};
    return words[kind];
}

static bool is_asked(const mpt_options *o, mpt_lift_kind kind) {
    return kind == MPT_LIFT_LAYERS  ? o->each_layer
           : kind == MPT_LIFT_GEMMS ? o->each_gemm
                                    : o->each_operand;
}

static int count_lifts(const mpt_program *program, const mpt_options *o) {
    mpt_lift_view lift;
    int n = 0;
    for (int k = MPT_LIFT_LAYERS; k <= MPT_LIFT_OPERANDS; k++)
        for (int i = 0; mpt_program_lift(program, (mpt_lift_kind)k, i, &lift); i++)
            n += is_asked(o, (mpt_lift_kind)k) && lift.quantized;
    return n;
}

/* Adds the lifts of a kind, and says what needs none. */
static void add_kind(mpt_runs *runs, const mpt_program *program, mpt_lift_kind kind) {
    char out[NAME_MAX_TEXT] = "";
    mpt_lift_view lift;
    int n_out = 0;
    size_t used = 0;
    for (int i = 0; mpt_program_lift(program, kind, i, &lift); i++) {
        if (lift.quantized) {
            mpt_runs_add(runs, runs->options->words[0], lift.name, lift.name);
            continue;
        }
        if (used < sizeof out - 1 && n_out++ < 6)
            used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", used ? ", " : "",
                                     lift.name);
        else
            n_out++;
    }
    if (n_out > 0)
        mpt_progress_note(runs->progress,
                          "mptrun: %d %s left out, which nothing quantizes: %s%s", n_out,
                          kind_word(kind), out, n_out > 6 ? " ..." : "");
}

static mpt_exit fail_plain(const char *path) {
    fprintf(
        stderr,
        "mptrun: %s: nothing is quantized, so there is nothing to lift to BF16; mptrun plan "
        "shows what its layers compute in\n",
        path);
    return MPT_EXIT_WRONG;
}

/* ---- members ---- */

/* The names of layers are lent by the program, which stays for the command. */
typedef struct swept {
    mpt_recipe *recipe;
    mpt_program *program;
} swept;

static mpt_exit find_members(mpt_runs *runs, swept *s) {
    const mpt_options *o = runs->options;
    const mpt_member whole = {.path = o->words[0]};
    mpt_status status = mpt_runs_compile(runs, &whole, &s->recipe, &s->program);
    if (status != MPT_OK)
        return mpt_cli_fail(runs->ctx, status);
    mpt_program_info info = mpt_program_get_info(s->program);
    int n = count_lifts(s->program, o);
    runs->seed = info.seed;
    if (n == 0)
        return fail_plain(o->words[0]);
    runs->n_all = (n + 2) * runs->n_seeds;
    if (!mpt_runs_begin(runs, n + 2))
        return MPT_EXIT_MACHINE;
    mpt_cli_note_choices(&info, runs->progress);
    mpt_runs_add(runs, o->words[0], NULL, info.recipe);
    for (int k = MPT_LIFT_LAYERS; k <= MPT_LIFT_OPERANDS; k++)
        if (is_asked(o, (mpt_lift_kind)k))
            add_kind(runs, s->program, (mpt_lift_kind)k);
    mpt_runs_add(runs, o->words[0], "*", "everything");
    return MPT_EXIT_DONE;
}

/* A lift that the recipe's other fields do not allow is told before hours are spent. */
static mpt_exit check_members(const mpt_runs *runs) {
    for (int i = 1; i < runs->n; i++) {
        mpt_recipe *recipe;
        mpt_program *program;
        mpt_status status = mpt_runs_compile(runs, &runs->members[i], &recipe, &program);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        if (status != MPT_OK)
            return mpt_cli_fail(runs->ctx, status);
    }
    return MPT_EXIT_DONE;
}

/* ---- training ---- */

static void say_time(const mpt_runs *runs) {
    double left = runs->seconds * (runs->n_all - 1);
    if (left < 60)
        mpt_progress_note(runs->progress, "mptrun: %d more runs, about %.0f s", runs->n_all - 1,
                          left);
    else if (left < 5400)
        mpt_progress_note(runs->progress, "mptrun: %d more runs, about %.0f minutes",
                          runs->n_all - 1, left / 60);
    else
        mpt_progress_note(runs->progress, "mptrun: %d more runs, about %.1f hours",
                          runs->n_all - 1, left / 3600);
}

/* The recipe and its BF16 counterpart first, so that the lifts have their scale. */
static mpt_exit train_all(mpt_runs *runs) {
    mpt_exit result = mpt_runs_start(runs, "sweep", true);
    mpt_signals_training(&runs->signals, true);
    if (!runs->options->quiet)
        mpt_progress_note(runs->progress,
                          "mptrun: %d runs; the first one tells how long they take",
                          runs->n_all);
    for (int s = 0; result == MPT_EXIT_DONE && s < runs->n_seeds; s++)
        for (int i = 0; result == MPT_EXIT_DONE && !runs->interrupted && i < runs->n; i++) {
            int member = i == 0 ? 0 : i == 1 ? runs->n - 1 : i - 1;
            result = mpt_runs_train(runs, member, runs->seed + (uint64_t)s);
            if (runs->n_begun == 1 && s == 0 && i == 0 && !runs->options->quiet)
                say_time(runs);
        }
    mpt_signals_training(&runs->signals, false);
    return result;
}

mpt_exit mpt_cli_sweep(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_runs runs = {.ctx = ctx, .options = options, .progress = progress};
    swept s = {.recipe = NULL};
    mpt_exit result = mpt_folder_check(options->out);
    if (result != MPT_EXIT_DONE)
        return result;
    runs.n_seeds = options->seeds > 0 ? options->seeds : 1;
    mpt_signals_begin(&runs.signals, "step");
    result = find_members(&runs, &s);
    if (result == MPT_EXIT_DONE)
        result = check_members(&runs);
    if (result == MPT_EXIT_DONE) {
        result = train_all(&runs);
        mpt_exit told = mpt_runs_tell(&runs, true);
        result = result != MPT_EXIT_DONE ? result : told;
    }
    mpt_runs_end(&runs);
    mpt_program_destroy(s.program);
    mpt_recipe_destroy(s.recipe);
    return result;
}
