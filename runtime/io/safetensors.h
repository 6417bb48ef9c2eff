/* safetensors files: read by mapping, strictly; written by mapping, whole or not at all.
 *
 * Layout: u64 N, N bytes of JSON, data (huggingface/safetensors README, "Format"). Everything
 * that the format forbids is an error that names file, tensor and fault: holes, overlaps, sizes
 * that do not fit their shape, doubled names, a header that is too long, trailing bytes. A
 * model in shards (NAME.safetensors.index.json, or a folder that holds one) reads as one file.
 */
#ifndef MPT_IO_SAFETENSORS_H
#define MPT_IO_SAFETENSORS_H

#include "base/base.h"

/* X(ENUM, "name in the header", bits an element) */
#define MPT_TENSOR_TYPE_LIST(X)                                                                \
    X(BOOL, "BOOL", 8)                                                                         \
    X(F4, "F4", 4)                                                                             \
    X(F6_E2M3, "F6_E2M3", 6)                                                                   \
    X(F6_E3M2, "F6_E3M2", 6)                                                                   \
    X(U8, "U8", 8)                                                                             \
    X(I8, "I8", 8)                                                                             \
    X(F8_E5M2, "F8_E5M2", 8)                                                                   \
    X(F8_E4M3, "F8_E4M3", 8)                                                                   \
    X(F8_E8M0, "F8_E8M0", 8)                                                                   \
    X(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8)                                                           \
    X(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8)                                                           \
    X(I16, "I16", 16)                                                                          \
    X(U16, "U16", 16)                                                                          \
    X(F16, "F16", 16)                                                                          \
    X(BF16, "BF16", 16)                                                                        \
    X(I32, "I32", 32)                                                                          \
    X(U32, "U32", 32)                                                                          \
    X(F32, "F32", 32)                                                                          \
    X(C64, "C64", 64)                                                                          \
    X(F64, "F64", 64)                                                                          \
    X(I64, "I64", 64)                                                                          \
    X(U64, "U64", 64)

typedef enum mpt_tensor_type {
#define MPT_TENSOR_TYPE_ENUM(id, name, bits) MPT_TENSOR_##id,
    MPT_TENSOR_TYPE_LIST(MPT_TENSOR_TYPE_ENUM)
#undef MPT_TENSOR_TYPE_ENUM
        MPT_TENSOR_TYPE_COUNT
} mpt_tensor_type;

const char *mpt_tensor_type_name(mpt_tensor_type type);
int mpt_tensor_type_bits(mpt_tensor_type type);

enum { MPT_TENSOR_MAX_RANK = 16 };

typedef struct mpt_stored_tensor {
    const char *name; /* UTF-8, lent by the file */
    const char *file; /* the shard it lies in */
    mpt_tensor_type type;
    int rank;
    int64_t dims[MPT_TENSOR_MAX_RANK];
    int64_t elements;
    const void *data; /* mapped, read-only; 8-byte aligned only where the file is so: memcpy */
    size_t bytes;
} mpt_stored_tensor;

/* ---- reading ---- */

typedef struct mpt_safetensors mpt_safetensors;

/* Opens one file, an index of shards (a path that ends in .json), or a folder that holds one of
 * model.safetensors and model.safetensors.index.json. Every header is checked before this
 * returns: MPT_DATA for what is malformed, MPT_UNSUPPORTED for what only mpt cannot read (rank
 * above 16), MPT_NOT_FOUND and MPT_IO for what the system does not give. Sizes are taken once:
 * a file that another program cuts off while it is mapped ends the process, as any map does. */
mpt_status mpt_safetensors_open(mpt_ctx *ctx, const char *path, mpt_safetensors **out);
void mpt_safetensors_close(mpt_safetensors *file);

/* Whether the path leads to a file that was read: a shard, or the index of shards. */
bool mpt_safetensors_reads(const mpt_safetensors *file, const char *path);

/* Tensors in the order of their names. NULL past the end, or where no tensor has the name. */
int mpt_safetensors_count(const mpt_safetensors *file);
const mpt_stored_tensor *mpt_safetensors_at(const mpt_safetensors *file, int index);
const mpt_stored_tensor *mpt_safetensors_find(const mpt_safetensors *file, const char *name);

/* A value of `__metadata__` of the first shard, or NULL. */
const char *mpt_safetensors_metadata(const mpt_safetensors *file, const char *key);

/* Elements first ... first + n - 1 of a floating tensor (F64, F32, F16, BF16, F8_E4M3, F8_E5M2)
 * as float32: exact, but for F64, which is rounded once. False for other types. */
bool mpt_stored_tensor_floats(const mpt_stored_tensor *tensor, int64_t first, int64_t n,
                              float *out);

/* ---- writing ---- */

/* What a new file will hold; copied. */
typedef struct mpt_tensor_spec {
    const char *name;
    mpt_tensor_type type;
    int rank;
    int64_t dims[MPT_TENSOR_MAX_RANK];
} mpt_tensor_spec;

typedef struct mpt_safetensors_writer mpt_safetensors_writer;

/* Lays out the file (types from the end of the list above to its start, so that alignment
 * falls; then names; header padded to 8) and maps it under a temporary name beside `path`, full
 * size, zeroed (without any name where the file system can do that). `metadata` is pairs of key
 * and value, ended by NULL, or NULL. Space on the disk is taken here, so that a full disk is an
 * error and no signal. MPT_INVALID where something stands at `path` that is neither a
 * safetensors file nor empty: it is not replaced. */
mpt_status mpt_safetensors_create(mpt_ctx *ctx, const char *path, const mpt_tensor_spec *specs,
                                  int n_specs, const char *const *metadata,
                                  mpt_safetensors_writer **out);

/* Where spec `index` is to be written: its bytes, in any order, by any thread. */
void *mpt_safetensors_data(mpt_safetensors_writer *writer, int index);

/* Makes the file durable and gives it its name: from then on it is whole. The writer is gone
 * either way; where it fails, so is the temporary file, and what had the name before is there.
 * A link is followed: the file that it leads to is replaced. (Should the last step fail, the
 * sync of the folder, then the new file is there, and the message says so.) */
mpt_status mpt_safetensors_commit(mpt_safetensors_writer *writer);

/* Drops the temporary file. Takes NULL. */
void mpt_safetensors_abandon(mpt_safetensors_writer *writer);

#endif
