/* Initial weights, as a function of (seed, parameter name, element) only.
 *
 * Elements 2i and 2i + 1 use the four 32-bit words of Philox4x32-10 with key = seed (stream
 * MPT_STREAM_INIT) and counter = (i low, i high, XXH3-64 of the name). All transforms are
 * float64, rounded to float32 once. With words w0, w1 for the even element and w2, w3 for the
 * odd one, u = (2^32 w0 + w1 + 0.5) / 2^64 lies inside (0, 1), and
 *
 *   normal    Box-Muller on a pair: r = sqrt(-2 ln u'), a = 2 pi u'', the even element gets
 *             a r cos, the odd one r sin, where u' is the even u and u'' the odd one
 *   uniform   a (2 u - 1)
 *   A_log     ln(1 + 15 u)                                             Mamba-2
 *   dt_bias   d = max(exp(ln a + u (ln b - ln a)), 1e-4); d + ln(1 - e^-d)   Mamba-2 */
#include "train/state.h"

#include <math.h>
#include <string.h>

#include "train/random.h"

static const double pi = 3.14159265358979323846, two32 = 4294967296.0;

enum { PIECE_PAIRS = 32 * 1024 };

/* The larger half carries all digits a double can hold; the rest only keeps u off 0 and 1. */
static double unit(uint32_t high, uint32_t low) {
    double u = ((double)high + ((double)low + 0.5) / two32) / two32;
    return u < 1 ? u : 1 - 0x1p-53;
}

static double softplus_inverse(double y) {
    return y + log(-expm1(-y));
}

/* Both elements of pair i. */
static void draw_pair(const mpt_init *init, double u0, double u1, double out[2]) {
    double a = (double)init->a, b = (double)init->b;
    const double u[2] = {u0, u1};
    if (init->kind == MPT_INIT_NORMAL) {
        double r = a * sqrt(-2 * log(u0));
        out[0] = r * cos(2 * pi * u1);
        out[1] = r * sin(2 * pi * u1);
        return;
    }
    for (int k = 0; k < 2; k++) {
        if (init->kind == MPT_INIT_UNIFORM)
            out[k] = a * (2 * u[k] - 1);
        else if (init->kind == MPT_INIT_A_LOG)
            out[k] = log(1 + 15 * u[k]);
        else
            out[k] = softplus_inverse(fmax(exp(log(a) + u[k] * (log(b) - log(a))), 1e-4));
    }
}

static void fill_pairs(const mpt_init *init, uint64_t hash, uint64_t seed, int64_t from,
                       int64_t n, float *out) {
    for (int64_t i = from; 2 * i < n && i < from + PIECE_PAIRS; i++) {
        uint32_t w[4];
        double x[2];
        mpt_random4(seed, MPT_STREAM_INIT, hash, (uint32_t)((uint64_t)i >> 32), (uint32_t)i, w);
        draw_pair(init, unit(w[0], w[1]), unit(w[2], w[3]), x);
        out[2 * i] = (float)x[0];
        if (2 * i + 1 < n)
            out[2 * i + 1] = (float)x[1];
    }
}

void mpt_init_fill(const mpt_init *init, const char *name, uint64_t seed, int n_threads,
                   int64_t n, float *out) {
    if (init->kind == MPT_INIT_ZERO || init->kind == MPT_INIT_ONE) {
        float value = init->kind == MPT_INIT_ONE ? 1.0f : 0.0f;
        for (int64_t i = 0; i < n; i++)
            out[i] = value;
        return;
    }
    uint64_t hash = mpt_hash(name, strlen(name));
    int64_t pieces = (n / 2 + PIECE_PAIRS) / PIECE_PAIRS;
#pragma omp parallel for schedule(static) num_threads(n_threads) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++)
        fill_pairs(init, hash, seed, p * PIECE_PAIRS, n, out);
}
