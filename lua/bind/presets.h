/* `presets`: whole precision methods, from lua/presets.lua in the tree. */
#ifndef MPT_LUA_BIND_PRESETS_H
#define MPT_LUA_BIND_PRESETS_H

#include "lua/bind/value.h"

/* Adds `presets` to the table of globals on the top. The file is read when the first is used.
 */
void mpt_presets_open(lua_State *L);

/* Raises: what stands on the top, under the key of `value` at `key`, is no precision. Says how
 * a preset or a format of that name is written. */
void mpt_presets_refuse(lua_State *L, int value, int key);

#endif
