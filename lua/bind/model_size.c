/* Makes the size of a model: one of its named sizes, or a table with the same fields.
 *
 * What a model says of its fields stands in model{...}: `sizes` (a field that all of them have
 * is required), `defaults` (fields that may be left out), `only` (fields of Hugging Face's
 * config.json that may stand there with these values), `config` (a function that rewrites other
 * spellings). Kinds of values are held against the named sizes by size.c. Next: model.c draws
 * with it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/bind/convert.h"
#include "lua/bind/library.h"
#include "lua/bind/model.h"

enum { NAMES_MAX = 96, TEXT_BYTES = 256 };

/* One size in the making; the stack slots hold what its name says. */
typedef struct size_maker {
    const mpt_size_source *from;
    const char *model_name;
    int model;
    int sizes, defaults, only; /* plain tables of the model's; empty where it says none */
    int counts; /* field -> in how many named sizes it is, 0: in `defaults` alone */
    int fields; /* the size: a plain table */
    int value;  /* and the value made of it */
    lua_Integer n_sizes;
} size_maker;

/* ---- failures ---- */

/* Fails at the key on the top where the table was written in the recipe, else at the call. */
static void fail_size(lua_State *L, const size_maker *m, bool at_key, const char *hint,
                      const char *fmt, ...) MPT_PRINTF(5, 6);
static void fail_size(lua_State *L, const size_maker *m, bool at_key, const char *hint,
                      const char *fmt, ...) {
    mpt_where where = m->from->where;
    char text[MPT_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (at_key && !m->from->file)
        where = mpt_lua_value_where(L, m->value, -1);
    MPT_SANDBOX_FAIL(L, where, hint, "%s: %s", m->from->file ? m->from->file : m->model_name,
                     text);
}

/* ---- what the model says of its fields ---- */

/* Pushes the fields of one of the model's tables, or an empty table. */
static int push_part(lua_State *L, int model, const char *name) {
    mpt_lua_value_get(L, model, name);
    if (mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
        mpt_lua_value_fields(L, -1);
    else
        lua_newtable(L);
    lua_remove(L, -2);
    return lua_gettop(L);
}

/* Adds one to the count of each field of the table on the top; `step` 0 only enters them. */
static void count_fields(lua_State *L, int counts, lua_Integer step) {
    int table = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table); lua_settop(L, table + 1)) {
        lua_pushvalue(L, table + 1);
        lua_rawget(L, counts);
        lua_Integer n = lua_tointeger(L, -1) + step;
        lua_pushvalue(L, table + 1);
        lua_pushinteger(L, n);
        lua_rawset(L, counts);
    }
}

static void open_maker(lua_State *L, size_maker *m, int model) {
    m->model = model;
    m->sizes = push_part(L, model, "sizes");
    m->defaults = push_part(L, model, "defaults");
    m->only = push_part(L, model, "only");
    lua_newtable(L);
    m->counts = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, m->sizes); lua_settop(L, m->counts + 1)) {
        m->n_sizes++;
        mpt_lua_value_fields(L, m->counts + 2);
        count_fields(L, m->counts, 1);
    }
    lua_pushvalue(L, m->defaults);
    count_fields(L, m->counts, 0);
    lua_settop(L, m->counts);
}

/* Whether the field on the top is required: in all named sizes, and without a default. */
static bool is_required(lua_State *L, const size_maker *m) {
    lua_pushvalue(L, -1);
    lua_rawget(L, m->counts);
    lua_Integer n = lua_tointeger(L, -1);
    lua_pushvalue(L, -2);
    bool free = lua_rawget(L, m->defaults) != LUA_TNIL;
    lua_pop(L, 2);
    return n == m->n_sizes && !free;
}

/* ---- values as text ---- */

