/* What the files of the command share: exit statuses, and how a failure is said.
 *
 * mptrun.c reads the options and calls one of the commands; each gives an exit status. The
 * command stands on the public headers alone, as any host does. Results go to stdout, all
 * else to stderr. */
#ifndef MPT_CLI_CLI_H
#define MPT_CLI_CLI_H

#include "mpt/mpt.h"

typedef enum mpt_exit {
    MPT_EXIT_DONE = 0,    /* also when a signal asked for the end of training */
    MPT_EXIT_WRONG = 1,   /* the recipe, the data or a checkpoint */
    MPT_EXIT_USAGE = 2,   /* the command line */
    MPT_EXIT_STOPPED = 3, /* training stopped itself */
    MPT_EXIT_MACHINE = 4  /* disk, memory, device, or a fault of mpt */
} mpt_exit;

/* Prints the context's error to stderr and gives the exit status that belongs to its code. */
mpt_exit mpt_cli_fail(const mpt_ctx *ctx, mpt_status status);

/* A mpt_write_fn to stdout. */
bool mpt_cli_write(void *ud, const char *text, size_t length);

/* The exit of a call that only prints to stdout; mpt_cli_flush says it where stdout failed. */
mpt_exit mpt_cli_printed(const mpt_ctx *ctx, mpt_status status);

/* Prints what is still buffered; says so and gives MPT_EXIT_MACHINE where stdout is full. */
mpt_exit mpt_cli_flush(mpt_exit so_far);

/* Seconds on a clock that never goes back. */
double mpt_cli_seconds(void);

#endif
