/* What a run folder holds, read for its report.
 *
 * Nothing here takes the files' word for anything: members may be missing or of another type, a
 * line may be torn or no JSON at all. What cannot be understood is left out and counted. */
#ifndef MPT_REPORT_RUN_DATA_H
#define MPT_REPORT_RUN_DATA_H

#include <jansson.h>

#include "base/base.h"

/* Numbers, one a step or one an evaluation. */
typedef struct mpt_numbers {
    double *at;
    int n, cap;
} mpt_numbers;

typedef enum mpt_run_event_kind {
    MPT_RUN_PHASE,
    MPT_RUN_SKIP,
    MPT_RUN_SPIKE,
    MPT_RUN_ROLLBACK,
    MPT_RUN_CHECKPOINT,
    MPT_RUN_RANGE,
    MPT_RUN_INJECT,
    MPT_RUN_DEVICE,
    MPT_RUN_EVENT_KINDS
} mpt_run_event_kind;

typedef struct mpt_run_event {
    mpt_run_event_kind kind;
    int64_t step;
    double tokens;    /* seen before or with it */
    const char *text; /* the phase's name, else what the line says in a few words */
} mpt_run_event;

/* An operand over the telemetry's steps. `column` counts those steps. */
typedef struct mpt_run_operand {
    const char *name, *format; /* of the last line */
    mpt_numbers column, sqnr;  /* +Inf: nothing was lost; NaN: there was no signal */
    double lowest;             /* SQNR; NAN: none */
    double amax, overflow, underflow, zeros, scale; /* of the last line */
} mpt_run_operand;

/* GEMMs that ran, as the metrics tell it at the end. */
typedef struct mpt_run_gemm {
    const char *gemm, *a, *b;
    double runs;
} mpt_run_gemm;

typedef struct mpt_run_data {
    mpt_ctx *ctx;
    mpt_arena arena;
    const char *folder;
    json_t *plan; /* NULL: none that can be understood */
    char *recipe; /* its text, or NULL */

    /* metrics.jsonl */
    mpt_numbers step, tokens, loss, lr, grad_norm, loss_scale;
    mpt_numbers eval_tokens, eval_loss;
    mpt_run_event *events;
    int n_events, cap_events;
    int of_kind[MPT_RUN_EVENT_KINDS];
    mpt_run_gemm *gemms;
    int n_gemms, cap_gemms;
    int n_skipped;
    int n_lost;     /* those that no falling loss scale answered */
    int last_skips; /* of them in a row, at the end */
    bool done;      /* there is the last line of a run that was ended in order */
    double last_eval, last_eval_step; /* steps that were done before it */
    json_t *diagnosis;                /* the event of a run that gave up; NULL: it did not */

    /* timing.jsonl */
    mpt_numbers timed_tokens, tokens_per_s;
    double seconds;

    /* telemetry.jsonl */
    mpt_numbers telemetry_step;
    mpt_run_operand *operands;
    int n_operands, cap_operands;
    int last_operand; /* of the line before */

    const char **notes; /* what was wrong with the files */
    int n_notes, cap_notes;
} mpt_run_data;

/* `data` is to be freed whatever comes of it. */
mpt_status mpt_run_data_read(mpt_ctx *ctx, const char *folder, mpt_run_data *data);
void mpt_run_data_free(mpt_run_data *data);

/* Members of an object, whatever it is: NAN and NULL where there is none of the kind. */
double mpt_json_double(const json_t *object, const char *key);
const char *mpt_json_string(const json_t *object, const char *key);

/* Tokens seen with a step, or with the next one that has a line; of one past the last, those of
 * the last. There must be a step. */
double mpt_run_tokens_at(const mpt_run_data *data, double step, bool *out_exact);

/* ---- one file each, for run_data.c ---- */

/* One line's object; line counts from 1. */
typedef mpt_status (*mpt_run_line_fn)(mpt_run_data *data, const json_t *object);

/* Every line of a file of the folder. `needed`: MPT_NOT_FOUND where it is missing; else that
 * becomes a note. */
mpt_status mpt_run_read_lines(mpt_run_data *data, const char *name, bool needed,
                              mpt_run_line_fn take);

mpt_status mpt_run_take_metrics(mpt_run_data *data, const json_t *object);
mpt_status mpt_run_take_telemetry(mpt_run_data *data, const json_t *object);

mpt_status mpt_numbers_add(mpt_run_data *data, mpt_numbers *numbers, double value);

/* A copy in the arena; of a text that is no string, "". */
const char *mpt_run_text(mpt_run_data *data, const char *text);
mpt_status mpt_run_note(mpt_run_data *data, const char *fmt, ...) MPT_PRINTF(2, 3);

#endif
