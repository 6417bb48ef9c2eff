/* The golden vectors of NVFP4 and its variants, by the CUDA kernels in the simulator. */
#include "device_quantize.h"

#define GOLDEN_BACKENDS device_operand
#include "unit/test_golden.c"
