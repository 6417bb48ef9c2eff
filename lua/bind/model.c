/* A model is a Lua function that draws a graph; this keeps it and calls it.
 *
 * model{...} names the sizes and the function; called with a size it gives what a recipe uses.
 * The compiler asks the recipe's mpt_source, which is the sandbox, to draw: nothing of Lua runs
 * in a training step. Words of the builder: nn.c. Next: graph/autodiff.c. */
#include "lua/bind/model.h"

#include <stdio.h>
#include <string.h>

#include "graph/nn.h"
#include "lua/bind/library.h"

enum { NAMES_MAX = 64 };

static const char registry_key[] = "mpt.models";

/* ---- model{...} called with a size ---- */

void mpt_model_refuse_positions(lua_State *L, const char *path) {
    int value = lua_gettop(L);
    if (mpt_lua_value_geti(L, value, 1) != LUA_TNIL) {
        lua_pushinteger(L, 1);
        MPT_SANDBOX_FAIL(L, mpt_lua_value_where(L, value, value + 2),
                         "give it a name: name = value", "%s: %s stands here without a name",
                         path, mpt_lua_describe(L, value + 1));
    }
    lua_settop(L, value);
}

/* What the names of a checkpoint start with: nothing, or words that end in dots. */
static void check_prefix(lua_State *L, int model) {
    int type = mpt_lua_value_get(L, model, "prefix");
    const char *text = type == LUA_TSTRING ? lua_tostring(L, -1) : "";
    size_t n = strlen(text);
    if ((type != LUA_TNIL && type != LUA_TSTRING) || (n > 0 && text[n - 1] != '.') ||
        (n > 0 && !mpt_lua_is_plain(L, -1)))
        MPT_SANDBOX_FAIL(L, mpt_lua_value_at(L, model)->where,
                         "write prefix = \"transformer.\"", "model.prefix: cannot be %s",
                         mpt_lua_describe(L, -1));
    lua_pop(L, 1);
}

/* Refuses a part of the model at `model` that is there and of another kind; the value of a
 * table is on the top then, of a function the function. */
static void check_part(lua_State *L, int model, const char *name, bool table) {
    int type = mpt_lua_value_get(L, model, name);
    bool fits =
        table ? mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE) != NULL : type == LUA_TFUNCTION;
    if (type != LUA_TNIL && !fits) {
        lua_pushstring(L, name);
        MPT_SANDBOX_FAIL(L, mpt_lua_value_where(L, model, -1),
                         table ? "give a table of fields"
                               : "write config = function(fields) ... end",
                         "model.%s: cannot be %s", name, mpt_lua_describe(L, -2));
    }
    lua_pop(L, 1);
}

/* Refuses a part that no model can do without; what stands there is on the top. */
static void fail_part(lua_State *L, int model, const char *name, const char *hint) {
    if (lua_isnil(L, -1))
        MPT_SANDBOX_FAIL(L, mpt_lua_value_at(L, model)->where, hint, "model.%s: missing", name);
    lua_pushstring(L, name);
    MPT_SANDBOX_FAIL(L, mpt_lua_value_where(L, model, -1), hint, "model.%s: cannot be %s", name,
                     mpt_lua_describe(L, -2));
}

/* Refuses a named size that is no table; the value of all of them is on the top. */
static void check_sizes(lua_State *L) {
    int sizes = lua_gettop(L);
    mpt_model_refuse_positions(L, "model.sizes");
    mpt_lua_value_fields(L, sizes);
    mpt_library_sorted_keys(L, sizes + 1);
    for (lua_Integer i = 1; lua_rawgeti(L, sizes + 2, i) != LUA_TNIL; i++) {
        const char *name = lua_tostring(L, -1); /* stays alive in the table */
        mpt_lua_value_get(L, sizes, name);
        if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
            MPT_SANDBOX_FAIL(L, mpt_lua_value_where(L, sizes, sizes + 3),
                             "give a table of fields", "model.sizes.%s: cannot be %s", name,
                             mpt_lua_describe(L, -1));
        lua_settop(L, sizes + 2);
    }
    lua_settop(L, sizes);
}