/* Pushes a value as text; a table by its fields. */
static void push_value_text(lua_State *L, int index) {
    int type = lua_type(L, index);
    if (type == LUA_TNUMBER && !lua_isinteger(L, index)) {
        char text[32]; /* Lua's own format would round */
        snprintf(text, sizeof text, "%.17g", lua_tonumber(L, index));
        lua_pushstring(L, text);
    } else if (type == LUA_TNUMBER || type == LUA_TBOOLEAN) {
        luaL_tolstring(L, index, NULL);
    } else if (type == LUA_TSTRING) {
        lua_pushfstring(L, "'%s'", lua_tostring(L, index));
    } else if (mpt_lua_value_of_kind(L, index, MPT_LUA_TABLE)) {
        luaL_checkstack(L, 16, "tables nest too deep");
        mpt_model_push_fields_text(L, index, " ");
        lua_pushfstring(L, "{%s }", lua_tostring(L, -1));
        lua_remove(L, -2);
    } else {
        lua_pushstring(L, mpt_lua_describe(L, index));
    }
}

void mpt_model_push_fields_text(lua_State *L, int index, const char *before) {
    mpt_lua_value_fields(L, index);
    int fields = lua_gettop(L), keys = fields + 1, text = fields + 2;
    mpt_library_sorted_keys(L, fields);
    lua_pushliteral(L, "");
    for (lua_Integer i = 1; lua_rawgeti(L, keys, i) != LUA_TNIL; i++) {
        int key = lua_gettop(L);
        lua_pushvalue(L, key);
        lua_rawget(L, fields);
        lua_pushstring(L, before);
        luaL_tolstring(L, key, NULL);
        lua_pushliteral(L, " = ");
        push_value_text(L, key + 1);
        lua_concat(L, 4);
        lua_replace(L, key);
        lua_settop(L, key);
        lua_concat(L, 2);
    }
    lua_settop(L, text);
    lua_replace(L, fields);
    lua_settop(L, fields);
}

/* A value for a message, as it would be written: short, in a buffer of the caller's. */
static void show(lua_State *L, int index, char *out, size_t size) {
    int type = lua_type(L, index);
    if (type == LUA_TNUMBER && isnan(lua_tonumber(L, index)))
        snprintf(out, size, "NaN"); /* the sign means nothing and differs by machine */
    else if (type == LUA_TNUMBER)
        snprintf(out, size, "%.14g", lua_tonumber(L, index));
    else if (type == LUA_TSTRING)
        snprintf(out, size, "\"%.64s\"", lua_tostring(L, index));
    else if (type == LUA_TBOOLEAN)
        snprintf(out, size, "%s", lua_toboolean(L, index) ? "true" : "false");
    else
        snprintf(out, size, "%s", mpt_lua_describe(L, index));
}

/* ---- the checks ---- */

/* "n_layer = 4", as a named size has the field on the top. */
static void show_example(lua_State *L, const size_maker *m, char *out, size_t size) {
    int key = lua_gettop(L);
    char value[TEXT_BYTES / 2];
    out[0] = 0;
    mpt_library_sorted_keys(L, m->sizes);
    lua_rawgeti(L, -1, 1);
    lua_rawget(L, m->sizes);
    mpt_lua_value_get(L, -1, lua_tostring(L, key));
    show(L, -1, value, sizeof value);
    snprintf(out, size, "%s = %s", lua_tostring(L, key), value);
    lua_settop(L, key);
}

static void require_fields(lua_State *L, const size_maker *m) {
    int top = lua_gettop(L);
    mpt_library_sorted_keys(L, m->counts);
    for (lua_Integer i = 1; lua_rawgeti(L, top + 1, i) != LUA_TNIL; i++) {
        char example[TEXT_BYTES], hint[TEXT_BYTES + 64];
        if (is_required(L, m) &&
            mpt_lua_value_get(L, m->value, lua_tostring(L, -1)) == LUA_TNIL) {
            lua_pop(L, 1);
            show_example(L, m, example, sizeof example);
            snprintf(hint, sizeof hint,
                     "a size of your own says all that the named ones say: %s", example);
            if (m->from->file)
                snprintf(hint, sizeof hint, "%s asks for it: %s", m->model_name, example);
            fail_size(L, m, false, hint, "the %s has no '%s'", m->from->file ? "file" : "size",
                      lua_tostring(L, -1));
        }
        lua_settop(L, top + 1);
    }
    lua_settop(L, top);
}

