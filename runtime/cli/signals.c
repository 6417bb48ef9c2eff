/* The thread behind signals.h. It shares with the run only the atomic members of the struct. */
#include "cli/signals.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* SIGTERM, which also wakes the thread, and of the other two those that the caller has not had
 * ignored: nohup must stay what it is, and a Ctrl-C is not meant for a job in the background.
 */
static sigset_t watched_signals(void) {
    static const int numbers[] = {SIGINT, SIGHUP};
    struct sigaction set_up;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &set_up) != 0 || set_up.sa_handler != SIG_IGN)
            sigaddset(&set, numbers[i]);
    return set;
}

static void block(bool yes) {
    sigset_t set = watched_signals();
    pthread_sigmask(yes ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* In one write, past the buffers of the other threads. The live line of progress keeps its own
 * line. */
static void say_stopping(const char *unit) {
    char line[96];
    int n =
        snprintf(line, sizeof line, "%smptrun: stopping after this %s; once more to stop now\n",
                 isatty(STDERR_FILENO) == 1 ? "\n" : "", unit);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written; /* nobody is left to tell */
}

/* What the signal does where nothing was arranged, so that a shell sees its name. */
static void die_of(int signal_number) {
    signal(signal_number, SIG_DFL);
    block(false);
    raise(signal_number);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What comes right behind the first signal is the same wish: `timeout` sends its signal to the
 * process and then to the group that it is in. */
static bool is_echo(double first) {
    static const double apart = 0.5; /* seconds, less than two wishes of a person */
    return now() - first < apart;
}

static void *watch(void *ud) {
    mpt_signals *signals = ud;
    sigset_t set = watched_signals();
    double first = 0;
    for (;;) {
        int got = 0;
        if (sigwait(&set, &got) != 0)
            continue;
        if (atomic_load(&signals->end))
            return NULL;
        if (atomic_load(&signals->asked) && is_echo(first))
            continue;
        if (atomic_load(&signals->asked))
            _exit(128 + got);
        if (!atomic_load(&signals->training))
            die_of(got);
        first = now();
        atomic_store(&signals->asked, got);
        say_stopping(signals->unit);
    }
}

void mpt_signals_begin(mpt_signals *signals, const char *unit) {
    signals->unit = unit;
    atomic_init(&signals->end, false);
    atomic_init(&signals->training, false);
    atomic_init(&signals->asked, 0);
    block(true);
    signals->watched = pthread_create(&signals->thread, NULL, watch, signals) == 0;
    if (!signals->watched)
        block(false);
}

void mpt_signals_training(mpt_signals *signals, bool training) {
    atomic_store(&signals->training, training);
}

const char *mpt_signals_name(int signal_number) {
    switch (signal_number) {
    case SIGINT:
        return "Ctrl-C";
    case SIGHUP:
        return "SIGHUP";
    case SIGTERM:
        return "SIGTERM";
    default:
        return "a signal";
    }
}

int mpt_signals_asked(mpt_signals *signals) {
    return atomic_load(&signals->asked);
}

/* Wakes the thread by one of its own signals, sent to it alone. */
void mpt_signals_end(mpt_signals *signals) {
    if (!signals->watched)
        return;
    atomic_store(&signals->end, true);
    pthread_kill(signals->thread, SIGTERM);
    pthread_join(signals->thread, NULL);
    signals->watched = false;
    block(false);
}
