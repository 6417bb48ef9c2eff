/* The golden vectors of FP8 and MXFP8, by the CUDA kernels in the simulator. */
#include "device_quantize.h"

#define GOLDEN_BACKENDS device_operand
#include "unit/test_golden_fp8.c"
