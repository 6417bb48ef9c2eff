/* The words of the recipe language: one row each.
 *
 * A word takes a table, or a few numbers or a text, and gives a value that remembers both and
 * its line. It checks no more than that shape: what the fields mean is in the schema, and
 * convert.c asks it when the recipe is whole, so that a message can give the whole path. */
#include "lua/bind/value.h"

#include <string.h>

#include "lua/bind/library.h"
#include "lua/bind/model.h"
#include "recipe/schema.h"

static const mpt_lua_word words[] = {
    {"current", MPT_LUA_SCALE, 0, 0, "current {}"},
    {"delayed", MPT_LUA_SCALE, 0, 0, "delayed { history = 1024 }"},
    {"four_over_six", MPT_LUA_SCALE_RULE, 0, 0, "four_over_six { error = \"mae\" }"},
    {"hadamard", MPT_LUA_HADAMARD, 0, 0, "hadamard { size = 16 }"},
    {"gemm", MPT_LUA_GEMM, 0, 0, "gemm { weight = nvfp4, activation = nvfp4 }"},
    {"precision", MPT_LUA_PRECISION, 0, 0, "precision { base = bf16, rules = { ... } }"},
    {"rule", MPT_LUA_RULE, 0, 0, "rule { \"linear\", use = bf16 }"},
    {"phase", MPT_LUA_PHASE, 0, 0, "phase { \"settle\", from = 0.8 }"},
    {"first", MPT_LUA_BLOCKS, 1, LUA_TNUMBER, "first(2)"},
    {"last", MPT_LUA_BLOCKS, 1, LUA_TNUMBER, "last(8)"},
    {"range", MPT_LUA_BLOCKS, 2, LUA_TNUMBER, "range(2, 5)"},
    {"every", MPT_LUA_BLOCKS, 1, LUA_TNUMBER, "every(4)"},
    {"last_fraction", MPT_LUA_BLOCKS, 1, LUA_TNUMBER, "last_fraction(0.15)"},
    {"only", MPT_LUA_BLOCKS, 0, 0, "only { 3, 7 }"},
    {"adamw", MPT_LUA_OPTIMIZER, 0, 0, "adamw { betas = {0.9, 0.95} }"},
    {"sgd", MPT_LUA_OPTIMIZER, 0, 0, "sgd { momentum = 0.9 }"},
    {"constant", MPT_LUA_LR, 0, 0, "constant { peak = 1e-3 }"},
    {"linear", MPT_LUA_LR, 0, 0, "linear { peak = 1e-3, final = 1e-5 }"},
    {"cosine", MPT_LUA_LR, 0, 0, "cosine { peak = 1e-3, final = 1e-5 }"},
    {"wsd", MPT_LUA_LR, 0, 0, "wsd { peak = 1e-3, final = 1e-5, decay = 0.2 }"},
    {"static", MPT_LUA_STATIC, 1, LUA_TNUMBER, "static(1024)"},
    {"dynamic", MPT_LUA_DYNAMIC, 0, 0, "dynamic { init = 65536 }"},
    {"text", MPT_LUA_DATA, 1, LUA_TSTRING, "text \"file.txt\""},
    {"tokens", MPT_LUA_DATA, 1, LUA_TSTRING, "tokens \"file.bin\""},
    {"batches", MPT_LUA_DATA, 1, LUA_TSTRING, "batches \"file.safetensors\""},
    {"synthetic", MPT_LUA_DATA, 0, 0, "synthetic { seed = 1 }"},
    {"recipe", MPT_LUA_RECIPE, 0, 0, "recipe { version = 1, model = ... }"},
    {"replace", MPT_LUA_REPLACE, 0, 0, "rules = replace { rule { ... } }"},
    {"model", MPT_LUA_MODEL, 0, 0, "model { name = \"mine\", sizes = { ... }, graph = ... }"},
};

const mpt_lua_word *mpt_words_all(int *out_n) {
    *out_n = (int)MPT_COUNT(words);
    return words;
}

static void misuse(lua_State *L, const char *name, const char *example, mpt_where where) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s: takes %s", name,
                                 strchr(example, '{') ? "one table" : "plain arguments");
    mpt_hint(ctx, "write %s", example);
    mpt_sandbox_check(L, status);
}

/* Data in a file is named by its path alone, or by all of its fields: tokens { path = "f.bin",
 * vocab = 50257 }. */
static bool takes_fields(lua_State *L, const mpt_lua_word *w) {
    return w->kind == MPT_LUA_DATA && lua_gettop(L) == 1 && lua_istable(L, 1);
}

