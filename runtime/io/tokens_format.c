/* The formats of token files: names, types, and what a file is by its first bytes. */
#include "io/tokens_format.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors_read.h"

/* ---- names ---- */

static const char *const format_names[][2] = {{"text", "text"},
                                              {"nanoGPT", "nanogpt"},
                                              {"llm.c", "llmc"},
                                              {"llm.c", "llmc32"},
                                              {"Megatron", "megatron"}};
_Static_assert(MPT_COUNT(format_names) == MPT_TOKENS_FORMAT_COUNT, "one name a format");

const char *mpt_token_format_name(mpt_token_format format) {
    return (unsigned)format < MPT_TOKENS_FORMAT_COUNT ? format_names[format][0] : "?";
}

const char *mpt_token_format_word(mpt_token_format format) {
    return (unsigned)format < MPT_TOKENS_FORMAT_COUNT ? format_names[format][1] : "?";
}

static const struct {
    const char *name;
    int64_t bytes, largest;
} types[] = {
#define TYPE_ROW(id, name, type, most) {name, (int64_t)sizeof(type), most},
    MPT_TOKEN_TYPE_LIST(TYPE_ROW)
#undef TYPE_ROW
};

const char *mpt_token_type_name(mpt_token_type type) {
    return (unsigned)type < MPT_TOKEN_TYPE_COUNT ? types[type].name : "?";
}

int64_t mpt_token_type_bytes(mpt_token_type type) {
    return types[type].bytes;
}

int64_t mpt_token_type_largest(mpt_token_type type) {
    return types[type].largest;
}

/* By code - 1; 6 and 7 are floating types. */
static const mpt_token_type megatron_types[] = {
    MPT_TOKEN_U8,  MPT_TOKEN_I8,         MPT_TOKEN_I16,        MPT_TOKEN_I32,
    MPT_TOKEN_I64, MPT_TOKEN_TYPE_COUNT, MPT_TOKEN_TYPE_COUNT, MPT_TOKEN_U16};

mpt_token_type mpt_megatron_type(uint8_t code) {
    return code >= 1 && code <= MPT_COUNT(megatron_types) ? megatron_types[code - 1]
                                                          : MPT_TOKEN_TYPE_COUNT;
}

uint8_t mpt_megatron_code(mpt_token_type type) {
    for (uint8_t i = 0; i < MPT_COUNT(megatron_types); i++)
        if (megatron_types[i] == type)
            return (uint8_t)(i + 1);
    return 0;
}

/* ---- first bytes ---- */

uint32_t mpt_tokens_load32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

uint64_t mpt_tokens_load64(const unsigned char *at) {
    return (uint64_t)mpt_tokens_load32(at + 4) << 32 | mpt_tokens_load32(at);
}

uint32_t mpt_llmc_magic(const unsigned char *start, size_t n, const char **out_what) {
    static const struct {
        uint32_t magic;
        const char *what;
    } kinds[] = {{MPT_LLMC_MAGIC16, "a token shard"},   {MPT_LLMC_MAGIC32, "a token shard"},
                 {20240326, "a GPT-2 checkpoint"},      {20240803, "a LLaMA-3 checkpoint"},
                 {20240522, "an evaluation set"},       {20240527, "an optimizer's state"},
                 {20240327, "a recorded forward pass"}, {20240328, "a tokenizer"}};
    uint32_t magic = n >= 4 ? mpt_tokens_load32(start) : 0;
    for (size_t i = 0; i < MPT_COUNT(kinds); i++) {
        if (kinds[i].magic != magic)
            continue;
        if (out_what)
            *out_what = kinds[i].what;
        return magic;
    }
    return 0;
}

bool mpt_is_megatron_index(const unsigned char *start, size_t n) {
    return n >= MPT_MEGATRON_MAGIC_BYTES &&
           memcmp(start, MPT_MEGATRON_MAGIC, MPT_MEGATRON_MAGIC_BYTES) == 0;
}

bool mpt_is_safetensors(const unsigned char *start, size_t n) {
    return n >= 9 && mpt_tokens_load64(start) <= MPT_SAFETENSORS_HEADER_MAX && start[8] == '{';
}

/* The first bytes of a file, as many as there are; 0 where it cannot be read. */
static size_t read_start(const char *path, unsigned char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    ssize_t got = pread(fd, out, size, 0);
    close(fd);
    return got > 0 ? (size_t)got : 0;
}

static bool holds_index(const char *path) {
    unsigned char start[MPT_MEGATRON_MAGIC_BYTES];
    return mpt_is_megatron_index(start, read_start(path, start, sizeof start));
}

/* ---- Megatron's two files ---- */

bool mpt_token_pair_of(mpt_arena *arena, const char *path, mpt_token_pair *out) {
    size_t n = strlen(path);
    bool named =
        n > 4 && (strcmp(path + n - 4, ".idx") == 0 || strcmp(path + n - 4, ".bin") == 0);
    int stem = (int)(named ? n - 4 : n);
    out->index = mpt_arena_printf(arena, "%.*s.idx", stem, path);
    out->data = mpt_arena_printf(arena, "%.*s.bin", stem, path);
    return out->index && out->data;
}

/* The index beside a path: NAME.idx of NAME.bin, or of NAME where that is no file. */
static bool beside_an_index(const char *path) {
    char index[4096];
    size_t n = strlen(path);
    bool data = n > 4 && strcmp(path + n - 4, ".bin") == 0;
    if ((!data && mpt_file_exists(path)) || n + 5 > sizeof index)
        return false;
    snprintf(index, sizeof index, "%.*s.idx", (int)(data ? n - 4 : n), path);
    return holds_index(index);
}

bool mpt_tokens_exist(const char *path) {
    return mpt_file_exists(path) || beside_an_index(path);
}

mpt_content mpt_content_of(const char *path) {
    unsigned char start[16];
    size_t n = read_start(path, start, sizeof start);
    if (mpt_llmc_magic(start, n, NULL) || mpt_is_megatron_index(start, n))
        return MPT_CONTENT_TOKENS;
    if (mpt_is_safetensors(start, n))
        return MPT_CONTENT_SAFETENSORS;
    return beside_an_index(path) ? MPT_CONTENT_TOKENS : MPT_CONTENT_OTHER;
}

bool mpt_content_looks_like_ids(const char *path) {
    unsigned char piece[4096];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool found = false;
    bool even = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size % 2 == 0;
    for (int i = 0; even && i < 256 && !found; i++) {
        ssize_t n = pread(fd, piece, sizeof piece, (off_t)i * (off_t)sizeof piece);
        if (n <= 0)
            break;
        found = memchr(piece, 0, (size_t)n) != NULL;
    }
    if (fd >= 0)
        close(fd);
    return found && mpt_content_of(path) == MPT_CONTENT_OTHER;
}
