/* The rows of training and of data. Defaults are Megatron-LM's where it has the same word. */
#include "recipe/schema_rows.h"

/* ---- optimizers ---- */

#define WEIGHT_DECAY_ROW(fallback)                                                             \
    {                                                                                          \
        "weight_decay", MPT_FIELD_NUMBER, MEMBER(mpt_optimizer, weight_decay), 0, 1e6,         \
            .by_default = fallback, .doc = "Decoupled: weights shrink by lr times this.",      \
            .source = "arXiv 1711.05101"                                                       \
    }

static const mpt_field adamw_fields[] = {
    {"betas", MPT_FIELD_PAIR, .offset = offsetof(mpt_optimizer, beta1),
     .bytes = 2 * sizeof(double), .min = 0, .max = BELOW_ONE, .by_default = "0.9,0.95",
     .doc = "Decay of the first and of the second moment.", .source = "arXiv 2005.14165"},
    {"eps", MPT_FIELD_NUMBER, MEMBER(mpt_optimizer, eps), ABOVE_ZERO, 1e6, .by_default = "1e-8",
     .doc = "Added to the root of the second moment.", .source = "Megatron-LM"},
    WEIGHT_DECAY_ROW("0.1"),
};
_Static_assert(offsetof(mpt_optimizer, beta2) ==
                   offsetof(mpt_optimizer, beta1) + sizeof(double),
               "betas are two members side by side");
const mpt_record mpt_record_adamw = {"adamw",
                                     "Adam with decoupled weight decay.",
                                     adamw_fields,
                                     MPT_COUNT(adamw_fields),
                                     offsetof(mpt_optimizer, set),
                                     sizeof(mpt_optimizer),
                                     MPT_OPTIMIZER_ADAMW};

static const mpt_field sgd_fields[] = {
    {"momentum", MPT_FIELD_NUMBER, MEMBER(mpt_optimizer, momentum), 0, BELOW_ONE,
     .by_default = "0", .doc = "Decay of the velocity; 0 keeps none.", .source = "PyTorch"},
    WEIGHT_DECAY_ROW("0"),
};
const mpt_record mpt_record_sgd = {"sgd",
                                   "Stochastic gradient descent.",
                                   sgd_fields,
                                   MPT_COUNT(sgd_fields),
                                   offsetof(mpt_optimizer, set),
                                   sizeof(mpt_optimizer),
                                   MPT_OPTIMIZER_SGD};

static const mpt_record *const optimizers[] = {&mpt_record_adamw, &mpt_record_sgd, NULL};

/* ---- learning rate ---- */

#define PEAK_ROW                                                                               \
    {                                                                                          \
        "peak", MPT_FIELD_NUMBER, MEMBER(mpt_lr, peak), ABOVE_ZERO, 1e6,                       \
            .by_default = "required", .doc = "The learning rate after warmup.", .source = ""   \
    }
#define FINAL_ROW                                                                              \
    {                                                                                          \
        "final", MPT_FIELD_NUMBER, MEMBER(mpt_lr, final), 0, 1e6,                              \
            .by_default = "0", .doc = "The learning rate at the end of the run.",              \
            .source = "Megatron-LM"                                                            \
    }
#define WARMUP_ROW                                                                             \
    {                                                                                          \
        "warmup", MPT_FIELD_SPAN, MEMBER(mpt_lr, warmup), 0, COUNT_MAX,                        \
            .by_default = "0",                                                                 \
            .doc = "Linear from 0 to the peak: steps (tokens where the run is given in "       \
                   "tokens), or a "                                                            \
                   "fraction of the run.",                                                     \
            .source = "Megatron-LM"                                                            \
    }

static const mpt_field constant_fields[] = {PEAK_ROW, WARMUP_ROW};
static const mpt_field linear_fields[] = {PEAK_ROW, FINAL_ROW, WARMUP_ROW};
static const mpt_field cosine_fields[] = {PEAK_ROW, FINAL_ROW, WARMUP_ROW};
static const mpt_field wsd_fields[] = {
    PEAK_ROW,
    FINAL_ROW,
    WARMUP_ROW,
    {"decay", MPT_FIELD_SPAN, MEMBER(mpt_lr, decay), 0, COUNT_MAX, .by_default = "0.2",
     .doc = "The last part of the run, from peak to final: as warmup.",
     .source = "arXiv 2405.18392"},
};
const mpt_record mpt_record_constant = {"constant",
                                        "The peak, after warmup.",
                                        constant_fields,
                                        MPT_COUNT(constant_fields),
                                        offsetof(mpt_lr, set),
                                        sizeof(mpt_lr),
                                        MPT_LR_CONSTANT};
