/* GPT-2 checkpoints of llm.c: a header of 256 int32 and the tensors of all layers behind it,
 * either all float32 (version 3) or all bfloat16 (version 5).
 *
 * Tensors are shown as a checkpoint without root has them, "h.0.attn.c_attn.weight", with every
 * matrix as [out, in]. The token table is padded with rows that belong to no token: they are
 * zero where mpt writes, and nobody sees them where it reads. */
#ifndef MPT_IO_LLMC_H
#define MPT_IO_LLMC_H

#include "io/safetensors.h"

typedef struct mpt_llmc_shape {
    int32_t positions, vocab, layers, heads, width;
} mpt_llmc_shape;

typedef struct mpt_llmc mpt_llmc;

/* Whether there is a file at the path that starts as a checkpoint of llm.c does. */
bool mpt_llmc_is(const char *path);

/* Opens a checkpoint; its header and its size are checked. MPT_DATA for what is malformed,
 * MPT_UNSUPPORTED for a version or a model that mpt does not read. */
mpt_status mpt_llmc_open(mpt_ctx *ctx, const char *path, mpt_llmc **out);
void mpt_llmc_close(mpt_llmc *file);

/* Maps a new file, zeroed but for its header; `type` is F32 or BF16. The tensors' data is to be
 * written, through the pointers that mpt_llmc_at gives. */
mpt_status mpt_llmc_create(mpt_ctx *ctx, const char *path, const mpt_llmc_shape *shape,
                           mpt_tensor_type type, mpt_llmc **out);

/* Makes a new file durable and gives it its name; it is closed either way. Where a new file is
 * closed instead, nothing of it stays. */
mpt_status mpt_llmc_commit(mpt_llmc *file);

mpt_llmc_shape mpt_llmc_get_shape(const mpt_llmc *file);
int mpt_llmc_count(const mpt_llmc *file);
const mpt_stored_tensor *mpt_llmc_at(const mpt_llmc *file, int index); /* NULL past the end */
/* Where the tensor of a new file is to be written. */
void *mpt_llmc_data(mpt_llmc *file, int index);

#endif
