/* The size of a model, field by field, against the sizes that the model names.
 *
 * Lua would draw `for i = 0, n_layer - 1` with 2.5, "2" or a NaN and say nothing, so each field
 * must be of the kind that it has in the named sizes. Next: model.c draws with it. */
#include <math.h>
#include <stdio.h>

#include "lua/bind/convert.h"
#include "lua/bind/library.h"
#include "lua/bind/model.h"

typedef enum size_kind { UNKNOWN, INTEGER, NUMBER, TEXT, BOOLEAN, TABLE, ANY } size_kind;

/* What one field can be. */
typedef struct size_field {
    size_kind kind;
    lua_Integer least; /* of an INTEGER: 1, or less where a named size has less */
} size_field;

static size_kind kind_of(lua_State *L, int index) {
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        return lua_isinteger(L, index) ? INTEGER : NUMBER;
    case LUA_TSTRING:
        return TEXT;
    case LUA_TBOOLEAN:
        return BOOLEAN;
    default:
        return mpt_lua_value_of_kind(L, index, MPT_LUA_TABLE) ? TABLE : ANY;
    }
}

/* Adds what one named size says, the value on the top. */
static void learn(lua_State *L, size_field *field) {
    size_kind kind = kind_of(L, -1);
    bool numbers = (kind == INTEGER && field->kind == NUMBER) ||
                   (kind == NUMBER && field->kind == INTEGER);
    if (kind == INTEGER && lua_tointeger(L, -1) < field->least)
        field->least = lua_tointeger(L, -1);
    if (field->kind == UNKNOWN)
        field->kind = kind;
    else if (field->kind != kind)
        field->kind = numbers ? NUMBER : ANY;
}

/* Adds the values of a field in the model's `only` at `only` (a value, or nil); alone they say
 * nothing of its kind. */
static void learn_only(lua_State *L, int only, const char *name, size_field *field) {
    int top = lua_gettop(L);
    if (lua_isnil(L, only) || field->kind != INTEGER)
        return;
    mpt_lua_value_get(L, only, name);
    for (lua_Integer i = 1; mpt_lua_value_of_kind(L, top + 1, MPT_LUA_TABLE); i++) {
        if (mpt_lua_value_geti(L, top + 1, i) == LUA_TNIL)
            break;
        learn(L, field);
        lua_settop(L, top + 1);
    }
    lua_settop(L, top);
}

/* What the named sizes in the table at `sizes`, the defaults and `only` (values, or nil) say of
 * a field. */
static size_field learn_field(lua_State *L, int sizes, int defaults, const char *name) {
    size_field field = {UNKNOWN, 1};
    if (!lua_isnil(L, defaults)) {
        if (mpt_lua_value_get(L, defaults, name) != LUA_TNIL)
            learn(L, &field);
        lua_pop(L, 1);
    }
    for (lua_pushnil(L); lua_next(L, sizes); lua_pop(L, 1)) {
        if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
            continue;
        if (mpt_lua_value_get(L, -1, name) != LUA_TNIL)
            learn(L, &field);
        lua_pop(L, 1);
    }
    learn_only(L, defaults + 1, name, &field);
    return field;
}

/* Whether the value on the top is what the field can be. */
static bool fits(lua_State *L, const size_field *field) {
    int type = lua_type(L, -1), whole = 0;
    switch (field->kind) {
    case INTEGER:
        return type == LUA_TNUMBER && lua_tointegerx(L, -1, &whole) >= field->least && whole;
    case NUMBER:
        return type == LUA_TNUMBER && isfinite(lua_tonumber(L, -1));
    case TEXT:
        return type == LUA_TSTRING && lua_rawlen(L, -1) > 0;
    case BOOLEAN:
        return type == LUA_TBOOLEAN;
    case TABLE: /* what is in it, the word that reads it checks */
        return mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE) != NULL;
    case UNKNOWN:
    case ANY:
        break;
    }
    return true;
}

/* What stands on the top, with its value where it is short. */
static void show(lua_State *L, char *out, size_t size) {
    if (lua_type(L, -1) == LUA_TNUMBER && isnan(lua_tonumber(L, -1)))
        snprintf(out, size, "NaN"); /* the sign means nothing and differs by machine */
    else if (lua_type(L, -1) == LUA_TNUMBER)
        snprintf(out, size, "%.14g", lua_tonumber(L, -1));
    else if (lua_type(L, -1) == LUA_TSTRING)
        snprintf(out, size, "'%s'", lua_tostring(L, -1));
    else
        snprintf(out, size, "%s", mpt_lua_describe(L, -1));
}

static void fail_size(lua_State *L, int size, int key, const char *path,
                      const size_field *field) {
    char shown[64], way_out[64];
    static const char *const ways[] = {[NUMBER] = "give a number",
                                       [TEXT] = "give a text",
                                       [BOOLEAN] = "give true or false",
                                       [TABLE] = "give a table"};
    show(L, shown, sizeof shown);
    if (field->kind == INTEGER)
        snprintf(way_out, sizeof way_out, "give an integer of at least %lld",
                 (long long)field->least);
    else
        snprintf(way_out, sizeof way_out, "%s", ways[field->kind]);
    mpt_convert_fail(L, size, key, way_out, "%s%s: cannot be %s", path, lua_tostring(L, key),
                     shown);
}

void mpt_model_check_size(lua_State *L, int model_size, const char *path) {
    int top = lua_gettop(L), size = top + 1, sizes = top + 4, defaults = top + 5,
        keys = top + 8;
    luaL_checkstack(L, 16, "tables nest too deep");
    mpt_lua_value_get(L, model_size, "size");
    mpt_lua_value_get(L, model_size, "model");
    mpt_lua_value_get(L, top + 2, "sizes");
    mpt_lua_value_fields(L, top + 3);
    mpt_lua_value_get(L, top + 2, "defaults");
    mpt_lua_value_get(L, top + 2, "only"); /* behind the defaults, where learn_field has it */
    mpt_lua_value_fields(L, size);
    mpt_library_sorted_keys(L, top + 7);
    for (lua_Integer i = 1; lua_rawgeti(L, keys, i) == LUA_TSTRING; i++) {
        size_field field = learn_field(L, sizes, defaults, lua_tostring(L, keys + 1));
        mpt_lua_value_get(L, size, lua_tostring(L, keys + 1));
        if (!fits(L, &field))
            fail_size(L, size, keys + 1, path, &field);
        lua_settop(L, keys);
    }
    lua_settop(L, top);
}
