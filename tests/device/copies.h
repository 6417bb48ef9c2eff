/* Quantized copies of a matrix as the CPU makes them, with room for the device's beside. */
#ifndef MPT_TESTS_DEVICE_COPIES_H
#define MPT_TESTS_DEVICE_COPIES_H

#include "../any_quantizer.h"
#include "rig.h"

enum {
    COPY_ROW_OPERAND = 0x2468,
    COPY_COL_OPERAND = 0x1357,
    COPY_ROW_SCOPE = 6,
    COPY_COL_SCOPE = 5
};

typedef struct copy {
    mpt_quantize_job job;
    case_result expected;
    rig_tensor data, factor; /* on the device, nothing in them yet */
} copy;

/* Room for one copy; `job` has q, x, rows, cols and the operand's format. */
copy copy_of(rig *r, const mpt_quantize_job *job, bool column);
void copy_free(rig *r, copy *c);

/* Makes both on the CPU. */
void copy_run_both(copy *row, copy *col);

/* What the device is to have of it: data.bytes of them, 0 where nothing has to be. */
void copy_image(const copy *c, uint8_t *image);

#endif
