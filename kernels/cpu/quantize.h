/* The CPU's quantizer: what a copy looks like in memory, and the kernels of each level.
 *
 * quantize.c makes a plan of each job and shares panels of the matrix among the threads. A
 * panel is run by the kernels of the best level that the processor has; they are one source
 * (quantize_strip.h) compiled three times, over vectors of AVX-512, of AVX2, and of plain C.
 * Every level gives ref's bytes. What no plan fits goes the definition's way, in parallel. */
#ifndef MPT_KERNELS_CPU_QUANTIZE_H
#define MPT_KERNELS_CPU_QUANTIZE_H

#include "kernels/quantize_job.h"

/* ---- levels ---- */

typedef enum mpt_quantize_level {
    MPT_LEVEL_PORTABLE,
    MPT_LEVEL_AVX2,
    MPT_LEVEL_AVX512, /* F, BW, DQ and VL */
    MPT_LEVEL_COUNT
} mpt_quantize_level;

/* The best one that this processor and its operating system can run. */
mpt_quantize_level mpt_quantize_best_level(void);

/* As mpt_quantize_operand, mpt_quantize_both and mpt_round_copy at a level of choice: for tests
 * and measurements. The level must be able to run here. */
void mpt_quantize_operand_at(mpt_quantize_level level, const mpt_quantize_job *job);
void mpt_quantize_both_at(mpt_quantize_level level, const mpt_quantize_job *row,
                          const mpt_quantize_job *col);
void mpt_round_copy_at(mpt_quantize_level level, mpt_dtype dtype, const float *x, float *y,
                       size_t n);

/* ---- plans ---- */

/* Which elements share a scale, as they lie in memory. Of rectangles other than these, none is
 * planned. */
typedef enum mpt_scale_axis {
    MPT_AXIS_ONE,    /* all: one scale a tensor */
    MPT_AXIS_ROW,    /* `block` neighbours of a row */
    MPT_AXIS_COLUMN, /* `block` neighbours of a column */
    MPT_AXIS_SQUARE  /* block x block */
} mpt_scale_axis;

/* A job as the kernels see it: in rows and columns of memory, also for the column copy. */
typedef struct mpt_quantize_plan {
    const mpt_quantize_job *job;
    mpt_tensor_scale tensor;
    mpt_scale_axis axis;
    int block;
    int strip;                /* rows that are worked on together: a multiple of 16 and of what
                                 blocks and rotation take downwards */
    int64_t rows, cols;       /* of memory, with the padding of a rotation */
    int64_t k;                /* of the quantized orientation, as above */
    int64_t blocks_k, groups; /* a row of that orientation */
    int64_t decoded_rows, decoded_cols; /* what `decoded` holds of it */
    int64_t decoded_ld;
    bool finite;                                /* all values are known to be */
    uint32_t signs[MPT_HADAMARD_MAX];           /* of a rotation: the sign bit where it turns */
    uint32_t round_keys[20];                    /* of Philox */
    mpt_quantize_counts *counts;                /* what a thread adds to, or NULL */
    const struct mpt_quantize_kernels *kernels; /* that run it */
    float restore[2]; /* a scale times both is what its codes are restored by */
    bool restorable;  /* no finite value has a restored one that is NaN */
    /* Of square blocks, in the scratch of the job, or NULL: what they multiply by, a row of
     * blocks each `squares_ld`. Before a piece is made `encode` holds its largest magnitudes,
     * and those of the whole matrix where `maxima` says so. */
    float *encode, *decode;
    int64_t squares_ld;
    bool maxima;
} mpt_quantize_plan;

/* The plan of a job but for `tensor`; false where it has none. */
bool mpt_quantize_plan_of(const mpt_quantize_job *job, mpt_quantize_plan *out_plan);

/* Lets the scales of square blocks lie in the scratch of the job, if it is one of those whose
 * scratch has room for them. */
void mpt_quantize_plan_squares(mpt_quantize_plan *plan);

/* Sets what codes are restored by, from what the plan's tensor is now. */
void mpt_quantize_plan_restore(mpt_quantize_plan *plan);

/* ---- kernels ---- */

