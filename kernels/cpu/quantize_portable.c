/* The quantizer's and the casts' kernels over the vectors of lanes_portable.h. */
#include "kernels/cpu/lanes_portable.h"

#include "kernels/cpu/cast_kernels.h"
#include "kernels/cpu/quantize_strip.h"

const mpt_quantize_kernels mpt_quantize_portable = {panel_amax, panel_run, panel_both,
                                                    round_values};
