/* The program mptrun: reads the command line, makes a context, calls one command.
 *
 * run.c trains, check.c checks; plan is short enough to stand here. What a plan or a schedule
 * looks like is the library's (runtime/plan); this file only says where it goes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/cli.h"
#include "cli/colour.h"
#include "cli/compare.h"
#include "cli/eval.h"
#include "cli/export.h"
#include "cli/inspect.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/resume.h"
#include "cli/run.h"
#include "cli/sample.h"
#include "cli/sweep.h"
#include "cli/tools.h"
#include "cli/tree.h"
#include "cli/waiting.h"

/* ---- what all commands use ---- */

mpt_exit mpt_cli_fail(const mpt_ctx *ctx, mpt_status status) {
    const mpt_error *error = mpt_ctx_error(ctx);
    bool told = error && error->message && *error->message;
    fflush(stdout);
    fprintf(stderr, "%s\n", told ? error->message : mpt_status_text(status));
    switch (status) {
    case MPT_OK:
        return MPT_EXIT_DONE;
    case MPT_STOPPED:
        return MPT_EXIT_STOPPED;
    case MPT_OUT_OF_MEMORY:
    case MPT_IO:
    case MPT_NO_DEVICE:
        return MPT_EXIT_MACHINE;
    case MPT_INTERNAL:
        fprintf(stderr, "%s (found at %s:%d)\n", mpt_status_text(status),
                told ? error->c_file : "?", told ? error->c_line : 0);
        return MPT_EXIT_MACHINE;
    default:
        return MPT_EXIT_WRONG;
    }
}

bool mpt_cli_write(void *ud, const char *text, size_t length) {
    (void)ud;
    return fwrite(text, 1, length, stdout) == length;
}

mpt_exit mpt_cli_flush(mpt_exit so_far) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return so_far;
    fprintf(stderr, "mptrun: stdout could not be written\n");
    return so_far != MPT_EXIT_DONE ? so_far : MPT_EXIT_MACHINE;
}

double mpt_cli_seconds(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Notes of the library, such as what a recipe prints. They may come while a line of progress
 * stands on the terminal; --quiet keeps the warnings only. */
static void log_line(void *ud, mpt_log_level level, const char *line) {
    const mpt_progress *progress = ud;
    if (level == MPT_LOG_WARNING || !progress->quiet)
        mpt_progress_note(ud, "%s%s", level == MPT_LOG_WARNING ? "warning: " : "", line);
}

/* ---- plan, and the lists ---- */

static mpt_exit plan(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_print what = options->dump                        ? MPT_PRINT_STAGE
                     : options->schedule && options->json ? MPT_PRINT_SCHEDULE_JSON
                     : options->schedule                  ? MPT_PRINT_SCHEDULE
                     : options->json                      ? MPT_PRINT_JSON
                                                          : MPT_PRINT_PLAN;
    mpt_status status = mpt_cli_load(ctx, options, options->words[0], &recipe);
    if (status == MPT_OK)
        status = mpt_cli_compile(recipe, options, MPT_MODEL_FULL, &program);
    bool compiled = status == MPT_OK;
    if (compiled) {
        mpt_program_info info = mpt_program_get_info(program);
        mpt_cli_note_choices(&info, progress);
        status = mpt_program_print(program, what, options->dump,
                                   what == MPT_PRINT_PLAN ? mpt_cli_write_plan : mpt_cli_write,
                                   NULL);
    }
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_exit result = mpt_cli_printed(ctx, status);
    /* A stage that there is not, or not for this target, is a slip of the command line. */
    return compiled && status == MPT_INVALID ? MPT_EXIT_USAGE : result;
}

mpt_exit mpt_cli_printed(const mpt_ctx *ctx, mpt_status status) {
    if (status == MPT_IO && ferror(stdout))
        return MPT_EXIT_MACHINE;
    return status == MPT_OK ? MPT_EXIT_DONE : mpt_cli_fail(ctx, status);
}

/* A word that the language lacks is a slip of the command line. */
static mpt_exit help_recipe(mpt_ctx *ctx, const char *word) {
    mpt_exit result =
        mpt_cli_printed(ctx, mpt_recipe_reference(ctx, word, mpt_cli_write, NULL));
    return result == MPT_EXIT_WRONG ? MPT_EXIT_USAGE : result;
}

/* ---- main ---- */

static mpt_exit list(mpt_ctx *ctx, const mpt_options *options) {
    mpt_listing what = options->list_ops       ? MPT_LIST_OPS
                       : options->list_formats ? MPT_LIST_FORMATS
                                               : MPT_LIST_DEVICES;
    return mpt_cli_printed(ctx, mpt_list(ctx, what, mpt_cli_write, NULL));
}

static mpt_exit call(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    if (options->list_ops || options->list_formats || options->list_devices)
        return list(ctx, options);
    if (options->list_types)
        return mpt_cli_printed(ctx, mpt_recipe_annotations(ctx, mpt_cli_write, NULL));
    if (options->help_recipe)
        return help_recipe(ctx, options->word);
    switch (options->command) {
    case MPT_COMMAND_PLAN:
        return plan(ctx, options, progress);
    case MPT_COMMAND_CHECK:
        return mpt_cli_check(ctx, options);
    case MPT_COMMAND_EXPLAIN:
        return mpt_cli_explain(ctx, options);
    case MPT_COMMAND_DIFF:
        return mpt_cli_diff(ctx, options);
    case MPT_COMMAND_QUANTIZE:
        return mpt_cli_quantize(ctx, options, progress);
    case MPT_COMMAND_PROBE:
        return mpt_cli_probe(ctx, options, progress);
    case MPT_COMMAND_BENCH:
        return mpt_cli_bench(ctx, options, progress);
    case MPT_COMMAND_TOKENS:
        return mpt_cli_tokens(ctx, options);
    case MPT_COMMAND_EVAL:
        return mpt_cli_eval(ctx, options, progress);
    case MPT_COMMAND_EXPORT:
        return mpt_cli_export(ctx, options);
    case MPT_COMMAND_SAMPLE:
        return mpt_cli_sample(ctx, options, progress);
    case MPT_COMMAND_RESUME:
        return mpt_cli_resume(ctx, options, progress);
    case MPT_COMMAND_COMPARE:
        return mpt_cli_compare(ctx, options, progress);
    case MPT_COMMAND_SWEEP:
        return mpt_cli_sweep(ctx, options, progress);
    case MPT_COMMAND_REPORT:
        return mpt_cli_report(ctx, options);
    default:
        return mpt_cli_run(ctx, options, progress);
    }
}

static void note_threads(const mpt_options *options) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores > 0 && options->threads > cores)
        fprintf(stderr,
                "mptrun: --threads %d is more than this machine's %ld cores: expect it to be "
                "slower than %ld\n",
                options->threads, cores, cores);
}

