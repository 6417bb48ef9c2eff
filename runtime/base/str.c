/* The string builder, and text made in an arena. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

void mpt_str_init(mpt_str *s, mpt_ctx *ctx) {
    *s = (mpt_str){.ctx = ctx};
}

void mpt_str_deinit(mpt_str *s) {
    mpt_free(s->ctx, s->data);
    mpt_str_init(s, s->ctx);
}

/* Makes room for `more` bytes and the final zero. */
static bool reserve(mpt_str *s, size_t more) {
    size_t need = mpt_size_add(mpt_size_add(s->len, more), 1);
    if (s->failed)
        return false;
    if (need <= s->cap)
        return true;
    size_t cap = s->cap ? mpt_size_mul(s->cap, 2) : 256;
    if (cap < need)
        cap = need;
    char *data = mpt_alloc(s->ctx, cap);
    if (!data) {
        s->failed = true;
        (void)mpt_fail_memory(s->ctx, cap);
        return false;
    }
    if (s->data)
        memcpy(data, s->data, s->len + 1);
    mpt_free(s->ctx, s->data);
    s->data = data;
    s->cap = cap;
    return true;
}

void mpt_str_append(mpt_str *s, const char *text, size_t len) {
    if (!reserve(s, len))
        return;
    memcpy(s->data + s->len, text, len);
    s->len += len;
    s->data[s->len] = 0;
}

void mpt_str_vprintf(mpt_str *s, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    if (len >= 0 && reserve(s, (size_t)len)) {
        vsnprintf(s->data + s->len, (size_t)len + 1, fmt, again);
        s->len += (size_t)len;
    }
    va_end(again);
}

void mpt_str_printf(mpt_str *s, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    mpt_str_vprintf(s, fmt, args);
    va_end(args);
}

char *mpt_arena_printf(mpt_arena *arena, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    char *text = len < 0 ? NULL : mpt_arena_alloc(arena, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}
