/* The command line: one table of commands, one of options.
 *
 * A row says what it is called, what it takes, which commands it belongs to and where its value
 * goes; the parser and --help are made from the rows. An option that a command would ignore is
 * refused. A misspelt word is met with the nearest right one. */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the tables ---- */

typedef struct command_row {
    const char *name, *takes, *doc;
    int most_recipes; /* INT_MAX: any number */
} command_row;

static const command_row commands[MPT_COMMAND_COUNT] = {
    [MPT_COMMAND_RUN] = {"run", "RECIPE.lua",
                         "prints the plan's summary, trains, writes a run folder; the word "
                         "'run' may be left out",
                         1},
    [MPT_COMMAND_PLAN] = {"plan", "RECIPE.lua",
                          "compiles the full model without allocating it: formats by layer, "
                          "memory, FLOPs, phases, warnings",
                          1},
    [MPT_COMMAND_CHECK] = {"check", "RECIPE.lua...", "errors and warnings only", INT_MAX},
    [MPT_COMMAND_HELP] = {"help", "[COMMAND]", "this text, or that of one command", 1},
};

enum {
    RUN = 1 << MPT_COMMAND_RUN,
    PLAN = 1 << MPT_COMMAND_PLAN,
    CHECK = 1 << MPT_COMMAND_CHECK
};
enum { ALL = RUN | PLAN | CHECK, ALONE = 0 };

typedef enum option_kind {
    KIND_FLAG,   /* bool */
    KIND_TEXT,   /* const char *, not empty */
    KIND_CHOICE, /* int: index into `choices` */
    KIND_COUNT,  /* int, 1 to 4096 */
    KIND_SET,    /* PATH=VALUE, appended to `sets` */
    KIND_SEED,   /* train.seed=N, appended to `sets` */
    KIND_STAGE   /* const char *: the name of a stage */
} option_kind;

typedef struct option_row {
    const char *name;
    char letter; /* 0: none */
    const char *takes;
    option_kind kind;
    unsigned commands; /* which take it; ALONE: stands instead of a command */
    size_t offset;
    const char *const *choices;
    const char *doc;
} option_row;

/* In the order of mpt_model_choice and mpt_device. */
static const char *const models[] = {"auto", "full", "proxy", NULL};
static const char *const devices[] = {"auto", "ref", "cpu", NULL};

#define AT(member) offsetof(mpt_options, member)
static const option_row rows[] = {
    {"set", 's', "PATH=VALUE", KIND_SET, ALL, 0, NULL,
     "sets a field of the recipe, after everything else; may be given again"},
    {"seed", 0, "N", KIND_SEED, ALL, 0, NULL, "the same as --set train.seed=N"},
    {"data", 0, "FILE", KIND_TEXT, ALL, AT(data), NULL,
     "trains on the bytes of this file instead of the recipe's data"},
    {"model", 0, "WHICH", KIND_CHOICE, ALL, AT(model), models,
     "auto, full or proxy. run: auto is the full model where it fits in memory and ends within "
     "a day, else the proxy. plan and check: full unless told otherwise"},
    {"device", 0, "NAME", KIND_CHOICE, ALL, AT(device), devices,
     "auto, ref (the definition, slow) or cpu"},
    {"threads", 0, "N", KIND_COUNT, RUN | PLAN, AT(threads), NULL, "default: all cores"},
    {"out", 'o', "DIR", KIND_TEXT, RUN, AT(out), NULL,
     "the run folder, new or empty; default: the next free runs/NAME-N"},
    {"quiet", 'q', NULL, KIND_FLAG, RUN, AT(quiet), NULL,
     "no plan and no progress, only the result"},
    {"json", 0, NULL, KIND_FLAG, PLAN, AT(json), NULL,
     "the plan (with --schedule: the schedule) as JSON"},
    {"schedule", 0, NULL, KIND_FLAG, PLAN, AT(schedule), NULL,
     "the fixed op schedule of every phase, one step a line"},
    {"dump", 0, "STAGE", KIND_STAGE, RUN | PLAN, AT(dump), NULL,
     "prints the value after a stage as text; plan prints nothing else"},
    {"until", 0, "STAGE", KIND_STAGE, RUN, AT(until), NULL,
     "stops after a stage: load compiles nothing, freeze to plan train nothing, run takes one "
     "step"},
    {"list-ops", 0, NULL, KIND_FLAG, ALONE, AT(list_ops), NULL,
     "the ops of this build and the kernels of each"},
    {"list-formats", 0, NULL, KIND_FLAG, ALONE, AT(list_formats), NULL,
     "the number formats of this build"},
    {"version", 0, NULL, KIND_FLAG, ALONE, AT(version), NULL, "the version"},
    {"help", 'h', NULL, KIND_FLAG, ALONE, AT(help), NULL, "this text"},
};
#undef AT
enum { N_ROWS = sizeof rows / sizeof rows[0], LONG_BASE = 256 };

