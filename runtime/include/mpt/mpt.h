/* All a host needs: from a recipe to a training step.
 *
 *   ctx -> recipe -> program -> trainer
 *
 * Ownership: _create, _load and _compile give an object that the matching _destroy frees;
 * accessors lend until the object they were asked of is destroyed. A context outlives what was
 * made with it, a recipe its programs, a program its trainers. One thread per context.
 * Every call that can fail gives a status; the context's error then says where and why and what
 * to do. A wrong argument (NULL where no comment allows it, a number out of its range, options
 * without their size) gives MPT_INVALID and is named; _destroy takes NULL, and accessors give
 * zero, NULL or false for it. The library prints nothing, exits never, and reads no
 * environment. */
#ifndef MPT_MPT_H
#define MPT_MPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpt/status.h"
#include "mpt/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MPT_API     __attribute__((visibility("default")))
#define MPT_CHECKED __attribute__((warn_unused_result))

typedef struct mpt_ctx mpt_ctx;
typedef struct mpt_recipe mpt_recipe;
typedef struct mpt_program mpt_program;
typedef struct mpt_trainer mpt_trainer;

/* ---- context ---- */

/* Allocates (ptr NULL), resizes or frees (new_size 0) memory; told the old size. NULL refuses,
 * and the call that needed it fails with MPT_OUT_OF_MEMORY and loses nothing. */
typedef void *(*mpt_alloc_fn)(void *ud, void *ptr, size_t old_size, size_t new_size);

typedef enum mpt_log_level { MPT_LOG_INFO, MPT_LOG_WARNING } mpt_log_level;
typedef void (*mpt_log_fn)(void *ud, mpt_log_level level, const char *line);

typedef struct mpt_ctx_options {
    size_t size;        /* sizeof(mpt_ctx_options): lets old hosts meet new libraries */
    mpt_alloc_fn alloc; /* NULL: malloc and free */
    void *alloc_ud;
    mpt_log_fn log; /* NULL: quiet */
    void *log_ud;
    const char *modules; /* a folder with libmpt_cuda.so, which is opened where a compilation
                            asks for MPT_DEVICE_CUDA or AUTO; copied. It is looked for here,
                            then beside the file that this library is in */
} mpt_ctx_options;
#define MPT_CTX_OPTIONS_INIT ((mpt_ctx_options){.size = sizeof(mpt_ctx_options)})

MPT_API MPT_CHECKED mpt_status mpt_ctx_create(const mpt_ctx_options *options, mpt_ctx **out);
MPT_API void mpt_ctx_destroy(mpt_ctx *ctx);

/* The last failure. Lent until the next failing call on the same context. */
typedef struct mpt_error {
    mpt_status code;
    const char *file; /* recipe or model file, NULL where there is none */
    int line;
    const char *text;    /* field path and fault */
    const char *hint;    /* the way out, "" where there is none */
    const char *message; /* all in one line: file:line: text; hint */
    const char *c_file;  /* where in mpt it was found, for reports */
    int c_line;
} mpt_error;
MPT_API const mpt_error *mpt_ctx_error(const mpt_ctx *ctx);

/* Memory this context holds now and held at most, and how often it asked for some. */
typedef struct mpt_memory_use {
    size_t live_bytes, peak_bytes;
    uint64_t n_allocs;
} mpt_memory_use;
MPT_API mpt_memory_use mpt_ctx_memory(const mpt_ctx *ctx);

MPT_API const char *mpt_status_name(mpt_status status); /* "MPT_INVALID" */
MPT_API const char *mpt_status_text(mpt_status status);
MPT_API const char *mpt_version(void);

/* The name in `names` (n of them, NULL entries skipped) nearest to `word` by edit distance with
 * transpositions, never the word itself; NULL where none is near enough to be what was meant.
 */
MPT_API const char *mpt_nearest(const char *word, const char *const *names, int n);

/* ---- recipe ---- */

