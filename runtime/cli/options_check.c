/* Whether a command line that was read makes sense as a whole: the words and options that its
 * command takes, and those that exclude or need each other. An option that a command would
 * ignore is refused. */
#include "cli/options_check.h"

#include <stdio.h>
#include <string.h>

#include "cli/option_rows.h"

mpt_exit mpt_options_check_alone(const bool *given, int alone, char **words, int n_words) {
    const char *name = mpt_option_rows[alone].name;
    if (n_words > 0) {
        fprintf(stderr, "mptrun: --%s stands alone, and takes no '%s'; see mptrun --help\n",
                name, words[0]);
        return MPT_EXIT_USAGE;
    }
    for (int i = 0; i < mpt_n_option_rows; i++) {
        if (given[i] && i != alone) {
            fprintf(stderr, "mptrun: --%s stands alone, and takes no --%s; see mptrun --help\n",
                    name, mpt_option_rows[i].name);
            return MPT_EXIT_USAGE;
        }
    }
    return MPT_EXIT_DONE;
}

/* ---- the words ---- */

/* A word that is empty, as an unset variable of a shell leaves it, is named by what the command
 * takes in its place. */
static mpt_exit check_empty(const mpt_options *options) {
    const mpt_command_row *command = &mpt_command_rows[options->command];
    const char *takes = command->takes;
    for (int i = 0; i < options->n_words; i++) {
        if (!*options->words[i]) {
            fprintf(stderr, "mptrun: '%s' takes %s, and %.*s is empty; see mptrun help %s\n",
                    command->name, command->takes, (int)strcspn(takes, " "), takes,
                    command->name);
            return MPT_EXIT_USAGE;
        }
        const char *space = strchr(takes, ' ');
        takes = space ? space + 1 : takes;
    }
    return MPT_EXIT_DONE;
}

/* Whether the command has as many words as it takes. */
static mpt_exit check_words(const mpt_options *options) {
    const mpt_command_row *command = &mpt_command_rows[options->command];
    bool run = options->command == MPT_COMMAND_RUN;
    if (options->n_words < command->n_least) {
        fprintf(stderr, "mptrun: %s mptrun %s%s%s; see mptrun --help\n", command->lacks,
                run ? "" : command->name, run ? "" : " ", command->takes);
        return MPT_EXIT_USAGE;
    }
    if (options->n_words > command->n_most) {
        const char *extra = options->words[command->n_most];
        if (command->n_most == 1 && options->command <= MPT_COMMAND_CHECK)
            fprintf(stderr, "mptrun: '%s' takes one recipe, and '%s' is a second one\n",
                    command->name, extra);
        else
            fprintf(stderr, "mptrun: '%s' takes %s, and no '%s'; see mptrun help %s\n",
                    command->name, command->takes, extra, command->name);
        return MPT_EXIT_USAGE;
    }
    return check_empty(options);
}

/* ---- options of one command ---- */

/* Files are quantized by the CPU, whose bytes are those of any device. */
static mpt_exit check_cuda(const mpt_options *options) {
    if (options->device != MPT_DEVICE_CUDA || options->command != MPT_COMMAND_QUANTIZE)
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: 'quantize' computes on ref and cpu only; leave --device cuda "
                    "out\n");
    return MPT_EXIT_USAGE;
}

/* Whether an option was given, with whatever value. */
static bool is_given(const bool *given, const char *name) {
    for (int i = 0; i < mpt_n_option_rows; i++)
        if (given[i] && strcmp(mpt_option_rows[i].name, name) == 0)
            return true;
    return false;
}

/* bench measures a recipe's steps or the quantizers, each with options of its own. */
static mpt_exit check_bench(const mpt_options *options, const bool *given) {
    static const char *const of_recipes[] = {"set", "data", "model", "device", "steps", NULL};
    static const char *const of_quantizers[] = {"rows", "cols", NULL};
    if (options->n_words == 0 && !options->quantizers) {
        fprintf(stderr,
                "mptrun: bench of what? mptrun bench RECIPE.lua measures the steps of a "
                "recipe, mptrun bench --quantizers the quantizers; see mptrun help "
                "bench\n");
        return MPT_EXIT_USAGE;
    }
    if (options->n_words > 0 && options->quantizers) {
        fprintf(stderr,
                "mptrun: bench --quantizers measures no recipe, and takes no '%s'; see mptrun "
                "help bench\n",
                options->words[0]);
        return MPT_EXIT_USAGE;
    }
    const char *const *odd = options->quantizers ? of_recipes : of_quantizers;
    while (*odd && !is_given(given, *odd))
        odd++;
    if (!*odd)
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: bench %s takes no --%s; see mptrun help bench\n",
            options->quantizers ? "--quantizers" : "RECIPE.lua", *odd);
    return MPT_EXIT_USAGE;
}

