/* The plan: what a compiled program is, in figures, before anything runs.
 *
 * plan.c collects the facts from the phase programs, plan_text.c writes them for a person,
 * plan_json.c for a program; schedule_json.c and lists.c are the other texts about what was
 * compiled and what this build has. Everything here reads and nothing decides. In the path it
 * stands behind stage 8; the public calls over it are in pipeline.c. */
#ifndef MPT_PLAN_PLAN_H
#define MPT_PLAN_PLAN_H

#include "pipeline.h"

/* The plan as aligned text, at most 100 columns wide. */
void mpt_plan_print(const mpt_program *program, mpt_str *out);

/* The plan as JSON, in the shape that the manual page mptrun(1) gives. */
mpt_status mpt_plan_json(const mpt_program *program, mpt_str *out);

/* The schedule of every phase as JSON: one object a step. */
mpt_status mpt_plan_schedule_json(const mpt_program *program, mpt_str *out);

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
} mpt_plan_phase;

/* Floating-point operations, of one token. */
typedef struct mpt_plan_flops {
    double fprop, dgrad, wgrad, attention, other;
    double recompute; /* of all nodes that do again what a forward node has done */
} mpt_plan_flops;

typedef struct mpt_plan {
    const mpt_program *program;
    const mpt_graph *graph; /* of the first phase that runs */
    int64_t n_parameters;
    int n_linear;
    size_t bytes[MPT_MEMORY_CLASS_COUNT]; /* of the phase that needs most */
    size_t bytes_total;
    const char *largest;                             /* the name of that phase */
    int recompute;                                   /* blocks at a time: as compiled, else 1 */
    size_t activations_kept, activations_recomputed; /* of that phase, without and with it */
    mpt_plan_flops flops;
    int n_phases;
    int first; /* the first phase that has a step */
    mpt_plan_phase *phases;
} mpt_plan;

/* Fills a plan; its arrays lie in `arena`. */
mpt_status mpt_plan_collect(const mpt_program *program, mpt_arena *arena, mpt_plan *out);

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

/* The text plan's sections on formats. */
void mpt_plan_print_formats(const mpt_plan *plan, mpt_str *out);
/* The lines on the autocast table. */
void mpt_plan_print_ops(const mpt_plan *plan, mpt_str *out);

/* Lines on sums and states that are not in FP32; none where all are. */
void mpt_plan_print_sums(const mpt_plan *plan, mpt_str *out);

#endif