/* Its line is the model file's. */
void mpt_model_check(lua_State *L, int model) {
    static const char *const known[] = {"name",   "sizes",    "graph", "root",
                                        "prefix", "defaults", "only",  "config"};
    const mpt_lua_value *value = mpt_lua_value_at(L, model);
    if (mpt_lua_value_get(L, model, "name") != LUA_TSTRING)
        fail_part(L, model, "name", "write name = \"gpt2\"");
    if (!mpt_lua_is_plain(L, -1))
        MPT_SANDBOX_FAIL(L, value->where, MPT_LUA_LINE_HINT,
                         "model.name: the text has a control character");
    mpt_lua_value_get(L, model, "sizes");
    if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
        fail_part(L, model, "sizes", "write sizes = { tiny = { ... } }");
    check_sizes(L);
    if (mpt_lua_value_get(L, model, "graph") != LUA_TFUNCTION)
        fail_part(L, model, "graph", "write graph = function(nn, size) ... end");
    lua_pop(L, 3);
    check_prefix(L, model);
    check_part(L, model, "defaults", true);
    check_part(L, model, "only", true);
    check_part(L, model, "config", false);
    lua_pushvalue(L, model);
    mpt_model_refuse_positions(L, "model");
    lua_pop(L, 1);
    mpt_lua_value_fields(L, model);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        bool is_known = false;
        for (size_t i = 0; i < MPT_COUNT(known); i++)
            is_known = is_known || strcmp(known[i], key) == 0;
        if (!is_known)
            MPT_SANDBOX_FAIL(
                L, mpt_lua_value_where(L, model, -2),
                "model has name, sizes, graph, root, prefix, defaults, only, config",
                "model: no field '%s'", key);
    }
    lua_pop(L, 1);
}

/* Collects the names of the table on the top; they stay alive in it. */
static int names_of(lua_State *L, const char **names) {
    int n = 0;
    mpt_library_sorted_keys(L, -1);
    for (lua_Integer i = 1; n < NAMES_MAX && lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        if (lua_type(L, -1) == LUA_TSTRING)
            names[n++] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    lua_settop(L, lua_gettop(L) - (n == NAMES_MAX ? 1 : 2));
    return n;
}

static void list_text(const char *const *names, int n, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", names[i]);
}

/* The sizes of the model at `model`, as text: "12b, 12b_proxy, 8b". */
static int size_names(lua_State *L, int model, const char **names, char *text, size_t size) {
    mpt_lua_value_get(L, model, "sizes");
    mpt_lua_value_fields(L, -1);
    int n = names_of(L, names);
    lua_pop(L, 2);
    list_text(names, n, text, size);
    return n;
}

const char *mpt_model_name(lua_State *L, int model) {
    mpt_lua_value_get(L, model, "name");
    const char *name = lua_tostring(L, -1); /* stays alive in the model */
    lua_pop(L, 1);
    return name;
}

/* Pushes the table of a named size. */
static void push_named_size(lua_State *L, int model, mpt_where where) {
    const char *wanted = lua_tostring(L, 2), *names[NAMES_MAX];
    char text[256], hint[512];
    mpt_lua_value_get(L, model, "sizes");
    mpt_lua_value_get(L, -1, wanted);
    if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE)) {
        int n = size_names(L, model, names, text, sizeof text);
        const char *nearest = mpt_nearest(wanted, names, n);
        if (nearest)
            snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
        else if (n == 0)
            snprintf(hint, sizeof hint, "it names none: give a table of fields");
        else
            snprintf(hint, sizeof hint, "it has %s, or a table of its own", text);
        MPT_SANDBOX_FAIL(L, where, hint, "%s: no size '%s'", mpt_model_name(L, model), wanted);
    }
    mpt_model_size_named(L, model, -1, where);
}

void mpt_model_wrap(lua_State *L, int model, const char *size_name, mpt_where where) {
    int size = lua_gettop(L);
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, size);
    lua_setfield(L, -2, "size");
    lua_pushvalue(L, model);
    lua_setfield(L, -2, "model");
    lua_pushstring(L, size_name);
    lua_setfield(L, -2, "size_name");
    mpt_lua_value_new(L, MPT_LUA_MODEL_SIZE, "model", where, -1);
    lua_replace(L, size);
    lua_settop(L, size);
}