/* Whether a dump shows kernels, or what they compute: then a GPU that is only spoken of does
 * not do. */
static bool dumps_kernels(const mpt_options *options) {
    static const char *const stages[] = {"select", "run", "train"};
    for (size_t i = 0; options->dump && i < sizeof stages / sizeof *stages; i++)
        if (strcmp(stages[i], options->dump) == 0)
            return true;
    return false;
}

/* --device cuda of what computes nothing is the GPU that is there; where none is, the plan
 * speaks of one all the same, and that is said. */
static mpt_status speak_of_gpu(mpt_ctx *ctx, mpt_options *options) {
    mpt_device_info gpu = {.there = false};
    mpt_status status = mpt_device_find(ctx, MPT_DEVICE_CUDA, &gpu);
    if (status != MPT_OK || gpu.there)
        return status;
    options->device = MPT_DEVICE_CPU;
    options->target = MPT_TARGET_SM100;
    fprintf(stderr,
            "mptrun: --device cuda stands for --target sm100 here, as there is no CUDA device: "
            "%s; others are sm80 and sm90\n",
            gpu.why);
    return MPT_OK;
}

/* What computes nothing opens no module of a device, unless the plan is asked for that device:
 * by --device cuda, or of plan by --device auto. A GPU that --target names needs not be there.
 */
static mpt_status settle_device(mpt_ctx *ctx, mpt_options *options) {
    bool plans = options->command == MPT_COMMAND_PLAN,
         cuda = options->device == MPT_DEVICE_CUDA;
    bool checks = options->command == MPT_COMMAND_CHECK;
    bool names = options->target > MPT_TARGET_HOST;
    bool reads = options->command == MPT_COMMAND_EXPLAIN ||
                 options->command == MPT_COMMAND_DIFF || options->command == MPT_COMMAND_EXPORT;
    if (reads || (checks && options->device == MPT_DEVICE_AUTO))
        options->device = MPT_DEVICE_CPU;
    if ((!plans && !checks) || (cuda && dumps_kernels(options)))
        return MPT_OK;
    if (names && (cuda || options->device == MPT_DEVICE_AUTO))
        options->device = MPT_DEVICE_CPU;
    return cuda && options->target < 0 ? speak_of_gpu(ctx, options) : MPT_OK;
}

static mpt_exit run_command(mpt_options *options, char **argv) {
    mpt_ctx_options context = MPT_CTX_OPTIONS_INIT;
    mpt_ctx *ctx = NULL;
    char libraries[4096];
    mpt_progress progress = {.quiet = options->quiet};
    if (options->version) {
        printf("mptrun %s\n", mpt_version());
        return MPT_EXIT_DONE;
    }
    if (options->help || options->command == MPT_COMMAND_HELP) {
        mpt_options_help(stdout, options->topic);
        return MPT_EXIT_DONE;
    }
    mpt_cli_wait_briefly(argv); /* what has been answered above needs no second start */
    note_threads(options);
    context.log = log_line;
    context.log_ud = &progress;
    if (mpt_cli_libraries(libraries, sizeof libraries))
        context.modules = libraries;
    if (mpt_ctx_create(&context, &ctx) != MPT_OK) {
        fprintf(stderr, "mptrun: out of memory\n");
        return MPT_EXIT_MACHINE;
    }
    mpt_status settled = settle_device(ctx, options);
    mpt_exit result =
        settled == MPT_OK ? call(ctx, options, &progress) : mpt_cli_fail(ctx, settled);
    mpt_ctx_destroy(ctx);
    return result;
}

int main(int argc, char **argv) {
    mpt_options options;
    /* A limit on file sizes is met as a full disk is: the write fails and says why. */
    signal(SIGXFSZ, SIG_IGN);
    mpt_exit result = mpt_options_parse(&options, argc, argv);
    if (result == MPT_EXIT_DONE)
        result = mpt_cli_flush(run_command(&options, argv));
    return (int)result;
}
