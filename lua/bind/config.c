/* model.from_config: the model that a Hugging Face config.json describes.
 *
 * The file is read by jansson and handed as a table to the model of its model_type, which alone
 * knows what the fields mean (models/NAME.lua: defaults, only, config). A path starts at the
 * working directory or at the recipe's folder, as that of data does. Next: model_size.c. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "lua/bind/chunk.h"
#include "lua/bind/library.h"
#include "lua/bind/model.h"

enum { PATH_BYTES = 1024, DEPTH_MAX = 16, VALUE_STEPS = 8 };

static const char example[] = "write model = model.from_config \"gpt2/config.json\"";

/* ---- the file ---- */

/* A file that was found. */
typedef struct config_file {
    mpt_where where;       /* the recipe's line */
    char path[PATH_BYTES]; /* as it is opened */
    char name[PATH_BYTES]; /* as the recipe has it, with config.json where it names a folder */
} config_file;

static bool find_in(const char *folder, const char *given, config_file *out) {
    static const char *const ends[] = {"/config.json", ""};
    for (int i = 0; i < 2; i++) {
        int n = snprintf(out->path, PATH_BYTES, "%s%s%s", folder, given, ends[i]);
        snprintf(out->name, PATH_BYTES, "%s%s", given, ends[i]);
        if (n < PATH_BYTES && mpt_file_exists(out->path))
            return true;
    }
    return false;
}

static void find_file(lua_State *L, const char *given, config_file *out) {
    const mpt_sandbox *box = mpt_sandbox_of(L);
    if (!find_in("", given, out) &&
        (!box->folder || *given == '/' || !find_in(box->folder, given, out)))
        MPT_SANDBOX_FAIL(L, out->where,
                         "a path starts at the working directory or at the recipe's folder",
                         "model.from_config: there is no %s", given);
}

/* Python writes Infinity, which is no JSON. It becomes a text of the same length, so that
 * places in messages stay true; push_json knows it. */
static const char infinity[] = "\"\\u221e\"", minus_infinity[] = "\"-\\u221e\"";

static void mask_infinity(char *text, size_t length) {
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && length - i >= 9 && memcmp(text + i, "-Infinity", 9) == 0)
            memcpy(text + i, minus_infinity, 9);
        else if (!quoted && length - i >= 8 && memcmp(text + i, "Infinity", 8) == 0)
            memcpy(text + i, infinity, 8);
    }
}

static mpt_status parse(mpt_ctx *ctx, const config_file *file, char *text, size_t length,
                        json_t **out) {
    mpt_where where = file->where;
    const char *path = file->path;
    json_error_t error;
    mask_infinity(text, length);
    *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (*out && json_is_object(*out))
        return MPT_OK;
    if (*out) {
        json_decref(*out);
        *out = NULL;
        MPT_FAIL(ctx, MPT_INVALID, where, "%s: holds no object", path);
    } else if (json_error_code(&error) == json_error_out_of_memory) {
        return mpt_fail_memory(ctx, length);
    } else {
        MPT_FAIL(ctx, MPT_INVALID, where, "%s:%d:%d: %s", path, error.line, error.column,
                 error.text);
    }
    mpt_hint(ctx, "it should be a config.json as Hugging Face transformers writes it");
    return MPT_INVALID;
}

/* A path that stays below the recipe's folder can be copied with it. */
static mpt_status note_file(const mpt_sandbox *box, const config_file *file,
                            const mpt_file_map *map) {
    if (*file->name == '/' || strstr(file->name, "..") || !box->recipe)
        return MPT_OK;
    return mpt_recipe_append_file(box->recipe, file->name, (const char *)map->data, map->size);
}

static mpt_status read_file(const mpt_sandbox *box, const config_file *file, json_t **out) {
    mpt_ctx *ctx = box->ctx;
    mpt_file_map map;
    MPT_TRY(mpt_file_map_open(ctx, file->where, file->path, &map));
    mpt_status status;
    char *copy = map.size <= MPT_LUA_FILE ? mpt_alloc(ctx, map.size + 1) : NULL;
    if (map.size > MPT_LUA_FILE) {
        status = MPT_FAIL(ctx, MPT_INVALID, file->where,
                          "%s: %zu bytes are too many for a config.json", file->path, map.size);
        mpt_hint(ctx, "at most %d KiB", MPT_LUA_FILE / 1024);
    } else if (!copy) {
        status = mpt_fail_memory(ctx, map.size + 1);
    } else {
        if (map.size)
            memcpy(copy, map.data, map.size);
        status = note_file(box, file, &map);
        if (status == MPT_OK)
            status = parse(ctx, file, copy, map.size, out);
    }
    mpt_free(ctx, copy);
    mpt_file_map_close(&map);
    return status;
}

/* ---- JSON to Lua ---- */

static void push_json(lua_State *L, const json_t *json, int depth);

/* {"__float__": "Infinity"}: how transformers writes what JSON cannot; false for others. */
static bool push_wrapped(lua_State *L, const json_t *json) {
    const char *text = json_string_value(json_object_get(json, "__float__"));
    if (!text)
        return false;
    bool minus = *text == '-';
    if (strcmp(text + minus, "Infinity") == 0)
        lua_pushnumber(L, minus ? -HUGE_VAL : HUGE_VAL);
    else if (strcmp(text, "NaN") == 0)
        lua_pushnumber(L, (lua_Number)NAN);
    else
        return false;
    return true;
}

