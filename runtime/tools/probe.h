/* What a probe has measured: filled by probe.c, written by probe_text.c and probe_json.c. */
#ifndef MPT_TOOLS_PROBE_H
#define MPT_TOOLS_PROBE_H

#include "tools/matrix.h"

/* What one format does to one matrix. */
typedef struct mpt_probe_cell {
    mpt_quantize_counts counts;
    double sqnr; /* dB */
    double bits; /* an element, scales included */
} mpt_probe_cell;

typedef struct mpt_probe_line {
    const mpt_stored_tensor *tensor;
    const char *name; /* the tensor's, without control characters */
    float amax;
    mpt_probe_cell *cells; /* one a format */
} mpt_probe_line;

typedef struct mpt_probe {
    mpt_ctx *ctx;
    const mpt_tool_format *formats;
    int n_formats;
    mpt_arena arena;
    mpt_safetensors *file;
    mpt_probe_line *lines; /* most damaged by the first format first */
    int n_lines;
    int n_vectors, n_others;                /* skipped: rank below 2; not floating, or empty */
    mpt_probe_cell total[MPT_TOOL_FORMATS]; /* over all lines */
} mpt_probe;

/* The share of n in the elements counted, from 0 to 1. */
double mpt_probe_share(const mpt_probe_cell *cell, uint64_t n);

/* The line that a format damages most: its lowest SQNR. NULL where none has a signal. */
const mpt_probe_line *mpt_probe_worst(const mpt_probe *probe, int format);

void mpt_probe_text(const mpt_probe *probe, mpt_str *out);
mpt_status mpt_probe_json(const mpt_probe *probe, mpt_str *out);

#endif
