/* Why a run stopped itself: the first bad tensor in the order of the schedule, what the loss
 * scale did, what to try. Made once, when training gives up; said in the error, in the metrics
 * and, at length, to whoever asks (mpt_trainer_diagnosis). */
#ifndef MPT_TRAIN_DIAGNOSIS_H
#define MPT_TRAIN_DIAGNOSIS_H

#include "train/range.h"

typedef enum mpt_stop_reason {
    MPT_STOP_NONE,
    MPT_STOP_MAX_SKIPS,
    MPT_STOP_NONFINITE, /* the first bad gradient, where the recipe says so */
    MPT_STOP_ROLLBACKS, /* one checkpoint was gone back to too often */
    MPT_STOP_DIVERGED,  /* at the end: most of the steps, or the last ones, were skipped */
    MPT_STOP_HIGH_LOSS  /* at the end: the loss is far above where it began */
} mpt_stop_reason;

/* Where the first value that is not finite is found, walking through the step once more. */
typedef enum mpt_bad_place {
    MPT_BAD_NOWHERE, /* the step made none: the gradient was bad only once it was unscaled, or a
                        fault was put into it */
    MPT_BAD_WEIGHT,  /* a master weight, before anything ran */
    MPT_BAD_OUTPUT   /* what a node puts out */
} mpt_bad_place;

typedef struct mpt_bad_tensor {
    mpt_bad_place place;
    mpt_pass pass;
    int64_t micro_batch;
    char name[MPT_PLACE_TEXT]; /* the parameter's, or mpt_place_text */
    const char *layer;         /* NULL: none */
    const char *op;            /* NULL for a weight */
    mpt_dtype format;
    bool nan; /* its first bad element; else Inf */
    int64_t n_nan, n_inf, n;
    float amax;       /* of its finite elements */
    float input_amax; /* of what the node read; 0 where nothing is known */
} mpt_bad_tensor;

/* What is kept of the last skipped step, whether training gives up or not. Fixed sizes: a
 * checkpoint holds it. */
typedef struct mpt_bad_step {
    int64_t step;  /* attempted; -1: none was skipped */
    int64_t param; /* of the first bad gradient; -1: it was skipped for a spike */
    int64_t nan;   /* the gradient's first bad element is NaN; else Inf */
    double amax;   /* of its finite elements, as the loss scale left them */
    double loss, grad_norm, loss_scale;
} mpt_bad_step;

typedef struct mpt_diagnosis {
    mpt_stop_reason reason;
    int64_t step;     /* attempted, at which training gave up */
    mpt_bad_step bad; /* that step, or the last one that was skipped */
    mpt_bad_tensor first;
} mpt_diagnosis;

#endif
