/* The commands on tensors: from options to the calls of mpt/tools.h, and back to a summary. */
#include "cli/tools.h"

#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/option_rows.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "mpt/tools.h"

/* ---- while a file is worked on ---- */

typedef struct watch {
    mpt_progress *progress;
    mpt_signals signals;
    bool only_reads; /* the result is written by the call itself, right after the last tensor */
} watch;

static void begin_watch(watch *w, mpt_progress *progress, bool quiet) {
    *w = (watch){.progress = progress};
    mpt_progress_begin_file(progress, quiet, mpt_cli_seconds());
    mpt_signals_begin(&w->signals, "tensor");
    mpt_signals_training(&w->signals, true);
}

/* A mpt_tool_progress_fn: draws, and ends the work once a signal asked for it. */
static bool watched(void *ud, const char *tensor, uint64_t done, uint64_t total) {
    watch *w = ud;
    if (!tensor && w->only_reads)
        mpt_progress_end(w->progress);
    else
        mpt_progress_file(w->progress, tensor, done, total, mpt_cli_seconds());
    return mpt_signals_asked(&w->signals) == 0;
}

/* The signal that ended the work, or 0. */
static int end_watch(watch *w) {
    int asked = mpt_signals_asked(&w->signals);
    mpt_signals_training(&w->signals, false);
    mpt_progress_end(w->progress);
    mpt_signals_end(&w->signals);
    return asked;
}

/* As a shell counts the end by a signal; what was half done is gone. */
static mpt_exit interrupted(int signal_number, const char *left) {
    fprintf(stderr, "mptrun: stopped early; %s\n", left);
    return (mpt_exit)(128 + signal_number);
}

/* ---- quantize ---- */

/* A figure in decibels; JSON has no infinity. */
static void print_db(double db, const char *none) {
    if (isfinite(db))
        printf("%.2f", db);
    else
        printf("%s", none);
}

static double bits_each(uint64_t bytes, int64_t elements) {
    return elements > 0 ? 8.0 * (double)bytes / (double)elements : 0;
}

static void print_summary_json(const mpt_quantize_summary *s) {
    printf("{\"tensors\": %d, \"skipped\": %d, \"elements\": %" PRId64
           ", \"bytes_in\": %" PRIu64 ", \"bytes_out\": %" PRIu64
           ", \"bits_per_weight\": %.4f, \"sqnr_db\": ",
           s->n_tensors, s->n_skipped, s->n_elements, s->bytes_in, s->bytes_out,
           bits_each(s->bytes_out, s->n_elements));
    print_db(s->sqnr, "null");
    printf(", \"overflow\": %" PRIu64 ", \"underflow\": %" PRIu64 ", \"nonfinite\": %" PRIu64
           ", \"became_nonfinite\": %" PRIu64 ", \"bits_packed\": %.4f}\n",
           s->n_overflow, s->n_underflow, s->n_nonfinite, s->n_became_nonfinite,
           s->packed_bits);
}

static const char *plural(int64_t n) {
    return n == 1 ? "" : "s";
}

/* Codes of 6 and 12 bits are stored in whole bytes: then a second figure says what they would
 * take without gaps, which is what probe prints. */
static void print_size(const mpt_quantize_summary *s) {
    double stored = bits_each(s->bytes_out, s->n_elements);
    printf("\nsize   %" PRIu64 " bytes -> %" PRIu64 " of codes and scales, %.2f -> %.2f bits "
           "a weight",
           s->bytes_in, s->bytes_out, bits_each(s->bytes_in, s->n_elements), stored);
    if (stored - s->packed_bits > 0.01)
        printf(" (%.2f without gaps: codes are stored in whole bytes)", s->packed_bits);
}

static void print_summary(const mpt_quantize_summary *s, const char *out) {
    printf("%s: %d tensor%s, %" PRId64 " element%s", out, s->n_tensors, plural(s->n_tensors),
           s->n_elements, plural(s->n_elements));
    if (s->n_skipped)
        printf("; %d skipped, not of a floating type or empty", s->n_skipped);
    print_size(s);
    printf("\nerror  SQNR ");
    print_db(s->sqnr, s->sqnr > 0 ? "infinite" : "undefined");
    printf(" dB; %" PRIu64 " saturated, %" PRIu64 " became zero, %" PRIu64 " not finite",
           s->n_overflow, s->n_underflow, s->n_nonfinite);
    if (s->n_became_nonfinite)
        printf(", %" PRIu64 " more not finite as decoded", s->n_became_nonfinite);
    printf("\n");
}

