/* What this machine has: asked once while compiling, to choose between full model and proxy. */
#ifndef MPT_IO_SYSTEM_H
#define MPT_IO_SYSTEM_H

#include <stdint.h>

/* Bytes of memory that a new program could use now, inside its container where there is one;
 * 0 where the system does not say. */
uint64_t mpt_system_memory(void);

/* Bytes of memory that this process holds now, and the most it ever held; 0 where the system
 * does not say. */
uint64_t mpt_system_resident(uint64_t *out_most);

/* Processors this process may run on, at least 1. */
int mpt_system_processors(void);

#endif
