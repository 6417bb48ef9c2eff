/* Several files as one corpus: text { "a.txt", "b.txt" }, and tokens { files = { ... } }.
 *
 * Both forms are the same list. An entry is a path, or a table that gives it a weight. */
#include "lua/bind/convert.h"

#include <string.h>

#include "recipe/schema_rows.h"

static const char hint[] = "give paths, or { path = \"a.bin\", weight = 2 }";

bool mpt_convert_has_files(lua_State *L, int index) {
    const mpt_lua_value *value = mpt_lua_value_at(L, index);
    bool words = value->kind == MPT_LUA_DATA &&
                 (strcmp(value->word, "text") == 0 || strcmp(value->word, "tokens") == 0);
    lua_Integer n = words ? mpt_lua_value_length(L, index) : 0;
    if (n == 0)
        return false;
    bool plain = mpt_lua_value_geti(L, index, 1) == LUA_TSTRING;
    lua_pop(L, 1);
    return n > 1 || !plain;
}

/* Sets the path from the text on the top. */
static void put_path(lua_State *L, const mpt_filler *f, int list, int key, const char *path,
                     mpt_data_file *file) {
    mpt_setting setting = {.kind = MPT_SETTING_STRING, .string = lua_tostring(L, -1)};
    if (!mpt_lua_is_plain(L, -1))
        mpt_convert_fail(L, list, key, MPT_LUA_LINE_HINT,
                         "%s: the text has a control character", path);
    mpt_sandbox_check(L, mpt_record_set(f->recipe->ctx, &f->recipe->arena, &mpt_record_file,
                                        file, path, "path", &setting, file->where));
}

void mpt_convert_files(lua_State *L, const mpt_filler *f, int list, const char *path) {
    lua_Integer n = mpt_lua_value_length(L, list);
    int top = lua_gettop(L);
    luaL_checkstack(L, 32, "the recipe nests too deep");
    for (lua_Integer i = 1; i <= n; i++) {
        mpt_convert_path item = mpt_convert_item(path, i);
        mpt_data_file *file = mpt_data_spec_append(f->recipe, f->object);
        if (!file)
            mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
        lua_pushinteger(L, i);
        file->where = mpt_convert_place(L, list, top + 1);
        int type = mpt_lua_value_geti(L, list, i);
        if (type == LUA_TSTRING) {
            put_path(L, f, list, top + 1, item.text, file);
        } else if (mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE)) {
            mpt_filler inner = {f->recipe, &mpt_record_file, file, top + 2, item.text, NULL,
                                NULL};
            mpt_convert_fill(L, &inner);
        } else {
            mpt_convert_fail(L, list, top + 1, hint, "%s: cannot be %s", item.text,
                             mpt_lua_describe(L, -1));
        }
        lua_settop(L, top);
    }
}

void mpt_convert_data_special(lua_State *L, const mpt_filler *f, const char *name) {
    mpt_data_spec *data = f->object;
    mpt_convert_path path = mpt_convert_key(f->path, name);
    int list = lua_gettop(L), key = list - 1;
    if (data->n_files > 0)
        mpt_convert_fail(L, f->value, key, "put all into one list",
                         "%s: files stand here with and without this name", path.text);
    if (!mpt_lua_value_of_kind(L, list, MPT_LUA_TABLE))
        mpt_convert_fail(L, f->value, key, hint, "%s: cannot be %s", path.text,
                         mpt_lua_describe(L, list));
    if (mpt_convert_list(L, list, path.text) == 0)
        mpt_convert_fail(L, f->value, key, hint, "%s: the list is empty", path.text);
    mpt_convert_files(L, f, list, path.text);
}
