/* Epochs and permutations by arithmetic: see data_order.h. */
#include "train/data_order.h"

#include "train/random.h"

/* ---- epochs ---- */

/* Steps of an epoch that ends with a step of its own. */
static int64_t steps_each(const mpt_epochs *e) {
    bool rest = e->remainder == MPT_REMAINDER_STEP && e->windows % e->batch > 0;
    return e->windows / e->batch + rest;
}

/* step * batch + row may pass what can be counted. Its quotient and remainder by the windows
 * come from those of the step instead, and wrap where the run is longer than any. */
static mpt_epoch_place carried(const mpt_epochs *e, int64_t step, int64_t row) {
    uint64_t s = (uint64_t)step, w = (uint64_t)e->windows, b = (uint64_t)e->batch;
    uint64_t at = s % w * b + (uint64_t)row;
    uint64_t epoch = s / w * b + at / w;
    return (mpt_epoch_place){(int64_t)(epoch & INT64_MAX), (int64_t)(at % w), false};
}

mpt_epoch_place mpt_epochs_place(const mpt_epochs *epochs, int64_t step, int64_t row) {
    if (epochs->remainder == MPT_REMAINDER_CARRY)
        return carried(epochs, step, row);
    int64_t each = steps_each(epochs), at = step % each * epochs->batch + row;
    bool over = at >= epochs->windows;
    return (mpt_epoch_place){step / each, over ? epochs->windows - 1 : at, over};
}

int64_t mpt_epochs_steps(const mpt_epochs *epochs, int64_t n) {
    const double most = 0x1p53;
    int64_t w = epochs->windows, b = epochs->batch;
    if (w == 0)
        return 0;
    if (epochs->remainder != MPT_REMAINDER_CARRY)
        return (double)n * (double)steps_each(epochs) < most ? n * steps_each(epochs)
                                                             : INT64_C(1) << 53;
    if ((double)n * (double)w / (double)b >= most)
        return INT64_C(1) << 53;
    /* n * w / b, rounded up, of quotients and remainders by b. */
    int64_t rest = n % b * (w % b);
    return n / b * w + n % b * (w / b) + rest / b + (rest % b > 0);
}

double mpt_epochs_of(const mpt_epochs *epochs, int64_t steps) {
    if (epochs->windows == 0)
        return 0;
    if (epochs->remainder == MPT_REMAINDER_CARRY)
        return (double)steps * (double)epochs->batch / (double)epochs->windows;
    int64_t each = steps_each(epochs);
    return each > 0 ? (double)steps / (double)each : 0;
}

/* ---- permutations ---- */

/* Four rounds hide a large square from any test; a square of 4 has so few functions a round
 * that more are needed to reach all of its orders alike. */
enum { ROUNDS = 8 };

typedef struct permuter {
    uint64_t seed, epoch;
    uint32_t list, bits; /* of a half */
} permuter;

static uint64_t shuffled(const permuter *p, uint64_t x) {
    uint32_t mask = (uint32_t)((UINT64_C(1) << p->bits) - 1), r[4];
    uint32_t left = (uint32_t)(x >> p->bits), right = (uint32_t)x & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        mpt_random4(p->seed, MPT_STREAM_ORDER + round, p->epoch, p->list, right, r);
        uint32_t next = left ^ (r[0] & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << p->bits | right;
}

int64_t mpt_permuted(uint64_t seed, int64_t epoch, uint32_t list, int64_t n, int64_t i) {
    permuter p = {.seed = seed, .epoch = (uint64_t)epoch, .list = list, .bits = 1};
    uint64_t x = (uint64_t)i;
    while (p.bits < 31 && UINT64_C(1) << (2 * p.bits) < (uint64_t)n)
        p.bits++;
    do
        x = shuffled(&p, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
