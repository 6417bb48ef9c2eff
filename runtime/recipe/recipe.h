/* The recipe IR: a recipe as plain C structs, with no trace of the language it was written in.
 *
 * Filled by lua/bind from a .lua file, or by a host through the setters; read by resolve.c
 * (rules to layers), check.c (warnings), print.c (canonical text, hash) and the trainer. Every
 * settable field is one row of schema.c, from which setter, check, suggestion and reference
 * come. Owner: the recipe's arena; one thread. */
#ifndef MPT_RECIPE_RECIPE_H
#define MPT_RECIPE_RECIPE_H

#include "recipe/layer.h"
#include "recipe/ops.h"

/* ---- rules ---- */

/* Which blocks a rule speaks of. */
typedef enum mpt_blocks_kind {
    MPT_BLOCKS_ALL,
    MPT_BLOCKS_FIRST,         /* first(n)     : n */
    MPT_BLOCKS_LAST,          /* last(n)      : n */
    MPT_BLOCKS_RANGE,         /* range(a, b)  : a to b, both included, 0-based */
    MPT_BLOCKS_EVERY,         /* every(k)     : block indices divisible by k */
    MPT_BLOCKS_LAST_FRACTION, /* last_fraction(f): the last ceil(f * blocks) */
    MPT_BLOCKS_ONLY           /* only{...}    : these */
} mpt_blocks_kind;

typedef struct mpt_blocks {
    mpt_blocks_kind kind;
    int32_t a, b;
    double fraction;
    int n_only;
    const int32_t *only;
} mpt_blocks;

enum { MPT_SLOT_FIELDS = 16 }; /* rows of the quantizer's record at most */

/* What a rule says of one slot: a whole quantizer (has_format), or single fields of it. `set`
 * has one bit a row of the quantizer's schema record, so that fields merge one by one. The
 * places go with the values: they decide nothing, and explain what was decided. */
typedef struct mpt_slot_use {
    bool has_format;
    uint64_t set;
    mpt_quantizer q;
    mpt_where where;                 /* of the format */
    mpt_where said[MPT_SLOT_FIELDS]; /* of each field in `set` */
} mpt_slot_use;

/* The value of `use`. bare: a format alone, which replaces all six slots and clears the
 * GEMM-level fields; for kinds other than linear and head its format is the compute format. */
typedef struct mpt_use {
    bool bare;
    mpt_slot_use slot[MPT_SLOT_COUNT];
    bool has_output[MPT_GEMM_COUNT];
    mpt_dtype output[MPT_GEMM_COUNT];
    mpt_where output_where[MPT_GEMM_COUNT];
    bool has_accumulate[MPT_GEMM_COUNT], has_promote[MPT_GEMM_COUNT];
    mpt_dtype accumulate[MPT_GEMM_COUNT];
    int32_t promote[MPT_GEMM_COUNT];
} mpt_use;

typedef struct mpt_rule {
    mpt_where where;
    int n_selectors;
    const char *const *selectors; /* kinds ("linear") or globs on the layer path */
    mpt_blocks blocks;
    uint32_t gemms; /* bit per mpt_gemm; 0 means all three */
    int predicate;  /* -1, or the number to hand to mpt_source.where */
    mpt_use use;
    uint32_t lift; /* bit per mpt_slot that it takes to BF16; 0: a rule, and no lift */
    bool decides;  /* after resolving: it decided a field of some layer */
} mpt_rule;

/* Which steps a phase's start counts: all of them, or those that changed the weights. */
typedef enum mpt_phase_by { MPT_BY_ATTEMPTED, MPT_BY_APPLIED } mpt_phase_by;

typedef struct mpt_phase {
    const char *name;
    mpt_where where;
    uint64_t set;          /* one bit a schema row */
    double from;           /* where it starts ... */
    bool from_is_fraction; /* ... as a fraction of the run, else a step */
    int64_t steps;         /* or so, where that was said ... */
    double tokens;         /* ... or so */
    mpt_phase_by by;
    bool warm_histories; /* the phase before records amaxes for this one's delayed scales */
    bool has_use;        /* rules[0] is what `use` says, over all linear layers */
    int n_rules, cap_rules;
    mpt_rule *rules; /* added after the recipe's own */
} mpt_phase;

/* ---- training ---- */

/* A length of training: steps (tokens where the run is given in tokens), or a fraction of it.
 */