/* One `path=value` that is applied last, as --set does: {"train.steps", "300"}. */
typedef struct mpt_set {
    const char *path, *value;
} mpt_set;

typedef struct mpt_load_options {
    size_t size;
    const mpt_set *sets; /* applied after the recipe and after the proxy's overrides */
    int n_sets;
    const char *tree; /* holds models/ and recipes/ that are not near the recipe; NULL: mpt's */
} mpt_load_options;
#define MPT_LOAD_OPTIONS_INIT ((mpt_load_options){.size = sizeof(mpt_load_options)})

/* Runs a recipe file, or a recipe held in memory (`name` stands for the file in messages), in a
 * sandbox. In library mpt; mpt_core has no Lua. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_load_file(mpt_ctx *ctx, const char *path,
                                                    const mpt_load_options *options,
                                                    mpt_recipe **out);
MPT_API MPT_CHECKED mpt_status mpt_recipe_load_string(mpt_ctx *ctx, const char *name,
                                                      const char *text, size_t length,
                                                      const mpt_load_options *options,
                                                      mpt_recipe **out);
MPT_API void mpt_recipe_destroy(mpt_recipe *recipe);
MPT_API const char *mpt_recipe_name(const mpt_recipe *recipe);
/* The recipe's text as it was run; NULL for one that a host filled by calls. */
MPT_API const char *mpt_recipe_source(const mpt_recipe *recipe);
/* What else the recipe was made of, by index: modules it required, a config.json it read. A
 * copy of its text and of these files, by their names in one folder, is the recipe anywhere.
 * False past the end. */
typedef struct mpt_recipe_file {
    const char *name; /* "models/gpt2.lua" */
    const char *text;
    size_t length;
} mpt_recipe_file;
MPT_API bool mpt_recipe_get_file(const mpt_recipe *recipe, int index, mpt_recipe_file *out);

/* A recipe without Lua: create, set, add rules, name the model, then mpt_compile. The result is
 * the same as that of a .lua file which says the same. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_create(mpt_ctx *ctx, const char *name,
                                                 mpt_recipe **out);

/* Any field by its path, in the words of a recipe: ("train.lr", "wsd"), then ("train.lr.peak",
 * "3e-3"), ("precision.base", "bf16"), ("data", "text"), ("data.path", "corpus.txt"),
 * ("train.eval.use", "bf16"). Setting one of train.steps, train.tokens and train.epochs drops
 * the others. ("precision.lift", "h.0.mlp.c_fc wgrad") keeps what it names in BF16, over all
 * rules and phases.
 * ("precision", "nvfp4") takes a whole preset, in place of what was said of precision before,
 * rules of phases excepted. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_set(mpt_recipe *recipe, const char *path,
                                              const char *value);

/* A phase starts at `from`: "0.82" of the run, or step "1000"; NULL: from the start. Rules
 * name it. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_add_phase(mpt_recipe *recipe, const char *name,
                                                    const char *from);

/* Any other field of a phase, in the words of a recipe: "steps" or "tokens" instead of `from`,
 * ("by", "applied"), ("warm_histories", "true"), ("use", "nvfp4 rounding=stochastic"). */
MPT_API MPT_CHECKED mpt_status mpt_recipe_set_phase(mpt_recipe *recipe, const char *phase,
                                                    const char *path, const char *value);

/* A layer, as the function of a rule sees it. */
typedef struct mpt_layer_view {
    const char *path, *kind;           /* "layers.3.mixer.up_proj", "linear" */
    int block;                         /* from 0; -1 outside blocks */
    int64_t in_features, out_features; /* 0 where the kind has none */
} mpt_layer_view;
typedef bool (*mpt_layer_fn)(void *ud, const mpt_layer_view *layer);

/* One rule. Later rules win. All texts are copied; NULL or 0 means not given.
 *   MPT_RULE(.selector = "linear", .blocks = "first 2", .use = "bf16")
 * `words` instead of `use` speaks of single tensors, GEMMs and operands:
 *   {"weight", "nvfp4 block=16x16"}, {"wgrad", "hadamard.size=16"}, {"fprop.output", "fp32"} */
