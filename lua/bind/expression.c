/* Runs one expression in the sandbox of recipes and takes the format that it gives.
 *
 * The words, the schema and the checks are those of a recipe; only the frame differs: there is
 * no recipe{...} around it, so a scratch recipe lends the arena and owns the sandbox.
 * Next: the tools on tensors hand the quantizer to the kernels. */
#include "lua/bind/expression.h"

#include <stdio.h>
#include <string.h>

#include "lua/bind/chunk.h"
#include "lua/bind/convert.h"
#include "lua/bind/library.h"
#include "lua/bind/model.h"

typedef struct expression_call {
    const mpt_lua_chunk *chunk;
    mpt_recipe *recipe;
    mpt_quantizer *out;
} expression_call;

static void fail_kind(lua_State *L, int n) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    mpt_where where = {box->chunks[0]->file, 0};
    mpt_status status =
        n == 0   ? MPT_FAIL(box->ctx, MPT_INVALID, where, "there is no number format here")
        : n == 1 ? MPT_FAIL(box->ctx, MPT_INVALID, where, "this is %s, not a number format",
                            mpt_lua_describe(L, 1))
                 : MPT_FAIL(box->ctx, MPT_INVALID, where,
                            "these are %d values, not one number format", n);
    mpt_hint(box->ctx, "write a format, bare or refined: nvfp4, nvfp4 { block = {16, 16} }");
    mpt_sandbox_check(L, status);
}

/* Everything that can raise, in one protected call. */
static int expression_body(lua_State *L) {
    const expression_call *call = lua_touserdata(L, 1);
    mpt_slot_use use;
    mpt_library_open(L, 0);
    mpt_words_open(L);
    mpt_library_proxy(L, "");
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_settop(L, 0);
    mpt_chunk_compile(L, call->chunk);
    lua_call(L, 0, LUA_MULTRET);
    int n = lua_gettop(L);
    if (n != 1 || !mpt_lua_value_of_kind(L, 1, MPT_LUA_FORMAT))
        fail_kind(L, n);
    mpt_convert_slot(L, call->recipe, 1, 1, "", &use);
    *call->out = use.q;
    return 0;
}

/* One line needs no number: "nvfp4 { blok = 1 }: ..." instead of "nvfp4 { blok = 1 }:1: ...".
 */
static mpt_status drop_line(mpt_ctx *ctx, const char *expression, mpt_status status) {
    char hint[MPT_ERROR_HINT];
    if (status == MPT_OK || status == MPT_OUT_OF_MEMORY || strchr(expression, '\n'))
        return status;
    snprintf(hint, sizeof hint, "%s", ctx->error_hint);
    mpt_where where = {expression, 0};
    status = mpt_fail(ctx, status, where, ctx->error.c_file, ctx->error.c_line, "%s",
                      ctx->error_text);
    if (*hint)
        mpt_hint(ctx, "%s", hint);
    return status;
}

/* The first byte of a text that is no UTF-8, or NULL. */
static const unsigned char *first_bad_byte(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        int more = *p < 0x80 ? 0 : *p < 0xC2 ? -1 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3;
        bool good = more >= 0 && *p <= 0xF4;
        for (int i = 1; good && i <= more; i++)
            good = (p[i] & 0xC0) == 0x80; /* the end of the text is none */
        /* Longer than need be, half of a pair, beyond the last character. */
        if (!good || (*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] > 0x9F) ||
            (*p == 0xF0 && p[1] < 0x90) || (*p == 0xF4 && p[1] > 0x8F))
            return p;
        p += more + 1;
    }
    return NULL;
}

/* The text goes into files and JSON, comments and all. */
static mpt_status check_text(mpt_ctx *ctx, const char *expression) {
    const unsigned char *bad = first_bad_byte(expression);
    if (!bad)
        return MPT_OK;
    mpt_where where = {expression, 0};
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "byte %d of it, 0x%02x, is no UTF-8",
                                 (int)(bad - (const unsigned char *)expression), *bad);
    mpt_hint(ctx, "write a quantizer in UTF-8, its comments too");
    return status;
}

static mpt_status add_chunk(mpt_sandbox *box, const char *expression,
                            const mpt_lua_chunk **out) {
    const char *text = mpt_arena_printf(&box->arena, "return %s", expression);
    return text ? mpt_chunk_add(box, expression, text, strlen(text), out) : MPT_OUT_OF_MEMORY;
}

mpt_status mpt_quantizer_from_text(mpt_ctx *ctx, const char *expression, mpt_quantizer *out) {
    mpt_recipe *recipe;
    mpt_sandbox *box;
    expression_call call = {.out = out};
    memset(out, 0, sizeof *out);
    MPT_TRY(check_text(ctx, expression));
    MPT_TRY(mpt_recipe_new(ctx, "expression", NULL, &recipe));
    mpt_status status = mpt_sandbox_create(ctx, &box);
    if (status == MPT_OK) {
        mpt_model_attach(recipe, box); /* destroyed with the recipe */
        box->expression = true;
        call.recipe = recipe;
        status = add_chunk(box, expression, &call.chunk);
    }
    if (status == MPT_OK)
        status = mpt_sandbox_call(box, expression_body, &call);
    mpt_recipe_destroy(recipe);
    return drop_line(ctx, expression, status);
}
