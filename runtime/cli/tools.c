/* The commands on tensors: from options to the calls of mpt/tools.h, and back to a summary. */
#include "cli/tools.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

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
           "}\n",
           s->n_overflow, s->n_underflow, s->n_nonfinite);
}

static void print_summary(const mpt_quantize_summary *s, const char *out) {
    printf("%s: %d tensor%s, %" PRId64 " elements", out, s->n_tensors,
           s->n_tensors == 1 ? "" : "s", s->n_elements);
    if (s->n_skipped)
        printf("; %d skipped, not of a floating type or empty", s->n_skipped);
    printf("\nsize   %" PRIu64 " bytes -> %" PRIu64 " of codes and scales, %.2f -> %.2f bits "
           "a weight\nerror  SQNR ",
           s->bytes_in, s->bytes_out, bits_each(s->bytes_in, s->n_elements),
           bits_each(s->bytes_out, s->n_elements));
    print_db(s->sqnr, s->sqnr > 0 ? "infinite" : "undefined");
    printf(" dB; %" PRIu64 " saturated, %" PRIu64 " became zero, %" PRIu64 " not finite\n",
           s->n_overflow, s->n_underflow, s->n_nonfinite);
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

mpt_exit mpt_cli_bench(mpt_ctx *ctx, const mpt_options *options) {
    mpt_bench_options bench = MPT_BENCH_OPTIONS_INIT;
    bench.json = options->json;
    bench.rows = (int64_t)options->rows;
    bench.cols = (int64_t)options->cols;
    bench.n_threads = options->threads;
    return mpt_cli_printed(ctx, mpt_bench_quantizers(ctx, &bench, mpt_cli_write, NULL));
}
