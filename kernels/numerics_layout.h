/* Where block scales lie for the products of tensor cores.
 *
 * A quantizer puts out one scale a block, [rows, columns of blocks] in order. MXFP8 and NVFP4
 * products read them as tiles of 128 rows by 4 columns, 512 bytes each, rows 32 apart side by
 * side (numerics section 5); what pads the last tiles is zero. Only device backends need this
 * order: host backends multiply decoded values. */
#ifndef MPT_KERNELS_NUMERICS_LAYOUT_H
#define MPT_KERNELS_NUMERICS_LAYOUT_H

#include "kernels/numerics_cast.h"

/* Bytes of the tiles of rows x cols scales. */
MPT_NUMERIC int64_t mpt_swizzled_bytes(int64_t rows, int64_t cols) {
    return (rows + 127) / 128 * ((cols + 3) / 4) * 512;
}

/* Where the scale of row i and column j is; `cols` is how many there are in a row. */
MPT_NUMERIC int64_t mpt_swizzled(int64_t i, int64_t j, int64_t cols) {
    int64_t tile = i / 128 * ((cols + 3) / 4) + j / 4;
    return tile * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4;
}

#endif
