/* Inside stage 5: what precision.c, precision_dtypes.c, precision_ops.c and precision_copies.c
 * share.
 *
 * The rewrite has four parts: every value gets its format (dtypes), every other operation the
 * casts that the autocast table asks for (ops), every operand of a GEMM the copy it reads
 * (copies), and the node list is written anew with the copies in it (precision.c). Nothing
 * outside runtime/graph includes this. */
#ifndef MPT_GRAPH_PRECISION_H
#define MPT_GRAPH_PRECISION_H

#include "graph/graph.h"

/* One side of a quantize node to come: the row copy or the column copy of a tensor. */
typedef struct mpt_copy_side {
    bool wanted;
    mpt_quantizer q;
    uint32_t operand; /* key of its stochastic stream */
    uint32_t scope;   /* key of its random signs */
    int32_t layer;    /* with slot: the first that asked for it, which it is named after */
    mpt_slot slot;
} mpt_copy_side;

enum { MPT_SIDE_ROW, MPT_SIDE_COLUMN };
enum { MPT_SLOT_SETS = 1 << MPT_SLOT_COUNT };

/* One cast or quantize node to come. Several GEMMs may read it. */
typedef struct mpt_copy {
    mpt_value_id value;    /* what it is made from */
    int32_t next;          /* the next copy of the same value, or -1 */
    bool is_cast;          /* to the format of side[MPT_SIDE_ROW] */
    mpt_copy_side side[2]; /* row, column */
    uint32_t slots;        /* one bit an mpt_slot it serves */
    int32_t layer;         /* the first that asked for it */
    mpt_where where;
    /* Once emitted: the node in the new list; row data, row factor, column data and factor. */
    int32_t node;
    mpt_value_id out[4];
} mpt_copy;

/* An operand that only the next phase scales by its history, which is recorded in this one. */
typedef struct mpt_recording {
    mpt_value_id value;
    bool column; /* the column copy of it, else the row copy */
    mpt_copy_side side;
    mpt_where where;
    /* Once emitted: */
    mpt_value_id scale, history;
} mpt_recording;

/* How a GEMM reads one of its two operands. */
typedef struct mpt_read {
    int32_t copy; /* -1: the value as it is */
    bool column;  /* the column copy of it, else the row copy (or the cast) */
} mpt_read;

typedef struct mpt_rewrite {
    mpt_graph *graph;
    const mpt_precision_options *options;
    mpt_arena arena; /* freed when the rewrite is done */
    /* One a value of the graph that stage 4 made: the 8-bit format in which all its readers see
     * it, by a cast behind its node; FP32 where they see it as it is. */
    mpt_dtype *narrow;
    int n_copies, cap_copies;
    mpt_copy *copies;
    int n_recordings, cap_recordings;
    mpt_recording *recordings;
    int32_t *first_copy;  /* one a value of the old graph: head of its list, or -1 */
    mpt_read (*reads)[2]; /* one pair a node of the old graph */
    const char *slot_texts[MPT_SLOT_SETS]; /* by set of slots; NULL until one is asked for */
} mpt_rewrite;

/* Whether every number of `narrow` is one of `wide`. */
bool mpt_precision_holds(mpt_dtype wide, mpt_dtype narrow);

/* Sets the format of every value that a node makes. */
mpt_status mpt_precision_set_dtypes(mpt_rewrite *rewrite);

/* The row of the autocast table of an op, or of the op whose gradient it is; NULL for linear's
 * products and for what no model draws. */
const mpt_ops_row *mpt_precision_row(mpt_op op);

/* What precision.ops says of a row, which is marked; COUNT where it is silent. */
mpt_dtype mpt_precision_said(const mpt_rewrite *rewrite, const mpt_ops_row *row);

/* The format of a node's layer, or that of the recipe where it has none. */
mpt_dtype mpt_precision_compute(const mpt_rewrite *rewrite, const mpt_node *node);

/* Puts a node at the end of a new list, and tells its values their new producer. */
void mpt_precision_append(mpt_graph *graph, mpt_node *nodes, int *n, const mpt_node *node);

/* Writes the node list anew with a cast before each operation that reads another format, behind
 * each norm that puts out 8 bits, and for what is kept for backward. */
mpt_status mpt_precision_cast_ops(mpt_rewrite *rewrite);

/* The slot that operand 0 or 1 of a GEMM fills. */
mpt_slot mpt_precision_slot(mpt_op op, int operand);

/* "fprop.x + wgrad.x" for a set of slots, one bit each; made once, then kept in texts[slots].
 * NULL when out of memory, error set. */
const char *mpt_precision_slots_text(mpt_arena *arena, const char **texts, uint32_t slots);

/* The inputs of a side with delayed scaling: its scale and its history, made here. Makes the
 * side an operand of the graph, whether its scaling is delayed or not; gives its number. */
mpt_status mpt_precision_add_operand(mpt_graph *graph, const mpt_copy_side *side,
                                     int32_t *out_index);

/* Finds out which copies the GEMMs need and who reads which; fills copies and reads. */
mpt_status mpt_precision_find_copies(mpt_rewrite *rewrite);

/* After that: which operands are to be recorded for the next phase. */
mpt_status mpt_precision_find_recordings(mpt_rewrite *rewrite);

/* The node of a recording, and the one that moves its window on; makes the operand and its
 * state. The value is of the old graph. */
mpt_status mpt_precision_record(mpt_graph *graph, mpt_recording *recording, mpt_pass pass,
                                mpt_node *out);
mpt_status mpt_precision_record_update(mpt_graph *graph, const mpt_recording *recording,
                                       mpt_node *out);

#endif
