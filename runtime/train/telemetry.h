/* telemetry.jsonl: what quantizing did to every operand, at every n-th step. The same bytes for
 * the same run, as metrics.jsonl has them. */
#ifndef MPT_TRAIN_TELEMETRY_H
#define MPT_TRAIN_TELEMETRY_H

#include "train/trainer.h"

/* Whether the step to come is counted for it. */
bool mpt_telemetry_due(const mpt_trainer *trainer);

/* Writes a line an operand where this step was due and is done. */
mpt_status mpt_telemetry_write(const mpt_trainer *trainer, int64_t step);

#endif
