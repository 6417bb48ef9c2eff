/* Presets: read from their file when a recipe first names one, so that others do not pay.
 *
 * The file is a chunk like any other: it runs in the recipe's sandbox, and its rules have lines
 * that plans and messages name. Next: convert.c reads the value like any other precision. */
#include "lua/bind/presets.h"

#include <string.h>

#include "io/file.h"
#include "lua/bind/chunk.h"
#include "lua/bind/convert.h"
#include "lua/bind/library.h"
#include "recipe/presets.h"

static const char presets_file[] = "lua/presets.lua";

/* Runs the file, and pushes a read-only proxy of the table that it returns. */
static void push_presets(lua_State *L) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    const char *path = mpt_arena_printf(&box->arena, "%s/%s", box->tree, presets_file);
    const mpt_lua_chunk *chunk;
    if (!path)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    if (!mpt_file_exists(path)) {
        mpt_status status = MPT_FAIL(box->ctx, MPT_INVALID, mpt_sandbox_where(L, 1),
                                     "presets: there is no file %s", path);
        mpt_hint(box->ctx, "it is installed beside models/ and recipes/");
        mpt_sandbox_check(L, status);
    }
    mpt_sandbox_check(L, mpt_chunk_read(box, presets_file, path, &chunk));
    mpt_chunk_run(L, chunk);
    luaL_checktype(L, -1, LUA_TTABLE);
    mpt_library_proxy(L, "presets");
}

/* Pushes the proxy, which upvalue 1 keeps: `presets` itself is an empty table whose metatable
 * shares it. */
static void push_loaded(lua_State *L) {
    if (lua_rawgeti(L, lua_upvalueindex(1), 1) != LUA_TNIL)
        return;
    lua_pop(L, 1);
    push_presets(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, lua_upvalueindex(1), 1);
}

static int presets_index(lua_State *L) {
    push_loaded(L);
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
}

static int presets_newindex(lua_State *L) {
    push_loaded(L);
    lua_replace(L, 1);
    lua_settable(L, 1); /* which refuses */
    return 0;
}

static int presets_pairs(lua_State *L) {
    push_loaded(L);
    lua_replace(L, 1);
    luaL_getmetafield(L, 1, "__pairs");
    lua_insert(L, 1);
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L);
}

void mpt_presets_open(lua_State *L) {
    static const luaL_Reg methods[] = {{"__index", presets_index},
                                       {"__newindex", presets_newindex},
                                       {"__pairs", presets_pairs},
                                       {NULL, NULL}};
    lua_newtable(L);
    lua_newtable(L);
    lua_newtable(L); /* what the methods share */
    luaL_setfuncs(L, methods, 1);
    lua_pushliteral(L, "read-only");
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "presets");
}

/* ---- what is no precision ---- */

static bool is_preset(const char *name) {
    int n;
    const mpt_preset *presets = mpt_preset_all(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(presets[i].name, name) == 0)
            return true;
    return false;
}

void mpt_presets_refuse(lua_State *L, int value, int key) {
    const mpt_lua_value *format = mpt_lua_value_of_kind(L, -1, MPT_LUA_FORMAT);
    const char *name = format                           ? format->word
                       : lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                                                        : "";
    char hint[MPT_ERROR_HINT] = "give a table, or a preset: precision = presets.nvfp4";
    if (is_preset(name))
        snprintf(hint, sizeof hint, "write precision = presets.%s", name);
    else if (format)
        snprintf(hint, sizeof hint,
                 "write precision = { rules = { rule { \"linear\", use = %s } } }", name);
    mpt_convert_fail(L, value, key, hint, "precision: cannot be %s", mpt_lua_describe(L, -1));
}