typedef struct mpt_rule_desc {
    size_t size;
    const char *file; /* where the host says it, for messages and plans */
    int line;
    const char *phase;    /* NULL: the recipe's own */
    const char *selector; /* kinds and globs on layer paths, separated by spaces */
    const char *blocks; /* "first 2", "last 8", "range 3 7", "every 4", "last_fraction 0.15" */
    const char *gemms;  /* "fprop dgrad"; NULL: all three */
    const char *use;    /* a format with its fields: "nvfp4 rounding=stochastic" */
    const mpt_set *words;
    int n_words;
    mpt_layer_fn where; /* whether it speaks of a layer, asked while compiling; NULL: of all */
    void *where_ud;     /* lent, and outlives the recipe */
} mpt_rule_desc;
#define MPT_RULE(...)                                                                          \
    (&(const mpt_rule_desc){                                                                   \
        .size = sizeof(mpt_rule_desc), .file = __FILE__, .line = __LINE__, __VA_ARGS__})
MPT_API MPT_CHECKED mpt_status mpt_recipe_add_rule(mpt_recipe *recipe,
                                                   const mpt_rule_desc *rule);

/* The model: `build` draws its forward graph through `nn` when the recipe is compiled, with the
 * sizes it knows for `size`. `ud` is lent and outlives the recipe. */
struct mpt_nn;
typedef mpt_status (*mpt_build_fn)(void *ud, struct mpt_nn *nn, bool proxy);
MPT_API MPT_CHECKED mpt_status mpt_recipe_set_model(mpt_recipe *recipe, const char *name,
                                                    const char *size, mpt_build_fn build,
                                                    void *ud);
/* The proxy, a small model that stands for it: `build` is then called with proxy = true. What
 * differs in its training is set below "train.proxy". */
MPT_API MPT_CHECKED mpt_status mpt_recipe_set_proxy(mpt_recipe *recipe, const char *name,
                                                    const char *size);
/* One more file, or glob, of a recipe whose data is "text" or "tokens": several are one corpus.
 * `weight` is how often its windows come for one of a file of weight 1. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_add_file(mpt_recipe *recipe, const char *path,
                                                   double weight);
/* Keeps a warning quiet, by its name: "all-fp4". */
MPT_API MPT_CHECKED mpt_status mpt_recipe_allow(mpt_recipe *recipe, const char *name);

/* ---- program ---- */

typedef enum mpt_device {
    MPT_DEVICE_AUTO,
    MPT_DEVICE_REF,
    MPT_DEVICE_CPU,
    MPT_DEVICE_CUDA
} mpt_device;
typedef enum mpt_model_choice {
    MPT_MODEL_AUTO,
    MPT_MODEL_FULL,
    MPT_MODEL_PROXY
} mpt_model_choice;

/* What a plan is asked about: this machine, which holds decoded float32 operands where it
 * multiplies them, or a GPU, with packed operands and what its tensor cores lack. It changes no
 * number of the program. */
typedef enum mpt_target {
    MPT_TARGET_HOST,
    MPT_TARGET_SM80,
    MPT_TARGET_SM90,
    MPT_TARGET_SM100
} mpt_target;

/* What a device of this machine is. Asking for CUDA opens its module. */
typedef struct mpt_device_info {
    bool there;            /* a program can compute on it */
    char why[512];         /* what is missing where it is not, half a sentence */
    char name[128];        /* of a GPU: "NVIDIA H200" */
    int major, minor;      /* of a GPU: its compute capability */
    mpt_target target;     /* HOST, or the kind of GPU */
    uint64_t memory_bytes; /* that programs may use; 0: unknown */
} mpt_device_info;
MPT_API MPT_CHECKED mpt_status mpt_device_find(mpt_ctx *ctx, mpt_device device,
                                               mpt_device_info *out);

