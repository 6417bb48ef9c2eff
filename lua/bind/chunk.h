/* The files a recipe is made of: its own, and what it requires.
 *
 * Each text is kept as long as the sandbox, because an error may ask for the line of a key. All
 * functions but the first raise. */
#ifndef MPT_LUA_BIND_CHUNK_H
#define MPT_LUA_BIND_CHUNK_H

#include "lua/bind/sandbox.h"

/* Remembers a text (copied) under the name the user knows it by; *out is lent. */
mpt_status mpt_chunk_add(mpt_sandbox *box, const char *file, const char *text, size_t length,
                         const mpt_lua_chunk **out);

/* The same for a file. MPT_NOT_FOUND sets an error that names the path. */
mpt_status mpt_chunk_read(mpt_sandbox *box, const char *file, const char *path,
                          const mpt_lua_chunk **out);

/* Pushes a chunk as a function. */
void mpt_chunk_compile(lua_State *L, const mpt_lua_chunk *chunk);

/* Compiles a chunk, runs it, and pushes the one value it returns. */
void mpt_chunk_run(lua_State *L, const mpt_lua_chunk *chunk);

/* Whether `require` finds a file of this name. */
bool mpt_require_exists(lua_State *L, const char *name);

/* Adds `require` to the table of globals on the top, and keeps it as "mpt.require". */
void mpt_require_open(lua_State *L);

#endif
