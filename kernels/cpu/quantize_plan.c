/* Which jobs the CPU's kernels take, and how such a job lies in memory.
 *
 * Before quantize.c runs a job. What is refused here goes the definition's way. */
#include "kernels/cpu/quantize.h"

/* Scales the kernels make: all but an outer one a row where rows are columns of memory, and
 * Four Over Six of blocks of other sizes. */
static bool takes_scales(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    return (q->outer != MPT_OUTER_ROW || !job->column) &&
           (q->scale_rule.kind != MPT_RULE_FOUR_OVER_SIX || q->block_cols == 16);
}

/* The blocks of the quantized orientation, in memory. */
static bool place_blocks(const mpt_quantize_job *job, mpt_quantize_plan *plan) {
    const mpt_quantizer *q = job->q;
    plan->block = q->block_cols;
    if (mpt_quantizer_is_one_scale(q)) {
        plan->axis = MPT_AXIS_ONE;
        return true;
    }
    bool power = q->block_cols == 16 || q->block_cols == 32 || q->block_cols == 64 ||
                 q->block_cols == 128;
    if (q->block_rows == 1)
        plan->axis = job->column ? MPT_AXIS_COLUMN : MPT_AXIS_ROW;
    else
        plan->axis = MPT_AXIS_SQUARE;
    return power && (q->block_rows == 1 || q->block_rows == q->block_cols);
}

static int strip_of(const mpt_quantize_plan *plan) {
    const mpt_quantizer *q = plan->job->q;
    int rows = 1;
    if (plan->job->column) /* random groups go down in sixteens */
        rows = q->hadamard.size > 16 ? q->hadamard.size : 16;
    bool down = plan->axis == MPT_AXIS_COLUMN || plan->axis == MPT_AXIS_SQUARE;
    return down && plan->block > rows ? plan->block : rows;
}

static void place_decoded(const mpt_quantize_job *job, mpt_quantize_plan *plan) {
    plan->decoded_rows = job->column ? job->decoded_k : job->rows;
    plan->decoded_cols = job->column ? job->cols : job->decoded_k;
    plan->decoded_ld = job->column ? job->cols : job->decoded_k;
}

static void key_and_signs(const mpt_quantize_job *job, mpt_quantize_plan *plan) {
    uint32_t signs[4], k0 = (uint32_t)job->key.seed, k1 = (uint32_t)(job->key.seed >> 32);
    for (int i = 0; i < 10; i++) {
        plan->round_keys[2 * i] = k0;
        plan->round_keys[2 * i + 1] = k1;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    int n = job->q->hadamard.size;
    if (n == 0)
        return;
    mpt_quantize_signs(job, signs);
    for (int i = 0; i < MPT_HADAMARD_MAX; i++)
        plan->signs[i] = (signs[i % n / 32] >> (i % n % 32) & 1u) << 31;
}

bool mpt_quantize_plan_of(const mpt_quantize_job *job, mpt_quantize_plan *out_plan) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    if (mpt_is_wide(job->q->format) || job->q->scale.kind == MPT_SCALING_NONE ||
        !takes_scales(job) || (job->stands_for && job->column) || !place_blocks(job, out_plan))
        return false;
    out_plan->job = job;
    out_plan->finite = false;
    out_plan->counts = NULL;
    out_plan->strip = strip_of(out_plan);
    out_plan->rows = job->column ? s.k : job->rows;
    out_plan->cols = job->column ? job->cols : s.k;
    out_plan->k = s.k;
    out_plan->blocks_k = s.blocks_k;
    out_plan->groups = s.groups;
    out_plan->encode = out_plan->decode = NULL;
    out_plan->squares_ld = 0;
    out_plan->maxima = false;
    place_decoded(job, out_plan);
    key_and_signs(job, out_plan);
    return true;
}

void mpt_quantize_plan_squares(mpt_quantize_plan *plan) {
    mpt_quantize_squares s = mpt_quantize_squares_of(plan->job);
    if (s.rows == 0)
        return;
    plan->encode = plan->job->scratch;
    plan->decode = plan->encode + s.rows * s.ld;
    plan->squares_ld = s.ld;
}

/* A code stands for its value times its scale, by the factors of the tensor. That is NaN where
 * a scale is, or where a zero meets a scale that overflowed. */
void mpt_quantize_plan_restore(mpt_quantize_plan *plan) {
    const mpt_tensor_scale *t = &plan->tensor;
    plan->restore[0] = plan->restore[1] = 1.0f;
    plan->restorable = true;
    if (plan->axis == MPT_AXIS_ONE) {
        plan->restore[0] = t->decode;
        plan->restorable = mpt_is_finite(t->scale) && mpt_is_finite(t->decode);
    } else if (plan->job->q->outer != MPT_OUTER_NONE) {
        plan->restore[0] = t->amax;
        plan->restore[1] = t->constant;
        plan->restorable = mpt_is_finite(t->amax * MPT_E4M3_MAX);
    }
}
