/* The tables of commands and options, and the help made from them. */
#include "cli/option_rows.h"

#include <limits.h>
#include <string.h>

/* ---- the tables ---- */

const mpt_command_row mpt_command_rows[MPT_COMMAND_COUNT] = {
    [MPT_COMMAND_RUN] = {"run", "RECIPE.lua",
                         "prints the plan's summary, trains, writes a run folder; the word "
                         "'run' may be left out",
                         1, 1, "which recipe?",
                         "  mptrun recipes/nvfp4_12b.lua\n"
                         "  mptrun recipes/gpt2_nvfp4.lua --data shakespeare.txt "
                         "--set train.steps=300\n"},
    [MPT_COMMAND_PLAN] = {"plan", "RECIPE.lua",
                          "compiles the full model without allocating it: formats by layer, "
                          "memory, FLOPs, phases, warnings",
                          1, 1, "which recipe?",
                          "  mptrun plan recipes/nvfp4_12b.lua --json\n"
                          "  mptrun plan recipes/nvfp4_12b.lua --target sm90\n"
                          "  mptrun plan recipes/gpt2_fp8.lua --dump=precise\n"},
    [MPT_COMMAND_CHECK] = {"check", "RECIPE.lua...", "errors and warnings only", 1, INT_MAX,
                           "which recipe?",
                           "  mptrun check recipes/*.lua\n"
                           "  mptrun check recipes/gpt2_fp8.lua --target sm80\n"},
    [MPT_COMMAND_EXPLAIN] =
        {"explain", "RECIPE.lua LAYER",
         "for each operand of a layer the value of every field, and the file, line and rule "
         "that decided it; LAYER is a path, a glob on paths or a kind",
         2, 2, "which recipe, which layer?",
         "  mptrun explain recipes/nvfp4_12b.lua layers.54.mixer.in_proj\n"
         "  mptrun explain recipes/gpt2_nvfp4.lua '*.c_fc' --json\n"},
    [MPT_COMMAND_DIFF] = {"diff", "A.lua B.lua",
                          "what differs between two compiled recipes: model, precision by "
                          "layers, training",
                          2, 2, "which two recipes?",
                          "  mptrun diff recipes/gpt2_nvfp4.lua recipes/gpt2_mxfp8.lua\n"},
    [MPT_COMMAND_QUANTIZE] =
        {"quantize", "EXPR IN OUT",
         "quantizes every tensor of floating type in a safetensors file, "
         "an index of shards or a folder of them; EXPR is a quantizer as "
         "in a recipe",
         3, 3, "which quantizer, which input, which output?",
         "  mptrun quantize nvfp4 model.safetensors nvfp4.safetensors\n"
         "  mptrun quantize 'nvfp4 { block = {16, 16} }' model/ w.safetensors "
         "--columnwise\n"},
    [MPT_COMMAND_PROBE] =
        {"probe", "WEIGHTS",
         "the damage that each format does to each weight matrix of a "
         "checkpoint, worst first",
         1, 1, "which weights?",
         "  mptrun probe model.safetensors --formats nvfp4,mxfp4,e4m3\n"
         "  mptrun probe model/ --formats 'nvfp4, nvfp4 { block = {16, 16} }' "
         "--json\n"},
    [MPT_COMMAND_BENCH] = {"bench", "RECIPE.lua|--quantizers",
                           "where the time of a recipe's steps goes, beside the peak of the "
                           "GEMM library in the same run; or the speed of each quantizer, and "
                           "as a fraction of a plain copy in the same run",
                           0, 1, NULL,
                           "  mptrun bench recipes/gpt2_nvfp4.lua --steps 10\n"
                           "  mptrun bench --quantizers\n"
                           "  mptrun bench --quantizers --threads 1 --rows 2048 --json\n"},
    [MPT_COMMAND_TOKENS] =
        {"tokens", "IN [OUT]",
         "says what a token file holds, or makes one of the bytes of a text or of another "
         "token "
         "file; which format IN has, its content says",
         1, 2, "which file?",
         "  mptrun tokens train.bin\n"
         "  mptrun tokens corpus.txt corpus.bin --format llmc\n"
         "  mptrun tokens gpt2_train.bin my_corpus --format megatron --vocab 50257\n"},
    [MPT_COMMAND_EXPORT] = {"export", "RECIPE.lua",
                            "writes the model's weights, those of --weights or the initial "
                            "ones, to --out: safetensors, or a checkpoint of llm.c",
                            1, 1, "which recipe?",
                            "  mptrun export recipes/gpt2_bf16.lua --weights model.safetensors "
                            "--data corpus.txt --out gpt2.bin\n"},
    [MPT_COMMAND_EVAL] = {"eval", "RECIPE.lua",
                          "one forward pass of --weights over --tokens, with --grads also "
                          "backward: logits, loss and gradients go to --out. Without --tokens: "
                          "loss, perplexity and accuracy on the validation part of the data",
                          1, 1, "which recipe?",
                          "  mptrun eval recipes/gpt2_bf16.lua --weights model.safetensors "
                          "--data corpus.txt\n"
                          "  mptrun eval model.lua --weights w.safetensors --tokens "
                          "t.safetensors --out o.safetensors --grads\n"},
    [MPT_COMMAND_SAMPLE] =
        {"sample", "RUN",
         "text from a model that was trained on bytes: from a run folder, or from a recipe "
         "with "
         "--weights",
         1, 1, "which run folder, or which recipe?",
         "  mptrun sample runs/gpt2_nvfp4-1 --prompt 'ROMEO:' --tokens 300\n"
         "  mptrun sample recipes/gpt2_nvfp4.lua --weights model.safetensors --data corpus.txt "
         "--top-k 20\n"},
    [MPT_COMMAND_RESUME] = {"resume", "RUN",
                            "goes on from the newest whole checkpoint of a run folder, bit for "
                            "bit as if it had not been interrupted",
                            1, 1, "which run folder?",
                            "  mptrun resume runs/nvfp4_12b-1\n"
                            "  mptrun resume runs/nvfp4_12b-1 --set train.steps=400 "
                            "--allow-recipe-change\n"},
    [MPT_COMMAND_COMPARE] =
        {"compare", "BASE.lua OTHER.lua...",
         "trains each with the same data, order, seed and initial weights: "
         "how far the loss is from that of BASE, what really ran in which "
         "format, speed, memory; a table and a report. Run folders instead of recipes are "
         "compared as they are",
         2, INT_MAX, "which recipes? The first is the one to compare with:",
         "  mptrun compare recipes/gpt2_bf16.lua recipes/gpt2_fp8.lua "
         "recipes/gpt2_nvfp4.lua --data corpus.txt --seeds 3 --within 1%\n"
         "  mptrun compare runs/gpt2_bf16-1 runs/gpt2_fp8-1\n"},
    [MPT_COMMAND_SWEEP] =
        {"sweep", "RECIPE.lua",
         "lifts one thing at a time to BF16 and ranks what costs the loss", 1, 1,
         "which recipe?",
         "  mptrun sweep recipes/gpt2_nvfp4.lua --each-layer\n"
         "  mptrun sweep recipes/gpt2_nvfp4.lua --each-operand --data corpus.txt "
         "--set train.steps=200\n"},
    [MPT_COMMAND_REPORT] =
        {"report", "RUN",
         "writes report.html of a run folder anew: plots of what it recorded; in the folder of "
         "a comparison or a sweep compare.html",
         1, 1, "which run folder?",
         "  mptrun report runs/gpt2_nvfp4-1\n  mptrun report runs/compare-1\n"},
    [MPT_COMMAND_HELP] = {"help", "[COMMAND]", "this text, or that of one command", 0, 1, NULL,
                          "  mptrun --help-recipe rounding\n"},
};