typedef struct mpt_span {
    double value;
    bool fraction;
} mpt_span;

typedef enum mpt_lr_kind {
    MPT_LR_CONSTANT,
    MPT_LR_LINEAR,
    MPT_LR_COSINE,
    MPT_LR_WSD
} mpt_lr_kind;
typedef struct mpt_lr {
    mpt_lr_kind kind;
    double peak, final;
    mpt_span warmup; /* linear from 0 */
    mpt_span decay;  /* wsd: length of the last part, from peak to final */
    uint64_t set;    /* bit i: field i of its record was said */
} mpt_lr;

typedef enum mpt_optimizer_kind { MPT_OPTIMIZER_ADAMW, MPT_OPTIMIZER_SGD } mpt_optimizer_kind;
typedef struct mpt_optimizer {
    mpt_optimizer_kind kind;
    double beta1, beta2, eps, weight_decay, momentum;
    uint64_t set; /* bit i: field i of its record was said */
} mpt_optimizer;

typedef enum mpt_decay { MPT_DECAY_MATRICES, MPT_DECAY_ALL } mpt_decay;

/* Which activations the backward pass makes again instead of keeping them. */
typedef struct mpt_recompute {
    int32_t every; /* blocks at a time; 0: none, all are kept; 1 is called "block" */
    uint64_t set;  /* bit i: field i of its record was said */
} mpt_recompute;

/* When the state of a run is saved, and how many of these checkpoints stay. */
typedef struct mpt_checkpoints {
    int64_t every; /* attempted steps; 0: at the end only */
    int64_t keep;  /* the newest so many; 0: all */
    uint64_t set;  /* bit i: field i of its record was said */
} mpt_checkpoints;

/* What training does about a loss or a gradient norm that stands out. */
typedef enum mpt_spike_action {
    MPT_SPIKE_OFF,
    MPT_SPIKE_WARN,
    MPT_SPIKE_SKIP,
    MPT_SPIKE_ROLLBACK
} mpt_spike_action;
typedef struct mpt_spike {
    mpt_spike_action action;
    int64_t window; /* applied steps that the median and its deviation are taken over */
    double z;       /* robust z-score from which a value stands out */
    uint64_t set;
} mpt_spike;

typedef enum mpt_on_nonfinite { MPT_NONFINITE_SKIP, MPT_NONFINITE_STOP } mpt_on_nonfinite;
typedef struct mpt_watch {
    mpt_on_nonfinite nonfinite;
    int64_t max_skips; /* in a row, before training stops */
    mpt_spike spike;
    uint64_t set;
} mpt_watch;

/* How often each operand is counted. */
typedef struct mpt_telemetry {
    int64_t every; /* attempted steps; 0: a hundredth of the run, at least 10 */
    uint64_t set;
} mpt_telemetry;

typedef struct mpt_train {
    uint64_t set;        /* one bit a schema row: what the recipe said, for proxy overrides */
    int64_t steps;       /* 0: given otherwise */
    double tokens;       /* 0: given otherwise */
    int64_t epochs;      /* 0: given otherwise; else steps are known once the data is */
    int64_t batch;       /* sequences an optimizer step */
    int64_t micro_batch; /* 0: the default, which mpt_recipe_train tells */
    int64_t sequence;
    mpt_optimizer optimizer;
    mpt_decay decay;
    mpt_lr lr;
    double clip; /* 0: none */
    mpt_recompute recompute;
    uint64_t seed;
    int64_t eval_every; /* 0: only at the end */
    int64_t eval_batches;
    mpt_rule *eval_use; /* what evaluation lays over all other rules; NULL: nothing */
    uint64_t eval_set;  /* bit i: field i of the record eval was said */
    mpt_checkpoints checkpoint;
    mpt_watch watch;
    mpt_telemetry telemetry;
} mpt_train;

/* ---- the loss scale ---- */

typedef enum mpt_loss_scale_kind {
    MPT_LOSS_SCALE_NONE,
    MPT_LOSS_SCALE_STATIC,
    MPT_LOSS_SCALE_DYNAMIC
} mpt_loss_scale_kind;
typedef struct mpt_loss_scale {
    mpt_loss_scale_kind kind;
    double scale; /* static */
    double init, growth, backoff, min, max;
    int64_t interval;   /* good steps in a row before it grows */
    int64_t hysteresis; /* bad steps before it falls */
    mpt_where where;    /* file NULL: of the recipe */
} mpt_loss_scale;

