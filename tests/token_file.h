/* Token files for tests, byte by byte: what the other tools write. */
#ifndef MPT_TESTS_TOKEN_FILE_H
#define MPT_TESTS_TOKEN_FILE_H

#include "io/tokens.h"
#include "mpt_test.h"
#include "safetensors_file.h"

/* Bytes that grow: little-endian numbers behind each other. */
typedef struct raw {
    unsigned char data[4096];
    size_t n;
} raw;

static inline void raw_put(raw *r, uint64_t x, int bytes) {
    assert_true(r->n + (size_t)bytes <= sizeof r->data);
    for (int i = 0; i < bytes; i++)
        r->data[r->n++] = (unsigned char)(x >> (8 * i));
}

/* An llm.c shard; `counted` is what its header says. */
static inline raw raw_shard(uint32_t magic, uint32_t version, uint32_t counted,
                            const int64_t *ids, int n) {
    raw r = {.n = 0};
    raw_put(&r, magic, 4);
    raw_put(&r, version, 4);
    raw_put(&r, counted, 4);
    r.n = 1024;
    for (int i = 0; i < n; i++)
        raw_put(&r, (uint64_t)ids[i], magic == 20240801 ? 4 : 2);
    return r;
}

static inline raw raw_ids(const int64_t *ids, int n, int bytes) {
    raw r = {.n = 0};
    for (int i = 0; i < n; i++)
        raw_put(&r, (uint64_t)ids[i], bytes);
    return r;
}

/* Megatron's index of sequences of these lengths, a document each. */
static inline raw raw_index(uint8_t code, int bytes, const int32_t *lengths, int s) {
    raw r = {.n = 0};
    uint64_t at = 0;
    memcpy(r.data, "MMIDIDX\0", 9);
    r.n = 9;
    raw_put(&r, 1, 8);
    raw_put(&r, code, 1);
    raw_put(&r, (uint64_t)s, 8);
    raw_put(&r, (uint64_t)s + 1, 8);
    for (int i = 0; i < s; i++)
        raw_put(&r, (uint32_t)lengths[i], 4);
    for (int i = 0; i < s; i++) {
        raw_put(&r, at, 8);
        at += (uint64_t)lengths[i] * (uint64_t)bytes;
    }
    for (int i = 0; i <= s; i++)
        raw_put(&r, (uint64_t)i, 8);
    return r;
}

/* A path in the folder. */
typedef struct path_text {
    char text[160];
} path_text;

static inline path_text path_in(const folder *f, const char *name) {
    path_text p;
    snprintf(p.text, sizeof p.text, "%s/%s", f->path, name);
    return p;
}

static inline void raw_write(const folder *f, const char *name, const raw *r) {
    bytes_write(path_in(f, name).text, r->data, r->n);
}

/* The file must be `size` bytes of this hexadecimal text, in which spaces mean nothing. */
static inline void assert_hex(const char *path, size_t at, const char *hex) {
    file_bytes b = bytes_read(path);
    for (; *hex; hex++) {
        unsigned byte;
        if (*hex == ' ')
            continue;
        assert_int_equal(sscanf(hex++, "%2x", &byte), 1);
        assert_true(at < b.size);
        if (b.data[at] != byte)
            fail_msg("%s: byte %zu is %02x, not %02x", path, at, b.data[at], byte);
        at++;
    }
    bytes_free(&b);
}

#endif
