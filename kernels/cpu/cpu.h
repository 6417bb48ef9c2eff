/* Kernels of the cpu backend, named by table.c.
 *
 * All of them split their work into pieces that do not depend on the number of threads and add
 * partial sums in the order of the pieces, so that one thread and many give the same bits. */
#ifndef MPT_KERNELS_CPU_CPU_H
#define MPT_KERNELS_CPU_CPU_H

#include "kernels/kernel.h"

#endif
