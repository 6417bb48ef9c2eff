/* What became of the values of one tensor that the kernels' counts do not tell: values that a
 * file of codes cannot give back as numbers at all, and why.
 *
 * quantize_file.c asks after each tensor and adds up; losses.c also says it to the user. */
#ifndef MPT_TOOLS_LOSSES_H
#define MPT_TOOLS_LOSSES_H

#include "tools/matrix.h"

typedef struct mpt_tool_losses {
    uint64_t nonfinite; /* values that are NaN or Inf as FP32 */
    uint64_t beyond;    /* of them: finite in F64, but beyond FP32 */
    uint64_t became;    /* finite values that are NaN or Inf as they are decoded again */
} mpt_tool_losses;

/* Compares the values with what was decoded in their places. */
mpt_tool_losses mpt_tool_losses_of(const mpt_stored_tensor *tensor,
                                   const mpt_tool_values *values, const float *decoded);

/* One warning that names the tensor, or none where nothing was lost. `amax`: its largest finite
 * magnitude; `scaled`: the format has scales, and is no plain cast. */
void mpt_tool_losses_note(mpt_ctx *ctx, const mpt_stored_tensor *tensor,
                          const mpt_tool_losses *losses, float amax, bool scaled);

#endif