/* ---- faults of the command line ---- */

/* Ends a message about the command line with the way out. */
static mpt_exit usage(const char *nearest, const char *prefix) {
    if (nearest)
        fprintf(stderr, "; did you mean '%s%s'?\n", prefix, nearest);
    else
        fprintf(stderr, "; see mptrun --help\n");
    return MPT_EXIT_USAGE;
}

/* letter: of a short option, else 0 and `word` is the long one. */
static mpt_exit unknown_option(int letter, const char *word) {
    const char *names[N_ROWS];
    char bare[64];
    for (int i = 0; i < N_ROWS; i++)
        names[i] = rows[i].name;
    if (letter) {
        fprintf(stderr, "mptrun: no option '-%c'", letter);
        return usage(NULL, "");
    }
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    fprintf(stderr, "mptrun: no option '--%s'", bare);
    return usage(mpt_nearest(bare, names, N_ROWS), "--");
}

static mpt_exit bad_value(const option_row *row, const char *value, const char *wanted) {
    fprintf(stderr, "mptrun: --%s: '%s' is not %s", row->name, value, wanted);
    return usage(NULL, "");
}

/* ---- values ---- */

static mpt_exit add_set(mpt_options *options, const char *path, size_t path_length,
                        const char *value) {
    char *to = options->set_text + options->set_used;
    if (options->n_sets == MPT_CLI_SETS ||
        path_length >= MPT_CLI_SET_TEXT - options->set_used) {
        fprintf(stderr, "mptrun: too many --set: write a recipe with derive() instead\n");
        return MPT_EXIT_USAGE;
    }
    memcpy(to, path, path_length);
    to[path_length] = 0;
    options->set_used += path_length + 1;
    options->sets[options->n_sets++] = (mpt_set){to, value};
    return MPT_EXIT_DONE;
}

static mpt_exit read_count(const option_row *row, const char *value, int *out) {
    char *end = NULL;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (errno || end == value || *end || n < 1 || n > 4096)
        return bad_value(row, value, "a number from 1 to 4096");
    *out = (int)n;
    return MPT_EXIT_DONE;
}

static mpt_exit read_choice(const option_row *row, const char *value, int *out) {
    int n = 0;
    for (; row->choices[n]; n++) {
        if (strcmp(row->choices[n], value) == 0) {
            *out = n;
            return MPT_EXIT_DONE;
        }
    }
    fprintf(stderr, "mptrun: --%s: no %s '%s' (there are", row->name, row->name, value);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%s %s", i ? "," : "", row->choices[i]);
    fprintf(stderr, ")");
    return usage(mpt_nearest(value, row->choices, n), "");
}

static mpt_exit read_stage(const option_row *row, const char *value, const char **out) {
    const char *names[32] = {NULL};
    int n = 0;
    for (; n < 32 && mpt_stage_name(n); n++) {
        names[n] = mpt_stage_name(n);
        if (strcmp(names[n], value) == 0) {
            *out = names[n];
            return MPT_EXIT_DONE;
        }
    }
    fprintf(stderr, "mptrun: --%s: no stage '%s' (there are", row->name, value);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%s %s", i ? "," : "", names[i]);
    fprintf(stderr, ")");
    return usage(mpt_nearest(value, names, n), "");
}

