/* The quantizer's and the casts' kernels over the vectors of lanes_avx2.h. */
#include "kernels/cpu/quantize.h"

#if defined(__x86_64__)
#include "kernels/cpu/lanes_avx2.h"

#include "kernels/cpu/cast_kernels.h"
#include "kernels/cpu/quantize_strip.h"

const mpt_quantize_kernels mpt_quantize_avx2 = {panel_amax, panel_run, panel_both,
                                                round_values};
#endif
