/* The thread behind signals.h. It shares with the run only the atomic members of the struct. */
#include "cli/signals.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static sigset_t watched_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
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

static void *watch(void *ud) {
    mpt_signals *signals = ud;
    sigset_t set = watched_signals();
    for (;;) {
        int got = 0;
        if (sigwait(&set, &got) != 0)
            continue;
        if (atomic_load(&signals->end))
            return NULL;
        if (atomic_load(&signals->asked))
            _exit(128 + got);
        if (!atomic_load(&signals->training))
            die_of(got);
        atomic_store(&signals->asked, got);
        say_stopping(signals->unit);
    }
}

void mpt_signals_begin(mpt_signals *signals, const char *unit) {
    signals->unit = unit;
    block(true);
    signals->watched = pthread_create(&signals->thread, NULL, watch, signals) == 0;
    if (!signals->watched)
        block(false);
}

void mpt_signals_training(mpt_signals *signals, bool training) {
    atomic_store(&signals->training, training);
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
