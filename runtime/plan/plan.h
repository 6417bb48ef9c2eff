/* The plan: what a compiled program is, in figures, before anything runs.
 *
 * plan.c collects the facts from the phase programs: coverage and phases itself, bytes in
 * plan_bytes.c, FLOPs and what a device multiplies in plan_work.c, defaults in plan_defaults.c.
 * plan_text.c, plan_formats.c and plan_figures.c write them for a person, plan_json.c for a
 * program; schedule_json.c and lists.c are the other texts about what was compiled and what
 * this build has. Everything here reads and nothing decides. In the path it stands behind
 * stage 8; the public calls over it are in pipeline.c. */
#ifndef MPT_PLAN_PLAN_H
#define MPT_PLAN_PLAN_H

#include "pipeline.h"
#include "recipe/target.h"

/* The plan as aligned text, at most 100 columns wide. */
mpt_status mpt_plan_print(const mpt_program *program, mpt_str *out);

/* The plan as JSON, in the shape that the manual page mptrun(1) gives. */
mpt_status mpt_plan_json(const mpt_program *program, mpt_str *out);

/* The schedule of every phase as JSON: one object a step. */
mpt_status mpt_plan_schedule_json(const mpt_program *program, mpt_str *out);

/* The warning not-native, where the program has a GPU for a target and that has to emulate a
 * product of it: added to the program's warnings. The last step of compiling. */
mpt_status mpt_plan_check_target(mpt_program *program);

/* ---- the facts, shared by the writers ---- */

enum { MPT_PLAN_LABEL = 64 };

/* Linear layers that share a label: the name of the format where all six operands have one,
 * else the names of all in the order of the slots, joined by '+': "e4m3+e5m2". */
typedef struct mpt_plan_cover {
    char label[MPT_PLAN_LABEL];
    int n_layers;
    int64_t n_parameters; /* of their weights */
} mpt_plan_cover;

typedef struct mpt_plan_phase {
    const char *name;
    int64_t from, steps; /* training steps: the first one, and how many, within the run; where
                            by_applied, if no step is skipped */
    bool by_applied;
    int n_entering; /* operands scaled by their history that the phase before has none of */
    int n_warm;     /* of those, the ones whose history the phase before recorded */
    const char *hash;
    int n_covers;
    mpt_plan_cover *covers; /* most layers first */
    int n_changed;          /* linear layers that differ from the phase before */
    double bound;           /* as of the plan, of this phase alone */
} mpt_plan_phase;

/* Floating-point operations, of one token. */
typedef struct mpt_plan_flops {
    double fprop, dgrad, wgrad, attention, other;
    double recompute; /* of all nodes that do again what a forward node has done */
} mpt_plan_flops;

/* Bytes by the format of the numbers in them, most first. */
enum { MPT_PLAN_SHARES = 16 };
typedef struct mpt_plan_shares {
    int n;
    struct {
        const char *format;
        size_t bytes;
    } of[MPT_PLAN_SHARES];
} mpt_plan_shares;

/* The memory of a phase, where the program's target is. */
typedef struct mpt_plan_bytes {
    const char *phase;
    size_t of[MPT_MEMORY_CLASS_COUNT], total;
    /* What the classes hold; activations at the step at which most live, working weights in the
     * layout of their masters, and those turned round in `columns`. */
    mpt_plan_shares shares[MPT_MEMORY_CLASS_COUNT], columns;
} mpt_plan_bytes;

/* A GEMM of a layer on the program's target. */
typedef struct mpt_plan_native {
    bool there; /* the first layers' dgrad may not be */
    bool native;
    mpt_way way;
    const char *why; /* what the device lacks, else NULL */
} mpt_plan_native;

/* A field that nobody said, and what it became, both in the words of --set. */
typedef struct mpt_plan_default {
    const char *path, *value;
} mpt_plan_default;

typedef struct mpt_plan {
    const mpt_program *program;
    const mpt_graph *graph; /* of the first phase that runs */
    int64_t n_parameters;
    int64_t n_active; /* of them, those that work on one token: not all experts do */
    int n_linear;
    mpt_plan_bytes bytes;                            /* of the phase that needs most */
    int recompute;                                   /* blocks at a time: as compiled, else 1 */
    size_t activations_kept, activations_recomputed; /* of that phase, without and with it */
    mpt_plan_flops flops;
    int n_gemms;                                /* of linear layers and the head */
    int n_native[MPT_TARGET_COUNT];             /* of them, on each GPU, where fewest are */
    mpt_plan_native (*natives)[MPT_GEMM_COUNT]; /* one a layer; NULL for the host */
    /* How much faster than in BF16 the GEMMs of the run can be on tensor cores at best. */
    double bound;
    int n_phases;
    int first; /* the first phase that has a step */
    mpt_plan_phase *phases;
    int n_defaults;
    mpt_plan_default *defaults;
} mpt_plan;

/* Fills a plan; its arrays lie in `arena`. */
mpt_status mpt_plan_collect(const mpt_program *program, mpt_arena *arena, mpt_plan *out);

/* The parts of it: bytes of the phase that needs most; FLOPs, bounds and what is native; the
 * defaults. */
mpt_status mpt_plan_sum_bytes(const mpt_program *program, mpt_plan *out);
mpt_status mpt_plan_sum_work(mpt_arena *arena, mpt_plan *plan);
mpt_status mpt_plan_find_defaults(mpt_arena *arena, mpt_plan *plan);

/* A node as a product, and its two operands' quantizers; false where it is no GEMM of a layer.
 */
bool mpt_plan_product(const mpt_phase_program *phase, const mpt_node *node, mpt_gemm *out_gemm,
                      mpt_product *out);

/* "nemotron_h 12b": the model that the program is of. */
void mpt_plan_model(const mpt_program *program, char *out, size_t size);

/* The label of a layer's policy. */
void mpt_plan_label(const mpt_policy *policy, char out[MPT_PLAN_LABEL]);

/* What a recipe calls a quantizer's format. */
const char *mpt_plan_format(const mpt_quantizer *q);

/* Names of the values of a quantizer's fields; "none" where it has no scale. */
const char *mpt_plan_scale(const mpt_quantizer *q);
const char *mpt_plan_scale_format(const mpt_quantizer *q);
const char *mpt_plan_scale_rule(const mpt_quantizer *q);
const char *mpt_plan_outer(const mpt_quantizer *q);
const char *mpt_plan_rounding(const mpt_quantizer *q);
const char *mpt_plan_signs(const mpt_quantizer *q);
const char *mpt_plan_scope(const mpt_quantizer *q);
const char *mpt_plan_redraw(const mpt_quantizer *q);
const char *mpt_plan_nonfinite(const mpt_quantizer *q);
const char *mpt_plan_source(const mpt_quantizer *q);
const char *mpt_plan_pad(const mpt_quantizer *q);

/* "tensor", "row", "1x16"; "-" where there is no scale. */
void mpt_plan_block(const mpt_quantizer *q, char out[MPT_PLAN_LABEL]);

/* The text plan's sections: formats; memory, work and hardware. */
void mpt_plan_print_formats(const mpt_plan *plan, mpt_str *out);
/* The lines on the autocast table. */
void mpt_plan_print_ops(const mpt_plan *plan, mpt_str *out);
void mpt_plan_print_figures(const mpt_plan *plan, mpt_str *out);

/* Lines on sums and states that are not in FP32; none where all are. */
void mpt_plan_print_sums(const mpt_plan *plan, mpt_str *out);

#endif