/* One option with its value (NULL for flags) into the struct. */
static mpt_exit take(mpt_options *options, const option_row *row, const char *value) {
    void *at = (char *)options + row->offset;
    const char *equals = value ? strchr(value, '=') : NULL;
    switch (row->kind) {
    case KIND_FLAG:
        *(bool *)at = true;
        return MPT_EXIT_DONE;
    case KIND_TEXT:
        if (!*value)
            return bad_value(row, value, "a name");
        *(const char **)at = value;
        return MPT_EXIT_DONE;
    case KIND_CHOICE:
        return read_choice(row, value, at);
    case KIND_COUNT:
        return read_count(row, value, at);
    case KIND_STAGE:
        return read_stage(row, value, at);
    case KIND_SET:
        if (!equals || equals == value)
            return bad_value(row, value, "PATH=VALUE, such as train.steps=20");
        return add_set(options, value, (size_t)(equals - value), equals + 1);
    case KIND_SEED:
        if (!*value || value[strspn(value, "0123456789")])
            return bad_value(row, value, "a whole number");
        return add_set(options, "train.seed", strlen("train.seed"), value);
    }
    return MPT_EXIT_USAGE;
}

/* ---- the parser ---- */

/* Makes getopt's tables from ours. Values from LONG_BASE on are indices of rows. */
static void make_getopt(struct option *longs, char *shorts) {
    *shorts++ = ':';
    for (int i = 0; i < N_ROWS; i++) {
        longs[i] = (struct option){.name = rows[i].name,
                                   .has_arg = rows[i].takes ? required_argument : no_argument,
                                   .val = LONG_BASE + i};
        if (!rows[i].letter)
            continue;
        *shorts++ = rows[i].letter;
        if (rows[i].takes)
            *shorts++ = ':';
    }
    *shorts = 0;
    longs[N_ROWS] = (struct option){.name = NULL};
}

/* getopt gives 0 for a long option it does not know, which is nobody's letter. */
static const option_row *row_of(int code) {
    if (code >= LONG_BASE)
        return &rows[code - LONG_BASE];
    for (int i = 0; i < N_ROWS && code != 0; i++)
        if (rows[i].letter == code)
            return &rows[i];
    return NULL;
}

static int find_command(const char *word) {
    for (int i = 0; i < MPT_COMMAND_COUNT; i++)
        if (strcmp(word, commands[i].name) == 0)
            return i;
    return -1;
}

static mpt_exit no_command(const char *word) {
    const char *names[MPT_COMMAND_COUNT];
    for (int i = 0; i < MPT_COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    fprintf(stderr, "mptrun: no command '%s'", word);
    return usage(mpt_nearest(word, names, MPT_COMMAND_COUNT), "");
}

/* The words that are no options: a command's name or nothing, then recipes. */
static mpt_exit take_words(mpt_options *options, int n, char **words) {
    int command = n > 0 ? find_command(words[0]) : MPT_COMMAND_RUN;
    bool named = n > 0 && command >= 0;
    /* A word that looks like no path and names no file must be a slip in a command. */
    if (command < 0 && !strpbrk(words[0], "./") && access(words[0], F_OK) != 0)
        return no_command(words[0]);
    options->command = command < 0 ? MPT_COMMAND_RUN : (mpt_command)command;
    options->topic = named ? options->command : MPT_COMMAND_HELP;
    options->n_recipes = n - named;
    options->recipes = words + named;
    if (options->command == MPT_COMMAND_HELP && options->n_recipes > 0) {
        int topic = find_command(options->recipes[0]);
        if (topic < 0)
            return no_command(options->recipes[0]);
        options->topic = (mpt_command)topic;
    }
    return MPT_EXIT_DONE;
}

static int stage_index(const char *name) {
    int i = 0;
    while (mpt_stage_name(i) && strcmp(mpt_stage_name(i), name) != 0)
        i++;
    return i;
}

/* Whether the command has the recipes it needs and takes all the options that were given. */
static mpt_exit check_fit(const mpt_options *options, const bool *given) {
    const command_row *command = &commands[options->command];
    if (options->help || options->version || options->list_ops || options->list_formats ||
        options->command == MPT_COMMAND_HELP)
        return MPT_EXIT_DONE;
    for (int i = 0; i < N_ROWS; i++) {
        if (given[i] && !(rows[i].commands & (1u << options->command))) {
            fprintf(stderr, "mptrun: '%s' takes no --%s; see mptrun help %s\n", command->name,
                    rows[i].name, command->name);
            return MPT_EXIT_USAGE;
        }
    }
    if (options->n_recipes == 0) {
        fprintf(stderr, "mptrun: which recipe? mptrun %s%s%s; see mptrun --help\n",
                options->command == MPT_COMMAND_RUN ? "" : command->name,
                options->command == MPT_COMMAND_RUN ? "" : " ", command->takes);
        return MPT_EXIT_USAGE;
    }
    if (options->dump && options->until &&
        stage_index(options->dump) > stage_index(options->until)) {
        fprintf(stderr, "mptrun: --until=%s ends before --dump=%s has something to print\n",
                options->until, options->dump);
        return MPT_EXIT_USAGE;
    }
    if (options->n_recipes > command->most_recipes) {
        fprintf(stderr, "mptrun: '%s' takes one recipe, and '%s' is a second one\n",
                command->name, options->recipes[1]);
        return MPT_EXIT_USAGE;
    }
    return MPT_EXIT_DONE;
}

mpt_exit mpt_options_parse(mpt_options *options, int argc, char **argv) {
    struct option longs[N_ROWS + 1];
    char shorts[2 * N_ROWS + 2];
    bool given[N_ROWS] = {false};
    int code;
    *options = (mpt_options){.model = -1};
    make_getopt(longs, shorts);
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const option_row *row = row_of(code == ':' || code == '?' ? optopt : code);
        if (code == ':' && row) {
            fprintf(stderr, "mptrun: --%s wants %s; see mptrun --help\n", row->name,
                    row->takes);
            return MPT_EXIT_USAGE;
        }
        if (code == '?' && row) {
            fprintf(stderr, "mptrun: --%s takes no value; see mptrun --help\n", row->name);
            return MPT_EXIT_USAGE;
        }
        if (!row)
            return unknown_option(optopt, argv[optind - 1]);
        given[row - rows] = true;
        mpt_exit taken = take(options, row, optarg);
        if (taken != MPT_EXIT_DONE)
            return taken;
    }
    mpt_exit words = take_words(options, argc - optind, argv + optind);
    return words != MPT_EXIT_DONE ? words : check_fit(options, given);
}