/* ---- data ---- */

typedef enum mpt_data_kind {
    MPT_DATA_SYNTHETIC,
    MPT_DATA_TEXT,
    MPT_DATA_TOKENS,
    MPT_DATA_BATCHES
} mpt_data_kind;

/* In which order training takes the windows of its files. */
typedef enum mpt_data_order {
    MPT_ORDER_RANDOM,    /* each starts anywhere: drawn with replacement, without epochs */
    MPT_ORDER_SHUFFLE,   /* each once an epoch, in an order of the epoch's own */
    MPT_ORDER_SEQUENTIAL /* each once an epoch, one behind the other */
} mpt_data_order;

/* What becomes of the windows that fill no batch when an epoch ends. */
typedef enum mpt_remainder {
    MPT_REMAINDER_CARRY, /* the batch is filled from the next epoch */
    MPT_REMAINDER_STEP,  /* they are a short step of their own */
    MPT_REMAINDER_DROP
} mpt_remainder;

/* A share of the data, or a path of its own. */
typedef struct mpt_part {
    double share;     /* where path is NULL */
    const char *path; /* or a glob */
} mpt_part;

/* One of several files. */
typedef struct mpt_data_file {
    const char *path; /* or a glob */
    double weight;    /* how often its windows come for one of a file of weight 1 */
    uint64_t set;     /* bit i: field i of its record was said */
    mpt_where where;
} mpt_data_file;

typedef struct mpt_data_spec {
    mpt_data_kind kind;
    const char *path; /* of a file, or a glob, as written; resolved from the working, then the
                         recipe's folder; NULL where there is a list */
    mpt_data_file *files; /* text, tokens: the list, in the recipe's arena */
    int32_t n_files, cap_files;
    mpt_data_order order;    /* text, tokens */
    mpt_remainder remainder; /* all but synthetic */
    mpt_part validation;     /* text, tokens; see mpt_data_spec_validation */
    uint64_t seed;           /* synthetic: of the language; 0 is the default language */
    int32_t vocab;           /* synthetic: words of the language */
    int64_t words;           /* tokens, batches: ids are below it; 0: not stated */
    bool words_set;      /* the vocabulary was set, and so is meant for a file given instead */
    bool validation_set; /* and so was the validation */
    uint64_t set;        /* bit i: field i of its record was said */
    mpt_where where;
} mpt_data_spec;

/* Appends a file with the defaults of its rows; NULL when out of memory (error set). It holds
 * until the next. */
mpt_data_file *mpt_data_spec_append(mpt_recipe *recipe, mpt_data_spec *data);

/* Whether a field of the spec's word was said; of synthetic, one that was set for a file that
 * takes its place (data.order). */
bool mpt_data_spec_says(const mpt_data_spec *spec, const char *name);

/* What is held back of its files: as said, else a tenth. */
mpt_part mpt_data_spec_validation(const mpt_data_spec *spec);

/* ---- the model ---- */

struct mpt_nn; /* graph/nn.h: the builder a model's graph function talks to */

/* Who draws the model's graph: Lua, or a host's C function. Called while compiling, never in a
 * step. The recipe owns `ud` and destroys it. */
typedef struct mpt_source {
    void *ud;
    /* Draws the full model or the proxy. Returns a status with the context's error set. */
    mpt_status (*build)(void *ud, struct mpt_nn *nn, bool proxy);
    /* Answers a rule's `where` predicate for one layer. */
    mpt_status (*where)(void *ud, int predicate, const mpt_layer *layer, bool *out);
    void (*destroy)(void *ud);
} mpt_source;

typedef struct mpt_model_ref {
    bool present;
    const char *name;   /* "nemotron_h" */
    const char *size;   /* "12b", or "custom" for a table */
    const char *fields; /* "model.n_layer = 2", a line each, of a table; NULL: a named size */
    mpt_where where;
} mpt_model_ref;

/* What was drawn last: each drawing of this shape must give the same graph. */
typedef struct mpt_drawn {
    int64_t batch, sequence, vocab; /* batch 0: nothing yet */
    uint64_t parameters;            /* their hash: the same for every batch */
    uint64_t hash;                  /* of the whole graph */
} mpt_drawn;

/* The `where` of a host's rule, as mpt_source.where asks for it by number. */
typedef struct mpt_host_predicate {
    mpt_layer_fn fn;
    void *ud;
} mpt_host_predicate;

