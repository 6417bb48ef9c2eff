/* The caps of the sandbox and the way in and out of it.
 *
 * Three things a stranger's recipe cannot do: use more memory than the cap (the allocator
 * refuses), run longer than its steps (a count hook raises, and once it has, it raises at every
 * instruction that follows, so that no pcall or __close can go on), or reach anything that
 * library.c does not hand out. C functions that loop are charged beforehand, because the hook
 * does not run inside them; processor time is the net under what can't be counted.
 * Next: library.c. */
#include "lua/bind/sandbox.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/nn.h"

enum { HOOK_STEPS = 1000, VARARGS_MAX = 2000, MILLION = 1000000, MIB = 1 << 20, KIB = 1 << 10 };

mpt_sandbox *mpt_sandbox_of(lua_State *L) {
    return *(mpt_sandbox **)lua_getextraspace(L);
}

/* ---- memory ---- */

/* Lua's own message for this has no place, so the line that runs is kept here: asking for it
 * allocates nothing. */
static void *refuse(mpt_sandbox *box, mpt_lua_stop why, size_t bytes) {
    if (box->L && box->stop == MPT_LUA_STOP_NONE)
        box->stop_where = mpt_sandbox_where(box->L, 0);
    box->refused = why;
    box->refused_bytes = bytes;
    return NULL;
}

/* Lua's allocator is the host's, with the cap in between. For a new object, old_size is the
 * object's type: that is how one overlong string is told from a large table. */
static void *box_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    mpt_sandbox *box = ud;
    mpt_ctx *ctx = box->ctx;
    bool new_string = !ptr && old_size == LUA_TSTRING;
    if (!ptr)
        old_size = 0;
    if (new_size == 0) {
        if (ptr)
            ctx->alloc(ctx->alloc_ud, ptr, old_size, 0);
        box->used -= old_size;
        ctx->live_bytes -= old_size;
        return NULL;
    }
    if (new_string && new_size > MPT_LUA_STRING)
        return refuse(box, MPT_LUA_STOP_STRING, new_size);
    size_t rest = box->used - old_size;
    if (new_size > old_size && (new_size > MPT_LUA_MEMORY || rest > MPT_LUA_MEMORY - new_size))
        return refuse(box, MPT_LUA_STOP_MEMORY, new_size);
    ctx->n_allocs++;
    void *fresh = ctx->alloc(ctx->alloc_ud, ptr, old_size, new_size);
    if (!fresh)
        return refuse(box, MPT_LUA_STOP_HOST_MEMORY, new_size);
    box->used = rest + new_size;
    ctx->live_bytes += new_size - old_size;
    if (ctx->live_bytes > ctx->peak_bytes)
        ctx->peak_bytes = ctx->live_bytes;
    return fresh;
}

/* ---- steps ---- */

static double processor_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static void count_hook(lua_State *L, lua_Debug *ar);

static void raise_stop(lua_State *L) {
    lua_sethook(L, count_hook, LUA_MASKLINE | LUA_MASKCOUNT, 1);
    luaL_error(L, "the sandbox stopped this recipe");
}

static void stop(lua_State *L, mpt_lua_stop why, mpt_where where) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    if (box->stop == MPT_LUA_STOP_NONE) {
        box->stop = why;
        box->stop_where = where;
    }
    raise_stop(L);
}

static bool overspent(const mpt_sandbox *box) {
    return box->steps > MPT_LUA_STEPS ||
           processor_seconds() - box->start > (double)MPT_LUA_SECONDS;
}

static void count_hook(lua_State *L, lua_Debug *ar) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    if (box->stop != MPT_LUA_STOP_NONE)
        raise_stop(L);
    box->steps += HOOK_STEPS;
    /* Passing thousands of arguments on is one instruction, but not one step of work. */
    if (lua_getlocal(L, ar, -VARARGS_MAX) || overspent(box))
        stop(L, MPT_LUA_STOP_STEPS, mpt_sandbox_where(L, 0));
}

