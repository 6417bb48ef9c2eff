/* What a chunk can see: chosen functions of Lua's base, string, table, math and utf8 libraries.
 *
 * The chunks' globals are an empty proxy: reading falls through to a hidden table, an unknown
 * name is an error with a suggestion, writing is refused. The libraries are proxies likewise.
 * Functions that loop inside C are priced (priced.c); those that could catch a stop of the
 * sandbox, or show an address or the time, are replaced here.
 * Next: require.c and words.c add `require` and the words of the recipe language. */
#include "lua/bind/library.h"

#include <lualib.h>
#include <stdlib.h>
#include <string.h>

/* What setting up a protected call and unwinding an error cost, in instructions. */
enum { PCALL_STEPS = 100, PRINT_STEPS = 1000 };

/* ---- protected calls that cannot catch a stop ---- */

static int finish_pcall(lua_State *L, int rc) {
    mpt_sandbox_uncaught(L, rc);
    lua_pushboolean(L, rc == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

static int safe_pcall(lua_State *L) {
    luaL_checkany(L, 1);
    mpt_sandbox_charge(L, PCALL_STEPS);
    return finish_pcall(L, lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0));
}

/* The handler runs after the stack is unwound. As a true message handler it would run inside
 * the hook that raised, where hooks are off, and could loop without an end. */
static int safe_xpcall(lua_State *L) {
    luaL_checktype(L, 2, LUA_TFUNCTION);
    mpt_sandbox_charge(L, PCALL_STEPS);
    lua_pushvalue(L, 2);
    lua_remove(L, 2);
    lua_insert(L, 1); /* handler, function, arguments */
    int rc = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
    mpt_sandbox_uncaught(L, rc);
    if (rc != LUA_OK) {
        lua_pushvalue(L, 1);
        lua_insert(L, 2);
        lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
    }
    lua_pushboolean(L, rc == LUA_OK);
    lua_replace(L, 1);
    return lua_gettop(L);
}

/* ---- tables and metatables ---- */

static int safe_setmetatable(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int type = lua_type(L, 2);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
    if (type == LUA_TTABLE) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L, "__gc is not available in a recipe");
        lua_pop(L, 1);
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

static int safe_rawset(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 3);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "this table is read-only");
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 1;
}

static int key_rank(lua_State *L, int index) {
    int type = lua_type(L, index);
    return type == LUA_TNUMBER ? 0 : type == LUA_TSTRING ? 1 : 2;
}

/* Numbers, then texts, then the rest, among which there is no order. */
static bool is_before(lua_State *L, int index, int other) {
    int a = key_rank(L, index), b = key_rank(L, other);
    if (a != b || a == 2)
        return a < b;
    return a == 0 ? lua_compare(L, index, other, LUA_OPLT)
                  : strcmp(lua_tostring(L, index), lua_tostring(L, other)) < 0;
}

static int key_less(lua_State *L) {
    lua_pushboolean(L, is_before(L, 1, 2));
    return 1;
}

void mpt_library_sorted_keys(lua_State *L, int index) {
    index = lua_absindex(L, index);
    lua_newtable(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, index);) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, ++n);
    }
    mpt_sandbox_charge(L, 4 * n);
    lua_getfield(L, LUA_REGISTRYINDEX, "mpt.sort");
    lua_pushvalue(L, -2);
    lua_pushcfunction(L, key_less);
    lua_call(L, 2, 0);
}

/* pairs() in sorted order: a recipe means the same at every run, while the order of Lua's hash
 * tables changes with the addresses of a run. Upvalues: table, keys, next index. */
static int sorted_next(lua_State *L) {
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(3));
    for (;; i++) {
        if (lua_rawgeti(L, lua_upvalueindex(2), i) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
            break;
        lua_pop(L, 2);
    }
    lua_pushinteger(L, i + 1);
    lua_replace(L, lua_upvalueindex(3));
    return 2;
}

static int safe_pairs(lua_State *L) {
    luaL_checkany(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 3);
        return 3;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_pushvalue(L, 1);
    mpt_library_sorted_keys(L, 1);
    lua_pushinteger(L, 1);
    lua_pushcclosure(L, sorted_next, 3);
    return 1;
}

