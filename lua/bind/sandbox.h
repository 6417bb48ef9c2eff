/* A Lua state that runs strangers' recipes: its memory, its steps and its errors.
 *
 * One sandbox a recipe. It holds the Lua state with its caps, the texts of the chunks it ran
 * (so that errors can name the line of a key), and what leads from a Lua error to the context's
 * error. The environment the chunks see is made in library.c; require.c finds more chunks.
 * Owner: the recipe, through mpt_source.ud. One thread. */
#ifndef MPT_LUA_BIND_SANDBOX_H
#define MPT_LUA_BIND_SANDBOX_H

#include <lua.h>
#include <lauxlib.h>

#include "recipe/recipe.h"

enum {
    MPT_LUA_MEMORY = 64 << 20,        /* bytes of the whole state */
    MPT_LUA_STRING = 64 << 10,        /* bytes of one string */
    MPT_LUA_STEPS = 20 * 1000 * 1000, /* VM instructions, and C work counted like them */
    MPT_LUA_SECONDS = 20,             /* of processor time: the net under the steps */
    MPT_LUA_FILE = 1 << 20            /* bytes of one chunk's text */
};

/* Why a sandbox stopped for good. */
typedef enum mpt_lua_stop {
    MPT_LUA_STOP_NONE,
    MPT_LUA_STOP_STEPS,
    MPT_LUA_STOP_ONE_CALL,   /* one call that alone takes more than all steps */
    MPT_LUA_STOP_MEMORY,     /* the cap on the state */
    MPT_LUA_STOP_STRING,     /* the cap on one string */
    MPT_LUA_STOP_HOST_MEMORY /* the host's allocator refused */
} mpt_lua_stop;

/* The text of a file that was run. */
typedef struct mpt_lua_chunk {
    const char *source; /* as Lua calls it: short, so that no message cuts it */
    const char *file;   /* as the user wrote it */
    const char *text;
    size_t length;
} mpt_lua_chunk;

typedef struct mpt_sandbox {
    mpt_ctx *ctx;
    mpt_arena arena; /* chunks and names; the Lua state has the allocator directly */
    lua_State *L;
    mpt_recipe *recipe; /* being loaded, then the owner */
    size_t used;
    int64_t steps;
    double start;         /* processor seconds when this entry began */
    mpt_lua_stop stop;    /* sticks: nothing in the sandbox can catch it */
    mpt_lua_stop refused; /* why the allocator last said no */
    size_t refused_bytes;
    mpt_where stop_where;
    const char *tree;   /* holds models/ and recipes/ */
    const char *folder; /* the recipe's own, ends with '/'; NULL for one held in memory */
    int n_chunks, cap_chunks;
    mpt_lua_chunk **chunks; /* each stays where it is; the recipe's own is the first */
    struct mpt_nn *nn;      /* while a model draws its graph, else NULL */
    size_t places;          /* bytes of text read to find the lines of keys */
    bool expression;        /* what runs is one expression of a command, no recipe */
    int n_predicates;
    int n_builds; /* tells the values of one graph from those of another */
} mpt_sandbox;

/* Makes the state; every allocation that fails gives MPT_OUT_OF_MEMORY and leaves nothing. */
mpt_status mpt_sandbox_create(mpt_ctx *ctx, mpt_sandbox **out);
void mpt_sandbox_destroy(mpt_sandbox *box);
mpt_sandbox *mpt_sandbox_of(lua_State *L);

/* Starts the caps afresh: at loading, and each time a model draws its graph. */
void mpt_sandbox_rewind(mpt_sandbox *box);

/* The only way in: runs `fn` with a light userdata `arg` in a protected call, and turns
 * whatever it raised into the context's error. */
mpt_status mpt_sandbox_call(mpt_sandbox *box, lua_CFunction fn, void *arg);

/* Counts C work as steps; raises when the budget is spent. */
void mpt_sandbox_charge(lua_State *L, int64_t steps);

/* After a protected call inside the sandbox: raises again what must not be caught. */
void mpt_sandbox_uncaught(lua_State *L, int pcall_status);

/* The place in a chunk that is running at `level` or the nearest one above it. */
mpt_where mpt_sandbox_where(lua_State *L, int level);

/* The chunk of a place, or NULL. */
const mpt_lua_chunk *mpt_sandbox_chunk(const mpt_sandbox *box, const char *file);

/* Raises the context's error in Lua, or does nothing when the status is MPT_OK. */
void mpt_sandbox_check(lua_State *L, mpt_status status);
/* The same for a failure, with the way out ("": none). */
void mpt_sandbox_refuse(lua_State *L, mpt_status failure, const char *hint);
#define MPT_SANDBOX_FAIL(L, where, hint, ...)                                                  \
    mpt_sandbox_refuse(                                                                        \
        (L), MPT_FAIL(mpt_sandbox_of(L)->ctx, MPT_INVALID, (where), __VA_ARGS__), (hint))

#endif