/* Whether the value at `given` is one that `only` allows; the allowed ones are on the top. */
static bool is_allowed(lua_State *L, int given, char *list, size_t size) {
    int allowed = lua_gettop(L);
    bool one = !mpt_lua_value_of_kind(L, allowed, MPT_LUA_TABLE), found = false;
    lua_Integer n = one ? 1 : mpt_lua_value_length(L, allowed);
    size_t used = 0;
    list[0] = 0;
    for (lua_Integer i = 1; i <= n; i++) {
        char text[TEXT_BYTES / 2];
        if (one)
            lua_pushvalue(L, allowed);
        else
            mpt_lua_value_geti(L, allowed, i);
        found = found || lua_rawequal(L, given, -1);
        show(L, -1, text, sizeof text);
        if (used < size)
            used += (size_t)snprintf(list + used, size - used, "%s%s",
                                     i == 1   ? ""
                                     : i == n ? " or "
                                              : ", ",
                                     text);
        lua_settop(L, allowed);
    }
    return found;
}

/* Refuses the value on the top, of the key below it, where `only` does not have it. */
static void check_only(lua_State *L, const size_maker *m) {
    int given = lua_gettop(L), key = given - 1;
    char list[TEXT_BYTES], shown[TEXT_BYTES], hint[2 * TEXT_BYTES];
    lua_pushvalue(L, key);
    if (lua_rawget(L, m->only) != LUA_TNIL && !is_allowed(L, given, list, sizeof list)) {
        show(L, given, shown, sizeof shown);
        snprintf(hint, sizeof hint, "%s computes with %s only", m->model_name, list);
        if (m->from->file)
            snprintf(hint, sizeof hint,
                     "%s computes with %s only; model.from_config(\"%.64s\", { %s = ... }) "
                     "reads the file with another value",
                     m->model_name, list, m->from->file, lua_tostring(L, key));
        lua_pushvalue(L, key);
        fail_size(L, m, true, hint, "%s: cannot be %s", lua_tostring(L, key), shown);
    }
    lua_settop(L, given);
}

static void refuse_unknown(lua_State *L, const size_maker *m) {
    const char *names[NAMES_MAX],
        *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "?";
    char hint[TEXT_BYTES] = "";
    int n = 0, at = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, m->counts); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && n < NAMES_MAX)
            names[n++] = lua_tostring(L, -2); /* stays alive in the table */
    const char *nearest = mpt_nearest(key, names, n);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    lua_settop(L, at);
    fail_size(L, m, true, hint, "no size field '%s'%s", key, m->from->file ? " to change" : "");
}

static bool is_known(lua_State *L, const size_maker *m) {
    lua_pushvalue(L, -1);
    bool known = lua_rawget(L, m->counts) != LUA_TNIL;
    lua_pop(L, 1);
    return known;
}

/* Every field that was given: known, or held by `only`. */
static void check_given(lua_State *L, const size_maker *m) {
    int top = lua_gettop(L);
    mpt_library_sorted_keys(L, m->fields);
    for (lua_Integer i = 1; lua_rawgeti(L, top + 1, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -1);
        bool held = lua_rawget(L, m->only) != LUA_TNIL;
        lua_pop(L, 1);
        if (!held && !is_known(L, m))
            refuse_unknown(L, m);
        lua_pushvalue(L, -1);
        lua_rawget(L, m->fields);
        check_only(L, m);
        lua_settop(L, top + 1);
    }
    lua_settop(L, top);
}

/* ---- making ---- */

