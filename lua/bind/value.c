/* Values: made from tables, refined, merged, and asked where their keys stand.
 *
 * User values of the userdata: 1 the fields, 2 origins (key -> the value that the key came
 * from, where it was merged in), 3 the path of a nested table inside the word's argument. */
#include "lua/bind/value.h"

#include <stdio.h>
#include <string.h>

#include "lua/bind/library.h"
#include "lua/bind/source.h"

static const char metatable_name[] = "mpt.value";

enum { FIELDS = 1, ORIGINS, PATH, N_USER_VALUES = PATH, DEPTH_MAX = 16, TABLE_STEPS = 16 };

/* ---- reading ---- */

const mpt_lua_value *mpt_lua_value_at(lua_State *L, int index) {
    return luaL_testudata(L, index, metatable_name);
}

const mpt_lua_value *mpt_lua_value_of_kind(lua_State *L, int index, mpt_lua_kind kind) {
    const mpt_lua_value *value = mpt_lua_value_at(L, index);
    return value && value->kind == kind ? value : NULL;
}

const char *mpt_lua_describe(lua_State *L, int index) {
    const mpt_lua_value *value = mpt_lua_value_at(L, index);
    if (value && value->kind == MPT_LUA_TABLE)
        return "a table";
    if (value && value->kind == MPT_LUA_FORMAT)
        return "a number format";
    if (value && (value->kind == MPT_LUA_MODEL || value->kind == MPT_LUA_MODEL_SIZE))
        return value->kind == MPT_LUA_MODEL ? "a model without a size" : "a model";
    if (value)
        return value->word;
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return "a boolean";
    case LUA_TNUMBER:
        return "a number";
    case LUA_TSTRING:
        return "a text";
    case LUA_TTABLE:
        return "a table";
    case LUA_TFUNCTION:
        return lua_iscfunction(L, index) ? "a word without its { }" : "a function";
    case LUA_TUSERDATA:
        return "a tensor";
    default:
        return "nothing";
    }
}

void mpt_lua_value_fields(lua_State *L, int index) {
    lua_getiuservalue(L, index, FIELDS);
}

int mpt_lua_value_get(lua_State *L, int index, const char *key) {
    lua_getiuservalue(L, index, FIELDS);
    lua_pushstring(L, key);
    int type = lua_rawget(L, -2);
    lua_remove(L, -2);
    return type;
}

int mpt_lua_value_geti(lua_State *L, int index, lua_Integer key) {
    lua_getiuservalue(L, index, FIELDS);
    int type = lua_rawgeti(L, -1, key);
    lua_remove(L, -2);
    return type;
}

lua_Integer mpt_lua_value_length(lua_State *L, int index) {
    lua_getiuservalue(L, index, FIELDS);
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    lua_pop(L, 1);
    return n;
}

/* ---- places ---- */

/* Pushes the value that the key came from: an origin, or the value itself. */
static void push_origin(lua_State *L, int index, int key_index) {
    index = lua_absindex(L, index);
    key_index = lua_absindex(L, key_index);
    if (lua_getiuservalue(L, index, ORIGINS) == LUA_TTABLE) {
        lua_pushvalue(L, key_index);
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushvalue(L, index);
    }
}

static mpt_source_key key_at(lua_State *L, int index) {
    if (lua_type(L, index) == LUA_TSTRING)
        return (mpt_source_key){.name = lua_tostring(L, index)};
    return (mpt_source_key){.index = lua_tointeger(L, index)};
}

mpt_where mpt_lua_value_where(lua_State *L, int index, int key_index) {
    int top = lua_gettop(L), n = 0;
    luaL_checkstack(L, DEPTH_MAX + 8, "tables nest too deep");
    key_index = lua_absindex(L, key_index);
    push_origin(L, index, key_index);
    const mpt_lua_value *from = mpt_lua_value_at(L, -1);
    mpt_where where = from->where;
    const mpt_lua_chunk *chunk = mpt_sandbox_chunk(mpt_sandbox_of(L), where.file);
    mpt_source_key path[DEPTH_MAX + 2];
    if (lua_getiuservalue(L, -1, PATH) == LUA_TTABLE)
        for (lua_Integer i = 1; n <= DEPTH_MAX && lua_rawgeti(L, top + 2, i) != LUA_TNIL; i++)
            path[n++] = key_at(L, -1); /* strings stay anchored in the path */
    path[n++] = key_at(L, key_index);
    if (chunk)
        where.line =
            mpt_source_line(chunk->text, chunk->length, where.line, from->word, path, n);
    lua_settop(L, top);
    return where;
}

