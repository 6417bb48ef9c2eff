/* The parts of a run's page, for run.c. */
#ifndef MPT_REPORT_RUN_H
#define MPT_REPORT_RUN_H

#include "report/page.h"
#include "report/run_data.h"

/* How the run ended, in one sentence. */
typedef struct mpt_run_verdict {
    mpt_page_tone tone;
    char text[512];
} mpt_run_verdict;
void mpt_run_judge(const mpt_run_data *data, mpt_run_verdict *out);

/* A number of the plan below `path`, "train.steps"; NAN where there is none. */
double mpt_run_planned(const mpt_run_data *data, const char *path);

/* Why a run stopped itself, in words; NULL: it did not. */
const char *mpt_run_reason(const mpt_run_data *data);

/* Phases with their names, where there are several or the first does not begin the run; skips,
 * spikes and rollbacks as ticks. There must be a step. */
typedef struct mpt_run_marks {
    mpt_mark *at;
    int n;
} mpt_run_marks;
mpt_status mpt_run_make_marks(mpt_run_data *data, mpt_run_marks *out);

void mpt_run_put_diagnosis(mpt_page *page, const mpt_run_data *data);
mpt_status mpt_run_put_curves(mpt_page *page, mpt_run_data *data);
mpt_status mpt_run_put_operands(mpt_page *page, mpt_run_data *data);
void mpt_run_put_events(mpt_page *page, const mpt_run_data *data);
void mpt_run_put_plan(mpt_page *page, const mpt_run_data *data);

#endif
