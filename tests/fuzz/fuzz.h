/* What a fuzz target offers and what it is offered, in libFuzzer's names. */
#ifndef MPT_TESTS_FUZZ_H
#define MPT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* The target: one input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target's own way to change an input in place; gives the new size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* The plain way, by libFuzzer or by replay.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#endif
