/* The one copy of every format, rounding, scale, sign and random stream.
 *
 * numerics_cast.h    float32 to codes and back, one rounding, nearest even
 * numerics_scale.h   scales of tensors and blocks, and the Hadamard rotation
 * numerics_layout.h  the order of block scales that tensor cores read
 * numerics_random.h  the keyed stream of stochastic rounding, and its rule
 *
 * Kernels of every backend are made from these, or are tested to give the same bytes. Integer
 * steps and single IEEE float32 operations only, no libm, so host and device agree by
 * construction; build without contraction and without fast-math, subnormals kept. C17, C++17
 * and CUDA device code. */
#ifndef MPT_KERNELS_NUMERICS_H
#define MPT_KERNELS_NUMERICS_H

#include "kernels/numerics_cast.h"
#include "kernels/numerics_layout.h"
#include "kernels/numerics_random.h"
#include "kernels/numerics_scale.h"

#endif
