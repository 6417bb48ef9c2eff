/* What the tests of lua/bind share: a recipe from a text, and texts that must be refused. */
#ifndef MPT_LUA_TEST_H
#define MPT_LUA_TEST_H

#include "mpt_test.h"

#include "recipe/recipe.h"

/* A model small enough to stand in each text. */
#define MPT_LUA_MODEL                                                                          \
    "local m = model { name = 'm', sizes = { s = { w = 4 } }, graph = function(nn, size)\n"    \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

static inline mpt_recipe *mpt_lua_load(mpt_ctx *ctx, const char *text) {
    mpt_recipe *recipe = NULL;
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &recipe));
    return recipe;
}

/* Loading must fail with this very message, and leave nothing behind. */
static inline void mpt_lua_refuse(const char *text, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    assert_int_equal(mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &recipe),
                     MPT_INVALID);
    assert_null(recipe);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* The same for the fields of a recipe that has a model; the fields begin on line 5. */
static inline void mpt_lua_refuse_fields(const char *fields, const char *message) {
    char text[4096];
    snprintf(text, sizeof text, MPT_LUA_MODEL "return recipe { model = m 's',\n%s }", fields);
    mpt_lua_refuse(text, message);
}

static inline mpt_recipe *mpt_lua_load_fields(mpt_ctx *ctx, const char *fields) {
    char text[4096];
    snprintf(text, sizeof text, MPT_LUA_MODEL "return recipe { model = m 's',\n%s }", fields);
    return mpt_lua_load(ctx, text);
}

static inline void mpt_lua_finish(mpt_ctx *ctx, mpt_recipe *recipe) {
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

#endif
