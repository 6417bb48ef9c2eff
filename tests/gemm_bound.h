/* How close two implementations of one product have to be: the bound that tests of any device
 * state, instead of a tolerance that was found by trying.
 *
 * All products of two operands' elements are whole multiples of q, the smallest product of
 * their lowest bits. Where the magnitudes sum up to less than 2^24 q, every partial sum in any
 * order is exact in FP32: the dot product is certified, and all implementations with FP32 sums
 * give the same bits. Where it is not, sums in FP32 in any order, and those of tensor cores
 * that keep 25 bits, stay within 1e-5 of the sum of magnitudes, and one ulp of the output; sums
 * that keep about 14 bits, FP8 of Hopper with FAST_ACCUM, within 5e-3 of it. */
#ifndef MPT_TESTS_GEMM_BOUND_H
#define MPT_TESTS_GEMM_BOUND_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/numerics_cast.h"

typedef struct dot_bound {
    double exact;     /* the sum; with all its bits where it is certified */
    double magnitude; /* of |a b|, summed up */
    bool certified;
} dot_bound;

/* The weight of the lowest bit of x that is set; Inf for 0. */
static inline double lowest_bit(double x) {
    int exponent;
    if (x == 0)
        return (double)INFINITY;
    uint64_t m = (uint64_t)ldexp(fabs(frexp(x, &exponent)), 53);
    return ldexp((double)(m & (~m + 1)), exponent - 53);
}

/* Of n numbers each, `step` apart. */
static inline dot_bound dot_bound_of(const float *a, int64_t a_step, const float *b,
                                     int64_t b_step, int64_t n) {
    dot_bound d = {0};
    double low_a = (double)INFINITY, low_b = low_a;
    for (int64_t i = 0; i < n; i++) {
        double x = (double)a[i * a_step], y = (double)b[i * b_step];
        if (x == 0 || y == 0)
            continue;
        d.exact += x * y;
        d.magnitude += fabs(x * y);
        low_a = fmin(low_a, lowest_bit(x));
        low_b = fmin(low_b, lowest_bit(y));
    }
    d.certified = d.magnitude == 0 || d.magnitude < 0x1p24 * low_a * low_b;
    return d;
}

static inline bool is_power_of_two(double x) {
    int exponent;
    return fabs(frexp(x, &exponent)) == 0.5;
}

/* An ulp of x in a format, at its smallest normal number or above. */
static inline double ulp_of(mpt_dtype format, double x) {
    mpt_format f = mpt_format_of(format);
    int exponent, least = 2 - f.bias;
    frexp(x, &exponent);
    exponent = x == 0 ? least : exponent;
    return ldexp(1, (exponent > least ? exponent : least) - 1 - f.mantissa_bits);
}

/* The largest difference from d.exact that a result in `out` may have. `factor` is what the sum
 * was multiplied by; by a power of two it stays exact. */
static inline double dot_allowed(const dot_bound *d, double factor, mpt_dtype out, bool fast) {
    double ulp = ulp_of(out, d->exact * factor);
    double scaled = 2 * ulp_of(MPT_DTYPE_FP32, d->exact * factor); /* of the factors */
    if (fast)
        return 5e-3 * d->magnitude * fabs(factor) + ulp;
    if (d->certified) /* exact sums, rounded */
        return (out == MPT_DTYPE_FP32 ? 0 : ulp / 2) + (is_power_of_two(factor) ? 0 : scaled);
    return 1e-5 * d->magnitude * fabs(factor) + ulp;
}

#endif