/* ---- making ---- */

/* Pushes an empty value of a kind. */
static void push_value(lua_State *L, mpt_lua_kind kind, const char *word, mpt_where where) {
    mpt_lua_value *value = lua_newuserdatauv(L, sizeof *value, N_USER_VALUES);
    memset(value, 0, sizeof *value);
    value->kind = kind;
    value->where = where;
    snprintf(value->word, sizeof value->word, "%s", word);
    luaL_setmetatable(L, metatable_name);
}

static void fail_field(lua_State *L, mpt_where where, const char *fmt, const char *word,
                       const char *what) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_sandbox_check(L, MPT_FAIL(ctx, MPT_INVALID, where, fmt, word, what));
}

/* Pushes a copy of a path with one key more. */
static void push_path(lua_State *L, int path, int key) {
    lua_newtable(L);
    lua_Integer n = 0;
    if (path)
        while (lua_rawgeti(L, path, n + 1) != LUA_TNIL)
            lua_rawseti(L, -2, ++n);
    if (path)
        lua_pop(L, 1);
    lua_pushvalue(L, key);
    lua_rawseti(L, -2, n + 1);
}

/* Replaces the plain table above `key` by its value. */
static void replace_by_copy(lua_State *L, const mpt_lua_value *like, int key, int path,
                            int depth);

/* Pushes the value for a plain table; `path` is 0 for the argument of the word itself. */
static void push_copy(lua_State *L, const mpt_lua_value *like, int fields, int path,
                      int depth) {
    fields = lua_absindex(L, fields);
    luaL_checkstack(L, 16, "tables nest too deep");
    if (depth > DEPTH_MAX)
        fail_field(L, like->where, "%s: tables nest too deep%s", like->word, "");
    /* Its fields are behind its metatable: it would be read as an empty table. */
    if (luaL_getmetafield(L, fields, "__metatable") != LUA_TNIL)
        fail_field(L, like->where, "%s: a library stands where a value should; %s", like->word,
                   "name one of its fields");
    push_value(L, like->kind, like->word, like->where);
    int self = lua_gettop(L);
    lua_newtable(L);
    int64_t n = 0;
    lua_Integer n_positions = 0, last = 0;
    for (lua_pushnil(L); lua_next(L, fields); n++) {
        int key = lua_gettop(L) - 1;
        if (lua_isinteger(L, key)) {
            n_positions++;
            last = lua_tointeger(L, key) > last ? lua_tointeger(L, key) : last;
        } else if (lua_type(L, key) != LUA_TSTRING) {
            fail_field(L, like->where, "%s: keys are names or positions, not %s", like->word,
                       mpt_lua_describe(L, key));
        }
        if (lua_type(L, -1) == LUA_TTABLE)
            replace_by_copy(L, like, key, path, depth);
        lua_pushvalue(L, key);
        lua_insert(L, -2);
        lua_rawset(L, self + 1);
    }
    if (last != n_positions)
        fail_field(L, like->where, "%s: a list has holes: some of its values are nil%s",
                   like->word, "");
    mpt_sandbox_charge(L, n + TABLE_STEPS);
    lua_setiuservalue(L, self, FIELDS);
    if (path) {
        lua_pushvalue(L, path);
        lua_setiuservalue(L, self, PATH);
    }
}

static void replace_by_copy(lua_State *L, const mpt_lua_value *like, int key, int path,
                            int depth) {
    mpt_lua_value nested = *like;
    nested.kind = MPT_LUA_TABLE;
    push_path(L, path, key);
    push_copy(L, &nested, key + 1, lua_gettop(L), depth + 1);
    lua_remove(L, -2);
    lua_replace(L, key + 1);
}