/* The first key in the order of pairs() behind the one at 2, or of all where that is nil: the
 * nearest of all keys, since nothing is kept between two calls. Keys without an order come
 * last, as Lua has them. */
static int safe_next(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    bool first = lua_isnil(L, 2), ordered = first || key_rank(L, 2) < 2;
    lua_pushnil(L); /* 3: the best so far */
    lua_pushvalue(L, ordered ? 3 : 2);
    int64_t n = 0;
    for (; lua_next(L, 1); n++) {
        lua_pop(L, 1);
        bool behind = !ordered || first || is_before(L, 2, 4);
        bool better = lua_isnil(L, 3) || is_before(L, 4, 3);
        if (behind && better && (ordered || key_rank(L, 4) == 2)) {
            lua_copy(L, 4, 3);
            if (!ordered)
                break;
        }
    }
    mpt_sandbox_charge(L, n + 1);
    lua_settop(L, 3);
    if (lua_isnil(L, 3))
        return 1;
    lua_pushvalue(L, 3);
    lua_rawget(L, 1);
    return 2;
}

/* ---- output and chance ---- */

static int safe_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    mpt_library_hide_address(L, 1);
    luaL_tolstring(L, 1, NULL);
    return 1;
}

static int safe_print(lua_State *L) {
    int n = lua_gettop(L);
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    for (int i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addchar(&line, '\t');
        mpt_library_hide_address(L, i);
        luaL_tolstring(L, i, NULL);
        luaL_addvalue(&line);
    }
    luaL_pushresult(&line);
    mpt_sandbox_charge(L, PRINT_STEPS + (int64_t)lua_rawlen(L, -1));
    mpt_log(mpt_sandbox_of(L)->ctx, MPT_LOG_INFO, "%s", lua_tostring(L, -1));
    return 0;
}

/* Without arguments Lua would seed from the clock. */
static int safe_randomseed(lua_State *L) {
    luaL_checkany(L, 1);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* ---- proxies ---- */

enum { NAMES_MAX = 256 };

/* Unknown name: upvalue 1 is what the table is called ("" for the globals). The table itself is
 * the hidden one, so its keys are what could have been meant. */
static int unknown_name(lua_State *L) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    const char *table = lua_tostring(L, lua_upvalueindex(1));
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    const char *names[NAMES_MAX];
    int n = 0;
    for (lua_pushnil(L); n < NAMES_MAX && lua_next(L, 1); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING)
            names[n++] = lua_tostring(L, -2);
    const char *dot = *table ? "." : "";
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, mpt_sandbox_where(L, 1),
                                 "unknown name '%s%s%s'", table, dot, key);
    mpt_library_hint(ctx, table, key, mpt_nearest(key, names, n));
    mpt_sandbox_check(L, status);
    return 0;
}

static int refuse_write(lua_State *L) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    const char *table = lua_tostring(L, lua_upvalueindex(1));
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, mpt_sandbox_where(L, 1),
                                 "cannot set '%s%s%s': %s", table, *table ? "." : "", key,
                                 *table ? "libraries are read-only" : "no globals here");
    mpt_hint(ctx, "write `local %s = ...`", key);
    mpt_sandbox_check(L, status);
    return 0;
}

static int proxy_pairs(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    mpt_library_sorted_keys(L, -1);
    lua_pushinteger(L, 1);
    lua_pushcclosure(L, sorted_next, 3);
    return 1;
}

/* Replaces the table on the top of the stack by a read-only proxy of it. */
void mpt_library_proxy(lua_State *L, const char *name) {
    int hidden = lua_gettop(L);
    lua_createtable(L, 0, 2);
    lua_pushstring(L, name);
    lua_pushcclosure(L, unknown_name, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, hidden);
    lua_newtable(L);
    lua_createtable(L, 0, 4);
    lua_pushvalue(L, hidden);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, name);
    lua_pushcclosure(L, refuse_write, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushvalue(L, hidden);
    lua_pushcclosure(L, proxy_pairs, 1);
    lua_setfield(L, -2, "__pairs");
    lua_pushliteral(L, "read-only");
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_replace(L, hidden);
}