void mpt_sandbox_charge(lua_State *L, int64_t steps) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    if (box->stop != MPT_LUA_STOP_NONE)
        raise_stop(L);
    if (steps > MPT_LUA_STEPS && !box->nn)
        stop(L, MPT_LUA_STOP_ONE_CALL, mpt_sandbox_where(L, 0));
    if (steps > MPT_LUA_STEPS - box->steps)
        stop(L, MPT_LUA_STOP_STEPS, mpt_sandbox_where(L, 0));
    box->steps += steps;
}

void mpt_sandbox_uncaught(lua_State *L, int pcall_status) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    if (pcall_status == LUA_ERRMEM)
        stop(L, box->refused, mpt_sandbox_where(L, 1));
    if (box->stop != MPT_LUA_STOP_NONE)
        raise_stop(L);
}

/* ---- places ---- */

const mpt_lua_chunk *mpt_sandbox_chunk(const mpt_sandbox *box, const char *file) {
    for (int i = 0; file && i < box->n_chunks; i++)
        if (strcmp(box->chunks[i]->file, file) == 0)
            return box->chunks[i];
    return NULL;
}

mpt_where mpt_sandbox_where(lua_State *L, int level) {
    const mpt_sandbox *box = mpt_sandbox_of(L);
    lua_Debug ar;
    for (; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        for (int i = 0; ar.currentline > 0 && i < box->n_chunks; i++)
            if (strcmp(box->chunks[i]->source, ar.source) == 0)
                return (mpt_where){box->chunks[i]->file, ar.currentline};
    }
    return MPT_NOWHERE;
}

/* ---- errors ---- */

void mpt_sandbox_check(lua_State *L, mpt_status status) {
    if (status == MPT_OK)
        return;
    mpt_sandbox *box = mpt_sandbox_of(L);
    if (status == MPT_OUT_OF_MEMORY) {
        box->refused_bytes = 0; /* the context's error already has them */
        stop(L, MPT_LUA_STOP_HOST_MEMORY, MPT_NOWHERE);
    }
    lua_pushstring(L, box->ctx->error_message);
    lua_error(L);
}

void mpt_sandbox_refuse(lua_State *L, mpt_status failure, const char *hint) {
    if (*hint)
        mpt_hint(mpt_sandbox_of(L)->ctx, "%s", hint);
    mpt_sandbox_check(L, failure);
}

static mpt_status report_stop(mpt_sandbox *box, mpt_lua_stop why) {
    mpt_ctx *ctx = box->ctx;
    const char *what = box->expression ? "expression" : "recipe";
    mpt_where where = box->stop_where;
    if (!where.file && box->n_chunks)
        where.file = box->chunks[0]->file;
    switch (why) {
    case MPT_LUA_STOP_STEPS:
        if (box->nn) {
            (void)MPT_FAIL(ctx, MPT_INVALID, where,
                           "drawing the model did not end within %d million steps, with %d "
                           "blocks drawn",
                           MPT_LUA_STEPS / MILLION, box->nn->graph->n_blocks);
            mpt_hint(ctx, "give the model fewer blocks, or look for a loop without an end");
            return MPT_INVALID;
        }
        (void)MPT_FAIL(ctx, MPT_INVALID, where, "the %s did not end within %d million steps",
                       what, MPT_LUA_STEPS / MILLION);
        mpt_hint(ctx, "it only declares: look for a loop without an end");
        return MPT_INVALID;
    case MPT_LUA_STOP_ONE_CALL:
        (void)MPT_FAIL(ctx, MPT_INVALID, where,
                       "this call alone would take more than the %d million steps that the "
                       "%s has",
                       MPT_LUA_STEPS / MILLION, what);
        mpt_hint(ctx, "give it less text or fewer entries");
        return MPT_INVALID;
    case MPT_LUA_STOP_MEMORY:
        (void)MPT_FAIL(ctx, MPT_INVALID, where, "the %s uses more than %d MiB of memory", what,
                       MPT_LUA_MEMORY / MIB);
        mpt_hint(ctx, "it only declares: look for a table or a string that grows");
        return MPT_INVALID;
    case MPT_LUA_STOP_STRING:
        (void)MPT_FAIL(ctx, MPT_INVALID, where, "the %s makes a string of more than %d KiB",
                       what, MPT_LUA_STRING / KIB);
        mpt_hint(ctx, "it only declares: look for a string that grows");
        return MPT_INVALID;
    case MPT_LUA_STOP_NONE:
    case MPT_LUA_STOP_HOST_MEMORY:
        break;
    }
    if (box->refused_bytes == 0 && ctx->error.code == MPT_OUT_OF_MEMORY)
        return MPT_OUT_OF_MEMORY;
    return mpt_fail_memory(ctx, box->refused_bytes);
}

