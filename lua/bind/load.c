/* Stage 1: a recipe file, or a recipe held in memory, becomes the recipe IR.
 *
 * Makes the sandbox, runs the chunk in it, converts what it returned, and applies the host's
 * path=value settings last. The sandbox stays open inside the recipe, because compiling asks
 * its model to draw graphs. Next: runtime/recipe/freeze.c checks the recipe as a whole. */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "lua/bind/chunk.h"
#include "lua/bind/convert.h"
#include "lua/bind/library.h"
#include "lua/bind/model.h"
#include "lua/bind/presets.h"

typedef struct load_call {
    mpt_sandbox *box;
    const mpt_lua_chunk *chunk;
} load_call;

/* Everything that can raise, in one protected call. */
static int load_body(lua_State *L) {
    const load_call *call = lua_touserdata(L, 1);
    const mpt_lua_chunk *chunk = call->chunk;
    mpt_library_open(L, mpt_hash(chunk->text, chunk->length));
    mpt_words_open(L);
    mpt_require_open(L);
    mpt_presets_open(L);
    mpt_library_proxy(L, "");
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "mpt.models");
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "mpt.predicates");
    lua_settop(L, 0);
    mpt_chunk_run(L, chunk);
    if (!mpt_lua_value_of_kind(L, 1, MPT_LUA_RECIPE)) {
        mpt_ctx *ctx = call->box->ctx;
        mpt_where where = {chunk->file, 0};
        mpt_status status =
            MPT_FAIL(ctx, MPT_INVALID, where, "the file returned %s, not a recipe",
                     mpt_lua_describe(L, 1));
        mpt_hint(ctx, "end it with return recipe { version = 1, ... }");
        mpt_sandbox_check(L, status);
    }
    mpt_convert_recipe(L, 1);
    return 0;
}

/* "recipes/gpt2.lua" gives "gpt2": the name of a recipe that has none. */
static mpt_status make_recipe(mpt_sandbox *box, const char *file, const mpt_lua_chunk *chunk,
                              mpt_recipe **out) {
    const char *slash = strrchr(file, '/'), *stem = slash ? slash + 1 : file;
    const char *dot = strrchr(stem, '.');
    int length = dot && dot > stem ? (int)(dot - stem) : (int)strlen(stem);
    const char *name = mpt_arena_printf(&box->arena, "%.*s", length, stem);
    if (!name)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_recipe_new(box->ctx, name, file, out));
    mpt_recipe *recipe = *out;
    recipe->source_text = mpt_arena_strdup(&recipe->arena, chunk->text);
    return recipe->source_text ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status apply_sets(mpt_recipe *recipe, const mpt_load_options *options) {
    for (int i = 0; i < options->n_sets; i++)
        MPT_TRY(mpt_recipe_set_at(recipe, options->sets[i].path, options->sets[i].value,
                                  MPT_NOWHERE));
    return MPT_OK;
}

/* Options that are whole, with the tree filled in. */
static mpt_status read_options(mpt_ctx *ctx, const char *call, const mpt_load_options *options,
                               mpt_load_options *out) {
    *out = MPT_LOAD_OPTIONS_INIT;
    MPT_TRY(mpt_options_read(ctx, call, options, out, sizeof *out));
    MPT_TRY(mpt_sets_check(ctx, call, "sets", out->sets, out->n_sets));
    if (!out->tree)
        out->tree = mpt_file_exists(MPT_TREE "/models/mlp.lua") ? MPT_TREE : MPT_INSTALLED_TREE;
    return MPT_OK;
}

/* From here on the recipe owns the sandbox, also when loading fails. */
static mpt_status load_chunk(mpt_sandbox *box, const char *file, const mpt_lua_chunk *chunk,
                             const mpt_load_options *options, mpt_recipe **out) {
    mpt_recipe *recipe = NULL;
    mpt_status status = make_recipe(box, file, chunk, &recipe);
    load_call call = {box, chunk};
    if (status != MPT_OK) {
        mpt_recipe_destroy(recipe);
        mpt_sandbox_destroy(box);
        return status;
    }
    mpt_model_attach(recipe, box);
    status = mpt_sandbox_call(box, load_body, &call);
    if (status == MPT_OK)
        status = apply_sets(recipe, options);
    if (status != MPT_OK) {
        mpt_recipe_destroy(recipe);
        return status;
    }
    *out = recipe;
    return MPT_OK;
}

/* The folder of a path with its last '/', "" for the working folder. */
static const char *folder_of(mpt_sandbox *box, const char *path) {
    const char *slash = strrchr(path, '/');
    return mpt_arena_printf(&box->arena, "%.*s", slash ? (int)(slash + 1 - path) : 0, path);
}

/* Makes the sandbox and reads the text into it: a file (text NULL), or one held in memory. */
static mpt_status open_box(mpt_ctx *ctx, const char *file, const char *text, size_t length,
                           const char *tree, mpt_sandbox **out,
                           const mpt_lua_chunk **out_chunk) {
    MPT_TRY(mpt_sandbox_create(ctx, out));
    mpt_sandbox *box = *out;
    mpt_status status = MPT_OK;
    box->tree = mpt_arena_strdup(&box->arena, tree);
    if (!text)
        box->folder = folder_of(box, file);
    if (!box->tree || (!text && !box->folder))
        status = MPT_OUT_OF_MEMORY;
    else if (text)
        status = mpt_chunk_add(box, file, text, length, out_chunk);
    else
        status = mpt_chunk_read(box, file, file, out_chunk);
    if (status != MPT_OK)
        mpt_sandbox_destroy(box);
    return status;
}

mpt_status mpt_recipe_load_file(mpt_ctx *ctx, const char *path, const mpt_load_options *options,
                                mpt_recipe **out) {
    mpt_load_options o;
    mpt_sandbox *box;
    const mpt_lua_chunk *chunk;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_REQUIRE(ctx, path);
    MPT_TRY(read_options(ctx, __func__, options, &o));
    MPT_TRY(open_box(ctx, path, NULL, 0, o.tree, &box, &chunk));
    return load_chunk(box, path, chunk, &o, out);
}

mpt_status mpt_recipe_load_string(mpt_ctx *ctx, const char *name, const char *text,
                                  size_t length, const mpt_load_options *options,
                                  mpt_recipe **out) {
    mpt_load_options o;
    mpt_sandbox *box;
    const mpt_lua_chunk *chunk;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_REQUIRE(ctx, name);
    if (length > 0)
        MPT_REQUIRE(ctx, text);
    MPT_TRY(read_options(ctx, __func__, options, &o));
    MPT_TRY(open_box(ctx, name, text ? text : "", length, o.tree, &box, &chunk));
    return load_chunk(box, name, chunk, &o, out);
}
