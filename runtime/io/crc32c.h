/* CRC-32C (Castagnoli): the check sum of TensorBoard's records. Reflected polynomial
 * 0x82f63b78, all ones before and after: of "123456789" it is 0xe3069283. */
#ifndef MPT_IO_CRC32C_H
#define MPT_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t mpt_crc32c(const void *data, size_t bytes);

/* As records hold it: turned and moved, so that the sum of data which holds sums is no special
 * value. */
uint32_t mpt_crc32c_masked(const void *data, size_t bytes);

#endif