typedef struct mpt_compile_options {
    size_t size;
    mpt_model_choice model; /* AUTO: the full model where it fits and ends within a day */
    mpt_device device; /* AUTO: the GPU where there is one that mpt can use, else the CPU. CUDA:
                          MPT_NO_DEVICE where there is none, and the error says what is missing
                        */
    int n_threads;     /* 0: all cores; 4096 at most */
    const char *data;  /* a file, or a glob, that replaces the recipe's data; or NULL */
    mpt_target target;
    bool own_tokens; /* the host gives all tokens, so that the model may know fewer words than
                        the recipe's data has */
} mpt_compile_options;
#define MPT_COMPILE_OPTIONS_INIT ((mpt_compile_options){.size = sizeof(mpt_compile_options)})

/* Compiles every phase; allocates no tensor. */
MPT_API MPT_CHECKED mpt_status mpt_compile(mpt_recipe *recipe,
                                           const mpt_compile_options *options,
                                           mpt_program **out);
MPT_API void mpt_program_destroy(mpt_program *program);

typedef struct mpt_program_info {
    const char *recipe, *model, *size_name, *device;
    bool proxy;            /* this is the proxy, not the full model */
    const char *why;       /* why AUTO chose it, one sentence; "" where it did not choose */
    const char *no_device; /* why AUTO is not the GPU, half a sentence, where the module for one
                              is there: "the NVIDIA driver is not installed"; else "" */
    int64_t parameters;
    int n_blocks, n_linear_layers, n_phases;
    int64_t steps, batch, micro_batch, sequence;
    int64_t vocab;        /* words of the data */
    int64_t n_ids;        /* token ids that the model takes: at least as many */
    int64_t n_logits;     /* columns of its logits */
    uint64_t bytes_total; /* all memory classes of the largest phase */
    double floor;         /* entropy of the data per token in nats; NAN where unknown */
    double unigram;       /* entropy of its unigram distribution */
    const char *data;     /* what the data is, in words */
    uint64_t seed;
    int64_t eval_every; /* steps between evaluations; 0: only at the end */
    int64_t eval_batches;
    int64_t eval_windows; /* that a whole validation has; 0: the data is too short for one */
    double epochs;        /* that the run takes of its data; 0 where that never ends */
    const char *data_run; /* what the run takes of it, in words; NULL where it never ends */
} mpt_program_info;
MPT_API mpt_program_info mpt_program_get_info(const mpt_program *program);

/* The named warnings that hold for a program, by index; false past the end. */
typedef struct mpt_warning_view {
    const char *name; /* "sr-forward": what a recipe's `allow` silences */
    const char *file; /* NULL where no line is to blame */
    int line;
    const char *text;
} mpt_warning_view;
MPT_API bool mpt_program_warning(const mpt_program *program, int index, mpt_warning_view *out);

/* Texts about a program. STAGE: the value after the stage named `arg` (mpt_stage_name lists
 * them). Text goes to `write` in pieces; a write that gives false ends the call with MPT_IO. */
typedef enum mpt_print {
    MPT_PRINT_PLAN,
    MPT_PRINT_JSON,
    MPT_PRINT_SCHEDULE,
    MPT_PRINT_STAGE,
    MPT_PRINT_SCHEDULE_JSON
} mpt_print;
typedef bool (*mpt_write_fn)(void *ud, const char *text, size_t length);
/* `arg` names the stage of MPT_PRINT_STAGE. MPT_INVALID: there is none of that name, or it
 * shows kernels (select, run, train) and the program's target is a GPU that it was not compiled
 * for. */
MPT_API MPT_CHECKED mpt_status mpt_program_print(const mpt_program *program, mpt_print what,
                                                 const char *arg, mpt_write_fn write, void *ud);
/* Why layers compute as they do: for each operand slot the value of every field, the file and
 * line that decided it, and the rule. `layer` is a path, a glob on paths, a kind ("norm"), or a
 * part of a fused layer; also as a checkpoint has it ("model.layers.3.mlp.up_proj.weight").
 * MPT_INVALID: the model has no such layer, or the recipe no such phase. */