/* ---- the whole ---- */

/* Warmup and decay as they were written, and for which length of run, so that setting the
 * length twice does not change them twice. */
typedef struct mpt_written_lr {
    double run; /* 0: nothing kept */
    bool in_tokens;
    mpt_span warmup, decay;
} mpt_written_lr;

/* Formats of what outlives a step, the same in all phases; FP32 unless a recipe says another.
 */
typedef struct mpt_state_formats {
    mpt_quantizer master;         /* weights, as the optimizer leaves them */
    mpt_dtype gradient;           /* summed over micro-batches */
    mpt_dtype reduce;             /* the step's gradient, as ranks send it to be added up */
    mpt_quantizer adam_m, adam_v; /* moments, as they are kept */
} mpt_state_formats;

/* The formats by index, in the order of the struct, with their words; false past the last. */
typedef struct mpt_state_format {
    const char *name;
    mpt_quantizer q;
} mpt_state_format;
bool mpt_state_format_at(const mpt_state_formats *formats, int index, mpt_state_format *out);

struct mpt_recipe {
    mpt_ctx *ctx;
    mpt_arena arena;
    const char *name, *description;
    const char *file;        /* as the host named it */
    const char *source_text; /* as run, for the run folder; NULL for a host's recipe */
    int n_files, cap_files;
    mpt_recipe_file *files; /* that it required or read */
    mpt_where where;        /* of the recipe{} call */
    mpt_model_ref model, proxy;
    mpt_source source;
    int n_predicates, cap_predicates;
    mpt_host_predicate *predicates; /* of a recipe filled by calls */
    mpt_dtype base;                 /* compute format where no rule speaks */
    bool base_set;
    mpt_where base_where, residual_where; /* file NULL: no line says it */
    mpt_dtype residual;                   /* MPT_DTYPE_COUNT: the base format */
    mpt_ops_use ops[MPT_OPS_COUNT];
    mpt_dtype activation; /* kept for backward; MPT_DTYPE_COUNT: as computed */
    mpt_where activation_where;
    bool activation_decides; /* after compiling: something is kept in another format */
    mpt_state_formats state;
    uint64_t precision_set, state_set; /* bit i: field i of that record was said */
    int n_rules, cap_rules;
    mpt_rule *rules;
    int n_lifts, cap_lifts;
    mpt_rule *lifts; /* behind the rules of all phases */
    int n_phases, cap_phases;
    mpt_phase *phases; /* n_phases >= 1 once frozen: a recipe without phases has one, "main" */
    mpt_loss_scale loss_scale;
    mpt_train train;           /* of the full model */
    mpt_train train_proxy;     /* only the fields in its `set` count; see mpt_recipe_train */
    mpt_written_lr written[2]; /* of `train` and of `train_proxy`; for set.c */
    int64_t epoch_steps[2]; /* steps of the full model's run and of the proxy's where they are
                               given in epochs, once the data is known; 0 before */
    bool small; /* since it was last compiled: it names no proxy, and its model is so small that
                   the whole batch is the default of train.micro_batch */
    mpt_data_spec data;
    int n_allow, cap_allow;
    const char **allow; /* names of warnings to keep quiet */
    bool frozen;
    mpt_drawn drawn[2]; /* by its model and by its proxy, since it was last compiled */
};

/* An empty recipe with all defaults. `file` may be NULL: a host's recipe. */
mpt_status mpt_recipe_new(mpt_ctx *ctx, const char *name, const char *file, mpt_recipe **out);

/* Appends; NULL when out of memory (error set). A new rule speaks of all blocks and all GEMMs,
 * has no predicate and an empty use. The pointer holds until the next append. `phase` -1 is the
 * recipe itself, else an index into phases. */
mpt_rule *mpt_recipe_append_rule(mpt_recipe *recipe, int phase);
mpt_phase *mpt_recipe_append_phase(mpt_recipe *recipe, const char *name);

/* The rule that a phase's `use` stands for, in front of the phase's own; and that of
 * train.eval.use, which speaks of fprop alone. Both select all linear layers and have an empty
 * use. NULL when out of memory. */
mpt_rule *mpt_recipe_insert_use(mpt_recipe *recipe, int phase, mpt_where where);
mpt_rule *mpt_recipe_make_eval_use(mpt_recipe *recipe, mpt_where where);

