/* The tables of commands and options, and the help made from them. */
#include "cli/option_rows.h"

#include <limits.h>
#include <string.h>

/* ---- the tables ---- */

const mpt_command_row mpt_command_rows[MPT_COMMAND_COUNT] = {
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

/* In the order of mpt_model_choice and mpt_device. */
static const char *const models[] = {"auto", "full", "proxy", NULL};
static const char *const devices[] = {"auto", "ref", "cpu", NULL};

#define AT(member) offsetof(mpt_options, member)
const mpt_option_row mpt_option_rows[] = {
    {"set", 's', "PATH=VALUE", MPT_OPTION_SET, ALL, 0, NULL,
     "sets a field of the recipe, after everything else; may be given again"},
    {"seed", 0, "N", MPT_OPTION_SEED, ALL, 0, NULL, "the same as --set train.seed=N"},
    {"data", 0, "FILE", MPT_OPTION_TEXT, ALL, AT(data), NULL,
     "trains on the bytes of this file instead of the recipe's data"},
    {"model", 0, "WHICH", MPT_OPTION_CHOICE, ALL, AT(model), models,
     "auto, full or proxy. run: auto is the full model where it fits in memory and ends within "
     "a day, else the proxy. plan and check: full unless told otherwise"},
    {"device", 0, "NAME", MPT_OPTION_CHOICE, ALL, AT(device), devices,
     "auto, ref (the definition, slow) or cpu"},
    {"threads", 0, "N", MPT_OPTION_COUNT, RUN | PLAN, AT(threads), NULL, "default: all cores"},
    {"out", 'o', "DIR", MPT_OPTION_TEXT, RUN, AT(out), NULL,
     "the run folder, new or empty; default: the next free runs/NAME-N"},
    {"quiet", 'q', NULL, MPT_OPTION_FLAG, RUN, AT(quiet), NULL,
     "no plan and no progress, only the result"},
    {"json", 0, NULL, MPT_OPTION_FLAG, PLAN, AT(json), NULL,
     "the plan (with --schedule: the schedule) as JSON"},
    {"schedule", 0, NULL, MPT_OPTION_FLAG, PLAN, AT(schedule), NULL,
     "the fixed op schedule of every phase, one step a line"},
    {"dump", 0, "STAGE", MPT_OPTION_STAGE, RUN | PLAN, AT(dump), NULL,
     "prints the value after a stage as text, and nothing else; with --until the run goes on"},
    {"until", 0, "STAGE", MPT_OPTION_STAGE, RUN, AT(until), NULL,
     "stops after a stage: load compiles nothing, freeze to plan train nothing, run takes one "
     "step"},
    {"list-ops", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(list_ops), NULL,
     "the ops of this build and the kernels of each"},
    {"list-formats", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(list_formats), NULL,
     "the number formats of this build"},
    {"help-recipe", 0, "[FIELD]", MPT_OPTION_FLAG, ALONE, AT(help_recipe), NULL,
     "the reference of the recipe language, or what concerns one field or word of it"},
    {"version", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(version), NULL, "the version"},
    {"help", 'h', NULL, MPT_OPTION_FLAG, ALONE, AT(help), NULL, "this text"},
};
#undef AT

const int mpt_n_option_rows = sizeof mpt_option_rows / sizeof mpt_option_rows[0];
_Static_assert(sizeof mpt_option_rows / sizeof mpt_option_rows[0] <= MPT_OPTIONS_MAX,
               "the parser has room for every row");

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

static void print_option(FILE *out, const mpt_option_row *row) {
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
        snprintf(left, sizeof left, "  mptrun %s %s", mpt_command_rows[i].name,
                 mpt_command_rows[i].takes);
        if (all || i == (int)command)
            print_row(out, left, mpt_command_rows[i].doc);
    }
    fprintf(out, "\noptions:\n");
    for (int i = 0; i < mpt_n_option_rows; i++)
        if (all || mpt_option_rows[i].commands & (1u << command))
            print_option(out, &mpt_option_rows[i]);
    fprintf(out, "\nstages for --dump and --until:\n ");
    for (int i = 0; mpt_stage_name(i); i++)
        fprintf(out, " %s", mpt_stage_name(i));
    fputs("\n\nexamples:\n"
          "  mptrun recipes/nvfp4_12b.lua\n"
          "  mptrun recipes/gpt2_nvfp4.lua --data shakespeare.txt --set train.steps=300\n"
          "  mptrun plan recipes/nvfp4_12b.lua --json\n"
          "  mptrun plan recipes/gpt2_fp8.lua --dump=precise\n"
          "  mptrun --help-recipe rounding\n"
          "\nexit status:\n"
          "  0  done, or training ended after a step because a signal asked (stderr says so)\n"
          "  1  the recipe, the data or a checkpoint is wrong\n"
          "  2  the command line is wrong\n"
          "  3  training stopped itself\n"
          "  4  the machine failed: disk, memory or device\n"
          "  130, 143  ended at once by SIGINT or SIGTERM: a second one, or one outside "
          "training\n",
          out);
}
