/* The trainer's random bits: Philox4x32-10 by position, so that nothing depends on what was
 * drawn before, on threads or on the order of calls.
 *
 * Key = (seed low, seed high XOR stream), counter = (block, b, a low, a high). Stream 0 belongs
 * to stochastic rounding (contract 9 of the numerics), whose key is the seed as it is;
 * dropout's is MPT_STREAM_DROPOUT of kernels/numerics_random.h. */
#ifndef MPT_TRAIN_RANDOM_H
#define MPT_TRAIN_RANDOM_H

#include <stdint.h>

#include <Random123/philox.h>

enum {
    MPT_STREAM_INIT = 0x1417,     /* initial weights: a = hash of the name, b:block = element */
    MPT_STREAM_TRAIN = 0x7241,    /* training rows: a = step, b = row */
    MPT_STREAM_VALIDATE = 0x7A11, /* validation windows of a generator: a = window */
    MPT_STREAM_ORDER = 0x0D30,    /* and the 7 after it: orders of windows, a = epoch */
    MPT_STREAM_OFFSET = 0x0D38,   /* where the first window of an epoch starts: a = epoch */
    MPT_STREAM_SAMPLE = 0x5A39,   /* text drawn from a model: a = position */
    MPT_STREAM_LANGUAGE = 0x1A46  /* tables of the synthetic language: a = table */
};

static inline void mpt_random4(uint64_t seed, uint32_t stream, uint64_t a, uint32_t b,
                               uint32_t block, uint32_t out[4]) {
    philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32) ^ stream}};
    philox4x32_ctr_t ctr = {{block, b, (uint32_t)a, (uint32_t)(a >> 32)}};
    philox4x32_ctr_t r = philox4x32(ctr, key);
    for (int i = 0; i < 4; i++)
        out[i] = r.v[i];
}

/* 64 random bits to 0 ... n-1, by the high half of the product: no division, and a bias below
 * n / 2^64. */
static inline uint64_t mpt_random_below(uint64_t bits, uint64_t n) {
    uint64_t low_product = (bits & 0xffffffffu) * (n & 0xffffffffu);
    uint64_t cross1 = (bits >> 32) * (n & 0xffffffffu);
    uint64_t cross2 = (bits & 0xffffffffu) * (n >> 32);
    uint64_t middle = (low_product >> 32) + (cross1 & 0xffffffffu) + cross2;
    return (bits >> 32) * (n >> 32) + (cross1 >> 32) + (middle >> 32);
}

#endif