/* `source:12: text`, as Lua writes it, into a place and a text. */
static const char *split_place(const mpt_sandbox *box, const char *message, mpt_where *out) {
    for (int i = 0; i < box->n_chunks; i++) {
        const char *source = box->chunks[i]->source + 1; /* after the '=' */
        size_t length = strlen(source);
        if (strncmp(message, source, length) != 0 || message[length] != ':')
            continue;
        char *end;
        long line = strtol(message + length + 1, &end, 10);
        if (line > 0 && line < INT32_MAX && strncmp(end, ": ", 2) == 0) {
            *out = (mpt_where){box->chunks[i]->file, (int)line};
            return end + 2;
        }
    }
    return message;
}

/* What was raised, as the context's error. */
static mpt_status report(mpt_sandbox *box, int pcall_status) {
    lua_State *L = box->L;
    mpt_ctx *ctx = box->ctx;
    if (box->stop != MPT_LUA_STOP_NONE)
        return report_stop(box, box->stop);
    if (pcall_status == LUA_ERRMEM)
        return report_stop(box, box->refused);
    mpt_where where = {box->n_chunks ? box->chunks[0]->file : NULL, 0};
    if (lua_type(L, -1) != LUA_TSTRING)
        return MPT_FAIL(ctx, MPT_INVALID, where, "the recipe raised an error that is a %s",
                        luaL_typename(L, -1));
    const char *message = lua_tostring(L, -1);
    if (ctx->error.code != MPT_OK && strcmp(message, ctx->error_message) == 0)
        return ctx->error.code;
    const char *text = split_place(box, message, &where);
    return MPT_FAIL(ctx, MPT_INVALID, where, "%s", text);
}

/* ---- the state ---- */

/* Reached only by an error outside a protected call, which mpt_sandbox_call leaves no room for.
 * Returning makes Lua abort, so there is nothing to do here. */
static int panic(lua_State *L) {
    (void)L;
    return 0;
}

void mpt_sandbox_rewind(mpt_sandbox *box) {
    box->steps = 0;
    box->start = processor_seconds();
    box->stop = box->refused = MPT_LUA_STOP_NONE;
    box->stop_where = MPT_NOWHERE;
    lua_sethook(box->L, count_hook, LUA_MASKCOUNT, HOOK_STEPS);
}

mpt_status mpt_sandbox_create(mpt_ctx *ctx, mpt_sandbox **out) {
    *out = NULL;
    mpt_sandbox *box = mpt_alloc(ctx, sizeof *box);
    if (!box)
        return mpt_fail_memory(ctx, sizeof *box);
    box->ctx = ctx;
    mpt_arena_init(&box->arena, ctx);
    box->L = lua_newstate(box_alloc, box);
    if (!box->L) {
        size_t bytes = box->refused_bytes;
        mpt_free(ctx, box);
        return mpt_fail_memory(ctx, bytes);
    }
    *(mpt_sandbox **)lua_getextraspace(box->L) = box;
    lua_atpanic(box->L, panic);
    mpt_sandbox_rewind(box);
    *out = box;
    return MPT_OK;
}

void mpt_sandbox_destroy(mpt_sandbox *box) {
    if (!box)
        return;
    lua_close(box->L);
    mpt_arena_deinit(&box->arena);
    mpt_free(box->ctx, box);
}

mpt_status mpt_sandbox_call(mpt_sandbox *box, lua_CFunction fn, void *arg) {
    lua_State *L = box->L;
    lua_settop(L, 0);
    lua_pushcfunction(L, fn);
    lua_pushlightuserdata(L, arg);
    int rc = lua_pcall(L, 1, 0, 0);
    mpt_status status = rc == LUA_OK ? MPT_OK : report(box, rc);
    lua_settop(L, 0);
    return status;
}