typedef struct mpt_explain_options {
    size_t size;
    const char *phase; /* NULL: all, with what changes in the later ones */
    bool json;
    bool color; /* escape sequences of a terminal: what no rule says is dim. Not in JSON */
} mpt_explain_options;
#define MPT_EXPLAIN_OPTIONS_INIT ((mpt_explain_options){.size = sizeof(mpt_explain_options)})
MPT_API MPT_CHECKED mpt_status mpt_program_explain(const mpt_program *program,
                                                   const char *layer,
                                                   const mpt_explain_options *options,
                                                   mpt_write_fn write, void *ud);

/* What differs between two compiled recipes: model, precision by layers, training. The programs
 * may belong to two contexts; a failure is told by that of `a`. */
typedef struct mpt_diff_options {
    size_t size;
    bool json;
    bool color;
} mpt_diff_options;
#define MPT_DIFF_OPTIONS_INIT ((mpt_diff_options){.size = sizeof(mpt_diff_options)})
MPT_API MPT_CHECKED mpt_status mpt_program_diff(const mpt_program *a, const mpt_program *b,
                                                const mpt_diff_options *options,
                                                mpt_write_fn write, void *ud);

/* Names of the ten stages in order; NULL past the end. */
MPT_API const char *mpt_stage_name(int index);

/* What this build has, one a line: ops with their kernels, number formats with their fields;
 * and the devices of this machine, or what the GPU lacks. */
typedef enum mpt_listing { MPT_LIST_OPS, MPT_LIST_FORMATS, MPT_LIST_DEVICES } mpt_listing;
MPT_API MPT_CHECKED mpt_status mpt_list(mpt_ctx *ctx, mpt_listing what, mpt_write_fn write,
                                        void *ud);
/* The reference of the recipe language as Markdown: all of it (`word` NULL), or what concerns
 * one word of it: "rounding", "train.lr", "nvfp4". MPT_INVALID: no such word. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_reference(mpt_ctx *ctx, const char *word,
                                                    mpt_write_fn write, void *ud);
/* The language as annotations that editors with the Lua language server read: the file
 * lua/types/mpt.lua. In library mpt. */
MPT_API MPT_CHECKED mpt_status mpt_recipe_annotations(mpt_ctx *ctx, mpt_write_fn write,
                                                      void *ud);

/* ---- training ---- */

typedef struct mpt_trainer_options {
    size_t size;
    mpt_write_fn metrics; /* metrics.jsonl, a whole line a call; NULL: none */
    void *metrics_ud;
    /* Faults for a drill, each in one element at one attempted step, counted from 0:
     * "grad:wte.weight=inf@3", "act:h.0.attn=nan@5", "weight:wpe.weight=1e30@7". A gradient
     * gets it behind the micro-batches, an activation in the first of them, a weight for the
     * length of the step. Copied. */
    const char *const *inject;
    int n_inject;
    const char *checkpoints; /* the folder that checkpoints go to and a rollback reads them
                                from; NULL: there are none. Copied */
    mpt_write_fn telemetry;  /* telemetry.jsonl, a whole line a call: at every n-th step
                                (train.telemetry) what mpt_trainer_operand tells; NULL: none */
    void *telemetry_ud;
} mpt_trainer_options;
#define MPT_TRAINER_OPTIONS_INIT ((mpt_trainer_options){.size = sizeof(mpt_trainer_options)})

