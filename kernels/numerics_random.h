/* Stochastic rounding: the keyed stream and the rule.
 *
 * A stream has no state. Sixteen consecutive elements of the quantized orientation are one
 * group; its bits are one call of Philox4x32-10 under the key of the run, so threads, tiles,
 * recomputation and launch shape change nothing. The generator is Random123's, which also
 * compiles for devices. */
#ifndef MPT_KERNELS_NUMERICS_RANDOM_H
#define MPT_KERNELS_NUMERICS_RANDOM_H

#include <Random123/philox.h>

#include "kernels/numerics_cast.h"

enum { MPT_RANDOM_GROUP = 16 };

/* Set in the operand id for the second call, whose bytes are the low halves of 16 bits. */
#define MPT_RANDOM_LOW 0x80000000u

typedef struct mpt_random_key {
    uint64_t seed;
    uint32_t operand; /* low 31 bits of the hash of "layer/slot" */
    uint32_t step;
    uint64_t first_group; /* groups of the micro-batches before this one */
} mpt_random_key;

/* The 16 bytes of a group, one an element. `low` is 0 or MPT_RANDOM_LOW. */
MPT_NUMERIC void mpt_random_bytes(const mpt_random_key *key, uint64_t group, uint32_t low,
                                  uint8_t *out) {
    uint64_t g = key->first_group + group;
    philox4x32_ctr_t counter;
    philox4x32_key_t k;
    counter.v[0] = (uint32_t)g;
    counter.v[1] = (uint32_t)(g >> 32);
    counter.v[2] = key->operand | low;
    counter.v[3] = key->step;
    k.v[0] = (uint32_t)key->seed;
    k.v[1] = (uint32_t)(key->seed >> 32);
    philox4x32_ctr_t r = philox4x32_R(10, counter, k);
    for (int i = 0; i < MPT_RANDOM_GROUP; i++)
        out[i] = (uint8_t)(r.v[i / 4] >> 8 * (i % 4));
}

/* FP4 and FP6 by one byte: the magnitude plus byte/256 of a step, cut to a step. The step is
 * the last place of the format where the magnitude lies, at least that of its subnormals. */
MPT_NUMERIC uint32_t mpt_encode_stochastic_byte(mpt_dtype dtype, float x, uint32_t byte) {
    mpt_format f = mpt_format_of(dtype);
    uint32_t a = mpt_abs_bits(x), lowest = (uint32_t)(128 - f.bias);
    if (a > MPT_INF_BITS)
        return f.nan_code;
    float m = a > mpt_float_bits(f.max) ? f.max : mpt_bits_float(a);
    uint32_t exponent = mpt_float_bits(m) >> 23;
    if (exponent < lowest)
        exponent = lowest;
    float step = mpt_bits_float((exponent - (uint32_t)f.mantissa_bits) << 23);
    float t = m + (float)byte * (step * 0x1p-8f);
    float q = (float)(uint32_t)(t / step) * step;
    uint32_t code =
        q > f.max ? f.max_code : mpt_magnitude_code(&f, mpt_float_bits(q), MPT_ROUND_ZERO);
    return mpt_code_with_sign(dtype, &f, code, mpt_float_bits(x) >> 31);
}

/* Whether a format takes one random byte an element, or two. */
MPT_NUMERIC int mpt_takes_one_byte(mpt_dtype dtype) {
    return dtype == MPT_DTYPE_E2M1 || dtype == MPT_DTYPE_E3M2 || dtype == MPT_DTYPE_E2M3;
}

/* The code of x rounded up with the probability that its place between two codes says, by 16
 * random bits: exactly floor(significand / 2^k + bits / 2^16). FP4 and FP6 use the high byte.
 * What is beyond the largest value goes where mpt_encode sends it. */
MPT_NUMERIC uint32_t mpt_encode_stochastic(mpt_dtype dtype, float x, uint32_t bits16) {
    if (mpt_takes_one_byte(dtype))
        return mpt_encode_stochastic_byte(dtype, x, bits16 >> 8);
    mpt_format f = mpt_format_of(dtype);
    uint32_t a = mpt_abs_bits(x);
    if (a > MPT_INF_BITS)
        return f.nan_code << f.shift;
    int biased = (int)(a >> 23);
    uint64_t m = (a & 0x7FFFFFu) | (biased ? 0x800000u : 0u);
    int target = (biased ? biased : 1) - 127 + f.bias;
    int k = 23 - f.mantissa_bits;
    if (target < 1) {
        k += 1 - target;
        target = 1;
    }
    k = k > 40 ? 40 : k; /* from there on nothing can carry */
    uint32_t code = (uint32_t)(((m << 16) + ((uint64_t)bits16 << k)) >> (k + 16));
    code += (uint32_t)(target - 1) << f.mantissa_bits;
    if (code > f.max_code)
        code = f.overflow_code;
    return mpt_code_with_sign(dtype, &f, code, mpt_float_bits(x) >> 31);
}

/* ---- whole words ---- */

/* Streams of words are apart from every quantizer's by their key: the seed's high half XOR the
 * stream, which is none of those in train/random.h. */
#define MPT_STREAM_DROPOUT 0xD209u

typedef struct mpt_words_key {
    uint64_t seed;
    uint32_t stream;
    uint32_t scope; /* hash of the layer's path */
    uint32_t step;
    uint64_t first_group; /* groups of the micro-batches before this one */
} mpt_words_key;

/* The four words of a group of four elements. */
MPT_NUMERIC void mpt_random_words(const mpt_words_key *key, uint64_t group, uint32_t out[4]) {
    uint64_t g = key->first_group + group;
    philox4x32_ctr_t counter;
    philox4x32_key_t k;
    counter.v[0] = (uint32_t)g;
    counter.v[1] = (uint32_t)(g >> 32);
    counter.v[2] = key->scope;
    counter.v[3] = key->step;
    k.v[0] = (uint32_t)key->seed;
    k.v[1] = (uint32_t)(key->seed >> 32) ^ key->stream;
    philox4x32_ctr_t r = philox4x32_R(10, counter, k);
    for (int i = 0; i < 4; i++)
        out[i] = r.v[i];
}

/* ---- signs of a rotation ---- */

/* 128 random signs as a mask: one call of the generator. `step` is 0 for signs that are drawn
 * once, `scope` 0 for signs that all layers share, else the hash of the layer's path. */
MPT_NUMERIC void mpt_random_signs(uint64_t seed, uint32_t scope, uint32_t step,
                                  uint32_t signs[4]) {
    philox4x32_ctr_t counter;
    philox4x32_key_t k;
    counter.v[0] = 0x48616461u; /* apart from every stream of a quantizer: groups stay below */
    counter.v[1] = 0xFFFFFFFFu;
    counter.v[2] = scope;
    counter.v[3] = step;
    k.v[0] = (uint32_t)seed;
    k.v[1] = (uint32_t)(seed >> 32);
    philox4x32_ctr_t r = philox4x32_R(10, counter, k);
    for (int i = 0; i < 4; i++)
        signs[i] = r.v[i];
}

#endif