/* --data takes the place of the recipe's data; what is set of how files are read fits any file.
 */
static bool fits_any_file(const char *path) {
    static const char *const names[] = {"data.vocab", "data.order", "data.remainder",
                                        "data.validation"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

static mpt_exit check_data(const mpt_options *o) {
    for (int i = 0; o->data && i < o->n_sets; i++) {
        const char *path = o->sets[i].path;
        bool whole = strcmp(path, "data") == 0;
        if (!whole && (strncmp(path, "data.", 5) != 0 || fits_any_file(path)))
            continue;
        fprintf(stderr,
                "mptrun: --set %s is of the recipe's data, which --data replaces; leave one "
                "out\n",
                path);
        return MPT_EXIT_USAGE;
    }
    return MPT_EXIT_DONE;
}

/* eval writes a file where tokens are given, and prints figures of data where not. */
static mpt_exit check_eval(const mpt_options *o) {
    const char *fault = !o->weights              ? "eval of which weights? --weights FILE"
                        : o->tokens && !o->out   ? "eval --tokens where to? --out FILE"
                        : !o->tokens && o->out   ? "eval --out takes --tokens FILE beside it"
                        : !o->tokens && o->grads ? "eval --grads takes --tokens FILE beside it"
                        : o->tokens && o->data   ? "eval takes --tokens or --data, not both"
                                                 : NULL;
    if (!fault)
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: %s; see mptrun help eval\n", fault);
    return MPT_EXIT_USAGE;
}

/* A sweep of nothing in particular, and no room for what each run sets besides. */
static mpt_exit check_trains(const mpt_options *o) {
    if (o->command == MPT_COMMAND_SWEEP && !o->each_layer && !o->each_gemm &&
        !o->each_operand) {
        fprintf(stderr, "mptrun: sweep over what? --each-layer, --each-gemm or --each-operand; "
                        "see mptrun help sweep\n");
        return MPT_EXIT_USAGE;
    }
    if (o->n_sets + 2 <= MPT_CLI_SETS)
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: %s takes at most %d --set\n", mpt_command_rows[o->command].name,
            MPT_CLI_SETS - 2);
    return MPT_EXIT_USAGE;
}

/* ---- the whole ---- */

static int stage_index(const char *name) {
    int i = 0;
    while (mpt_stage_name(i) && strcmp(mpt_stage_name(i), name) != 0)
        i++;
    return i;
}

/* Options that make no sense together, or that a command cannot do without. */
static mpt_exit check_together(const mpt_options *options, const bool *given) {
    if (options->dump && options->until &&
        stage_index(options->dump) > stage_index(options->until)) {
        fprintf(stderr, "mptrun: --until=%s ends before --dump=%s has something to print\n",
                options->until, options->dump);
        return MPT_EXIT_USAGE;
    }
    if (options->command == MPT_COMMAND_BENCH && check_bench(options, given) != MPT_EXIT_DONE)
        return MPT_EXIT_USAGE;
    if (options->command == MPT_COMMAND_EXPORT && !options->out) {
        fprintf(stderr,
                "mptrun: export where? mptrun export %s --out model.safetensors; see "
                "mptrun help export\n",
                options->words[0]);
        return MPT_EXIT_USAGE;
    }
    bool trains =
        options->command == MPT_COMMAND_COMPARE || options->command == MPT_COMMAND_SWEEP;
    if (trains && check_trains(options) != MPT_EXIT_DONE)
        return MPT_EXIT_USAGE;
    if (options->command == MPT_COMMAND_EVAL && check_eval(options) != MPT_EXIT_DONE)
        return MPT_EXIT_USAGE;
    if (check_data(options) != MPT_EXIT_DONE)
        return MPT_EXIT_USAGE;
    return check_cuda(options);
}

mpt_exit mpt_options_check(const mpt_options *options, const bool *given) {
    const mpt_command_row *command = &mpt_command_rows[options->command];
    if (options->help || options->command == MPT_COMMAND_HELP)
        return MPT_EXIT_DONE;
    for (int i = 0; i < mpt_n_option_rows; i++) {
        if (given[i] && !(mpt_option_rows[i].commands & (1u << options->command))) {
            fprintf(stderr, "mptrun: '%s' takes no --%s; see mptrun help %s\n", command->name,
                    mpt_option_rows[i].name, command->name);
            return MPT_EXIT_USAGE;
        }
    }
    mpt_exit words = check_words(options);
    return words != MPT_EXIT_DONE ? words : check_together(options, given);
}