/* The summary would go into a file that is renamed over, and be lost with it. */
static bool is_output_of(int fd, const char *path) {
    struct stat one, other;
    return fstat(fd, &one) == 0 && S_ISREG(one.st_mode) && stat(path, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static mpt_exit check_output(const char *out) {
    if (!is_output_of(STDOUT_FILENO, out) && !is_output_of(STDERR_FILENO, out))
        return MPT_EXIT_DONE;
    fprintf(stderr,
            "mptrun: %s: is where this command prints, and cannot be its output; name another "
            "file\n",
            out);
    return MPT_EXIT_WRONG;
}

mpt_exit mpt_cli_quantize(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_quantize_options quantize = MPT_QUANTIZE_OPTIONS_INIT;
    mpt_quantize_summary summary;
    watch w;
    quantize.columnwise = options->columnwise;
    quantize.seed = options->seed;
    quantize.step = (uint32_t)options->step;
    quantize.device = (mpt_device)options->device;
    quantize.n_threads = options->threads;
    quantize.progress = watched;
    quantize.progress_ud = &w;
    if (check_output(options->words[2]) != MPT_EXIT_DONE)
        return MPT_EXIT_WRONG;
    begin_watch(&w, progress, options->quiet);
    mpt_status status = mpt_quantize_file(ctx, options->words[0], options->words[1],
                                          options->words[2], &quantize, &summary);
    int asked = end_watch(&w);
    if (status == MPT_INTERRUPTED && asked)
        return interrupted(asked, "nothing was written");
    if (status != MPT_OK)
        return mpt_cli_fail(ctx, status);
    if (options->json)
        print_summary_json(&summary);
    else
        print_summary(&summary, options->words[2]);
    return MPT_EXIT_DONE;
}

/* ---- probe and bench: the library writes the result ---- */

mpt_exit mpt_cli_probe(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_probe_options probe = MPT_PROBE_OPTIONS_INIT;
    watch w;
    probe.formats = options->formats;
    probe.json = options->json;
    probe.seed = options->seed;
    probe.n_threads = options->threads;
    probe.width = mpt_progress_columns(STDOUT_FILENO, 0);
    probe.progress = watched;
    probe.progress_ud = &w;
    begin_watch(&w, progress, options->quiet);
    w.only_reads = true;
    mpt_status status = mpt_probe_file(ctx, options->words[0], &probe, mpt_cli_write, NULL);
    int asked = end_watch(&w);
    return status == MPT_INTERRUPTED && asked ? interrupted(asked, "there is no result")
                                              : mpt_cli_printed(ctx, status);
}

/* Compiles the recipe as run does, and takes steps that nobody keeps. */
static mpt_exit bench_recipe(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_bench_program_options bench = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    bench.json = options->json;
    bench.steps = options->steps;
    mpt_status status = mpt_cli_load(ctx, options, options->words[0], &recipe);
    if (status == MPT_OK)
        status = mpt_cli_compile(recipe, options, MPT_MODEL_AUTO, &program);
    if (status == MPT_OK) {
        mpt_program_info info = mpt_program_get_info(program);
        mpt_cli_note_choices(&info, progress);
        status = mpt_bench_program(program, &bench, mpt_cli_write, NULL);
    }
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    return mpt_cli_printed(ctx, status);
}

mpt_exit mpt_cli_bench(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    if (!options->quantizers)
        return bench_recipe(ctx, options, progress);
    mpt_bench_options bench = MPT_BENCH_OPTIONS_INIT;
    bench.json = options->json;
    bench.rows = (int64_t)options->rows;
    bench.cols = (int64_t)options->cols;
    bench.n_threads = options->threads;
    return mpt_cli_printed(ctx, mpt_bench_quantizers(ctx, &bench, mpt_cli_write, NULL));
}

/* ---- tokens ---- */

mpt_exit mpt_cli_tokens(mpt_ctx *ctx, const mpt_options *options) {
    mpt_tokens_options tokens = MPT_TOKENS_OPTIONS_INIT;
    const char *out = options->n_words > 1 ? options->words[1] : NULL;
    tokens.from = options->from ? mpt_token_inputs[options->from] : NULL;
    tokens.format = mpt_token_outputs[options->format];
    tokens.vocab = (int64_t)options->vocab;
    tokens.json = options->json;
    if (out && check_output(out) != MPT_EXIT_DONE)
        return MPT_EXIT_WRONG;
    return mpt_cli_printed(
        ctx, mpt_tokens_file(ctx, options->words[0], out, &tokens, mpt_cli_write, NULL));
}