static void push_string(lua_State *L, const json_t *json) {
    const char *text = json_string_value(json);
    if (strcmp(text, "\xe2\x88\x9e") == 0)
        lua_pushnumber(L, HUGE_VAL);
    else if (strcmp(text, "-\xe2\x88\x9e") == 0)
        lua_pushnumber(L, -HUGE_VAL);
    else
        lua_pushlstring(L, text, json_string_length(json));
}

/* Nothing (null) is no entry of an object, and false in a list, which must have no holes. What
 * is nested deeper than any field that a model reads is left out. */
static void push_container(lua_State *L, const json_t *json, int depth) {
    luaL_checkstack(L, 8, "the config.json nests too deep");
    lua_newtable(L);
    if (depth > DEPTH_MAX)
        return;
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *entry = json_array_get(json, i);
        if (json_is_null(entry))
            lua_pushboolean(L, false);
        else
            push_json(L, entry, depth + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    json_t *object = json_is_object(json) ? (json_t *)(uintptr_t)json : NULL;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        if (json_is_null(json_object_iter_value(at)))
            continue;
        lua_pushstring(L, json_object_iter_key(at));
        push_json(L, json_object_iter_value(at), depth + 1);
        lua_rawset(L, -3);
    }
}

static void push_json(lua_State *L, const json_t *json, int depth) {
    mpt_sandbox_charge(L, VALUE_STEPS);
    switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(json));
        return;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(json));
        return;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(json));
        return;
    case JSON_STRING:
        push_string(L, json);
        return;
    case JSON_NULL:
        lua_pushnil(L);
        return;
    default:
        if (!push_wrapped(L, json))
            push_container(L, json, depth);
        return;
    }
}

static int push_body(lua_State *L) {
    const json_t *json = lua_touserdata(L, 1);
    push_json(L, json, 0);
    return 1;
}

/* Pushes the fields of the file. What jansson holds is freed whatever Lua raises. */
static void push_file(lua_State *L, const config_file *file) {
    json_t *json = NULL;
    luaL_checkstack(L, 8, "too many arguments");
    lua_pushcfunction(L, push_body);
    mpt_sandbox_check(L, read_file(mpt_sandbox_of(L), file, &json));
    lua_pushlightuserdata(L, json);
    int rc = lua_pcall(L, 1, 1, 0);
    json_decref(json);
    if (rc != LUA_OK) {
        mpt_sandbox_uncaught(L, rc);
        lua_error(L);
    }
}

/* ---- the model ---- */

/* The file of a model by its model_type, where that is not its name. */
static const char *module_of(const char *type) {
    static const char *const others[][2] = {{"deepseek_v3", "deepseek_moe"}};
    for (size_t i = 0; i < MPT_COUNT(others); i++)
        if (strcmp(others[i][0], type) == 0)
            return others[i][1];
    return type;
}

/* Pushes the model of the fields at `fields`. */
static void push_model(lua_State *L, int fields, mpt_where where, const char *path) {
    char module[64];
    if (lua_getfield(L, fields, "model_type") != LUA_TSTRING)
        MPT_SANDBOX_FAIL(L, where,
                         "it should be a config.json as Hugging Face transformers writes it",
                         "%s: has no model_type", path);
    const char *type = lua_tostring(L, -1);
    int n = snprintf(module, sizeof module, "models.%s", module_of(type));
    if (n >= (int)sizeof module || strchr(type, '.') || !mpt_require_exists(L, module))
        MPT_SANDBOX_FAIL(L, where,
                         "models are files: models/NAME.lua beside the recipe, or mpt's own",
                         "%s: model_type: there is no model '%.48s'", path, type);
    lua_getfield(L, LUA_REGISTRYINDEX, "mpt.require");
    lua_pushstring(L, module);
    lua_call(L, 1, 1);
    lua_remove(L, -2);
    if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_MODEL))
        MPT_SANDBOX_FAIL(L, where, "the file should return model { ... }", "%s: %s gave %s",
                         path, module, mpt_lua_describe(L, -1));
    mpt_model_check(L, lua_gettop(L));
}

/* Puts the fields of the table at `changes` over those at `fields`. */
static void change_fields(lua_State *L, int changes, int fields) {
    int top = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, changes); lua_settop(L, top + 1)) {
        mpt_sandbox_charge(L, VALUE_STEPS);
        lua_pushvalue(L, top + 1);
        lua_pushvalue(L, top + 2);
        lua_rawset(L, fields);
    }
    lua_settop(L, top);
}

int mpt_model_from_config(lua_State *L) {
    config_file file = {.where = mpt_sandbox_where(L, 1)};
    char prefix[PATH_BYTES + 4];
    int n = lua_gettop(L);
    if (n < 1 || n > 2 || lua_type(L, 1) != LUA_TSTRING || (n == 2 && !lua_istable(L, 2)))
        MPT_SANDBOX_FAIL(L, file.where, example,
                         "model.from_config: takes a path, and a table of changes");
    const char *given = lua_tostring(L, 1);
    if (!*given || !mpt_lua_is_plain(L, 1))
        MPT_SANDBOX_FAIL(L, file.where, example, "model.from_config: the path is %s",
                         *given ? "no plain text" : "empty");
    find_file(L, given, &file);
    push_file(L, &file);
    if (n == 2)
        change_fields(L, 2, n + 1);
    push_model(L, n + 1, file.where, file.path);
    mpt_model_size_own(L, n + 2, n + 1,
                       &(mpt_size_source){file.where, file.path, n == 2 ? 2 : 0});
    mpt_model_wrap(L, n + 2, MPT_MODEL_CUSTOM, file.where);
    snprintf(prefix, sizeof prefix, "%s: ", file.path);
    mpt_model_check_size(L, n + 3, prefix);
    return 1;
}