void mpt_lua_value_new(lua_State *L, mpt_lua_kind kind, const char *word, mpt_where where,
                       int fields) {
    mpt_lua_value like = {.kind = kind, .where = where};
    snprintf(like.word, sizeof like.word, "%s", word);
    push_copy(L, &like, fields, 0, 0);
}

/* ---- merging ---- */

/* Copies all fields of the value at `from`, with their origins, into the two tables. */
static void copy_fields(lua_State *L, int from, int fields, int origins) {
    mpt_lua_value_fields(L, from);
    int source = lua_gettop(L);
    int64_t n = 0;
    for (lua_pushnil(L); lua_next(L, source); n++) {
        int key = lua_gettop(L) - 1;
        lua_pushvalue(L, key);
        lua_pushvalue(L, key + 1);
        lua_rawset(L, fields);
        lua_pushvalue(L, key);
        push_origin(L, from, key);
        lua_rawset(L, origins);
        lua_pop(L, 1);
    }
    mpt_sandbox_charge(L, n + TABLE_STEPS);
    lua_pop(L, 1);
}

/* Pushes a TABLE that holds the positions of `first`, then those of `second`. Entries with
 * names go along, for whoever reads the list to refuse them. */
static void push_appended(lua_State *L, int first, int second) {
    const mpt_lua_value *like = mpt_lua_value_at(L, second);
    push_value(L, MPT_LUA_TABLE, like->word, like->where);
    int self = lua_gettop(L), fields = self + 1, origins = self + 2;
    lua_newtable(L);
    lua_newtable(L);
    copy_fields(L, first, fields, origins);
    copy_fields(L, second, fields, origins);
    lua_Integer n = 0;
    for (int list = first; list; list = list == first ? second : 0)
        for (lua_Integer i = 1;
             mpt_lua_value_geti(L, list, i) != LUA_TNIL || (lua_pop(L, 1), 0); i++)
            lua_rawseti(L, fields, ++n);
    for (lua_Integer i = 1; i <= n; i++) { /* entries have moved: their line is the call's */
        lua_pushnil(L);
        lua_rawseti(L, origins, i);
    }
    mpt_sandbox_charge(L, n + TABLE_STEPS);
    lua_setiuservalue(L, self, ORIGINS);
    lua_setiuservalue(L, self, FIELDS);
}

/* Whether derive changes single fields of what stands there: a plain table, or a precision. */
static bool is_map(lua_State *L, int index) {
    const mpt_lua_value *value = mpt_lua_value_at(L, index);
    return value && (value->kind == MPT_LUA_TABLE || value->kind == MPT_LUA_PRECISION);
}

/* Pushes what `key` becomes when the field at `was` is changed by the one at `now`. */
static void push_merged_field(lua_State *L, int key, int was, int now) {
    luaL_checkstack(L, 16, "tables nest too deep");
    const mpt_lua_value *change = mpt_lua_value_at(L, now);
    if (change && change->kind == MPT_LUA_REPLACE) {
        push_value(L, MPT_LUA_TABLE, change->word, change->where);
        mpt_lua_value_fields(L, now);
        lua_setiuservalue(L, -2, FIELDS);
        return;
    }
    bool map = change && change->kind == MPT_LUA_TABLE;
    bool tables = map && is_map(L, was);
    bool rules = lua_type(L, key) == LUA_TSTRING && strcmp(lua_tostring(L, key), "rules") == 0;
    map = map && mpt_lua_value_length(L, now) == 0;
    if (tables && rules) {
        push_appended(L, was, now);
    } else if (map && tables && mpt_lua_value_length(L, was) == 0) {
        mpt_lua_value_merge(L, was, now, change->where);
    } else if (map) { /* into nothing: what it replaces further down is replaced there */
        push_value(L, MPT_LUA_TABLE, change->word, change->where);
        lua_newtable(L);
        lua_setiuservalue(L, -2, FIELDS);
        mpt_lua_value_merge(L, -1, now, change->where);
        lua_remove(L, -2);
    } else {
        lua_pushvalue(L, now);
    }
}

/* Steps, tokens and epochs all say how long a run is: naming one takes the others of the base
 * away. Changes that name two keep both, which no recipe may have. */