enum {
    RUN = 1 << MPT_COMMAND_RUN,
    PLAN = 1 << MPT_COMMAND_PLAN,
    CHECK = 1 << MPT_COMMAND_CHECK,
    EXPLAIN = 1 << MPT_COMMAND_EXPLAIN,
    DIFF = 1 << MPT_COMMAND_DIFF,
    QUANTIZE = 1 << MPT_COMMAND_QUANTIZE,
    PROBE = 1 << MPT_COMMAND_PROBE,
    BENCH = 1 << MPT_COMMAND_BENCH,
    TOKENS = 1 << MPT_COMMAND_TOKENS,
    EXPORT = 1 << MPT_COMMAND_EXPORT,
    EVAL = 1 << MPT_COMMAND_EVAL,
    SAMPLE = 1 << MPT_COMMAND_SAMPLE,
    RESUME = 1 << MPT_COMMAND_RESUME,
    COMPARE = 1 << MPT_COMMAND_COMPARE,
    SWEEP = 1 << MPT_COMMAND_SWEEP,
    REPORT = 1 << MPT_COMMAND_REPORT
};
/* Those that train several recipes. */
enum { TRAINS = COMPARE | SWEEP };
/* Of commands that compile a recipe, and of those that work on tensors. */
enum { READERS = PLAN | CHECK | EXPLAIN | DIFF };
enum {
    RECIPES = RUN | READERS | EXPORT | EVAL | SAMPLE,
    TENSORS = QUANTIZE | PROBE | BENCH,
    /* On a device, or telling of one. */
    COMPUTES = RUN | PLAN | CHECK | QUANTIZE | BENCH | EVAL | SAMPLE | RESUME | TRAINS,
    ALONE = 0
};