/* ---- help ---- */

enum { DOC_COLUMN = 29, LAST_COLUMN = 92 };

/* A left column and a text beside it, broken at spaces. */
static void print_row(FILE *out, const char *left, const char *doc) {
    int column = fprintf(out, "%-*s", DOC_COLUMN - 1, left);
    while (*doc) {
        int word = (int)strcspn(doc, " ");
        if (column + 1 + word > LAST_COLUMN)
            column = fprintf(out, "\n%*s", DOC_COLUMN - 1, "") - 1;
        column += fprintf(out, " %.*s", word, doc);
        doc += word + (doc[word] == ' ');
    }
    fprintf(out, "\n");
}

static void print_option(FILE *out, const option_row *row) {
    char left[64];
    int n = snprintf(left, sizeof left, row->letter ? "  -%c, " : "      ", row->letter);
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", row->name, row->takes ? " " : "",
             row->takes ? row->takes : "");
    print_row(out, left, row->doc);
}

void mpt_options_help(FILE *out, mpt_command command) {
    bool all = command == MPT_COMMAND_HELP;
    fprintf(out, "mptrun %s: precision recipes for training\n\nusage:\n", mpt_version());
    for (int i = 0; i < MPT_COMMAND_COUNT; i++) {
        char left[64];
        snprintf(left, sizeof left, "  mptrun %s %s", commands[i].name, commands[i].takes);
        if (all || i == (int)command)
            print_row(out, left, commands[i].doc);
    }
    fprintf(out, "\noptions:\n");
    for (int i = 0; i < N_ROWS; i++)
        if (all || rows[i].commands & (1u << command))
            print_option(out, &rows[i]);
    fprintf(out, "\nstages for --dump and --until:\n ");
    for (int i = 0; mpt_stage_name(i); i++)
        fprintf(out, " %s", mpt_stage_name(i));
    fputs("\n\nexamples:\n"
          "  mptrun recipes/nvfp4_12b.lua\n"
          "  mptrun recipes/gpt2_nvfp4.lua --data shakespeare.txt --set train.steps=300\n"
          "  mptrun plan recipes/nvfp4_12b.lua --json\n"
          "  mptrun plan recipes/gpt2_fp8.lua --dump=precise\n"
          "\nexit status:\n"
          "  0  done, or ended early because a signal asked for it (stderr says so)\n"
          "  1  the recipe, the data or a checkpoint is wrong\n"
          "  2  the command line is wrong\n"
          "  3  training stopped itself\n"
          "  4  the machine failed: disk, memory or device\n",
          out);
}
