/* The end of a run, or of work on a file, by SIGINT, SIGTERM or SIGHUP.
 *
 * A thread waits for these signals, so that no handler and no global flag are needed. Until
 * training starts, and again once it has ended, a signal ends the process as if nothing had
 * been arranged. During training the first one is noted for the loop over steps, and said on
 * stderr; a second one ends the process at once, wherever it is, unless it comes within half a
 * second of the first: then both are one wish. */
#ifndef MPT_CLI_SIGNALS_H
#define MPT_CLI_SIGNALS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct mpt_signals {
    pthread_t thread;
    const char *unit; /* what is finished first: "step", "tensor" */
    bool watched;     /* the thread runs */
    atomic_bool end;  /* asks the thread to end */
    atomic_bool training;
    atomic_int asked; /* the first signal during training, or 0 */
} mpt_signals;

/* Sets up the whole struct, whatever it held, and starts the thread; before any other thread,
 * which inherits that the signals are not its own. Where it cannot be started, every signal
 * ends the process. */
void mpt_signals_begin(mpt_signals *signals, const char *unit);

/* Whether the first signal waits for the end of a step. */
void mpt_signals_training(mpt_signals *signals, bool training);

/* The signal that asked for the end of training, or 0. */
int mpt_signals_asked(mpt_signals *signals);

/* What a person calls the signal: "Ctrl-C", "SIGTERM", "SIGHUP". */
const char *mpt_signals_name(int signal_number);

/* Ends the thread; from then on every signal ends the process. */
void mpt_signals_end(mpt_signals *signals);

#endif