/* Allocates the run's memory and initial weights. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_create(const mpt_program *program,
                                                  const mpt_trainer_options *options,
                                                  mpt_trainer **out);
MPT_API void mpt_trainer_destroy(mpt_trainer *trainer);

typedef struct mpt_step_result {
    int64_t step;                     /* this attempted step, from 0 */
    double tokens;                    /* seen so far, this step's included */
    double loss;                      /* mean over the step's targets; nats */
    double lr, grad_norm, loss_scale; /* norm: unscaled, before the clip */
    bool skipped;           /* no weight has changed: gradients were not finite, or it was left
                               out for a spike, or there was no target in the whole step (loss
                               is NaN then) */
    bool spike;             /* loss or norm stood out of those of the steps before */
    const char *bad_tensor; /* the first bad gradient; NULL: all were finite */
    const char *phase;
    /* Of the bad gradient, as it was summed up, loss scale included: the largest of its finite
     * magnitudes, and what stands beside them. */
    double bad_amax;
    bool bad_nan, bad_inf;
    int64_t empty_microbatches; /* of this step: all their targets were masked */
} mpt_step_result;

/* One optimizer step: on the recipe's data (tokens NULL), or on the caller's tokens,
 * int32 [batch, sequence + 1] with ids below n_ids and n_logits of mpt_program_info.
 * MPT_STOPPED where training gives up, by what train.watch says: after max_skips skipped steps
 * in a row, those not counted that a lower dynamic loss scale may cure; at the first of these
 * where nonfinite is "stop"; where spikes led back to one checkpoint too often. `out` is filled
 * then too, and mpt/watch.h has more to say. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_step(mpt_trainer *trainer, const int32_t *tokens,
                                                mpt_step_result *out);
/* Whether all steps of the recipe are done. */
MPT_API bool mpt_trainer_done(const mpt_trainer *trainer);

/* Mean loss over validation windows, at most max_windows (0: all, 200 at most), in the recipe's
 * train.eval.use or else the current phase's forward precision; NAN where the data's last tenth
 * is shorter than a sequence. Training is not touched. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_eval(mpt_trainer *trainer, int64_t max_windows,
                                                double *out_loss);
/* Writes the metrics' last line. MPT_STOPPED where steps were taken and all of them skipped:
 * then nothing was trained. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_finish(mpt_trainer *trainer);

/* One pass on the caller's tokens, without an optimizer step: forward alone in the precision of
 * mpt_trainer_eval, with `gradients` forward and backward as a training step of the current
 * phase computes them. Weights, moments, histories and counters are left alone, so training
 * goes on with the same bits. */
typedef struct mpt_forward_options {
    size_t size;
    const int32_t *tokens; /* [micro_batch, sequence], from 0 to mpt_program_info.n_ids - 1 */
    const int32_t
        *targets;   /* the same shape, from 0 to n_logits - 1; -1 is masked. NULL: none */
    bool gradients; /* of the mean loss: then mpt_trainer_gradient gives them */
} mpt_forward_options;
#define MPT_FORWARD_OPTIONS_INIT ((mpt_forward_options){.size = sizeof(mpt_forward_options)})

/* `logits` is NULL or takes [micro_batch * sequence, n_logits]; `out_loss` is NULL or takes the
 * mean over the targets in nats, NAN where there is none. Allocates nothing. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_forward(mpt_trainer *trainer,
                                                   const mpt_forward_options *options,
                                                   float *logits, double *out_loss);

/* Parameters by index, in the order of the model; data is float32, lent. NULL past the end. */
typedef struct mpt_param_view {
    const char *name;
    int rank;
    int64_t dims[4];
    const float *data;
} mpt_param_view;
MPT_API bool mpt_trainer_param(const mpt_trainer *trainer, int index, mpt_param_view *out);
/* The gradient of a parameter, of the loss itself: what the loss scale did is taken back. False
 * also where the last call of this trainer was no mpt_trainer_forward with gradients. */
MPT_API bool mpt_trainer_gradient(const mpt_trainer *trainer, int index, mpt_param_view *out);

/* Weights from a checkpoint instead of those there are: a safetensors file, the index of its
 * shards, a folder with one of the two, or a GPT-2 checkpoint of llm.c; names are Hugging
 * Face's, with or without the model's root. MPT_DATA names the tensors that are missing,
 * unknown, misshapen or not finite, and then nothing has changed. Moments and delayed scales
 * start anew. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_load_weights(mpt_trainer *trainer, const char *path);

/* Writes the weights: to one file where the path ends in .safetensors, as a GPT-2 checkpoint of
 * llm.c where it ends in .bin, else into a folder, which is made: model.safetensors, or shards
 * with their index where that would be larger than shard_bytes. Names have the root that was
 * read, or the model's own; each file is there whole or not at all. MPT_DATA names what is too
 * large for the type. */
