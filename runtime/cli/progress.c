/* Progress on stderr. The text of a line is made by one function, whether it is drawn in place
 * on a terminal or printed once in a while. */
#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_TEXT = 256, PLAIN_LINES = 10 };
static const double draw_every = 0.1;   /* seconds between two draws of the live line */
static const double file_delay = 0.5;   /* before work on a file shows a line at all */
static const double plain_every = 60.0; /* a plain line is due after this long at the latest */

void mpt_progress_begin(mpt_progress *progress, const mpt_program_info *info, bool quiet) {
    *progress = (mpt_progress){.quiet = quiet,
                               .live = isatty(STDERR_FILENO) == 1,
                               .steps = info->steps,
                               .every = (info->steps + PLAIN_LINES - 1) / PLAIN_LINES,
                               .tokens_per_step = (double)info->batch * (double)info->sequence,
                               .floor = info->floor};
    if (progress->every < 1)
        progress->every = 1;
}

/* "2:31" or "1:02:31" */
static void format_time(char *out, size_t size, double seconds) {
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

/* A stranger's names must not steer the terminal. */
static void make_plain(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* 37 of 200 steps  loss 5.2130 (1.71 over the floor)  1234 tokens/s  ETA 2:31  four_bit  3
 * skipped
 *
 * Steps that are done are counted; "step N" in warnings and files is a step's number, from 0.
 * Where the columns do not hold all of it, what can best be missed goes first, so that the
 * phase and the skips are still seen on a narrow terminal. A number is never cut: where not
 * even the loss has room it is left out. */
static int format_line(const mpt_progress *p, const mpt_step_result *step, int columns,
                       char *out, size_t size) {
    char eta[40], excess[48] = "", skipped[32] = "", speed[48], loss[40], phase[136];
    int64_t done = step->step + 1;
    int n = 0;
    memcpy(eta, "  ETA ", 7);
    format_time(eta + 6, sizeof eta - 6, (double)(p->steps - done) * p->seconds_per_step);
    if (!isnan(p->floor) && isfinite(step->loss))
        snprintf(excess, sizeof excess, " (%.2f over the floor)", step->loss - p->floor);
    if (p->skipped > 0)
        snprintf(skipped, sizeof skipped, "  %lld skipped", (long long)p->skipped);
    snprintf(speed, sizeof speed, "  %.0f tokens/s", p->tokens_per_step / p->seconds_per_step);
    snprintf(loss, sizeof loss, "  loss %.4f", step->loss);
    snprintf(phase, sizeof phase, "  %s", step->phase);
    char *const least_first[] = {NULL, excess, speed, eta, skipped, phase, loss};
    for (size_t i = 0; i < sizeof least_first / sizeof *least_first; i++) {
        if (least_first[i])
            least_first[i][0] = 0;
        n = snprintf(out, size, "%lld of %lld steps%s%s%s%s%s%s", (long long)done,
                     (long long)p->steps, loss, excess, speed, eta, phase, skipped);
        if (n < columns)
            break;
    }
    make_plain(out);
    return n < (int)size ? n : (int)size - 1;
}

static void clear_line(mpt_progress *progress) {
    if (progress->drawn > 0)
        fprintf(stderr, "\r%*s\r", progress->drawn, "");
    progress->drawn = 0;
}

int mpt_progress_columns(int fd, int otherwise) {
    struct winsize window = {.ws_col = 0};
    return ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col : otherwise;
}

/* Draws over the old line in one write, cut to the terminal so that it never wraps. */
static void draw(mpt_progress *progress, const char *line, int length) {
    int width = mpt_progress_columns(STDERR_FILENO, 80);
    if (length > width - 1)
        length = width - 1;
    int pad = progress->drawn > length ? progress->drawn - length : 0;
    fprintf(stderr, "\r%.*s%*s", length, line, pad, "");
    fflush(stderr);
    progress->drawn = length;
}

void mpt_progress_step(mpt_progress *progress, const mpt_step_result *step, double seconds,
                       double now) {
    char line[LINE_MAX_TEXT];
    bool last = step->step + 1 == progress->steps;
    double mean = progress->seconds_per_step;
    progress->seconds_per_step = mean > 0 ? 0.9 * mean + 0.1 * seconds : seconds;
    if (progress->seconds_per_step < 1e-9)
        progress->seconds_per_step = 1e-9;
    progress->skipped += step->skipped;
    bool due = progress->live
                   ? now - progress->shown >= draw_every
                   : step->step % progress->every == 0 || now - progress->shown >= plain_every;
    if (progress->quiet || !(due || last))
        return;
    int columns = progress->live ? mpt_progress_columns(STDERR_FILENO, 80) : LINE_MAX_TEXT;
    int length = format_line(progress, step, columns, line, sizeof line);
    if (progress->live)
        draw(progress, line, length);
    else
        fprintf(stderr, "%s\n", line);
    progress->shown = now;
}

void mpt_progress_validating(mpt_progress *progress, int64_t done) {
    char line[LINE_MAX_TEXT];
    int length = snprintf(line, sizeof line, "%lld of %lld steps  validating", (long long)done,
                          (long long)progress->steps);
    if (progress->quiet)
        return;
    if (progress->live)
        draw(progress, line, length);
    else if (done >= progress->steps)
        fprintf(stderr, "%s\n", line);
}

void mpt_progress_begin_file(mpt_progress *progress, bool quiet, double now) {
    *progress = (mpt_progress){
        .quiet = quiet, .live = isatty(STDERR_FILENO) == 1, .shown = now + file_delay};
}

/*  37 %  1.20 of 3.24 GB  model.layers.3.mixer.up_proj.weight */
void mpt_progress_file(mpt_progress *progress, const char *tensor, uint64_t done,
                       uint64_t total, double now) {
    char line[LINE_MAX_TEXT];
    if (progress->quiet || !progress->live || now - progress->shown < draw_every)
        return;
    double share = total ? (double)done / (double)total : 1;
    int length =
        snprintf(line, sizeof line, "%3.0f %%  %.2f of %.2f GB  %s", 100 * share,
                 (double)done * 1e-9, (double)total * 1e-9, tensor ? tensor : "writing");
    make_plain(line);
    draw(progress, line, length < (int)sizeof line ? length : (int)sizeof line - 1);
    progress->shown = now;
}

void mpt_progress_note(mpt_progress *progress, const char *fmt, ...) {
    va_list args;
    clear_line(progress);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void mpt_progress_end(mpt_progress *progress) {
    clear_line(progress);
    fflush(stderr);
}