int mpt_model_call(lua_State *L) {
    mpt_where where = mpt_sandbox_where(L, 1);
    mpt_model_check(L, 1);
    luaL_checkstack(L, 32, "too many arguments");
    int type = lua_gettop(L) == 2 ? lua_type(L, 2) : LUA_TNONE;
    if (type == LUA_TSTRING)
        push_named_size(L, 1, where);
    else if (type == LUA_TTABLE)
        mpt_model_size_own(L, 1, 2, &(mpt_size_source){.where = where});
    else
        MPT_SANDBOX_FAIL(L, where, "write model = gpt2 \"124m\"",
                         "%s: takes one size, a name or a table", mpt_model_name(L, 1));
    mpt_model_wrap(L, 1, type == LUA_TSTRING ? lua_tostring(L, 2) : MPT_MODEL_CUSTOM, where);
    return 1;
}

void mpt_model_derive(lua_State *L, int base, int changes, mpt_where where) {
    luaL_checkstack(L, 32, "tables nest too deep");
    mpt_lua_value_get(L, base, "model");
    int model = lua_gettop(L);
    mpt_lua_value_get(L, base, "size");
    mpt_lua_value_merge(L, model + 1, changes, where);
    mpt_lua_value_fields(L, model + 2);
    mpt_model_size_own(L, model, model + 3, &(mpt_size_source){.where = where});
    mpt_model_wrap(L, model, MPT_MODEL_CUSTOM, where);
    lua_replace(L, model);
    lua_settop(L, model);
}

/* ---- into the recipe ---- */

/* The size's name, and what a table says, which is as much a part of the recipe. */
static void put_size(lua_State *L, mpt_recipe *recipe, mpt_model_ref *ref, int model_size,
                     const char *field) {
    int top = lua_gettop(L);
    char before[16];
    mpt_lua_value_get(L, model_size, "size_name");
    ref->size = mpt_arena_strdup(&recipe->arena, lua_tostring(L, -1));
    if (!ref->size)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    if (strcmp(ref->size, MPT_MODEL_CUSTOM) == 0) {
        snprintf(before, sizeof before, "\n%s.", field);
        mpt_lua_value_get(L, model_size, "size");
        mpt_model_push_fields_text(L, lua_gettop(L), before);
        ref->fields = mpt_arena_strdup(&recipe->arena, lua_tostring(L, -1) + 1);
        if (!ref->fields)
            mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    }
    lua_settop(L, top);
}

void mpt_model_put(lua_State *L, mpt_recipe *recipe, int value, int key, bool proxy) {
    mpt_ctx *ctx = recipe->ctx;
    const char *field = proxy ? "proxy" : "model", *names[NAMES_MAX];
    const mpt_lua_value *model = mpt_lua_value_at(L, -1);
    int at = lua_gettop(L);
    if (!model || model->kind != MPT_LUA_MODEL_SIZE) {
        char text[256], hint[512] = "give a model with its size: gpt2 \"124m\"";
        mpt_where where = mpt_lua_value_where(L, value, key);
        if (model && model->kind == MPT_LUA_MODEL) {
            mpt_model_check(L, at);
            if (size_names(L, at, names, text, sizeof text) > 0)
                snprintf(hint, sizeof hint, "name its size, one of %s", text);
            else
                snprintf(hint, sizeof hint, "give its size, a table of fields");
        }
        mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s: cannot be %s", field,
                                     mpt_lua_describe(L, at));
        mpt_hint(ctx, "%s", hint);
        mpt_sandbox_check(L, status);
    }
    mpt_model_check_size(L, at, proxy ? "proxy." : "model.");
    mpt_model_ref *ref = proxy ? &recipe->proxy : &recipe->model;
    put_size(L, recipe, ref, at, field);
    mpt_lua_value_get(L, at, "model");
    ref->name = mpt_arena_strdup(&recipe->arena, mpt_model_name(L, lua_gettop(L)));
    if (!ref->name)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    ref->where = model->where;
    ref->present = true;
    lua_getfield(L, LUA_REGISTRYINDEX, registry_key);
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, proxy ? 2 : 1);
    lua_settop(L, at);
}

/* ---- the source ---- */

typedef struct build_call {
    mpt_sandbox *box;
    bool proxy;
} build_call;

