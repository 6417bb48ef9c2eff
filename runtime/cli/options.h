/* The command line as a struct. One table (option_rows.c) makes the parser, --help and the
 * checks of which command takes which option; mptrun.1 is compared with it by a test. */
#ifndef MPT_CLI_OPTIONS_H
#define MPT_CLI_OPTIONS_H

#include <stdio.h>

#include "cli/cli.h"

typedef enum mpt_command {
    MPT_COMMAND_RUN,
    MPT_COMMAND_PLAN,
    MPT_COMMAND_CHECK,
    MPT_COMMAND_EXPLAIN,
    MPT_COMMAND_DIFF,
    MPT_COMMAND_QUANTIZE,
    MPT_COMMAND_PROBE,
    MPT_COMMAND_BENCH,
    MPT_COMMAND_TOKENS,
    MPT_COMMAND_EXPORT,
    MPT_COMMAND_EVAL,
    MPT_COMMAND_SAMPLE,
    MPT_COMMAND_RESUME,
    MPT_COMMAND_COMPARE,
    MPT_COMMAND_SWEEP,
    MPT_COMMAND_REPORT,
    MPT_COMMAND_HELP,
    MPT_COMMAND_COUNT
} mpt_command;

enum { MPT_CLI_FAULTS = 64 };
enum { MPT_CLI_SETS = 64, MPT_CLI_SET_TEXT = 8192 };

typedef struct mpt_options {
    mpt_command command;
    mpt_command topic; /* of help and --help; MPT_COMMAND_HELP: everything */
    int n_words;       /* what the command works on: recipes, or what `takes` of its row says */
    char **words;      /* lent from argv */
    int n_sets;
    mpt_set sets[MPT_CLI_SETS];
    size_t set_used; /* of set_text, which holds the paths cut off at their '=' */
    char set_text[MPT_CLI_SET_TEXT];
    int model;  /* mpt_model_choice, or -1: not said */
    int device; /* mpt_device */
    int target; /* mpt_target, or -1: not said */
    int threads;
    int steps;     /* of bench; 0: not said */
    uint64_t seed; /* where no recipe is there to hold it; 0: not said */
    uint64_t step;
    uint64_t rows, cols; /* 0: not said */
    int from, format;    /* of tokens: mpt_token_inputs, mpt_token_outputs */
    uint64_t vocab;      /* 0: not said */
    const char *data, *out;
    const char *tokens; /* of eval a file, of sample a number; NULL: not said */
    bool grads;
    int n_inject;
    const char *inject[MPT_CLI_FAULTS];
    const char *weights; /* NULL: not said */
    int dtype;           /* mpt_weight_type */
    const char *formats; /* NULL: not said */
    const char *prompt;  /* NULL: not said */
    double temperature;
    uint64_t top_k;                           /* 0: not said */
    bool allow_recipe_change;                 /* of resume */
    int seeds;                                /* of compare and sweep; 0: not said */
    double within;                            /* of compare, a fraction; below 0: not said */
    bool each_layer, each_gemm, each_operand; /* of sweep */
    const char *dump, *until;                 /* names of stages */
    const char *phase;                        /* NULL: not said */
    bool json, quiet, schedule, columnwise, quantizers;
    bool help, version, list_ops, list_formats, list_types, list_devices, help_recipe;
    const char *word; /* of --help-recipe; NULL: everything */
} mpt_options;

/* Reads the command line. MPT_EXIT_USAGE: it is wrong, and stderr says how. */
mpt_exit mpt_options_parse(mpt_options *options, int argc, char **argv);

/* The help text: of everything (MPT_COMMAND_HELP), or of one command. */
void mpt_options_help(FILE *out, mpt_command command);

#endif
