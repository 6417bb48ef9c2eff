/* Where everything of a new safetensors file will lie: made before the file is. */
#ifndef MPT_IO_SAFETENSORS_LAYOUT_H
#define MPT_IO_SAFETENSORS_LAYOUT_H

#include "io/safetensors.h"

typedef struct mpt_safetensors_layout {
    mpt_str header;  /* with the 8 bytes of its length in front, padded */
    size_t *offsets; /* of each spec's data, from the file's start; from mpt_alloc */
    size_t size;     /* of the file */
} mpt_safetensors_layout;

/* Checks the specs and lays them out. `path` is for messages. What was made belongs to `out`,
 * also where this fails. */
mpt_status mpt_safetensors_layout_make(mpt_ctx *ctx, const char *path,
                                       const mpt_tensor_spec *specs, int n_specs,
                                       const char *const *metadata,
                                       mpt_safetensors_layout *out);
void mpt_safetensors_layout_deinit(mpt_ctx *ctx, mpt_safetensors_layout *layout);

#endif
