/* ref.quantize, Four Over Six: of two scales of a block, the one with the smaller error.
 *
 * quantize_formulas.h holds the scales and the error of an element; here is the order of the
 * sums, which decides ties: along a row in order, then over the rows of the block as a tree
 * whose halves are folded onto each other, as lanes of a warp are. */
#include "kernels/quantize_job.h"

enum { MOST_ROWS = 128 };

static float error_of(const mpt_quantize_job *job, const mpt_quantize_shape *s,
                      const mpt_tensor_scale *tensor, mpt_quantize_area a, uint32_t code) {
    const mpt_quantizer *q = job->q;
    mpt_block_factors f = mpt_quantize_block_of_code(q, tensor, code);
    float row[MOST_ROWS] = {0};
    for (int64_t r = a.r0; r < a.r1; r++)
        for (int64_t k = a.k0; k < a.k1; k++) {
            float x = mpt_quantize_value(job, s, r, k);
            row[r - a.r0] += mpt_quantize_choice_error(q, tensor, &f, x);
        }
    for (int64_t h = s->block_rows / 2; h > 0; h /= 2)
        for (int64_t i = 0; i < h; i++)
            row[i] += row[i + h];
    return row[0];
}

uint32_t mpt_quantize_four_over_six(const mpt_quantize_job *job,
                                    const mpt_quantize_shape *shape,
                                    const mpt_tensor_scale *tensor, mpt_quantize_area area,
                                    float amax) {
    uint32_t six, four;
    mpt_four_over_six(amax, &tensor->outer, &six, &four);
    float error_six = error_of(job, shape, tensor, area, six);
    float error_four = error_of(job, shape, tensor, area, four);
    return error_four < error_six ? four : six;
}
