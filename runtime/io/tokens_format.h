/* What the reader and the writer of token files both know of the formats: magics, headers, the
 * codes of Megatron's types, the names of its pair. */
#ifndef MPT_IO_TOKENS_FORMAT_H
#define MPT_IO_TOKENS_FORMAT_H

#include "io/tokens.h"

/* llm.c: 256 int32, of which three say something: magic, version, count. */
enum {
    MPT_LLMC_HEADER = 1024,
    MPT_LLMC_MAGIC16 = 20240520,
    MPT_LLMC_VERSION16 = 1,
    MPT_LLMC_MAGIC32 = 20240801,
    MPT_LLMC_VERSION32 = 7
};

/* Megatron: magic, u64 version, u8 code of the type, u64 sequences, u64 boundaries; then int32
 * lengths and int64 offsets of the sequences, int64 boundaries of the documents, and at times
 * an int8 mode a sequence. */
#define MPT_MEGATRON_MAGIC "MMIDIDX\0" /* and the literal's own zero: nine bytes */
enum { MPT_MEGATRON_MAGIC_BYTES = 9, MPT_MEGATRON_HEADER = 34 };

/* Codes are positions; what is no integer is MPT_TOKEN_TYPE_COUNT. */
mpt_token_type mpt_megatron_type(uint8_t code);
uint8_t mpt_megatron_code(mpt_token_type type);

/* Little-endian numbers at any address. */
uint32_t mpt_tokens_load32(const unsigned char *at);
uint64_t mpt_tokens_load64(const unsigned char *at);

/* The llm.c magic of a file's first bytes; 0 where they are none of its kinds. `out_what`, if
 * not NULL, says what such a file holds: "a token shard". */
uint32_t mpt_llmc_magic(const unsigned char *start, size_t n, const char **out_what);

bool mpt_is_megatron_index(const unsigned char *start, size_t n);
bool mpt_is_safetensors(const unsigned char *start, size_t n); /* nine bytes tell */

/* The pair that a path stands for: NAME.idx and NAME.bin, where the path is one of them or
 * NAME. In the arena; false without memory. */
typedef struct mpt_token_pair {
    const char *index, *data;
} mpt_token_pair;
bool mpt_token_pair_of(mpt_arena *arena, const char *path, mpt_token_pair *out);

/* Reads and checks Megatron's index, then maps the file of ids (tokens_megatron.c). */
mpt_status mpt_tokens_open_megatron(mpt_tokens *tokens, const mpt_token_pair *pair);

#endif
