/* What a probe has measured: filled by probe.c, judged by probe_judge.c, written by
 * probe_text.c, probe_advice.c and probe_json.c. */
#ifndef MPT_TOOLS_PROBE_H
#define MPT_TOOLS_PROBE_H

#include "tools/matrix.h"

/* What a format leaves of a matrix, at a glance. */
typedef enum mpt_probe_state {
    MPT_PROBE_OK,       /* there is noise, and the SQNR is a number */
    MPT_PROBE_EXACT,    /* nothing is lost */
    MPT_PROBE_ZERO,     /* all values are zero */
    MPT_PROBE_NONFINITE /* values are NaN or Inf, or become so */
} mpt_probe_state;

/* Whether a rule, or a repair, is called for. */
typedef enum mpt_probe_damage {
    MPT_DAMAGE_NONE,
    MPT_DAMAGE_NOISE,     /* the SQNR is far below the median */
    MPT_DAMAGE_LOST,      /* far more values than the median's share became zero */
    MPT_DAMAGE_DESTROYED, /* finite values decode to NaN or Inf */
    MPT_DAMAGE_INPUT      /* the checkpoint itself holds NaN or Inf: no format helps */
} mpt_probe_damage;

/* What one format does to one matrix. */
typedef struct mpt_probe_cell {
    mpt_quantize_counts counts;
    uint64_t destroyed; /* finite values that decode to NaN or Inf */
    double sqnr;        /* dB, of what stays finite */
    double bits;        /* an element, scales included */
    mpt_probe_state state;
    mpt_probe_damage damage;
} mpt_probe_cell;

typedef struct mpt_probe_line {
    const mpt_stored_tensor *tensor;
    const char *name; /* the tensor's, without control characters */
    float amax;
    uint64_t nonfinite;    /* NaN and Inf in the checkpoint */
    mpt_probe_cell *cells; /* one a format */
} mpt_probe_line;

/* What one format does to all matrices. */
typedef struct mpt_probe_verdict {
    double sqnr, lost; /* medians over the matrices that are OK; NAN where none is */
    int n_judged;      /* matrices that are finite, and not all zero */
    int n_damaged;     /* matrices that a rule would help */
    bool fails;        /* each matrix is badly off: no rule helps, another format does */
} mpt_probe_verdict;

typedef struct mpt_probe {
    mpt_ctx *ctx;
    const mpt_tool_format *formats;
    int n_formats;
    int width; /* columns of the text; 0: as many as it takes */
    mpt_arena arena;
    mpt_safetensors *file;
    mpt_probe_line *lines; /* most damaged by the first format first */
    int n_lines;
    int n_vectors, n_others;                /* skipped: rank below 2; not floating, or empty */
    mpt_probe_cell total[MPT_TOOL_FORMATS]; /* over all lines */
    mpt_probe_verdict verdict[MPT_TOOL_FORMATS];
} mpt_probe;

/* ---- probe_judge.c ---- */

/* A bit of precision, in dB below the median; a share of values that is far too many, and how
 * often the median's share it must be beside that; the dB at which a third of a weight is
 * noise. */
#define MPT_PROBE_NOISE   6.0
#define MPT_PROBE_LOST    0.25
#define MPT_PROBE_TIMES   2.0
#define MPT_PROBE_FAILING 10.0

/* The share of n in the elements counted, from 0 to 1. */
double mpt_probe_share(const mpt_probe_cell *cell, uint64_t n);

/* The state of a measured cell, whose SQNR is set with it. */
void mpt_probe_settle(const mpt_probe_line *line, mpt_probe_cell *cell);

/* Medians, damages and verdicts of all formats; then the order of the lines. */
mpt_status mpt_probe_judge(mpt_probe *probe);

/* The line that a format damages most. NULL where all are zero. */
const mpt_probe_line *mpt_probe_worst(const mpt_probe *probe, int format);

/* ---- figures, and what is made of them ---- */

typedef struct mpt_figure {
    char text[24];
} mpt_figure;

mpt_figure mpt_probe_db(double db);         /* "20.4" */
mpt_figure mpt_probe_percent(double share); /* "6.9%" */

/* A name in at most `most` columns: its middle makes room. */
void mpt_probe_name(mpt_str *out, const char *name, int most);

void mpt_probe_advice(const mpt_probe *probe, mpt_str *out);
void mpt_probe_text(const mpt_probe *probe, mpt_str *out);
mpt_status mpt_probe_json(const mpt_probe *probe, mpt_str *out);

#endif
