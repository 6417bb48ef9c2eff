/* The context: made with the host's hooks, asked for its last error and its memory. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

mpt_status mpt_options_read(mpt_ctx *ctx, const char *call, const void *given, void *out,
                            size_t out_bytes) {
    size_t bytes;
    if (!given)
        return MPT_OK;
    memcpy(&bytes, given, sizeof bytes); /* every options struct starts with its size */
    if (bytes >= 2 * sizeof bytes && bytes % sizeof bytes == 0) {
        memcpy(out, given, bytes < out_bytes ? bytes : out_bytes);
        return MPT_OK;
    }
    if (!ctx)
        return MPT_INVALID;
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                 "%s: the options have size %zu, which no struct has", call, bytes);
    mpt_hint(ctx, "set .size to the sizeof of the struct, as its macro does");
    return status;
}

mpt_status mpt_sets_check(mpt_ctx *ctx, const char *call, const char *name, const mpt_set *sets,
                          int n) {
    if (n < 0 || (n > 0 && !sets))
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: %d %s%s", call, n, name,
                        n < 0 ? "" : ", but the array is NULL");
    for (int i = 0; i < n; i++)
        if (!sets[i].path || !sets[i].value)
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: %s[%d].%s is NULL", call, name,
                            i, sets[i].path ? "value" : "path");
    return MPT_OK;
}

static char *copy(mpt_ctx *ctx, const char *text) {
    size_t n = strlen(text) + 1;
    char *to = mpt_alloc(ctx, n);
    return to ? memcpy(to, text, n) : NULL;
}

mpt_status mpt_ctx_create(const mpt_ctx_options *options, mpt_ctx **out) {
    mpt_ctx_options o = MPT_CTX_OPTIONS_INIT;
    MPT_REQUIRE_OBJECT(out);
    *out = NULL;
    MPT_TRY(mpt_options_read(NULL, __func__, options, &o, sizeof o));
    if (!o.alloc)
        o.alloc = default_alloc;
    mpt_ctx *ctx = o.alloc(o.alloc_ud, NULL, 0, sizeof *ctx);
    if (!ctx)
        return MPT_OUT_OF_MEMORY;
    memset(ctx, 0, sizeof *ctx);
    ctx->alloc = o.alloc;
    ctx->alloc_ud = o.alloc_ud;
    ctx->log = o.log;
    ctx->log_ud = o.log_ud;
    ctx->error.text = ctx->error_text;
    ctx->error.hint = ctx->error_hint;
    ctx->error.message = ctx->error_message;
    ctx->error.c_file = "";
    if (o.modules && !(ctx->modules = copy(ctx, o.modules))) {
        mpt_ctx_destroy(ctx);
        return MPT_OUT_OF_MEMORY;
    }
    *out = ctx;
    return MPT_OK;
}

void mpt_ctx_destroy(mpt_ctx *ctx) {
    if (!ctx)
        return;
    mpt_free(ctx, ctx->modules);
    ctx->alloc(ctx->alloc_ud, ctx, sizeof *ctx, 0);
}

const mpt_error *mpt_ctx_error(const mpt_ctx *ctx) {
    static const mpt_error none = {.code = MPT_INVALID,
                                   .text = "there is no context",
                                   .hint = "",
                                   .message = "there is no context",
                                   .c_file = ""};
    return ctx ? &ctx->error : &none;
}

mpt_memory_use mpt_ctx_memory(const mpt_ctx *ctx) {
    if (!ctx)
        return (mpt_memory_use){.live_bytes = 0};
    return (mpt_memory_use){ctx->live_bytes, ctx->peak_bytes, ctx->n_allocs};
}

const char *mpt_version(void) {
    return MPT_VERSION_STRING;
}