/* Silences a warning; an unknown name is an error. */
/* Notes a file that the recipe is made of (copied), once by its name. */
mpt_status mpt_recipe_append_file(mpt_recipe *recipe, const char *name, const char *text,
                                  size_t length);
mpt_status mpt_recipe_append_allow(mpt_recipe *recipe, const char *name, mpt_where where);

/* mpt_recipe_set with a place for messages: "train.steps" = "300", applied to the full model
 * and to the proxy alike. Also "seed", short for train.seed, and "train.proxy.steps". */
mpt_status mpt_recipe_set_at(mpt_recipe *recipe, const char *path, const char *value,
                             mpt_where where);

/* The training settings that count for the full model or for the proxy: overrides merged, steps
 * and micro_batch filled in (tokens > 0 still tells that the run was given in tokens). Steps of
 * a run in epochs are 0 until mpt_recipe_settle_epochs; the default of micro_batch is that of a
 * large model until the recipe is compiled. */
mpt_train mpt_recipe_train(const mpt_recipe *recipe, bool proxy);

/* Lengths in optimizer steps: of the run (tokens are rounded up), of a span of it, and the
 * steps, attempted or applied ones, after which a phase starts. */
int64_t mpt_train_steps(const mpt_train *train);
int64_t mpt_span_steps(const mpt_span *span, const mpt_train *train);
int64_t mpt_phase_start(const mpt_phase *phase, const mpt_train *train);

/* The word that says where a phase starts: "from", "steps" or "tokens". */
const char *mpt_phase_start_word(const mpt_phase *phase);

/* The loss scale of the first step; 1 where none is declared. */
double mpt_loss_scale_first(const mpt_loss_scale *scale);

/* Checks what can be checked without a model, fills defaults, makes the one implicit phase. */
mpt_status mpt_recipe_freeze(mpt_recipe *recipe);

/* How many steps the epochs of the full model's run are, or of the proxy's; checks what could
 * not be checked before that was known. */
mpt_status mpt_recipe_settle_epochs(mpt_recipe *recipe, bool proxy, int64_t steps);

/* The format of values where products compute in `compute`: itself, and fp32 for tf32, which is
 * a way to multiply and not one to keep what comes out. */
mpt_dtype mpt_stored_format(mpt_dtype compute);

/* Resolves the rules of one phase into one policy a layer, as a cascade: in order, later wins.
 * Errors: a rule that matches nothing (with the nearest names), first and last that overlap or
 * exceed the model, a glob that matches only a part of a fused layer, Hadamard on one operand
 * of a GEMM only or on a square-blocked weight in fprop or dgrad. `policies` has n_layers. */
mpt_status mpt_recipe_resolve(mpt_recipe *recipe, int phase, const mpt_layer *layers,
                              int n_layers, int n_blocks, mpt_policy *policies);

typedef struct mpt_warning {
    const char *name; /* "sr-forward": what `allow` silences */
    mpt_where where;
    const char *text;
} mpt_warning;

/* The named warnings of recipes.md section 3 that hold for these policies; in the arena. */
mpt_status mpt_recipe_check(mpt_recipe *recipe, mpt_arena *arena, const mpt_layer *layers,
                            int n_layers, int n_blocks, mpt_policy *const *policies,
                            mpt_warning **out_warnings, int *out_n);

/* Adds a warning to the list, unless the recipe allows it: those that are not of the recipe
 * alone, but of it on a GPU (plan/plan_work.c finds it) or with its data (train/data_corpus.c).
 */
mpt_status mpt_recipe_warn_not_native(mpt_recipe *recipe, mpt_arena *arena, mpt_where where,
                                      const char *text, mpt_warning **list, int *n);
mpt_status mpt_recipe_warn_binary_text(mpt_recipe *recipe, mpt_arena *arena, mpt_where where,
                                       const char *text, mpt_warning **list, int *n);

/* All names that `allow` takes. */
const char *const *mpt_warning_names(int *out_n);
/* One sentence on the warning of that index. */
const char *mpt_warning_doc(int index);

/* Canonical text of everything that decides numbers (not name, description, eval), and its
 * hash as 16 hex digits. Equal recipes give equal text whatever language they came from. */
void mpt_recipe_canonical(const mpt_recipe *recipe, mpt_str *out);
mpt_status mpt_recipe_hash(const mpt_recipe *recipe, char out[17]);

#endif
