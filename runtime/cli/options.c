/* The command line, read by the rows of option_rows.c.
 *
 * Each option is read for itself, and a misspelt word is met with the nearest right one.
 * Next: options_check.c sees whether what was read fits together. */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/device_words.h"
#include "cli/option_rows.h"
#include "cli/options_check.h"

enum { LONG_BASE = 256 }; /* getopt's value of the first row */

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
    const char *names[MPT_OPTIONS_MAX];
    char bare[64];
    for (int i = 0; i < mpt_n_option_rows; i++)
        names[i] = mpt_option_rows[i].name;
    if (letter) {
        fprintf(stderr, "mptrun: no option '-%c'", letter);
        return usage(NULL, "");
    }
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    fprintf(stderr, "mptrun: no option '--%s'", bare);
    return usage(mpt_nearest(bare, names, mpt_n_option_rows), "--");
}

static mpt_exit bad_value(const mpt_option_row *row, const char *value, const char *wanted) {
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

/* How long a run is, said twice: the later would win without a word. */
static mpt_exit check_length(const mpt_options *options) {
    static const char *const lengths[] = {"train.steps", "train.tokens", "train.epochs"};
    const char *said = NULL;
    for (int i = 0; i < options->n_sets; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            if (strcmp(options->sets[i].path, lengths[k]) != 0)
                continue;
            if (said && said != lengths[k]) {
                fprintf(stderr,
                        "mptrun: --set %s and --set %s both say how long the run is; leave one "
                        "out\n",
                        said, lengths[k]);
                return MPT_EXIT_USAGE;
            }
            said = lengths[k];
        }
    return MPT_EXIT_DONE;
}

static mpt_exit read_count(const mpt_option_row *row, const char *value, int *out) {
    char *end = NULL;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (errno || end == value || *end || n < 1 || n > 4096)
        return bad_value(row, value, "a whole number from 1 to 4096");
    *out = (int)n;
    return MPT_EXIT_DONE;
}

/* Digits only, so that no sign and no unit passes. */
static bool read_whole(const char *value, uint64_t most, uint64_t *out) {
    errno = 0;
    *out = strtoull(value, NULL, 10);
    return *value && !value[strspn(value, "0123456789")] && errno == 0 && *out <= most;
}

static mpt_exit read_number(const mpt_option_row *row, const char *value, uint64_t least,
                            uint64_t most, uint64_t *out) {
    char wanted[96];
    if (read_whole(value, most, out) && *out >= least)
        return MPT_EXIT_DONE;
    snprintf(wanted, sizeof wanted, "a whole number from %llu to %llu",
             (unsigned long long)least, (unsigned long long)most);
    return bad_value(row, value, wanted);
}

static mpt_exit read_real(const mpt_option_row *row, const char *value, double *out) {
    char *end = NULL;
    *out = strtod(value, &end);
    if (end == value || *end || !isfinite(*out) || *out < 0)
        return bad_value(row, value, "a number of 0 or more");
    return MPT_EXIT_DONE;
}

/* "1%" and "0.01" are the same. */
static mpt_exit read_share(const mpt_option_row *row, const char *value, double *out) {
    char *end = NULL;
    *out = strtod(value, &end);
    if (end != value && *end == '%' && !end[1])
        *out /= 100;
    else if (end == value || *end)
        *out = -1;
    if (!isfinite(*out) || *out < 0 || *out > 1)
        return bad_value(row, value, "a share from 0 to 1, such as 1% or 0.01");
    return MPT_EXIT_DONE;
}

/* The word that is nearest to what was given: by what it means where that is known, else by its
 * letters. NULL: none is. */
static const char *nearest_choice(const mpt_option_row *row, const char *value, int n) {
    const char *meant = strcmp(row->name, "device") == 0   ? mpt_device_word_meant(value)
                        : strcmp(row->name, "target") == 0 ? mpt_target_word_meant(value)
                                                           : NULL;
    if (meant)
        return *meant ? meant : NULL;
    return mpt_nearest(value, row->choices, n);
}

static mpt_exit read_choice(const mpt_option_row *row, const char *value, int *out) {
    int n = 0;
    for (; row->choices[n]; n++) {
        if (strcmp(row->choices[n], value) == 0) {
            *out = n;
            return MPT_EXIT_DONE;
        }
    }
    fprintf(stderr, "mptrun: --%s: no %s '%s' (there are", row->name, row->name, value);
    for (int i = 0; i < n; i++) {
        const char *told = mpt_target_word_told(row->choices[i]);
        fprintf(stderr, "%s %s", i ? "," : "", told ? told : row->choices[i]);
    }
    fprintf(stderr, ")");
    return usage(nearest_choice(row, value, n), "");
}

static mpt_exit read_stage(const mpt_option_row *row, const char *value, const char **out) {
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

/* Its form alone: the names are the model's, and the library knows them. */
static mpt_exit add_fault(mpt_options *options, const mpt_option_row *row, const char *value) {
    const char *equals = strrchr(value, '='), *at = strrchr(value, '@');
    if (!strchr(value, ':') || !equals || !at || at < equals)
        return bad_value(row, value, "PLACE:NAME=VALUE@STEP, such as grad:wte.weight=inf@3");
    if (options->n_inject == MPT_CLI_FAULTS) {
        fprintf(stderr, "mptrun: more than %d --inject\n", (int)MPT_CLI_FAULTS);
        return MPT_EXIT_USAGE;
    }
    options->inject[options->n_inject++] = value;
    return MPT_EXIT_DONE;
}

/* One option with its value (NULL for flags) into the struct. */
static mpt_exit take(mpt_options *options, const mpt_option_row *row, const char *value) {
    void *at = (char *)options + row->offset;
    const char *equals = value ? strchr(value, '=') : NULL;
    switch (row->kind) {
    case MPT_OPTION_FLAG:
        *(bool *)at = true;
        return MPT_EXIT_DONE;
    case MPT_OPTION_TEXT:
        if (!*value)
            return bad_value(row, value, "a name");
        *(const char **)at = value;
        return MPT_EXIT_DONE;
    case MPT_OPTION_ANY:
        *(const char **)at = value;
        return MPT_EXIT_DONE;
    case MPT_OPTION_REAL:
        return read_real(row, value, at);
    case MPT_OPTION_SHARE:
        return read_share(row, value, at);
    case MPT_OPTION_CHOICE:
        return read_choice(row, value, at);
    case MPT_OPTION_COUNT:
        return read_count(row, value, at);
    case MPT_OPTION_STAGE:
        return read_stage(row, value, at);
    case MPT_OPTION_SET:
        if (!equals || equals == value)
            return bad_value(row, value, "PATH=VALUE, such as train.steps=20");
        if (add_set(options, value, (size_t)(equals - value), equals + 1) != MPT_EXIT_DONE)
            return MPT_EXIT_USAGE;
        return check_length(options);
    case MPT_OPTION_FAULT:
        return add_fault(options, row, value);
    case MPT_OPTION_SEED:
        if (read_number(row, value, 0, UINT64_MAX, at) != MPT_EXIT_DONE)
            return MPT_EXIT_USAGE;
        return add_set(options, "train.seed", strlen("train.seed"), value);
    case MPT_OPTION_STEP:
        return read_number(row, value, 0, UINT32_MAX, at);
    case MPT_OPTION_EXTENT:
        return read_number(row, value, 1, 1 << 20, at);
    case MPT_OPTION_WORDS:
        return read_number(row, value, 1, INT32_MAX, at);
    }
    return MPT_EXIT_USAGE;
}

/* ---- the parser ---- */

/* A value in brackets may be absent, so it is a word of its own and not the option's. */
static bool wants_value(const mpt_option_row *row) {
    return row->takes && *row->takes != '[';
}

/* Makes getopt's tables from ours. Values from LONG_BASE on are indices of rows. */
static void make_getopt(struct option *longs, char *shorts) {
    *shorts++ = ':';
    for (int i = 0; i < mpt_n_option_rows; i++) {
        longs[i] = (struct option){
            .name = mpt_option_rows[i].name,
            .has_arg = wants_value(&mpt_option_rows[i]) ? required_argument : no_argument,
            .val = LONG_BASE + i};
        if (!mpt_option_rows[i].letter)
            continue;
        *shorts++ = mpt_option_rows[i].letter;
        if (wants_value(&mpt_option_rows[i]))
            *shorts++ = ':';
    }
    *shorts = 0;
    longs[mpt_n_option_rows] = (struct option){.name = NULL};
}

/* getopt gives 0 for a long option it does not know, which is nobody's letter. */
static const mpt_option_row *row_of(int code) {
    if (code >= LONG_BASE)
        return &mpt_option_rows[code - LONG_BASE];
    for (int i = 0; i < mpt_n_option_rows && code != 0; i++)
        if (mpt_option_rows[i].letter == code)
            return &mpt_option_rows[i];
    return NULL;
}

static int find_command(const char *word) {
    for (int i = 0; i < MPT_COMMAND_COUNT; i++)
        if (strcmp(word, mpt_command_rows[i].name) == 0)
            return i;
    return -1;
}

static mpt_exit no_command(const char *word) {
    const char *names[MPT_COMMAND_COUNT];
    for (int i = 0; i < MPT_COMMAND_COUNT; i++)
        names[i] = mpt_command_rows[i].name;
    fprintf(stderr, "mptrun: no command '%s'", word);
    return usage(mpt_nearest(word, names, MPT_COMMAND_COUNT), "");
}

/* The words that are no options: a command's name or nothing, then what it works on. */
static mpt_exit take_words(mpt_options *options, int n, char **words) {
    int command = n > 0 ? find_command(words[0]) : MPT_COMMAND_RUN;
    bool named = n > 0 && command >= 0;
    /* A word that looks like no path and names no file must be a slip in a command. */
    if (command < 0 && !strpbrk(words[0], "./") && access(words[0], F_OK) != 0)
        return no_command(words[0]);
    options->command = command < 0 ? MPT_COMMAND_RUN : (mpt_command)command;
    options->topic = named ? options->command : MPT_COMMAND_HELP;
    options->n_words = n - named;
    options->words = words + named;
    if (options->command == MPT_COMMAND_HELP && options->n_words > 0) {
        int topic = find_command(options->words[0]);
        if (topic < 0)
            return no_command(options->words[0]);
        options->topic = (mpt_command)topic;
    }
    return MPT_EXIT_DONE;
}

/* --help-recipe stands instead of a command, and takes one word at most. */
static mpt_exit take_word(mpt_options *options, int n, char **words) {
    options->word = n > 0 ? words[0] : NULL;
    if (n <= 1)
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: --help-recipe takes one word, and '%s' is a second one\n",
            words[1]);
    return MPT_EXIT_USAGE;
}

/* The row of the option that was given and stands instead of a command, --help excepted, which
 * may stand with a command; -1 where there is none. */
static int find_alone(const mpt_options *options, const bool *given) {
    for (int i = 0; i < mpt_n_option_rows && !options->help; i++)
        if (given[i] && mpt_option_rows[i].commands == 0)
            return i;
    return -1;
}

mpt_exit mpt_options_parse(mpt_options *options, int argc, char **argv) {
    struct option longs[MPT_OPTIONS_MAX + 1];
    char shorts[2 * MPT_OPTIONS_MAX + 2];
    bool given[MPT_OPTIONS_MAX] = {false};
    int code;
    *options = (mpt_options){.model = -1, .target = -1, .temperature = 1, .within = -1};
    make_getopt(longs, shorts);
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const mpt_option_row *row = row_of(code == ':' || code == '?' ? optopt : code);
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
        given[row - mpt_option_rows] = true;
        mpt_exit taken = take(options, row, optarg);
        if (taken != MPT_EXIT_DONE)
            return taken;
    }
    int alone = find_alone(options, given), n_words = argc - optind;
    if (alone >= 0) {
        mpt_exit fits = mpt_options_check_alone(given, alone, argv + optind,
                                                options->help_recipe ? 0 : n_words);
        return fits == MPT_EXIT_DONE && options->help_recipe
                   ? take_word(options, n_words, argv + optind)
                   : fits;
    }
    mpt_exit words = take_words(options, argc - optind, argv + optind);
    return words != MPT_EXIT_DONE ? words : mpt_options_check(options, given);
}
