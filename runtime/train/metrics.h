/* metrics.jsonl: one object a line, the same bytes for the same run (so no times in it).
 *
 * A line is made in a fixed buffer, because a step must not allocate, and handed to the host's
 * writer whole. Numbers that are not finite are null. */
#ifndef MPT_TRAIN_METRICS_H
#define MPT_TRAIN_METRICS_H

#include "base/base.h"

enum { MPT_METRICS_LINE = 2048, MPT_METRICS_NAME = 512 };

typedef struct mpt_metrics_line {
    char text[MPT_METRICS_LINE];
    size_t n;
} mpt_metrics_line;

/* The same for lines of another kind: { and the members follow. */
void mpt_metrics_open(mpt_metrics_line *line);
void mpt_metrics_close(mpt_metrics_line *line);

/* {"event":"NAME" and its members, one by one. Names longer than MPT_METRICS_NAME are cut. */
void mpt_metrics_begin(mpt_metrics_line *line, const char *event);
void mpt_metrics_integer(mpt_metrics_line *line, const char *key, int64_t value);
void mpt_metrics_number(mpt_metrics_line *line, const char *key, double value);
void mpt_metrics_boolean(mpt_metrics_line *line, const char *key, bool value);
void mpt_metrics_string(mpt_metrics_line *line, const char *key, const char *value);

/* Closes the object and writes it; nothing where there is no writer. */
mpt_status mpt_metrics_end(mpt_metrics_line *line, mpt_ctx *ctx, mpt_write_fn write, void *ud);

#endif
