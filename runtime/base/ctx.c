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

mpt_status mpt_ctx_create(const mpt_ctx_options *options, mpt_ctx **out) {
    mpt_ctx_options o = MPT_CTX_OPTIONS_INIT;
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    if (!o.alloc)
        o.alloc = default_alloc;
    *out = NULL;
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
    *out = ctx;
    return MPT_OK;
}

void mpt_ctx_destroy(mpt_ctx *ctx) {
    if (ctx)
        ctx->alloc(ctx->alloc_ud, ctx, sizeof *ctx, 0);
}

const mpt_error *mpt_ctx_error(const mpt_ctx *ctx) {
    return &ctx->error;
}

mpt_memory_use mpt_ctx_memory(const mpt_ctx *ctx) {
    return (mpt_memory_use){ctx->live_bytes, ctx->peak_bytes, ctx->n_allocs};
}

const char *mpt_version(void) {
    return MPT_VERSION_STRING;
}
