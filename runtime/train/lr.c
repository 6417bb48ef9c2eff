/* Learning rate schedules. See lr.h. */
#include "train/lr.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* How far `step` is between `from` and `to`, held to 0 ... 1. */
static double progress(double step, double from, double to) {
    if (step <= from)
        return 0;
    return step >= to ? 1 : (step - from) / (to - from);
}

double mpt_lr_at(const mpt_train *train, int64_t applied) {
    const mpt_lr *lr = &train->lr;
    double step = (double)applied + 1, end = (double)train->steps;
    double warmup = (double)mpt_span_steps(&lr->warmup, train);
    if (step < warmup)
        return lr->peak * step / warmup;
    double start =
        lr->kind == MPT_LR_WSD ? end - (double)mpt_span_steps(&lr->decay, train) : warmup;
    double t = progress(step, start, end);
    if (t == 1 && lr->kind != MPT_LR_CONSTANT)
        return lr->final; /* exactly, whatever the rounding of the formulas */
    switch (lr->kind) {
    case MPT_LR_LINEAR:
    case MPT_LR_WSD:
        return lr->peak + (lr->final - lr->peak) * t;
    case MPT_LR_COSINE:
        return lr->final + (lr->peak - lr->final) * 0.5 * (1 + cos(pi * t));
    case MPT_LR_CONSTANT:
        break;
    }
    return lr->peak;
}
