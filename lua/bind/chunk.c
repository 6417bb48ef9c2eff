/* Reading and running chunks, and `require`.
 *
 * A module is named by words with dots between, so no name can leave its folder. Any may stand
 * beside the recipe; "models.x" and "recipes.x" also in the folder above it, so that a copied
 * project uses its own files, and at last in the tree of mpt. Each runs once; its value is
 * kept. Next: the words it uses are in words.c, the value it returns goes to convert.c. */
#include "lua/bind/chunk.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "lua/bind/source.h"

enum { PATH_BYTES = 1024 };

/* ---- texts ---- */

/* Names of up to this length pass through Lua's messages uncut; longer ones get a number. */
static const char *source_name(mpt_sandbox *box, const char *file) {
    if (strlen(file) + 2 < LUA_IDSIZE && !strchr(file, '\n'))
        return mpt_arena_printf(&box->arena, "=%s", file);
    return mpt_arena_printf(&box->arena, "=file %d", box->n_chunks + 1);
}

mpt_status mpt_chunk_add(mpt_sandbox *box, const char *file, const char *text, size_t length,
                         const mpt_lua_chunk **out) {
    *out = NULL;
    mpt_where where = {file, 0};
    if (length > MPT_LUA_FILE) {
        mpt_status status = MPT_FAIL(box->ctx, MPT_INVALID, where,
                                     "%zu bytes are too many for a recipe", length);
        mpt_hint(box->ctx, "at most %d KiB", MPT_LUA_FILE / 1024);
        return status;
    }
    mpt_lua_chunk **grown = mpt_arena_grow(&box->arena, box->chunks, sizeof(mpt_lua_chunk *),
                                           box->n_chunks, &box->cap_chunks);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    box->chunks = grown;
    mpt_lua_chunk *chunk = mpt_arena_alloc(&box->arena, sizeof *chunk);
    char *copy = mpt_arena_alloc(&box->arena, length + 1);
    if (!chunk || !copy)
        return MPT_OUT_OF_MEMORY;
    if (length)
        memcpy(copy, text, length);
    chunk->file = mpt_arena_strdup(&box->arena, file);
    chunk->source = source_name(box, file);
    chunk->text = copy;
    chunk->length = length;
    if (!chunk->file || !chunk->source)
        return MPT_OUT_OF_MEMORY;
    box->chunks[box->n_chunks++] = chunk;
    *out = chunk;
    return MPT_OK;
}

mpt_status mpt_chunk_read(mpt_sandbox *box, const char *file, const char *path,
                          const mpt_lua_chunk **out) {
    mpt_file_map map;
    *out = NULL;
    MPT_TRY(mpt_file_map_open(box->ctx, MPT_NOWHERE, path, &map));
    mpt_status status = mpt_chunk_add(box, file, (const char *)map.data, map.size, out);
    mpt_file_map_close(&map);
    return status;
}

static void fail_depth(lua_State *L, const mpt_lua_chunk *chunk) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_where where = {chunk->file, mpt_source_deepest(chunk->text, chunk->length)};
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, where, "brackets, blocks or operators nest too deep");
    mpt_hint(ctx, "give inner parts a name of their own: local part = ...");
    mpt_sandbox_check(L, status);
}

void mpt_chunk_compile(lua_State *L, const mpt_lua_chunk *chunk) {
    static const char mark[] = "\xef\xbb\xbf"; /* what some editors put before UTF-8 */
    size_t skip = strncmp(chunk->text, mark, 3) == 0 ? 3 : 0;
    luaL_checkstack(L, 8, "modules nest too deep");
    int rc = luaL_loadbufferx(L, chunk->text + skip, chunk->length - skip, chunk->source, "t");
    if (rc == LUA_ERRMEM)
        mpt_sandbox_uncaught(L, rc);
    if (rc != LUA_OK && strcmp(lua_tostring(L, -1), "C stack overflow") == 0)
        fail_depth(L, chunk);
    if (rc != LUA_OK)
        lua_error(L);
}

void mpt_chunk_run(lua_State *L, const mpt_lua_chunk *chunk) {
    mpt_chunk_compile(L, chunk);
    lua_call(L, 0, 1);
}

/* ---- require ---- */

/* "models.gpt2" to "models/gpt2"; false for anything that is no plain dotted name. */
static bool module_path(const char *name, char *out, size_t size) {
    size_t n = strlen(name);
    if (n == 0 || n >= size || name[n - 1] == '.')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '.' && (i == 0 || name[i - 1] == '.'))
            return false;
        if (name[i] != '.' && name[i] != '_' && name[i] != '-' &&
            !isalnum((unsigned char)name[i]))
            return false;
        out[i] = name[i];
        if (name[i] == '.')
            out[i] = '/';
    }
    out[n] = 0;
    return true;
}

static bool in_tree(const char *path) {
    return strncmp(path, "models/", 7) == 0 || strncmp(path, "recipes/", 8) == 0;
}

/* The folder above: "my/recipes/" gives "my/", "recipes/" gives "", "" gives "../"; false for
 * the root. */