const mpt_record mpt_record_linear = {"linear",
                                      "From the peak to final in a line.",
                                      linear_fields,
                                      MPT_COUNT(linear_fields),
                                      offsetof(mpt_lr, set),
                                      sizeof(mpt_lr),
                                      MPT_LR_LINEAR};
const mpt_record mpt_record_cosine = {"cosine",
                                      "From the peak to final in half a cosine.",
                                      cosine_fields,
                                      MPT_COUNT(cosine_fields),
                                      offsetof(mpt_lr, set),
                                      sizeof(mpt_lr),
                                      MPT_LR_COSINE};
const mpt_record mpt_record_wsd = {"wsd",
                                   "Warmup, stable, decay.",
                                   wsd_fields,
                                   MPT_COUNT(wsd_fields),
                                   offsetof(mpt_lr, set),
                                   sizeof(mpt_lr),
                                   MPT_LR_WSD};

static const mpt_record *const lrs[] = {&mpt_record_constant, &mpt_record_linear,
                                        &mpt_record_cosine, &mpt_record_wsd, NULL};

/* ---- train ---- */

static const mpt_field eval_fields[] = {
    {"every", MPT_FIELD_INT, MEMBER(mpt_train, eval_every), 0, COUNT_MAX, .by_default = "0",
     .doc = "Steps between evaluations; 0 evaluates at the end only.", .source = ""},
    {"batches", MPT_FIELD_INT, MEMBER(mpt_train, eval_batches), 1, COUNT_MAX, .by_default = "8",
     .doc = "Validation windows of each; at the end all, 200 at most.", .source = ""},
    {"use", MPT_FIELD_SPECIAL, NO_MEMBER, .by_default = "none",
     .doc = "Lays a precision of its own over fprop of all linear layers while it evaluates.",
     .source = "arXiv 2509.25149", .takes = "a format, or gemm { ... }"},
};
const mpt_record mpt_record_eval = {"eval",
                                    "The loss on held-out data.",
                                    eval_fields,
                                    MPT_COUNT(eval_fields),
                                    offsetof(mpt_train, eval_set),
                                    0,
                                    -1};

static const mpt_choice decays[] = {
    {"matrices", MPT_DECAY_MATRICES, "parameters of two or more dimensions"},
    {"all", MPT_DECAY_ALL, "every parameter"},
    {NULL, 0, NULL}};

/* A word, or a table of its one field: 0, 1 and n blocks at a time. */
static const mpt_choice recomputes[] = {
    {"none", 0, "none, so all are kept"},
    {"block", 1, "those made inside a block, from what goes into it"},
    {NULL, 0, NULL}};
static const mpt_field recompute_fields[] = {
    {"every", MPT_FIELD_INT, MEMBER(mpt_recompute, every), 1, 65536, .by_default = "1",
     .doc = "Blocks at a time; what goes into the first of them is kept.",
     .source = "arXiv 1604.06174"},
};
const mpt_record mpt_record_recompute = {
    "recompute",
    "Activations of several blocks at a time are made again in the backward pass.",
    recompute_fields,
    MPT_COUNT(recompute_fields),
    offsetof(mpt_recompute, set),
    sizeof(mpt_recompute),
    -1};

static const mpt_field checkpoint_fields[] = {
    {"every", MPT_FIELD_INT, MEMBER(mpt_checkpoints, every), 0, COUNT_MAX, .by_default = "0",
     .doc = "Attempted steps between checkpoints; 0 saves at the end only.", .source = ""},
    {"keep", MPT_FIELD_INT, MEMBER(mpt_checkpoints, keep), 0, COUNT_MAX, .by_default = "2",
     .doc = "The newest so many stay, older ones are removed; 0 keeps all.", .source = ""},
};
const mpt_record mpt_record_checkpoint = {"checkpoint",
                                          "When the state of a run is saved.",
                                          checkpoint_fields,
                                          MPT_COUNT(checkpoint_fields),
                                          offsetof(mpt_checkpoints, set),
                                          sizeof(mpt_checkpoints),
                                          -1};