/* Upvalue: the word's row. */
static int call_word(lua_State *L) {
    const mpt_lua_word *w = &words[lua_tointeger(L, lua_upvalueindex(1))];
    mpt_where where = mpt_sandbox_where(L, 1);
    if (w->n_values == 0 || takes_fields(L, w)) {
        if (lua_gettop(L) != 1 || !lua_istable(L, 1))
            misuse(L, w->name, w->example, where);
    } else {
        bool fits = lua_gettop(L) == w->n_values;
        for (int i = 1; fits && i <= w->n_values; i++)
            fits = lua_type(L, i) == w->type;
        if (!fits)
            misuse(L, w->name, w->example, where);
        lua_createtable(L, w->n_values, 0);
        lua_insert(L, 1);
        for (int i = w->n_values; i >= 1; i--)
            lua_rawseti(L, 1, i);
    }
    mpt_lua_value_new(L, w->kind, w->name, where, 1);
    return 1;
}

/* The word `model` has a field, so its function is behind a table, which comes as the first
 * argument. */
static int call_model(lua_State *L) {
    lua_remove(L, 1);
    return call_word(L);
}

/* model{...} and model.from_config, in place of the plain word. */
static void open_model(lua_State *L, int globals, int row) {
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, mpt_model_from_config);
    lua_setfield(L, -2, "from_config");
    mpt_library_proxy(L, "model");
    lua_getmetatable(L, -1);
    lua_pushinteger(L, row);
    lua_pushcclosure(L, call_model, 1);
    lua_setfield(L, -2, "__call");
    lua_pop(L, 1);
    lua_setfield(L, globals, "model");
}

const char *mpt_word_example(lua_State *L, int index) {
    index = lua_absindex(L, index);
    if (lua_tocfunction(L, index) != call_word || !lua_getupvalue(L, index, 1))
        return NULL;
    const mpt_lua_word *w = &words[lua_tointeger(L, -1)];
    lua_pop(L, 1);
    return w->example;
}

/* Raises unless derive is given something to change and a table of changes. */
static void check_derive(lua_State *L, mpt_where where) {
    const mpt_lua_value *base = mpt_lua_value_at(L, 1);
    bool fits = base && base->kind != MPT_LUA_MODEL;
    if (fits && lua_gettop(L) == 2 && lua_istable(L, 2))
        return;
    const char *part = fits ? "changes are" : "base is";
    int at = fits ? 2 : 1;
    const char *what = lua_isnoneornil(L, at) ? "missing"
                       : lua_gettop(L) > 2    ? "more than one"
                                              : mpt_lua_describe(L, at);
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "derive: the %s %s", part, what);
    mpt_hint(ctx, "write derive(base, { ... }) with base = require \"recipes.NAME\" or "
                  "presets.NAME");
    mpt_sandbox_check(L, status);
}

static int derive(lua_State *L) {
    mpt_where where = mpt_sandbox_where(L, 1);
    check_derive(L, where);
    mpt_lua_value_new(L, MPT_LUA_TABLE, "derive", where, 2);
    if (mpt_lua_value_of_kind(L, 1, MPT_LUA_MODEL_SIZE))
        mpt_model_derive(L, 1, 3, where);
    else
        mpt_lua_value_merge(L, 1, -1, where);
    return 1;
}

/* Bare formats, and the one that scales alone may have: scale_format = e8m0. */
static void open_formats(lua_State *L, int globals) {
    int n;
    const char *const *formats = mpt_format_names(&n);
    lua_newtable(L);
    for (int i = 0; i <= n; i++) {
        const char *name = i < n ? formats[i] : mpt_scale_format_name(MPT_SCALE_E8M0);
        mpt_lua_value_new(L, MPT_LUA_FORMAT, name, MPT_NOWHERE, -1);
        lua_setfield(L, globals, name);
    }
    lua_pop(L, 1);
}

void mpt_words_open(lua_State *L) {
    int globals = lua_gettop(L);
    mpt_value_open(L);
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, call_word, 1);
        lua_setfield(L, globals, words[i].name);
        if (words[i].kind == MPT_LUA_MODEL)
            open_model(L, globals, (int)i);
    }
    lua_pushcfunction(L, derive);
    lua_setfield(L, globals, "derive");
    open_formats(L, globals);
    lua_getfield(L, globals, "pairs");
    lua_setfield(L, LUA_REGISTRYINDEX, "mpt.pairs");
}
