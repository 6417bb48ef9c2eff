/* Errors and log lines. An error is text in the context's fixed buffers: place, fault, way out.
 */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

const char *mpt_status_name(mpt_status status) {
    static const char *const names[] = {
#define NAME(name, text) "MPT_" #name,
        MPT_STATUS_LIST(NAME)
#undef NAME
    };
    return (unsigned)status < MPT_STATUS_COUNT ? names[status] : "MPT_?";
}

const char *mpt_status_text(mpt_status status) {
    static const char *const texts[] = {
#define TEXT(name, text) text,
        MPT_STATUS_LIST(TEXT)
#undef TEXT
    };
    return (unsigned)status < MPT_STATUS_COUNT ? texts[status] : "no such status";
}

/* A recipe's words and a file's names end on a terminal and in log lines, and must neither
 * colour the one nor begin another of the other. */
void mpt_plain(char *out, size_t size, const char *text) {
    size_t used = 0;
    for (; *text && used + 5 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", c);
        else
            out[used++] = *text;
    }
    for (; *text && used + 1 < size && (unsigned char)*text >= 0x20 && *text != 0x7f; text++)
        out[used++] = *text;
    out[used] = 0;
}

/* place + text + hint, as a person reads it: `nvfp4.lua:14: wgrad.rounding: ...; did you ...?`
 */
static void compose_message(mpt_ctx *ctx) {
    const mpt_error *e = &ctx->error;
    char place[MPT_ERROR_WHERE + 16] = "";
    if (e->file && e->line > 0)
        snprintf(place, sizeof place, "%s:%d: ", e->file, e->line);
    else if (e->file)
        snprintf(place, sizeof place, "%s: ", e->file);
    snprintf(ctx->error_message, sizeof ctx->error_message, "%s%s%s%s", place, e->text,
             *e->hint ? "; " : "", e->hint);
}

mpt_status mpt_fail(mpt_ctx *ctx, mpt_status code, mpt_where where, const char *c_file,
                    int c_line, const char *fmt, ...) {
    mpt_error *e = &ctx->error;
    char text[MPT_ERROR_TEXT]; /* the arguments may be an earlier error's text */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_plain(ctx->error_text, sizeof ctx->error_text, text);
    ctx->error_hint[0] = 0;
    if (where.file && where.file != ctx->error_where)
        mpt_plain(ctx->error_where, sizeof ctx->error_where, where.file);
    e->code = code;
    e->file = where.file ? ctx->error_where : NULL;
    e->line = where.line;
    e->c_file = c_file;
    e->c_line = c_line;
    compose_message(ctx);
    return code;
}

void mpt_hint(mpt_ctx *ctx, const char *fmt, ...) {
    char text[MPT_ERROR_HINT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_plain(ctx->error_hint, sizeof ctx->error_hint, text);
    compose_message(ctx);
}

mpt_status mpt_fail_memory(mpt_ctx *ctx, size_t bytes) {
    mpt_status status = MPT_FAIL(ctx, MPT_OUT_OF_MEMORY, MPT_NOWHERE,
                                 "out of memory: the allocator refused %zu bytes", bytes);
    mpt_hint(ctx, "free memory, or choose a smaller model, batch or sequence");
    return status;
}

void mpt_log(mpt_ctx *ctx, mpt_log_level level, const char *fmt, ...) {
    if (!ctx->log)
        return;
    char line[MPT_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    ctx->log(ctx->log_ud, level, line);
}