static const mpt_choice spike_actions[] = {
    {"off", MPT_SPIKE_OFF, "nothing is looked for"},
    {"warn", MPT_SPIKE_WARN, "an event and a warning"},
    {"skip", MPT_SPIKE_SKIP, "the step changes no weight"},
    {"rollback", MPT_SPIKE_ROLLBACK,
     "the state goes back to the last good checkpoint, and the data of the step is left out"},
    {NULL, 0, NULL}};
static const mpt_field spike_fields[] = {
    {"action", MPT_FIELD_CHOICE, MEMBER(mpt_spike, action), .choices = spike_actions,
     .by_default = "warn", .doc = "What a spike brings about.",
     .source = "PaLM, arXiv 2204.02311"},
    {"window", MPT_FIELD_INT, MEMBER(mpt_spike, window), 8, 1024, .by_default = "128",
     .doc = "Applied steps whose losses and gradient norms are compared with; at least 32 of "
            "them, or a whole window that is shorter.",
     .source = "llm.c"},
    {"z", MPT_FIELD_NUMBER, MEMBER(mpt_spike, z), ABOVE_ZERO, 1e6, .by_default = "24",
     .doc =
         "Robust z-score (distance from the median in scaled median absolute deviations) from "
         "which a value is a spike.",
     .source = "Iglewicz and Hoaglin, 1993"},
};
const mpt_record mpt_record_spike = {"spike",
                                     "A loss or gradient norm that stands out of those before.",
                                     spike_fields,
                                     MPT_COUNT(spike_fields),
                                     offsetof(mpt_spike, set),
                                     sizeof(mpt_spike),
                                     -1};

static const mpt_choice nonfinites[] = {
    {"skip", MPT_NONFINITE_SKIP, "the step changes no weight"},
    {"stop", MPT_NONFINITE_STOP, "training stops"},
    {NULL, 0, NULL}};
static const mpt_field watch_fields[] = {
    {"nonfinite", MPT_FIELD_CHOICE, MEMBER(mpt_watch, nonfinite), .choices = nonfinites,
     .by_default = "skip",
     .doc = "What a gradient with NaN or Inf brings about, where no lower loss scale may cure "
            "it.",
     .source = "PyTorch GradScaler"},
    {"max_skips", MPT_FIELD_INT, MEMBER(mpt_watch, max_skips), 1, COUNT_MAX, .by_default = "20",
     .doc = "Skipped steps in a row that end a run, those not counted that a lower loss scale "
            "may cure.",
     .source = ""},
    {"spike", MPT_FIELD_RECORD, MEMBER(mpt_watch, spike), .record = &mpt_record_spike,
     .always = true, .by_default = "warn at z = 24",
     .doc = "A loss or gradient norm that stands out.", .source = ""},
};
const mpt_record mpt_record_watch = {"watch",
                                     "What training does when something goes wrong.",
                                     watch_fields,
                                     MPT_COUNT(watch_fields),
                                     offsetof(mpt_watch, set),
                                     sizeof(mpt_watch),
                                     -1};

static const mpt_field telemetry_fields[] = {
    {"every", MPT_FIELD_INT, MEMBER(mpt_telemetry, every), 0, COUNT_MAX, .by_default = "0",
     .doc =
         "Attempted steps between two counts of what every operand lost; 0 takes a hundredth "
         "of the run and at least 10: every 10th step up to 1,000 steps, then 100 times.",
     .source = ""},
};
const mpt_record mpt_record_telemetry = {"telemetry",
                                         "How often every operand is measured.",
                                         telemetry_fields,
                                         MPT_COUNT(telemetry_fields),
                                         offsetof(mpt_telemetry, set),
                                         sizeof(mpt_telemetry),
                                         -1};

