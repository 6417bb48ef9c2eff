/* What the three files of the reader share: one mapped file, and the whole model made of them.
 *
 * safetensors.c chooses the files and joins them, safetensors_index.c reads the list of shards,
 * safetensors_header.c checks one file. Names and paths lie in the arena of the whole. */
#ifndef MPT_IO_SAFETENSORS_READ_H
#define MPT_IO_SAFETENSORS_READ_H

#include <jansson.h>

#include "io/file.h"
#include "io/safetensors.h"

/* One file. Its tensors are in the order of their data. */
typedef struct mpt_shard {
    const char *path;
    mpt_file_map map;
    mpt_stored_tensor *tensors;
    int n_tensors;
    const char **metadata; /* pairs of key and value */
    int n_metadata;
} mpt_shard;

struct mpt_safetensors {
    mpt_ctx *ctx;
    mpt_arena arena;
    const char *index; /* the path of the index of shards, or NULL */
    mpt_shard *shards; /* in the order of their names */
    int n_shards;
    mpt_stored_tensor *tensors; /* of all shards, in the order of their names */
    int n_tensors;
};

/* A name cut to a length that leaves room for the rest of a message. */
typedef struct mpt_brief {
    char text[160];
} mpt_brief;
mpt_brief mpt_brief_name(const char *name);

/* The type with this name in a header, or MPT_TENSOR_TYPE_COUNT. */
mpt_tensor_type mpt_tensor_type_by_name(const char *name);

/* Elements and bytes of a shape. NULL, or why it cannot be stored; `why` gives the room. */
const char *mpt_tensor_size(mpt_tensor_type type, const int64_t *dims, int rank,
                            int64_t *out_elements, size_t *out_bytes);

enum { MPT_SAFETENSORS_HEADER_MAX = 100000000 };

/* Parses JSON strictly: no doubled keys, valid UTF-8, nothing behind it but blanks. `at` is the
 * place of the text in its file, for the message. */
mpt_status mpt_safetensors_json(mpt_ctx *ctx, const char *path, const char *text, size_t bytes,
                                size_t at, json_t **out);

/* Maps shard->path and reads its header. What was mapped stays with the shard, also where this
 * fails. */
mpt_status mpt_shard_open(mpt_arena *arena, mpt_shard *shard);

/* Opens all shards that an index names, and what they hold must be what it says. Sets the
 * shards of `file`; tensors are joined between the two calls. */
mpt_status mpt_safetensors_read_index(mpt_safetensors *file, const char *path, json_t **out);
mpt_status mpt_safetensors_check_index(const mpt_safetensors *file, const char *path,
                                       const json_t *index);

#endif