typedef enum mpt_weight_type {
    MPT_WEIGHT_FP32,
    MPT_WEIGHT_BF16,
    MPT_WEIGHT_FP16,
    MPT_WEIGHT_TYPE_COUNT
} mpt_weight_type;
typedef struct mpt_save_options {
    size_t size;
    mpt_weight_type type;
    uint64_t shard_bytes; /* of a file in a folder; 0: 5 GB */
} mpt_save_options;
#define MPT_SAVE_OPTIONS_INIT ((mpt_save_options){.size = sizeof(mpt_save_options)})
MPT_API MPT_CHECKED mpt_status mpt_trainer_save_weights(const mpt_trainer *trainer,
                                                        const char *path,
                                                        const mpt_save_options *options);
/* From one file of weights to another, in memory for the weights alone; `from` NULL: the
 * initial ones. A program for it is compiled as for training, since the model says what the
 * names are. MPT_INVALID where `to` is, or lies among, the weights that `from` names. */
MPT_API MPT_CHECKED mpt_status mpt_program_export_weights(const mpt_program *program,
                                                          const char *from, const char *to,
                                                          const mpt_save_options *options);

/* What operands with delayed scaling carry from step to step, by index: those of all phases.
 * With the parameters and moments it is the state of a run. */
typedef struct mpt_scale_view {
    const char *name; /* "layers.3.mixer.up_proj.fprop.x": the layer and slot that own it */
    float scale;      /* what values are multiplied by; 0: none yet, scaling is current */
    int64_t n_history;
    const float *amax_history; /* entry 0 gathers the step's amax; lent */
} mpt_scale_view;
MPT_API bool mpt_trainer_scale(const mpt_trainer *trainer, int index, mpt_scale_view *out);

/* What quantizing did to each operand, counted at the step after this call only, since it costs
 * time: over its micro-batches, the weights' once. By index; false past the end and before the
 * first such step. */
typedef struct mpt_operand_view {
    const char *name; /* as in mpt_scale_view */
    uint64_t elements;
    uint64_t overflow;  /* finite values that were cut to the format's largest */
    uint64_t underflow; /* values other than 0 that became 0 */
    uint64_t zeros;
    uint64_t nonfinite; /* NaN and Inf among the values */
    uint64_t capped;    /* scales that would have been Inf */
    double amax;        /* the largest finite magnitude */
    double sqnr;        /* signal to quantization noise in dB; INFINITY where nothing is lost */
    double scale; /* that the whole tensor was multiplied by, in the last micro-batch; 0 where
                     only its blocks or rows have one */
    const char *format; /* as recipes call it: "nvfp4" */
    int64_t step;       /* the attempted step that was counted */
} mpt_operand_view;
MPT_API void mpt_trainer_count_next(mpt_trainer *trainer);
MPT_API bool mpt_trainer_operand(const mpt_trainer *trainer, int index, mpt_operand_view *out);

/* GEMMs of linear layers that ran in the training steps so far, as the executor counted them,
 * by product and by the formats of the operands that they read; those of all phases. By index;
 * false past the end. */
typedef struct mpt_gemm_view {
    const char *gemm;  /* "fprop", "dgrad" or "wgrad" */
    const char *a, *b; /* its operands, as recipes call their formats: "nvfp4", "bf16" */
    bool quantized;    /* one of them came out of a quantizer */
    uint64_t runs;
} mpt_gemm_view;
MPT_API bool mpt_trainer_gemm(const mpt_trainer *trainer, int index, mpt_gemm_view *out);

#ifdef __cplusplus
}
#endif

#endif
