/* Token files: read by mapping, checked whole; written by mapping, whole or not at all.
 *
 * nanoGPT (uint16 and nothing else), llm.c shards (a header, then uint16 or uint32), Megatron
 * (NAME.idx beside NAME.bin, any integer), and the bytes of a text. They are told apart by
 * content: only what has no header is what the caller says it is. Counts are signed 64-bit. */
#ifndef MPT_IO_TOKENS_H
#define MPT_IO_TOKENS_H

#include "base/base.h"
#include "io/file.h"

typedef enum mpt_token_format {
    MPT_TOKENS_TEXT, /* bytes; read only */
    MPT_TOKENS_NANOGPT,
    MPT_TOKENS_LLMC,   /* GPT-2's: uint16 */
    MPT_TOKENS_LLMC32, /* LLaMA-3's: uint32 */
    MPT_TOKENS_MEGATRON,
    MPT_TOKENS_FORMAT_COUNT
} mpt_token_format;

/* X(ENUM, "name", C type, largest id) */
#define MPT_TOKEN_TYPE_LIST(X)                                                                 \
    X(U8, "uint8", uint8_t, UINT8_MAX)                                                         \
    X(I8, "int8", int8_t, INT8_MAX)                                                            \
    X(I16, "int16", int16_t, INT16_MAX)                                                        \
    X(U16, "uint16", uint16_t, UINT16_MAX)                                                     \
    X(I32, "int32", int32_t, INT32_MAX)                                                        \
    X(U32, "uint32", uint32_t, UINT32_MAX)                                                     \
    X(I64, "int64", int64_t, INT64_MAX)

typedef enum mpt_token_type {
#define MPT_TOKEN_TYPE_ENUM(id, name, type, most) MPT_TOKEN_##id,
    MPT_TOKEN_TYPE_LIST(MPT_TOKEN_TYPE_ENUM)
#undef MPT_TOKEN_TYPE_ENUM
        MPT_TOKEN_TYPE_COUNT
} mpt_token_type;

const char *mpt_token_format_name(mpt_token_format format); /* "llm.c" */
const char *mpt_token_format_word(mpt_token_format format); /* "llmc", of the command line */
const char *mpt_token_type_name(mpt_token_type type);
int64_t mpt_token_type_bytes(mpt_token_type type);
int64_t mpt_token_type_largest(mpt_token_type type); /* the largest id it can hold */

/* Ids are int32 from here on, as in the graph; none is larger than this. */
#define MPT_TOKEN_LARGEST INT64_C(2147483646)

/* ---- reading ---- */

typedef struct mpt_tokens {
    mpt_ctx *ctx;
    mpt_arena arena;
    mpt_where where; /* who asked for it, for messages */
    mpt_token_format format;
    mpt_token_type type;
    const char *path; /* of the file that holds the ids */
    int64_t n;
    const unsigned char *data; /* n ids, aligned to nothing; NULL where n is 0 */
    int64_t largest;           /* id; -1 where there is none. By mpt_tokens_check */
    uint64_t
        sum; /* over all ids in their order, the same in every format. By mpt_tokens_check */
    /* Megatron's: documents are runs of sequences. Little-endian, aligned to nothing. */
    int64_t n_sequences, n_documents;
    const unsigned char *lengths;    /* int32[n_sequences], in tokens */
    const unsigned char *boundaries; /* int64[n_documents + 1], in sequences */
    mpt_file_map map, index;
} mpt_tokens;

/* Opens a token file and checks everything but its ids; MPT_DATA names file and fault. `path`
 * may be either file of a Megatron pair, or what both names start with. A file without a header
 * is taken as `headerless`: TEXT or NANOGPT. */
mpt_status mpt_tokens_open(mpt_ctx *ctx, mpt_where where, const char *path,
                           mpt_token_format headerless, mpt_tokens **out);
void mpt_tokens_close(mpt_tokens *tokens);

/* Opens any file as a text, whatever its content is like: ids are its bytes. */
mpt_status mpt_tokens_open_bytes(mpt_ctx *ctx, mpt_where where, const char *path,
                                 mpt_tokens **out);

/* Why the bytes that were opened so seem to be no text: "has bytes that are 0" within the first
 * 2^20, "is full of control characters" within the first 2^16; NULL: they may be one. *out_ids
 * says whether they may be tokens without a header instead. */
const char *mpt_tokens_doubt_text(const mpt_tokens *tokens, bool *out_ids);

/* Whether something at this path could be opened so. */
bool mpt_tokens_exist(const char *path);

/* Reads every id, on all cores, and finds the largest. Each must be at least 0 and below
 * `vocab`; 0 there means that no vocabulary is stated, and 2^31 - 1 is the bound. The first
 * that is not is named with its position. A type that cannot hold the vocabulary's last id is
 * refused: the writer may have cut ids off, and nothing would show it. */
mpt_status mpt_tokens_check(mpt_tokens *tokens, int64_t vocab);

/* Ids first ... first + n - 1, which must be there and checked. */
void mpt_tokens_read(const mpt_tokens *tokens, int64_t first, int64_t n, int32_t *out);

/* ---- what a file is ---- */

typedef enum mpt_content {
    MPT_CONTENT_OTHER, /* nothing below: bytes of a text, or tokens without a header */
    MPT_CONTENT_TOKENS,
    MPT_CONTENT_SAFETENSORS
} mpt_content;

/* By its first bytes, and by the index beside it where it has one. What cannot be opened is
 * OTHER: whoever opens it says why. */
mpt_content mpt_content_of(const char *path);

/* Whether a file that is OTHER looks like tokens without a header all the same: it has a whole
 * number of uint16, and a byte 0 among its first 2^20. Text has none; small ids are common. */
bool mpt_content_looks_like_ids(const char *path);

/* ---- writing ---- */

/* What a new file will hold. */
typedef struct mpt_token_spec {
    mpt_token_format format; /* any but TEXT */
    int64_t n;
    int64_t vocab; /* ids are below it; Megatron's type follows from it, as Megatron's own does:
                      uint16 below 65,500, else int32 */
    /* Megatron's documents, lent during the call; n_sequences 0: all is one document. */
    int64_t n_sequences, n_documents;
    const int32_t *lengths;    /* [n_sequences], in tokens; their sum is n */
    const int64_t *boundaries; /* [n_documents + 1], in sequences */
} mpt_token_spec;

typedef struct mpt_token_writer mpt_token_writer;

/* Maps the new file under a temporary name beside `path` (mpt_file_create). Of Megatron's pair
 * `path` is either name or their start, and neither may be there: two files cannot be replaced
 * in one step. */
mpt_status mpt_tokens_create(mpt_ctx *ctx, const char *path, const mpt_token_spec *spec,
                             mpt_token_writer **out);

/* Stores ids first ... first + n - 1. One that the vocabulary or the type does not hold is
 * MPT_DATA, named with its position, and the file will not be. */
mpt_status mpt_tokens_put(mpt_token_writer *writer, int64_t first, int64_t n,
                          const int32_t *ids);

/* The type that ids are stored in, and the file that they go to. */
mpt_token_type mpt_tokens_writer_type(const mpt_token_writer *writer);
const char *mpt_tokens_writer_path(const mpt_token_writer *writer);

/* Makes it durable and gives it its name; the writer is gone either way. Where this fails,
 * nothing new is there. */
mpt_status mpt_tokens_commit(mpt_token_writer *writer);

/* Drops what was written. Takes NULL. */
void mpt_tokens_abandon(mpt_token_writer *writer);

#endif
