/* The words of a diagnosis: for the metrics, for the error, for people. */
#ifndef MPT_TRAIN_DIAGNOSIS_TEXT_H
#define MPT_TRAIN_DIAGNOSIS_TEXT_H

#include "train/trainer.h"

/* The event of a trainer that has given up, but for its end. */
void mpt_diagnosis_event(const mpt_trainer *trainer, mpt_metrics_line *line);

/* Sets the error of a trainer that has given up; gives MPT_STOPPED. */
mpt_status mpt_diagnosis_fail(const mpt_trainer *trainer);

#endif
