/* Memory: the host's allocator, arenas over it, and sizes that cannot wrap.
 *
 * Each block carries its size in front, because the host's allocator is told it on free. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_ALIGN = 64, CHUNK_BYTES = 16 * 1024, ARENA_ALIGN = 16 };

/* In front of each block: the pointer the allocator gave and the size it was asked for. */
typedef struct block_head {
    void *raw;
    size_t total;
} block_head;

size_t mpt_size_mul(size_t a, size_t b) {
    size_t r;
    return __builtin_mul_overflow(a, b, &r) ? SIZE_MAX : r;
}

size_t mpt_size_add(size_t a, size_t b) {
    size_t r;
    return __builtin_add_overflow(a, b, &r) ? SIZE_MAX : r;
}

void *mpt_alloc(mpt_ctx *ctx, size_t bytes) {
    size_t total = mpt_size_add(bytes, BLOCK_ALIGN + sizeof(block_head));
    if (total == SIZE_MAX)
        return NULL;
    ctx->n_allocs++;
    char *raw = ctx->alloc(ctx->alloc_ud, NULL, 0, total);
    if (!raw)
        return NULL;
    uintptr_t start = (uintptr_t)raw + sizeof(block_head);
    size_t pad = (size_t)(-start & (BLOCK_ALIGN - 1));
    char *ptr = raw + sizeof(block_head) + pad;
    block_head head = {raw, total};
    memcpy(ptr - sizeof head, &head, sizeof head);
    memset(ptr, 0, bytes);
    ctx->live_bytes += total;
    if (ctx->live_bytes > ctx->peak_bytes)
        ctx->peak_bytes = ctx->live_bytes;
    return ptr;
}

void mpt_free(mpt_ctx *ctx, void *ptr) {
    if (!ptr)
        return;
    block_head head;
    memcpy(&head, (char *)ptr - sizeof head, sizeof head);
    ctx->live_bytes -= head.total;
    ctx->alloc(ctx->alloc_ud, head.raw, head.total, 0);
}

/* ---- arenas ---- */

struct mpt_chunk {
    struct mpt_chunk *next;
    size_t used, cap; /* of the bytes after this head */
};

enum { CHUNK_HEAD = (sizeof(struct mpt_chunk) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN };

void mpt_arena_init(mpt_arena *arena, mpt_ctx *ctx) {
    arena->ctx = ctx;
    arena->chunks = NULL;
}

void mpt_arena_deinit(mpt_arena *arena) {
    while (arena->chunks) {
        struct mpt_chunk *next = arena->chunks->next;
        mpt_free(arena->ctx, arena->chunks);
        arena->chunks = next;
    }
}

void *mpt_arena_alloc(mpt_arena *arena, size_t bytes) {
    size_t want = mpt_size_add(bytes, ARENA_ALIGN - 1);
    if (want != SIZE_MAX)
        want = want / ARENA_ALIGN * ARENA_ALIGN;
    struct mpt_chunk *chunk = arena->chunks;
    if (!chunk || chunk->cap - chunk->used < want) {
        size_t cap = want > CHUNK_BYTES ? want : CHUNK_BYTES;
        chunk = mpt_alloc(arena->ctx, mpt_size_add(cap, CHUNK_HEAD));
        if (!chunk) {
            (void)mpt_fail_memory(arena->ctx, bytes);
            return NULL;
        }
        chunk->cap = cap;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *ptr = (char *)chunk + CHUNK_HEAD + chunk->used;
    chunk->used += want;
    return ptr;
}

char *mpt_arena_strdup(mpt_arena *arena, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = mpt_arena_alloc(arena, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void *mpt_arena_grow(mpt_arena *arena, void *array, size_t element_bytes, int n, int *cap) {
    if (n < *cap)
        return array;
    int new_cap = *cap ? *cap * 2 : 8;
    void *grown = mpt_arena_alloc(arena, mpt_size_mul(element_bytes, (size_t)new_cap));
    if (!grown)
        return NULL;
    if (n)
        memcpy(grown, array, element_bytes * (size_t)n);
    *cap = new_cap;
    return grown;
}