/* In the order of mpt_model_choice, of mpt_device, of mpt_target. */
static const char *const models[] = {"auto", "full", "proxy", NULL};
const char *const mpt_device_words[] = {"auto", "ref", "cpu", "cuda", NULL};
static const char *const targets[] = {"host", "sm80", "sm90", "sm100", NULL};
/* In the order of mpt_weight_type. */
static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};

const char *const mpt_token_inputs[] = {"auto", "text", "nanogpt", NULL};
const char *const mpt_token_outputs[] = {"llmc", "nanogpt", "llmc32", "megatron", NULL};

#define AT(member) offsetof(mpt_options, member)
const mpt_option_row mpt_option_rows[] = {
    {"set", 's', "PATH=VALUE", MPT_OPTION_SET, RECIPES | BENCH | RESUME | TRAINS, 0, NULL,
     "sets a field of the recipe, after everything else; may be given again"},
    {"seed", 0, "N", MPT_OPTION_SEED, RECIPES | QUANTIZE | PROBE | TRAINS, AT(seed), NULL,
     "the same as --set train.seed=N. quantize and probe: of stochastic rounding and random "
     "signs; sample: of the bytes that are drawn; default 0"},
    {"data", 0, "FILE", MPT_OPTION_TEXT, RECIPES | BENCH | RESUME | TRAINS, AT(data), NULL,
     "trains on this file, or glob, instead of the recipe's data: tokens or batches where its "
     "content says so, else its bytes"},
    {"model", 0, "WHICH", MPT_OPTION_CHOICE, RECIPES | BENCH | TRAINS, AT(model), models,
     "auto, full or proxy. run and bench: auto is the full model where it fits in memory and "
     "ends within "
     "a day, else the proxy. The commands that do not train: full unless told otherwise"},
    {"device", 0, "NAME", MPT_OPTION_CHOICE, COMPUTES, AT(device), mpt_device_words,
     "auto (a GPU where there is one, else the CPU), ref (the definition, slow), cpu or cuda. "
     "quantize works on the CPU, and takes no cuda; plan and check, which compute nothing, "
     "take "
     "cuda without a GPU for --target sm100"},
    {"target", 0, "NAME", MPT_OPTION_CHOICE, PLAN | CHECK, AT(target), targets,
     "host (default), sm80 (A100, and others of 8.x), sm90 (H100, H200) or sm100 (B200, "
     "GB200): "
     "whose memory is counted, and which GEMMs that GPU has to emulate"},
    {"threads", 0, "N", MPT_OPTION_COUNT,
     RUN | PLAN | TENSORS | EXPORT | EVAL | SAMPLE | RESUME | TRAINS, AT(threads), NULL,
     "default: all cores"},
    {"out", 'o', "DIR", MPT_OPTION_TEXT, RUN | EXPORT | EVAL | TRAINS, AT(out), NULL,
     "the run folder, new or empty; default: the next free runs/NAME-N. export: a file that "
     "ends in .safetensors or .bin (llm.c), or a folder. eval: the file of logits and loss"},
    {"weights", 0, "FILE", MPT_OPTION_TEXT, RUN | EXPORT | EVAL | SAMPLE | TRAINS, AT(weights),
     NULL,
     "starts from a checkpoint: safetensors, an index of shards, a folder, or one of llm.c"},
    {"dtype", 0, "NAME", MPT_OPTION_CHOICE, EXPORT, AT(dtype), dtypes,
     "fp32 (default), bf16 or fp16: of the weights in the file"},
    {"quiet", 'q', NULL, MPT_OPTION_FLAG,
     RUN | QUANTIZE | PROBE | EVAL | SAMPLE | RESUME | REPORT | TRAINS, AT(quiet), NULL,
     "no plan and no progress, only the result; report: not a word"},
    {"json", 0, NULL, MPT_OPTION_FLAG, READERS | TENSORS | TOKENS | EVAL | TRAINS, AT(json),
     NULL, "the plan (with --schedule: the schedule) or the result as JSON"},
    {"tokens", 0, "FILE|N", MPT_OPTION_TEXT, EVAL | SAMPLE, AT(tokens), NULL,
     "eval: safetensors with tokens and targets, I32 or I64 [batch, tokens], or tokens, [1, "
     "batch, "
     "tokens + 1]. sample: how many bytes are drawn; default 256"},
    {"grads", 0, NULL, MPT_OPTION_FLAG, EVAL, AT(grads), NULL,
     "also the gradients of the loss, by the names of the weights"},
    {"inject", 0, "FAULT", MPT_OPTION_FAULT, RUN, 0, NULL,
     "a drill: puts a fault into one element at one step, counted from 0. grad:NAME=inf@STEP, "
     "act:LAYER=nan@STEP, weight:NAME=1e30@STEP; may be given again"},
    {"phase", 0, "NAME", MPT_OPTION_TEXT, EXPLAIN, AT(phase), NULL,
     "explains one phase; default: all, with what changes in the later ones"},
    {"schedule", 0, NULL, MPT_OPTION_FLAG, PLAN, AT(schedule), NULL,
     "the fixed op schedule of every phase, one step a line"},
    {"dump", 0, "STAGE", MPT_OPTION_STAGE, RUN | PLAN, AT(dump), NULL,
     "prints the value after a stage as text, and nothing else; with --until the run goes on"},
    {"until", 0, "STAGE", MPT_OPTION_STAGE, RUN, AT(until), NULL,
     "stops after a stage: load compiles nothing, freeze to plan train nothing, run takes one "
     "step"},
    {"columnwise", 0, NULL, MPT_OPTION_FLAG, QUANTIZE, AT(columnwise), NULL,
     "quantizes the transpose of each tensor"},
    {"step", 0, "N", MPT_OPTION_STEP, QUANTIZE, AT(step), NULL,
     "the step that keys the random bits; default 0"},
    {"formats", 0, "LIST", MPT_OPTION_TEXT, PROBE, AT(formats), NULL,
     "quantizers separated by commas; default: nvfp4,mxfp4,mxfp6,mxfp8,e4m3"},
    {"quantizers", 0, NULL, MPT_OPTION_FLAG, BENCH, AT(quantizers), NULL,
     "measures the quantizers"},
    {"steps", 0, "N", MPT_OPTION_COUNT, BENCH, AT(steps), NULL,
     "that are timed, after two of warm-up; default 5"},
    {"rows", 0, "N", MPT_OPTION_EXTENT, BENCH, AT(rows), NULL,
     "of the matrix of --quantizers; default 4096"},
    {"cols", 0, "N", MPT_OPTION_EXTENT, BENCH, AT(cols), NULL,
     "of the matrix of --quantizers; default 4096"},
    {"format", 0, "NAME", MPT_OPTION_CHOICE, TOKENS, AT(format), mpt_token_outputs,
     "of OUT: llmc (default), nanogpt, llmc32 or megatron"},
    {"vocab", 0, "N", MPT_OPTION_WORDS, TOKENS, AT(vocab), NULL,
     "words of the tokenizer: an id that is not below it is an error"},
    {"from", 0, "NAME", MPT_OPTION_CHOICE, TOKENS, AT(from), mpt_token_inputs,
     "what an IN without a header is: text or nanogpt; default: nanogpt where it has a byte 0 "
     "and an even size"},
    {"prompt", 0, "TEXT", MPT_OPTION_ANY, SAMPLE, AT(prompt), NULL,
     "what the text begins with; default: nothing, it begins behind a newline"},
    {"temperature", 0, "T", MPT_OPTION_REAL, SAMPLE, AT(temperature), NULL,
     "divides the logits: below 1 the probable becomes more so; 0 takes the most probable "
     "byte. "
     "Default 1"},
    {"top-k", 0, "K", MPT_OPTION_EXTENT, SAMPLE, AT(top_k), NULL,
     "draws among the K most probable bytes only; default: all"},
    {"allow-recipe-change", 0, NULL, MPT_OPTION_FLAG, RESUME, AT(allow_recipe_change), NULL,
     "goes on though the recipe is no longer that of the checkpoint; what changed is said"},
    {"seeds", 0, "N", MPT_OPTION_COUNT, TRAINS, AT(seeds), NULL,
     "trains with so many seeds, from that of the recipe on, and takes the mean and the noise "
     "band of them; default 1"},
    {"within", 0, "BOUND", MPT_OPTION_SHARE, COMPARE, AT(within), NULL,
     "of the loss of BASE: 1% or 0.01. Exit status 3 where another recipe's is further above "
     "it"},
    {"each-layer", 0, NULL, MPT_OPTION_FLAG, SWEEP, AT(each_layer), NULL,
     "lifts one linear layer at a time"},
    {"each-gemm", 0, NULL, MPT_OPTION_FLAG, SWEEP, AT(each_gemm), NULL,
     "lifts fprop, dgrad or wgrad of all layers"},
    {"each-operand", 0, NULL, MPT_OPTION_FLAG, SWEEP, AT(each_operand), NULL,
     "lifts one operand slot of all layers: fprop.x, fprop.w, ..."},
    {"list-ops", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(list_ops), NULL,
     "the ops of this build and the kernels of each"},
    {"list-formats", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(list_formats), NULL,
     "the number formats of this build"},
    {"list-devices", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(list_devices), NULL,
     "the devices of this machine, or what is missing for one"},
    {"list-types", 0, NULL, MPT_OPTION_FLAG, ALONE, AT(list_types), NULL,
     "the words of recipes as annotations for editors, as lua/types/mpt.lua has them"},
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
    for (int i = 0, n = 0; i < mpt_n_option_rows; i++) {
        if (!all && !(mpt_option_rows[i].commands & (1u << command)))
            continue;
        fputs(n++ == 0 ? "\noptions:\n" : "", out);
        print_option(out, &mpt_option_rows[i]);
    }
    if (all || command == MPT_COMMAND_RUN || command == MPT_COMMAND_PLAN) {
        fprintf(out, "\nstages for --dump and --until:\n ");
        for (int i = 0; mpt_stage_name(i); i++)
            fprintf(out, " %s", mpt_stage_name(i));
        fprintf(out, "\n");
    }
    fprintf(out, "\nexamples:\n");
    for (int i = 0; i < MPT_COMMAND_COUNT; i++)
        if (all || i == (int)command)
            fputs(mpt_command_rows[i].examples, out);
    fputs("\nexit status:\n"
          "  0  done, or training ended after a step because a signal asked (stderr says so)\n"
          "  1  the recipe, a quantizer, the data, a checkpoint or an output is wrong\n"
          "  2  the command line is wrong, or --out names a folder that is not empty\n"
          "  3  training stopped itself\n"
          "  4  the machine failed: disk, memory or device\n"
          "  129, 130, 143  ended by SIGHUP, SIGINT or SIGTERM: a second one, or one outside "
          "training\n",
          out);
}