static bool parent_of(const char *folder, char *out) {
    size_t n = strlen(folder);
    if (strcmp(folder, "/") == 0)
        return false;
    snprintf(out, PATH_BYTES, "%s", folder);
    bool named = n > 0 && strcmp(folder, "./") != 0 && strcmp(folder, "../") != 0 &&
                 (n < 3 || strcmp(folder + n - 3, "/./") != 0) &&
                 (n < 4 || strcmp(folder + n - 4, "/../") != 0);
    if (!named) {
        snprintf(out, PATH_BYTES, "%s../", folder);
        return true;
    }
    for (n--; n > 0 && folder[n - 1] != '/'; n--)
        ;
    out[n] = 0;
    return true;
}

/* The folders that a module may stand in, in the order of looking; each ends with '/'. */
typedef struct module_places {
    int n;
    char folder[3][PATH_BYTES];
} module_places;

static module_places places_of(const mpt_sandbox *box, const char *relative) {
    module_places places = {0};
    if (box->folder)
        snprintf(places.folder[places.n++], PATH_BYTES, "%s", box->folder);
    if (!in_tree(relative))
        return places;
    if (box->folder && parent_of(box->folder, places.folder[places.n]))
        places.n++;
    snprintf(places.folder[places.n++], PATH_BYTES, "%s/", box->tree);
    return places;
}

/* The file of a module: where it is, and what messages call it. */
static bool find_module(const mpt_sandbox *box, const char *relative, char *path, char *file) {
    const module_places places = places_of(box, relative);
    for (int i = 0; i < places.n; i++) {
        bool is_tree = i == places.n - 1 && in_tree(relative);
        int n = snprintf(path, PATH_BYTES, "%s%s.lua", places.folder[i], relative);
        snprintf(file, PATH_BYTES, "%s%s.lua", is_tree ? "" : places.folder[i], relative);
        if (n < PATH_BYTES && mpt_file_exists(path))
            return true;
    }
    return false;
}

static void fail_module(lua_State *L, const char *name, const char *fault, const char *hint) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, mpt_sandbox_where(L, 1), "require: %s '%s'", fault, name);
    mpt_hint(ctx, "%s", hint);
    mpt_sandbox_check(L, status);
}

static void fail_absent(lua_State *L, const mpt_sandbox *box, const char *name,
                        const char *relative) {
    const module_places places = places_of(box, relative);
    char hint[MPT_ERROR_TEXT];
    size_t used = (size_t)snprintf(hint, sizeof hint, "looked for %s.lua in", relative);
    for (int i = 0; i < places.n && used < sizeof hint; i++)
        used += (size_t)snprintf(hint + used, sizeof hint - used, "%s %s", i ? "," : "",
                                 *places.folder[i] ? places.folder[i] : "./");
    if (places.n == 0)
        snprintf(hint, sizeof hint, "a recipe held in memory has models.* and recipes.* only");
    fail_module(L, name, "there is no module", hint);
}

/* Upvalue: the table of loaded modules; false stands for one that is being loaded. */
static int require(lua_State *L) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    char relative[PATH_BYTES / 2], path[PATH_BYTES], file[PATH_BYTES];
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING)
        fail_module(L, luaL_typename(L, 1), "takes one name, not",
                    "write require \"models.gpt2\"");
    const char *name = lua_tostring(L, 1);
    (void)lua_getfield(L, lua_upvalueindex(1), name);
    if (lua_isboolean(L, -1) && !lua_toboolean(L, -1))
        fail_module(L, name, "modules go round in a circle at",
                    "move what both need to a third file");
    if (!lua_isnil(L, -1))
        return 1;
    if (!module_path(name, relative, sizeof relative) || strlen(name) != lua_rawlen(L, 1))
        fail_module(L, name, "no module can have the name",
                    "names are words with dots between: models.gpt2");
    if (!find_module(box, relative, path, file))
        fail_absent(L, box, name, relative);
    lua_pushboolean(L, false);
    lua_setfield(L, lua_upvalueindex(1), name);
    const mpt_lua_chunk *chunk;
    mpt_sandbox_check(L, mpt_chunk_read(box, file, path, &chunk));
    snprintf(file, sizeof file, "%s.lua", relative);
    if (box->recipe)
        mpt_sandbox_check(
            L, mpt_recipe_append_file(box->recipe, file, chunk->text, chunk->length));
    mpt_chunk_run(L, chunk);
    if (!lua_toboolean(L, -1))
        fail_module(L, name, "nothing is returned by", "end the file with return");
    lua_pushvalue(L, -1);
    lua_setfield(L, lua_upvalueindex(1), name);
    return 1;
}

bool mpt_require_exists(lua_State *L, const char *name) {
    char relative[PATH_BYTES / 2], path[PATH_BYTES], file[PATH_BYTES];
    return module_path(name, relative, sizeof relative) &&
           find_module(mpt_sandbox_of(L), relative, path, file);
}

void mpt_require_open(lua_State *L) {
    lua_newtable(L);
    lua_pushcclosure(L, require, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "mpt.require");
    lua_setfield(L, -2, "require");
}
