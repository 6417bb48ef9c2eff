/* Library functions that loop inside C, where the step hook does not run: each is charged,
 * before it starts, the steps that its arguments can make it take at most.
 *
 * A pattern of n characters with k repetitions on a subject of length s can take s^(k+1) * n
 * comparisons: harmless on the short strings of a recipe, without an end on long ones. The
 * charge is that bound, so the same call costs the same wherever it stands. */
#include "lua/bind/library.h"

#include <math.h>
#include <string.h>

enum { CHARS_A_STEP = 8 };

/* Bounds are kept in double: they saturate where an integer would wrap. */
static void charge(lua_State *L, double steps) {
    mpt_sandbox_charge(L, steps < 1e15 ? (int64_t)steps : (int64_t)1e15);
}

static double string_length(lua_State *L, int index) {
    size_t length = 0;
    if (lua_type(L, index) == LUA_TSTRING)
        (void)lua_tolstring(L, index, &length);
    return (double)length;
}

/* All string arguments, once through. */
static void cost_strings(lua_State *L) {
    double length = 0;
    for (int i = lua_gettop(L); i >= 1; i--)
        length += string_length(L, i);
    charge(L, length / CHARS_A_STEP);
}

/* A recipe must give the same texts at every run. */
void mpt_library_hide_address(lua_State *L, int index) {
    int type = lua_type(L, index);
    if (type != LUA_TTABLE && type != LUA_TFUNCTION && type != LUA_TTHREAD &&
        type != LUA_TUSERDATA)
        return;
    if (luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    lua_pushstring(L, lua_typename(L, type));
    lua_replace(L, index);
}

static void cost_format(lua_State *L) {
    const char *format = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
    cost_strings(L);
    for (const char *p = strchr(format, '%'); p; p = strchr(p, '%')) {
        p += 1 + strspn(p + 1, "-+ #0123456789.");
        if (*p == 'p')
            luaL_error(L, "'%%p' shows an address, which differs at every run");
        p += *p != 0;
    }
    for (int i = lua_gettop(L); i > 1; i--)
        mpt_library_hide_address(L, i);
}

static void cost_pattern(lua_State *L) {
    double subject = string_length(L, 1), powers = 1;
    size_t n = 0;
    const char *pattern = lua_type(L, 2) == LUA_TSTRING ? lua_tolstring(L, 2, &n) : "";
    if (n > 0 && pattern[0] == '^')
        powers = 0;
    for (size_t i = 0; i < n; i++) {
        if (strchr("*+-?", pattern[i]) && pattern[i])
            powers++;
        else if (pattern[i] == '%' && i + 1 < n && strchr("bf123456789", pattern[i + 1]))
            powers++;
    }
    charge(L, (pow(subject + 1, powers) * (double)(n + 1) + subject) / CHARS_A_STEP);
}

static void cost_find(lua_State *L) {
    if (lua_toboolean(L, 4))
        charge(L, string_length(L, 1) * (1 + string_length(L, 2) / 16) / CHARS_A_STEP);
    else
        cost_pattern(L);
}

static void cost_rep(lua_State *L) {
    double n = lua_isnumber(L, 2) ? lua_tonumber(L, 2) : 0;
    if (n > 0)
        charge(L, n * (1 + string_length(L, 1) + string_length(L, 3)) / CHARS_A_STEP);
}

/* Length as the table functions see it, which may be what __len says. */
static double table_length(lua_State *L, int index) {
    return lua_istable(L, index) ? (double)luaL_len(L, index) : 0;
}

static void cost_table(lua_State *L) {
    charge(L, table_length(L, 1));
}

static void cost_sort(lua_State *L) {
    double n = table_length(L, 1);
    if (n > 1)
        charge(L, 4 * n * log2(n));
}

/* insert at the end and remove at the end move nothing. */
static void cost_insert(lua_State *L) {
    if (lua_gettop(L) > 2)
        cost_table(L);
}

static void cost_remove(lua_State *L) {
    if (lua_gettop(L) > 1)
        cost_table(L);
}

static double range(lua_State *L, int from, int to) {
    double a = lua_isnumber(L, from) ? lua_tonumber(L, from) : 1;
    double b = lua_isnumber(L, to) ? lua_tonumber(L, to) : table_length(L, 1);
    return b > a ? b - a : 0;
}

static void cost_concat(lua_State *L) {
    charge(L, range(L, 3, 4));
}

static void cost_move_or_unpack(lua_State *L) {
    charge(L, range(L, 2, 3));
}

typedef struct priced {
    const char *library, *name;
    void (*cost)(lua_State *L);
} priced;

static const priced rows[] = {
    {"", "tonumber", cost_strings},
    {"string", "byte", cost_strings},
    {"string", "find", cost_find},
    {"string", "format", cost_format},
    {"string", "gmatch", cost_pattern},
    {"string", "gsub", cost_pattern},
    {"string", "len", cost_strings},
    {"string", "lower", cost_strings},
    {"string", "match", cost_pattern},
    {"string", "rep", cost_rep},
    {"string", "reverse", cost_strings},
    {"string", "sub", cost_strings},
    {"string", "upper", cost_strings},
    {"table", "concat", cost_concat},
    {"table", "insert", cost_insert},
    {"table", "move", cost_move_or_unpack},
    {"table", "remove", cost_remove},
    {"table", "sort", cost_sort},
    {"table", "unpack", cost_move_or_unpack},
    {"utf8", "codepoint", cost_strings},
    {"utf8", "codes", cost_strings},
    {"utf8", "len", cost_strings},
    {"utf8", "offset", cost_strings},
};

/* Upvalues: the library's function, its row. It runs in this same frame, so its messages name
 * the function as the recipe called it. */
static int call_priced(lua_State *L) {
    rows[lua_tointeger(L, lua_upvalueindex(2))].cost(L);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void mpt_library_price(lua_State *L, int into, const char *library) {
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        if (strcmp(rows[i].library, library) != 0)
            continue;
        lua_getfield(L, -1, rows[i].name);
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, call_priced, 2);
        lua_setfield(L, into, rows[i].name);
    }
}
