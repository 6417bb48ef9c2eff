/* A program: one phase of a recipe as a flat list of steps over planned memory.
 *
 * select.c picks a kernel for each node, order.c makes the one flat array, memplan.c gives
 * every transient value its offset. Nothing is decided after this: exec/executor.c walks the
 * array. Owner of everything here: the program's arena and its graph. */
#ifndef MPT_SCHED_PROGRAM_H
#define MPT_SCHED_PROGRAM_H

#include "graph/graph.h"
#include "kernels/backend.h"
#include "kernels/packed.h"

/* The classes `plan` counts memory by. */
typedef enum mpt_memory_class {
    MPT_MEMORY_MASTER,
    MPT_MEMORY_GRADIENT,
    MPT_MEMORY_OPTIMIZER,
    MPT_MEMORY_WORKING_WEIGHTS,
    MPT_MEMORY_ACTIVATIONS,
    MPT_MEMORY_WORKSPACE,
    MPT_MEMORY_CLASS_COUNT
} mpt_memory_class;

const char *mpt_memory_class_name(mpt_memory_class c); /* "working_weights" */
mpt_memory_class mpt_memory_class_of(const mpt_value *value);

typedef struct mpt_step {
    int32_t node;
    const mpt_kernel *kernel;
    size_t scratch_bytes;
} mpt_step;

/* Where a value lives. Persistent state (masters, gradients, moments) has its own buffers that
 * outlive the program, so phases share them; the rest lies in this program's one arena. */
typedef struct mpt_placement {
    bool state; /* bound by the trainer, offset unused */
    size_t offset, bytes;
    int32_t first, last; /* steps of its life; a working weight lives to the end of the step */
} mpt_placement;

/* Why a better kernel was not taken for a node, for --dump=select. */
typedef struct mpt_refusal {
    int32_t node;
    const char *kernel;
    const char *why;
} mpt_refusal;

typedef struct mpt_phase_program {
    mpt_ctx *ctx;
    mpt_arena arena;
    mpt_graph *graph;     /* owned */
    const char *phase;    /* its name */
    mpt_policy *policies; /* one a layer */
    int n_steps;
    mpt_step *steps;
    int segment[MPT_PASS_COUNT + 1]; /* steps of pass p: segment[p] ... segment[p + 1] - 1 */
    mpt_placement *placement;        /* one a value */
    mpt_storage
        *storage;       /* one a value, of a program for a device's memory; NULL: the host's */
    mpt_packed *packed; /* one a value: the layout of those whose storage is PACKED */
    size_t arena_bytes; /* one block for all that is not state */
    size_t scratch_offset; /* of the common scratch, inside that block */
    size_t bytes[MPT_MEMORY_CLASS_COUNT];
    char schedule_hash[17];
    int n_threads; /* that scratch was sized for: the executor uses no more */
    uint64_t seed; /* of the run: what random signs are drawn under, for the schedule's text */
    int n_refusals, cap_refusals;
    mpt_refusal *refusals;      /* in the order of nodes */
    const mpt_backend *backend; /* whose memory it runs in; NULL is the host's */
} mpt_phase_program;

/* Stages 6 to 8 over a graph that stage 5 has finished. `tables` is a NULL-ended list, best
 * backend first. */
typedef struct mpt_schedule_options {
    const mpt_kernel *const *tables;
    int n_threads;
    mpt_target target; /* the kind of GPU that tables of one are asked about */
} mpt_schedule_options;

/* An empty program around a graph that it owns from here on, also on failure. */
mpt_status mpt_phase_program_create(mpt_graph *graph, const char *phase,
                                    mpt_phase_program **out);
void mpt_phase_program_destroy(mpt_phase_program *program);

mpt_status mpt_schedule_select(mpt_phase_program *program, const mpt_schedule_options *options);
mpt_status mpt_schedule_order(mpt_phase_program *program);
mpt_status mpt_schedule_plan_memory(mpt_phase_program *program);

/* How each value lies in the memory of the program's device, where it has one: the first part
 * of stage 8. */
mpt_status mpt_schedule_choose_storage(mpt_phase_program *program);

/* The small pure planner under it: lifetimes in, offsets out, peak returned. Best fit in a
 * sweep through time, forwards and backwards, the smaller of the two; alignment 64. */
typedef struct mpt_lifetime {
    int32_t first, last;
    size_t bytes;
    size_t offset; /* out */
} mpt_lifetime;
mpt_status mpt_memplan(mpt_ctx *ctx, mpt_lifetime *lives, int n, size_t *out_bytes);

/* Checks a program that stage 8 has finished, with work and memory of its own: every step reads
 * what an earlier one made, and no two values that live at one step share a byte. A failure is
 * MPT_INTERNAL. For tests: compiling does not call it. */
mpt_status mpt_schedule_verify(const mpt_phase_program *program);

/* schedule_hash: formats, shapes, scaling, rounding, rotation, order of the optimizer; not
 * kernels, device, threads, learning rate or data. */
void mpt_schedule_hash(const mpt_graph *graph, char out[17]);

/* The attributes that decide a node's numbers, as the hash covers them: names and values, a
 * space before each. What does not fit is cut. */
enum { MPT_ATTRS_TEXT = 4096 };
void mpt_node_attrs_text(const mpt_node *node, char *out, size_t size);

/* Where a node comes from: the rule that decided its layer's precision, else the model's line;
 * file NULL where nobody said anything. */
mpt_where mpt_schedule_where(const mpt_phase_program *program, const mpt_node *node);

/* The random signs of one copy of a quantize node as a mask, "0xd7e8", the first element in the
 * lowest bit; false where they are not random, or drawn anew at each step. */
enum { MPT_SIGNS_TEXT = 40 };
bool mpt_schedule_signs(const mpt_phase_program *program, const mpt_node *node, bool column,
                        char out[MPT_SIGNS_TEXT]);

/* One step a line: number, pass, layer, op, formats, shapes, recipe line. */
void mpt_schedule_print(const mpt_phase_program *program, mpt_str *out);
/* The kernel of each step, with the reasons against better ones. */
void mpt_schedule_print_selection(const mpt_phase_program *program, mpt_str *out);
/* Bytes by class, and the offset and life of each value in the program's block. */
void mpt_schedule_print_memory(const mpt_phase_program *program, mpt_str *out);

#endif