static void drop_other_lengths(lua_State *L, int fields, int changes, int key) {
    static const char *const names[] = {"steps", "tokens", "epochs"};
    int is_length = 0;
    for (int i = 0; lua_type(L, key) == LUA_TSTRING && i < 3; i++)
        is_length |= strcmp(lua_tostring(L, key), names[i]) == 0;
    for (int i = 0; is_length && i < 3; i++) {
        lua_pushstring(L, names[i]);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, changes) == LUA_TNIL)
            lua_rawset(L, fields);
        else
            lua_pop(L, 2);
    }
}

void mpt_lua_value_merge(lua_State *L, int base, int change, mpt_where where) {
    base = lua_absindex(L, base);
    change = lua_absindex(L, change);
    const mpt_lua_value *like = mpt_lua_value_at(L, base);
    push_value(L, like->kind, like->word, where);
    int self = lua_gettop(L), fields = self + 1, origins = self + 2;
    lua_newtable(L);
    lua_newtable(L);
    copy_fields(L, base, fields, origins);
    mpt_lua_value_fields(L, change);
    for (lua_pushnil(L); lua_next(L, origins + 1);) {
        int key = lua_gettop(L) - 1;
        drop_other_lengths(L, fields, origins + 1, key);
        lua_pushvalue(L, key);
        lua_rawget(L, fields);
        lua_pushvalue(L, key);
        push_merged_field(L, key, key + 2, key + 1);
        lua_rawset(L, fields);
        lua_pushvalue(L, key);
        push_origin(L, change, key);
        lua_rawset(L, origins);
        lua_settop(L, key);
    }
    lua_settop(L, origins);
    lua_setiuservalue(L, self, ORIGINS);
    lua_setiuservalue(L, self, FIELDS);
}

/* ---- the metatable ---- */

static int value_index(lua_State *L) {
    (void)luaL_checkudata(L, 1, metatable_name);
    lua_getiuservalue(L, 1, FIELDS);
    lua_pushvalue(L, 2);
    lua_rawget(L, -2);
    return 1;
}

static int value_newindex(lua_State *L) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, mpt_sandbox_where(L, 1),
                                 "%s: values of a recipe never change", mpt_lua_describe(L, 1));
    mpt_hint(ctx, "make a changed copy with derive(base, { ... })");
    mpt_sandbox_check(L, status);
    return 0;
}

static int value_len(lua_State *L) {
    lua_pushinteger(L, mpt_lua_value_length(L, 1));
    return 1;
}

static int value_tostring(lua_State *L) {
    lua_pushstring(L, ((mpt_lua_value *)luaL_checkudata(L, 1, metatable_name))->word);
    return 1;
}

static int value_pairs(lua_State *L) {
    lua_getfield(L, LUA_REGISTRYINDEX, "mpt.pairs");
    lua_getiuservalue(L, 1, FIELDS);
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L) - 1;
}

/* nvfp4 { block = {16, 16} }: a refined copy. A model is called with its size. */
static int value_call(lua_State *L) {
    const mpt_lua_value *value = luaL_checkudata(L, 1, metatable_name);
    if (value->kind == MPT_LUA_MODEL)
        return mpt_model_call(L);
    mpt_where where = mpt_sandbox_where(L, 1);
    if (value->kind != MPT_LUA_FORMAT)
        fail_field(L, where, "%s: this is a value already and takes no arguments%s",
                   mpt_lua_describe(L, 1), "");
    if (!lua_istable(L, 2))
        fail_field(L, where, "%s: takes a table of fields, not %s", value->word,
                   mpt_lua_describe(L, 2));
    mpt_lua_value_new(L, MPT_LUA_TABLE, value->word, where, 2);
    mpt_lua_value_merge(L, 1, -1, where);
    return 1;
}

void mpt_value_open(lua_State *L) {
    static const luaL_Reg methods[] = {{"__index", value_index},       {"__len", value_len},
                                       {"__newindex", value_newindex}, {"__pairs", value_pairs},
                                       {"__call", value_call},         {NULL, NULL}};
    luaL_newmetatable(L, metatable_name);
    luaL_setfuncs(L, methods, 0);
    lua_pushcfunction(L, value_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "read-only");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