/* Runs the model's function; its first line is where a model without a loss is reported. */
static int build_body(lua_State *L) {
    const build_call *call = lua_touserdata(L, 1);
    mpt_nn *nn = call->box->nn;
    lua_getfield(L, LUA_REGISTRYINDEX, registry_key);
    if (lua_rawgeti(L, 2, call->proxy ? 2 : 1) == LUA_TNIL)
        MPT_SANDBOX_FAIL(L, MPT_NOWHERE, "give it one: proxy = gpt2 \"tiny\"",
                         "the recipe has no %s", call->proxy ? "proxy" : "model");
    mpt_lua_value_get(L, 3, "model");
    const mpt_lua_value *model = mpt_lua_value_at(L, 4);
    nn->where = model->where;
    lua_settop(L, 4);
    if (mpt_lua_value_get(L, 4, "root") != LUA_TSTRING)
        lua_pushliteral(L, "layers"); /* over the nil */
    lua_setfield(L, LUA_REGISTRYINDEX, "mpt.root");
    lua_settop(L, 4);
    if (mpt_lua_value_get(L, 4, "prefix") == LUA_TSTRING) {
        nn->graph->root = mpt_arena_strdup(&nn->graph->arena, lua_tostring(L, -1));
        if (!nn->graph->root)
            mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    }
    lua_settop(L, 4);
    mpt_lua_value_get(L, 4, "graph");
    mpt_nn_push(L);
    mpt_lua_value_get(L, 3, "size");
    lua_call(L, 2, 0);
    if (nn->graph->loss < 0)
        MPT_SANDBOX_FAIL(L, model->where, "end it with nn.cross_entropy(logits)",
                         "%s: the graph has no loss", mpt_model_name(L, 4));
    return 0;
}

static mpt_status build(void *ud, struct mpt_nn *nn, bool proxy) {
    mpt_sandbox *box = ud;
    build_call call = {box, proxy};
    mpt_sandbox_rewind(box);
    box->nn = nn;
    box->n_builds++;
    mpt_status status = mpt_sandbox_call(box, build_body, &call);
    box->nn = NULL;
    return status;
}

typedef struct where_call {
    int predicate;
    const mpt_layer *layer;
    bool answer;
} where_call;

/* The layer is shown as a read-only table: a misspelt field is an error, not nil. */
static void push_layer(lua_State *L, const mpt_layer *layer) {
    lua_createtable(L, 0, 5);
    lua_pushstring(L, layer->path);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, mpt_layer_kind_name(layer->kind));
    lua_setfield(L, -2, "kind");
    lua_pushinteger(L, layer->block);
    lua_setfield(L, -2, "block");
    lua_pushinteger(L, layer->in_features);
    lua_setfield(L, -2, "in_features");
    lua_pushinteger(L, layer->out_features);
    lua_setfield(L, -2, "out_features");
    mpt_library_proxy(L, "layer");
}

static int where_body(lua_State *L) {
    where_call *call = lua_touserdata(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "mpt.predicates");
    lua_rawgeti(L, 2, call->predicate + 1);
    push_layer(L, call->layer);
    lua_Debug ar;
    lua_pushvalue(L, 3);
    lua_getinfo(L, ">S", &ar);
    lua_call(L, 1, 1);
    if (!lua_isboolean(L, -1)) {
        const mpt_sandbox *box = mpt_sandbox_of(L);
        mpt_where where = {NULL, ar.linedefined};
        for (int i = 0; i < box->n_chunks; i++)
            if (strcmp(box->chunks[i]->source, ar.source) == 0)
                where.file = box->chunks[i]->file;
        MPT_SANDBOX_FAIL(L, where, "return true or false",
                         "where: the function returned %s for %s", mpt_lua_describe(L, -1),
                         call->layer->path);
    }
    call->answer = lua_toboolean(L, -1);
    return 0;
}

static mpt_status where(void *ud, int predicate, const mpt_layer *layer, bool *out) {
    where_call call = {predicate, layer, false};
    mpt_status status = mpt_sandbox_call(ud, where_body, &call);
    *out = call.answer;
    return status;
}

static void destroy(void *ud) {
    mpt_sandbox_destroy(ud);
}

void mpt_model_attach(mpt_recipe *recipe, mpt_sandbox *box) {
    recipe->source = (mpt_source){box, build, where, destroy};
    box->recipe = recipe;
}