/* Rewrites other spellings by the model's function, which gives a text where it refuses. */
static void rewrite(lua_State *L, const size_maker *m) {
    int top = lua_gettop(L);
    if (mpt_lua_value_get(L, m->model, "config") == LUA_TFUNCTION) {
        lua_pushvalue(L, m->fields);
        lua_pushboolean(L, m->from->file != NULL);
        lua_call(L, 2, 1);
        if (lua_type(L, -1) == LUA_TSTRING)
            fail_size(L, m, false, "", "%s", lua_tostring(L, -1));
        if (!lua_isnil(L, -1) && !lua_rawequal(L, -1, m->fields))
            fail_size(L, m, false, "return a text that says why, or nothing",
                      "config: the model's function cannot return %s", mpt_lua_describe(L, -1));
    }
    lua_settop(L, top);
}

/* Whether the recipe itself says the field on the top, beside the file. A model_type chose the
 * model. */
static bool is_change(lua_State *L, const size_maker *m) {
    bool type =
        lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "model_type") == 0;
    if (!m->from->changes || type)
        return false;
    lua_pushvalue(L, -1);
    bool is = lua_rawget(L, m->from->changes) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

/* A file has much that no model asks for; what the recipe says beside it is asked for. */
static void drop_unknown(lua_State *L, const size_maker *m) {
    int top = lua_gettop(L);
    mpt_library_sorted_keys(L, m->fields);
    for (lua_Integer i = 1; lua_rawgeti(L, top + 1, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -1);
        bool held = lua_type(L, -1) == LUA_TSTRING && lua_rawget(L, m->only) != LUA_TNIL;
        lua_settop(L, top + 2);
        bool change = is_change(L, m);
        if (change && lua_type(L, -1) != LUA_TSTRING)
            held = true; /* left for mpt_model_refuse_positions */
        else if (change && !held && !is_known(L, m))
            refuse_unknown(L, m);
        if (!held && !is_known(L, m)) {
            lua_pushnil(L);
            lua_rawset(L, m->fields);
        }
        lua_settop(L, top + 1);
    }
    lua_settop(L, top);
}

/* Gives fields that were left out their defaults. */
static void add_defaults(lua_State *L, int defaults, int fields) {
    int top = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, defaults); lua_settop(L, top + 1)) {
        lua_pushvalue(L, top + 1);
        if (lua_rawget(L, fields) != LUA_TNIL)
            continue;
        lua_pushvalue(L, top + 1);
        lua_pushvalue(L, top + 2);
        lua_rawset(L, fields);
    }
    lua_settop(L, top);
}

void mpt_model_size_own(lua_State *L, int model, int table, const mpt_size_source *from) {
    int top = lua_gettop(L);
    size_maker m = {.from = from, .model_name = mpt_model_name(L, model)};
    luaL_checkstack(L, 32, "tables nest too deep");
    table = lua_absindex(L, table);
    open_maker(L, &m, model);
    lua_newtable(L);
    m.fields = lua_gettop(L);
    add_defaults(L, table, m.fields); /* a copy, which the model's function may change */
    rewrite(L, &m);
    if (from->file)
        drop_unknown(L, &m);
    mpt_lua_value_new(L, MPT_LUA_TABLE, m.model_name, from->where, m.fields);
    m.value = lua_gettop(L);
    mpt_model_refuse_positions(L, m.model_name);
    require_fields(L, &m);
    check_given(L, &m);
    add_defaults(L, m.defaults, m.fields);
    mpt_lua_value_new(L, MPT_LUA_TABLE, m.model_name, from->where, m.fields);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
}

void mpt_model_size_named(lua_State *L, int model, int size, mpt_where where) {
    int top = lua_gettop(L);
    size = lua_absindex(L, size);
    int defaults = push_part(L, model, "defaults");
    lua_newtable(L);
    mpt_lua_value_fields(L, size);
    add_defaults(L, top + 3, top + 2);
    add_defaults(L, defaults, top + 2);
    mpt_lua_value_new(L, MPT_LUA_TABLE, mpt_model_name(L, model), where, top + 2);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
}