/* `proxy` is last, because the record of that name has all the others. */
static const mpt_field train_fields[] = {
    {"steps", MPT_FIELD_INT, MEMBER(mpt_train, steps), 1, COUNT_MAX,
     .by_default = "this or tokens", .doc = "Optimizer steps.", .source = ""},
    {"tokens", MPT_FIELD_NUMBER, MEMBER(mpt_train, tokens), 1, 1e18,
     .by_default = "this or steps", .doc = "Tokens, rounded up to steps.", .source = ""},
    {"epochs", MPT_FIELD_INT, MEMBER(mpt_train, epochs), 1, 1e9, .late = true,
     .by_default = "this or steps",
     .doc = "Times that training goes through its data, which needs an order with an end: "
            "`shuffle`, `sequential` or batches. Rounded up to steps.",
     .source = ""},
    {"batch", MPT_FIELD_INT, MEMBER(mpt_train, batch), 1, 1 << 24, .by_default = "required",
     .doc = "Sequences an optimizer step.", .source = ""},
    {"micro_batch", MPT_FIELD_INT, MEMBER(mpt_train, micro_batch), 1, 1 << 24,
     .by_default =
         "batch for the proxy, and for a model below 100 M parameters without one; else 1",
     .doc = "Sequences computed at once; batch is a multiple of it.", .source = ""},
    {"sequence", MPT_FIELD_INT, MEMBER(mpt_train, sequence), 1, 1 << 24,
     .by_default = "required", .doc = "Tokens a sequence.", .source = ""},
    {"optimizer", MPT_FIELD_RECORD, MEMBER(mpt_train, optimizer), .variants = optimizers,
     .by_default = "adamw", .doc = "How gradients move the weights.", .source = ""},
    {"decay", MPT_FIELD_CHOICE, MEMBER(mpt_train, decay), .choices = decays,
     .by_default = "matrices", .doc = "What weight decay applies to.", .source = "Megatron-LM"},
    {"lr", MPT_FIELD_RECORD, MEMBER(mpt_train, lr), .variants = lrs, .by_default = "required",
     .doc = "The learning rate over the run.", .source = ""},
    {"clip", MPT_FIELD_NUMBER, MEMBER(mpt_train, clip), 0, 1e6, .by_default = "1",
     .doc = "Largest norm of all gradients together; 0 does not clip.",
     .source = "Megatron-LM"},
    {"recompute", MPT_FIELD_RECORD, MEMBER(mpt_train, recompute), .choices = recomputes,
     .record = &mpt_record_recompute, .by_default = "none",
     .doc = "Activations that the backward pass makes again, bit for bit, instead of keeping "
            "them.",
     .source = "arXiv 1604.06174"},
    {"seed", MPT_FIELD_INT, MEMBER(mpt_train, seed), 0, COUNT_MAX, .by_default = "1234",
     .doc = "Of initial weights, order of data and stochastic rounding.",
     .source = "Megatron-LM"},
    {"eval", MPT_FIELD_RECORD, .offset = 0, .bytes = 0, .record = &mpt_record_eval,
     .by_default = "at the end", .doc = "When the validation loss is taken.", .source = ""},
    {"checkpoint", MPT_FIELD_RECORD, MEMBER(mpt_train, checkpoint),
     .record = &mpt_record_checkpoint, .always = true, .by_default = "at the end",
     .doc = "When the state of the run is saved.", .source = ""},
    {"watch", MPT_FIELD_RECORD, MEMBER(mpt_train, watch), .record = &mpt_record_watch,
     .always = true, .by_default = "skips, and 20 in a row stop",
     .doc = "What happens when something goes wrong.", .source = ""},
    {"telemetry", MPT_FIELD_RECORD, MEMBER(mpt_train, telemetry),
     .record = &mpt_record_telemetry, .always = true,
     .by_default = "every 10th step, or 100 times a run",
     .doc = "How often every operand is measured.", .source = ""},
    {"proxy", MPT_FIELD_SPECIAL, NO_MEMBER, .by_default = "none",
     .doc = "Any of these fields again, for when the proxy is trained.", .source = "",
     .takes = "a table of the fields of train"},
};
const mpt_record mpt_record_train = {"train",
                                     "Length, batch, optimizer and learning rate.",
                                     train_fields,
                                     MPT_COUNT(train_fields),
                                     offsetof(mpt_train, set),
                                     sizeof(mpt_train),
                                     -1};
const mpt_record mpt_record_proxy = {"proxy",
                                     "Training settings that differ when the proxy is trained.",
                                     train_fields,
                                     MPT_COUNT(train_fields) - 1,
                                     offsetof(mpt_train, set),
                                     sizeof(mpt_train),
                                     -1};
