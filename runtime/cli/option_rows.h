/* The rows behind the command line: commands and options, each with its words for --help.
 *
 * A row says what it is called, what it takes, which commands it belongs to and where its value
 * goes. options.c parses by the rows, options_check.c refuses by them; option_rows.c holds them
 * and prints them as help. */
#ifndef MPT_CLI_OPTION_ROWS_H
#define MPT_CLI_OPTION_ROWS_H

#include "cli/options.h"

typedef struct mpt_command_row {
    const char *name, *takes, *doc;
    int n_least, n_most; /* words it takes; INT_MAX: any number */
    const char *lacks;   /* what is asked where there are too few of them */
    const char *examples;
} mpt_command_row;

extern const mpt_command_row mpt_command_rows[MPT_COMMAND_COUNT];

typedef enum mpt_option_kind {
    MPT_OPTION_FLAG,   /* bool */
    MPT_OPTION_TEXT,   /* const char *, not empty */
    MPT_OPTION_CHOICE, /* int: index into `choices` */
    MPT_OPTION_COUNT,  /* int, 1 to 4096 */
    MPT_OPTION_SET,    /* PATH=VALUE, appended to `sets` */
    MPT_OPTION_FAULT,  /* PLACE:NAME=VALUE@STEP, appended to `inject` */
    MPT_OPTION_SEED,   /* uint64_t; and train.seed=N, appended to `sets` */
    MPT_OPTION_STEP,   /* uint64_t, 0 to 2^32 - 1 */
    MPT_OPTION_EXTENT, /* uint64_t, 1 to 2^20 */
    MPT_OPTION_WORDS,  /* uint64_t, 1 to 2^31 - 1 */
    MPT_OPTION_ANY,    /* const char *, also empty */
    MPT_OPTION_REAL,   /* double, 0 or more */
    MPT_OPTION_SHARE,  /* double from 0 to 1, also "1%" */
    MPT_OPTION_STAGE   /* const char *: the name of a stage */
} mpt_option_kind;

typedef struct mpt_option_row {
    const char *name;
    char letter; /* 0: none */
    const char *takes;
    mpt_option_kind kind;
    unsigned commands; /* which take it; ALONE: stands instead of a command */
    size_t offset;
    const char *const *choices;
    const char *doc;
} mpt_option_row;

/* What --from and --format take: the words of mpt_tokens_options. The first is the default. */
extern const char *const mpt_token_inputs[], *const mpt_token_outputs[];

/* The words of --device, in the order of mpt_device; NULL ends them. */
extern const char *const mpt_device_words[];

enum { MPT_OPTIONS_MAX = 64 }; /* there are fewer rows: option_rows.c asserts it */

extern const mpt_option_row mpt_option_rows[];
extern const int mpt_n_option_rows;

#endif
