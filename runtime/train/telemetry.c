/* Lines of telemetry.jsonl, from the counts of a step. They are made in one fixed buffer, since
 * a step allocates nothing. */
#include "train/telemetry.h"

#include "mpt/evidence.h"

/* A finer grain than this shows nothing more, and would cost as much as it measures. */
enum { TIMES_A_RUN = 100, SHORTEST = 10 };

int64_t mpt_telemetry_every(int64_t every, int64_t steps) {
    if (every > 0)
        return every;
    int64_t hundredth = steps / TIMES_A_RUN;
    return hundredth > SHORTEST ? hundredth : SHORTEST;
}

bool mpt_telemetry_due(const mpt_trainer *trainer) {
    const mpt_train *train = &trainer->program->train;
    return trainer->telemetry &&
           trainer->attempted % mpt_telemetry_every(train->telemetry.every, train->steps) == 0;
}

static void put_share(mpt_metrics_line *line, const char *key, uint64_t count,
                      const mpt_operand_view *operand) {
    double share = operand->elements ? (double)count / (double)operand->elements : 0;
    mpt_metrics_number(line, key, share);
}

/* A scale that the tensor lacks, an SQNR without a signal or without noise: null. */
static void put_operand(mpt_metrics_line *line, const mpt_operand_view *operand) {
    mpt_metrics_open(line);
    mpt_metrics_integer(line, "step", operand->step);
    mpt_metrics_string(line, "operand", operand->name);
    mpt_metrics_string(line, "format", operand->format);
    mpt_metrics_number(line, "amax", operand->amax);
    put_share(line, "overflow", operand->overflow, operand);
    put_share(line, "underflow", operand->underflow, operand);
    put_share(line, "zeros", operand->zeros, operand);
    put_share(line, "nonfinite", operand->nonfinite, operand);
    mpt_metrics_integer(line, "capped", (int64_t)operand->capped);
    mpt_metrics_number(line, "sqnr", operand->sqnr);
    mpt_metrics_number(line, "scale", operand->scale != 0 ? operand->scale : NAN);
    mpt_metrics_close(line);
}

mpt_status mpt_telemetry_write(const mpt_trainer *trainer, int64_t step) {
    mpt_metrics_line line;
    mpt_operand_view operand;
    const mpt_train *train = &trainer->program->train;
    bool due = trainer->telemetry && trainer->counted_step == step &&
               step % mpt_telemetry_every(train->telemetry.every, train->steps) == 0;
    for (int i = 0; due && mpt_trainer_operand(trainer, i, &operand); i++) {
        put_operand(&line, &operand);
        if (!trainer->telemetry(trainer->telemetry_ud, line.text, line.n))
            return MPT_FAIL(trainer->ctx, MPT_IO, MPT_NOWHERE,
                            "telemetry: the writer took no more lines");
    }
    return MPT_OK;
}
