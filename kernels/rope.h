/* The angles of rope, in double: what all backends share, so that they turn by the same ones.
 *
 * A pair i at position t turns by t * f(i). Where f is not scaled it is theta^(-2 i / dims). By
 * "linear" it is over the factor; by "llama3" so are the frequencies that turn less than
 * low_freq_factor times within the original length, those that turn more than high_freq_factor
 * times are not, and between them the two are mixed. */
#ifndef MPT_KERNELS_ROPE_H
#define MPT_KERNELS_ROPE_H

#include <math.h>

#include "graph/graph.h"
#include "kernels/numerics_cast.h" /* what marks code that a device can call */

MPT_NUMERIC double mpt_rope_frequency(const mpt_rope *r, int64_t pair) {
    const double turn = 6.28318530717958647693;
    double f = pow((double)r->theta, -2.0 * (double)pair / (double)r->dims);
    double factor = (double)r->factor;
    if (r->scaling == MPT_ROPE_LINEAR)
        return f / factor;
    if (r->scaling != MPT_ROPE_LLAMA3)
        return f;
    double low = (double)r->low_freq_factor, high = (double)r->high_freq_factor;
    double turns = (double)r->original_positions * f / turn;
    double kept = (turns - low) / (high - low);
    kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    return (1 - kept) * f / factor + kept * f;
}

#endif