/* ---- opening ---- */

/* Copies the named functions of the library at the top into the table at `into`. */
static void copy_names(lua_State *L, int into, const char *const *names) {
    for (; *names; names++) {
        lua_getfield(L, -1, *names);
        lua_setfield(L, into, *names);
    }
}

static void open_base(lua_State *L, int globals) {
    static const char *const kept[] = {
        "assert", "error",  "getmetatable", "ipairs",   "select", "rawequal",
        "rawget", "rawlen", "type",         "_VERSION", NULL};
    static const luaL_Reg replaced[] = {{"pcall", safe_pcall},
                                        {"xpcall", safe_xpcall},
                                        {"setmetatable", safe_setmetatable},
                                        {"rawset", safe_rawset},
                                        {"pairs", safe_pairs},
                                        {"next", safe_next},
                                        {"print", safe_print},
                                        {"tostring", safe_tostring},
                                        {NULL, NULL}};
    lua_pushcfunction(L, luaopen_base);
    lua_call(L, 0, 1);
    copy_names(L, globals, kept);
    mpt_library_price(L, globals, "");
    lua_pop(L, 1);
    lua_pushvalue(L, globals);
    luaL_setfuncs(L, replaced, 0);
    lua_pop(L, 1);
}

/* One library: chosen names as they are, then the priced ones. */
static void open_library(lua_State *L, int globals, const char *name, lua_CFunction open,
                         const char *const *kept) {
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
    int library = lua_gettop(L);
    lua_newtable(L);
    int chosen = lua_gettop(L);
    lua_pushvalue(L, library);
    copy_names(L, chosen, kept);
    mpt_library_price(L, chosen, name);
    lua_settop(L, chosen);
    if (strcmp(name, "table") == 0) {
        lua_getfield(L, library, "sort");
        lua_setfield(L, LUA_REGISTRYINDEX, "mpt.sort");
    }
    lua_remove(L, library);
    lua_setfield(L, globals, name);
}

/* math, seeded: the same recipe draws the same numbers at every run. */
static void seed_math(lua_State *L, int globals, uint64_t seed) {
    lua_getfield(L, globals, "math");
    lua_getfield(L, -1, "randomseed");
    lua_pushvalue(L, -1);
    lua_pushinteger(L, (lua_Integer)(seed >> 1));
    lua_call(L, 1, 0);
    lua_pushcclosure(L, safe_randomseed, 1);
    lua_setfield(L, -2, "randomseed");
    lua_pop(L, 1);
}

/* Methods of strings are the same priced functions, and the metatable cannot be reached. */
static void protect_strings(lua_State *L, int globals) {
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_getfield(L, globals, "string");
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "read-only");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

void mpt_library_open(lua_State *L, uint64_t seed) {
    static const char *const strings[] = {"char", NULL};
    static const char *const tables[] = {"pack", NULL};
    static const char *const maths[] = {
        "abs", "acos",       "asin", "atan",      "ceil", "cos",    "deg",
        "exp", "floor",      "fmod", "huge",      "log",  "max",    "maxinteger",
        "min", "mininteger", "modf", "pi",        "rad",  "random", "randomseed",
        "sin", "sqrt",       "tan",  "tointeger", "type", "ult",    NULL};
    static const char *const utf8s[] = {"char", "charpattern", NULL};
    static const char *const libraries[] = {"string", "table", "math", "utf8"};
    lua_newtable(L);
    int globals = lua_gettop(L);
    open_base(L, globals);
    open_library(L, globals, "string", luaopen_string, strings);
    open_library(L, globals, "table", luaopen_table, tables);
    open_library(L, globals, "math", luaopen_math, maths);
    open_library(L, globals, "utf8", luaopen_utf8, utf8s);
    seed_math(L, globals, seed);
    protect_strings(L, globals);
    for (size_t i = 0; i < MPT_COUNT(libraries); i++) {
        lua_getfield(L, globals, libraries[i]);
        mpt_library_proxy(L, libraries[i]);
        lua_setfield(L, globals, libraries[i]);
    }
}