enum {
    MPT_PANEL_ROWS = 128, /* no strip is higher */
    MPT_PANEL_COLS = 256, /* a multiple of every block */
    MPT_LINE_COLS = 2048  /* the same of strips that are worked on in the order of memory */
};

/* Part of the matrix in memory. Rows start at a multiple of the plan's strip, for column copies
 * of MPT_PANEL_ROWS, which is then the most that there are; columns start at a multiple of
 * MPT_LINE_COLS or MPT_PANEL_COLS; the largest magnitudes of square blocks are asked for in
 * whole rows of them. */
typedef struct mpt_panel {
    int64_t row, col;
    int64_t rows, cols;
} mpt_panel;

/* All of one level. Panels of one job may run in any order, on any thread. */
typedef struct mpt_quantize_kernels {
    /* The largest magnitudes of the values that are quantized. */
    mpt_quantize_amax (*amax)(const mpt_quantize_plan *plan, const mpt_panel *panel);
    /* Writes codes, scales and decoded values; with one scale a tensor it also gives amax(). */
    mpt_quantize_amax (*panel)(const mpt_quantize_plan *plan, const mpt_panel *panel);
    /* The same for two copies of one operand, which is read once. Their strips agree. */
    void (*both)(const mpt_quantize_plan *row, const mpt_quantize_plan *col,
                 const mpt_panel *panel, mpt_quantize_amax out_seen[2]);
    /* y = x in a wide format, n values. */
    void (*round)(mpt_dtype dtype, const float *x, float *y, size_t n);
} mpt_quantize_kernels;

extern const mpt_quantize_kernels mpt_quantize_portable;
extern const mpt_quantize_kernels mpt_quantize_avx2;
extern const mpt_quantize_kernels mpt_quantize_avx512;

/* Those of a level; the portable ones where the processor's family has no such level. */
const mpt_quantize_kernels *mpt_quantize_kernels_of(mpt_quantize_level level);

/* As the functions of a level, with any kernels. */
void mpt_quantize_operand_with(const mpt_quantize_kernels *kernels,
                               const mpt_quantize_job *job);
void mpt_quantize_both_with(const mpt_quantize_kernels *kernels, const mpt_quantize_job *row,
                            const mpt_quantize_job *col);
void mpt_round_copy_with(const mpt_quantize_kernels *kernels, mpt_dtype dtype, const float *x,
                         float *y, size_t n);

/* Runs a job by the steps of the definition, its pieces in parallel (quantize_general.c); and
 * the first of them alone: the tensor's largest magnitudes and what follows from them. */
void mpt_quantize_general(const mpt_quantize_job *job);
mpt_tensor_scale mpt_quantize_general_scale(const mpt_quantize_job *job);

/* ---- values that are not finite (quantize_careful.c) ---- */

/* One row of a strip on its way out: what the elements are made from and where they go. */
typedef struct mpt_quantize_line {
    const float *v;
    const float *encode, *decode; /* of the blocks: one, one each `1 << shift`, or one each */
    int shift;                    /* elements that share a scale: 2^shift, 0 ... 31 */
    const uint8_t *high, *low;    /* random bytes */
    float *value;                 /* NULL: not wanted */
    uint8_t *code;                /* NULL: not wanted; a byte each */
    uint8_t *code_high;           /* the upper byte of codes that take two, else NULL */
    uint8_t *packed;    /* instead, codes of four bits, two a byte; `code` is scratch */
    const char *ahead;  /* what is read after it, or NULL */
    int64_t ahead_size; /* bytes of its values */
    int64_t n;
    int64_t cols; /* of n: what lies beyond is padding, and not counted */
    int64_t row;  /* of memory */
} mpt_quantize_line;

/* The same as the kernels, value by value as the definition; counts where the plan does. */
void mpt_quantize_careful_line(const mpt_quantize_plan *plan, const mpt_quantize_line *line);

/* The scale of a block of rows x cols values. */
mpt_block_factors mpt_quantize_careful_scale(const mpt_quantize_plan *plan, const float *v,
                                             int64_t ld, int64_t rows, int64_t cols);

mpt_quantize_amax mpt_quantize_careful_amax(const float *v, int64_t ld, int64_t rows,
                                            int64_t cols);

#endif
