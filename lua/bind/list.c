/* Lists: tables whose entries have no names.
 *
 * A reader of a list goes by positions and would not see a named entry, so each asks here
 * first. Whatever is no position is refused with its path and its line. */
#include "lua/bind/convert.h"

#include "lua/bind/library.h"

bool mpt_lua_is_plain(lua_State *L, int index) {
    size_t n;
    const char *text = lua_tolstring(L, index, &n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

bool mpt_lua_list_stray(lua_State *L, int list) {
    list = lua_absindex(L, list);
    luaL_checkstack(L, 8, "tables nest too deep");
    if (mpt_lua_value_at(L, list))
        mpt_lua_value_fields(L, list);
    else
        lua_pushvalue(L, list);
    int fields = lua_gettop(L);
    lua_Integer n = (lua_Integer)lua_rawlen(L, fields);
    mpt_library_sorted_keys(L, fields);
    for (lua_Integer i = 1; lua_rawgeti(L, fields + 1, i) != LUA_TNIL; i++) {
        lua_Integer at = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
        if (at < 1 || at > n) {
            lua_replace(L, fields);
            lua_settop(L, fields);
            return true;
        }
        lua_pop(L, 1);
    }
    lua_settop(L, fields - 1);
    return false;
}

lua_Integer mpt_convert_list(lua_State *L, int list, const char *path) {
    list = lua_absindex(L, list);
    if (mpt_lua_list_stray(L, list)) {
        int key = lua_gettop(L);
        const char *name = lua_tostring(L, key); /* a value's keys are positions or texts */
        mpt_convert_fail(L, list, key, MPT_LUA_LIST_HINT, "%s: a list has no field '%s'",
                         mpt_convert_key(path, name).text, name);
    }
    return mpt_lua_value_length(L, list);
}
