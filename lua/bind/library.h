/* The environment of the sandbox: libraries, read-only proxies, prices of C loops.
 *
 * mpt_library_open leaves the table of globals on the stack; load.c adds the words of the
 * recipe language to it and puts its proxy where chunks look. Everything here raises on
 * failure. */
#ifndef MPT_LUA_BIND_LIBRARY_H
#define MPT_LUA_BIND_LIBRARY_H

#include "lua/bind/sandbox.h"

/* Pushes a new table of globals with the libraries in it; math.random starts from `seed`. */
void mpt_library_open(lua_State *L, uint64_t seed);

/* Replaces the table on the top by a read-only proxy: unknown names are errors with a
 * suggestion, writing is refused. `name` is "" for the globals. */
void mpt_library_proxy(lua_State *L, const char *name);

/* Sets the context's hint for the unknown name `key` of a library ("" for the globals);
 * `nearest` is the name that it may be a slip for, or NULL. */
void mpt_library_hint(mpt_ctx *ctx, const char *table, const char *key, const char *nearest);

/* Replaces a value that Lua would show by its address, which differs at every run, by the name
 * of its type. */
void mpt_library_hide_address(lua_State *L, int index);

/* Puts the priced functions of a library ("" is the base), taken from the table on the top,
 * into the table at `into`. */
void mpt_library_price(lua_State *L, int into, const char *library);

/* Pushes an array of the keys of the table at `index`: numbers, then strings, each sorted, so
 * that nothing depends on the order of a hash table. */
void mpt_library_sorted_keys(lua_State *L, int index);

#endif
