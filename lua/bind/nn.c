/* The words `nn.*` of a model file: one table call becomes one call of graph/nn.h.
 *
 *   local h = nn.linear { "mixer.up_proj", x, out = 4 * width }
 *
 * Texts at positions are the layer's name, values are its inputs; every other field is one row
 * of graph/nn_words.def, with the words that take it. Values are handles: they belong to the
 * graph being drawn.
 */
#include <stdio.h>
#include <string.h>

#include "lua/bind/library.h"
#include "lua/bind/model.h"
#include "lua/bind/nn_call.h"

/* What a word costs: a node with its values, and what compiling makes of it, is memory that
 * only this bounds. 20 million steps are some 28,000 words, or 2,000 blocks of GPT-2, in 70 MB.
 */
enum { WORD_STEPS = 700 };

static const char tensor_name[] = "mpt.tensor";

typedef struct tensor {
    mpt_value_id id;
    int build; /* which drawing it belongs to */
} tensor;

static const mpt_lua_nn_word words[] = {
#define NN_WORD(op, named)          {#op, MPT_OP_##op, named},
#define NN_COMPOSITE(word, summary) {#word, MPT_OP_COUNT, true},
#define NN_KEY(name, type, member, words, doc)
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

/* ---- reading the call ---- */

/* A position: the layer's name, or an input. */
static void read_position(lua_State *L, mpt_lua_call *call) {
    mpt_nn_args *args = &call->args;
    const tensor *t = luaL_testudata(L, -1, tensor_name);
    if (lua_type(L, -1) == LUA_TSTRING && !args->name && args->n_in == 0) {
        if (!mpt_lua_is_plain(L, -1))
            mpt_lua_call_fail(L, call, NULL, MPT_LUA_LINE_HINT, "%s",
                              "the name has a control character");
        args->name = lua_tostring(L, -1);
        return;
    }
    if (!t)
        mpt_lua_call_fail(L, call, NULL, "inputs are what other nn words returned",
                          "an input cannot be %s", mpt_lua_describe(L, -1));
    if (t->build != mpt_sandbox_of(L)->n_builds)
        mpt_lua_call_fail(L, call, NULL, "draw every value anew in graph = function(nn, size)",
                          "%s", "an input belongs to another graph");
    if (args->n_in == MPT_MAX_IN)
        mpt_lua_call_fail(L, call, NULL, "", "%s", "too many inputs");
    args->in[args->n_in++] = t->id;
}

/* Whether a layer takes its width from elsewhere: the weight it is tied to, the vocabulary. */
static bool has_own_width(const mpt_lua_call *call) {
    return !call->args.tied && !call->args.head;
}

/* Refuses a call without what its word needs; the builder would speak of 0. */
static void require_keys(lua_State *L, const mpt_lua_call *call) {
    static const char *const required[][2] = {
        {"linear", "out"},      {"embedding", "out"},  {"attention", "heads"},
        {"conv1d", "kernel"},   {"ssm_scan", "heads"}, {"ssm_scan", "head_dim"},
        {"ssm_scan", "groups"}, {"ssm_scan", "state"}, {"scale", "factor"},
        {"split", "sizes"},     {"moe", "experts"},    {"moe", "top_k"},
        {"moe", "hidden"},
    };
    for (size_t i = 0; i < MPT_COUNT(required); i++) {
        char hint[64];
        const char *key = required[i][1];
        if (strcmp(required[i][0], call->word->name) != 0 ||
            (strcmp(key, "out") == 0 && !has_own_width(call)))
            continue;
        lua_pushstring(L, key);
        if (lua_rawget(L, 1) == LUA_TNIL) {
            snprintf(hint, sizeof hint, "write %s = ...", key);
            mpt_lua_call_fail(L, call, NULL, hint, "%s is missing", key);
        }
        lua_pop(L, 1);
    }
    if (call->args.has_bias_init && !call->args.bias)
        mpt_lua_call_fail(L, call, "bias_init", "say bias = true", "%s",
                          "there is no bias to begin");
}

static void read_call(lua_State *L, mpt_lua_call *call) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 1, i);
        read_position(L, call);
        lua_pop(L, 1);
    }
    mpt_library_sorted_keys(L, 1);
    for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++) {
        lua_Integer at = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
        if (at < 1 || at > n) {
            mpt_lua_call_read(L, call);
        }
        lua_settop(L, 2);
    }
    lua_settop(L, 1);
    require_keys(L, call);
}

static void push_tensor(lua_State *L, mpt_value_id id) {
    tensor *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (tensor){id, mpt_sandbox_of(L)->n_builds};
    luaL_setmetatable(L, tensor_name);
}

/* The builder being served; words of nn mean nothing once the graph is drawn. */
static mpt_nn *current(lua_State *L) {
    mpt_nn *nn = mpt_sandbox_of(L)->nn;
    if (!nn)
        luaL_error(L, "nn can only be used inside the model's graph function");
    mpt_sandbox_charge(L, WORD_STEPS);
    nn->where = mpt_sandbox_where(L, 1);
    return nn;
}

/* Upvalue: the word's row. nn.add(x, y) is short for nn.add { x, y }. */
static int call_word(lua_State *L) {
    mpt_lua_call call = {.word = &words[lua_tointeger(L, lua_upvalueindex(1))],
                         .nn = current(L)};
    int n = lua_gettop(L);
    if (n != 1 || !lua_istable(L, 1)) {
        lua_createtable(L, n, 0);
        lua_insert(L, 1);
        for (int i = n; i >= 1; i--) {
            if (lua_isnil(L, -1))
                mpt_lua_call_fail(L, &call, NULL, "inputs are what other nn words returned",
                                  "an input cannot be %s", "nothing");
            lua_rawseti(L, 1, i);
        }
    }
    read_call(L, &call);
    if (call.word->named && !call.args.name)
        mpt_lua_call_fail(L, &call, NULL, "begin with its name: { \"mixer.up_proj\", x, ... }",
                          "%s", "the layer has no name");
    mpt_value_id out[MPT_MAX_OUT];
    int n_out = 1;
    if (call.word->op == MPT_OP_COUNT) {
        mpt_sandbox_charge(L, 8 * WORD_STEPS); /* it draws so many nodes */
        mpt_sandbox_check(L, mpt_nn_moe(call.nn, &call.args, out));
    } else {
        mpt_sandbox_check(L, mpt_nn_call(call.nn, call.word->op, &call.args, out, &n_out));
    }
    luaL_checkstack(L, MPT_MAX_OUT, "too many outputs");
    for (int i = 0; i < n_out; i++)
        push_tensor(L, out[i]);
    return n_out;
}

/* ---- blocks and inputs ---- */

/* nn.block(i, function() ... end) gives what the function returns. */
static int call_block(lua_State *L) {
    mpt_nn *nn = current(L);
    lua_Integer index = luaL_checkinteger(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    luaL_argcheck(L, index >= 0 && index < INT32_MAX, 1, "blocks are counted from 0");
    lua_getfield(L, LUA_REGISTRYINDEX, "mpt.root");
    mpt_sandbox_check(L, mpt_nn_block_begin(nn, lua_tostring(L, -1), (int)index));
    lua_pushvalue(L, 2);
    lua_call(L, 0, LUA_MULTRET);
    mpt_sandbox_check(L, mpt_nn_block_end(nn));
    return lua_gettop(L) - 3;
}

static int call_tokens(lua_State *L) {
    mpt_value_id id;
    mpt_sandbox_check(L, mpt_nn_tokens(current(L), &id));
    push_tensor(L, id);
    return 1;
}

static int call_positions(lua_State *L) {
    mpt_value_id id;
    mpt_sandbox_check(L, mpt_nn_positions(current(L), &id));
    push_tensor(L, id);
    return 1;
}

static int call_vocab(lua_State *L) {
    int64_t vocab;
    mpt_sandbox_check(L, mpt_nn_vocab(current(L), &vocab));
    lua_pushinteger(L, vocab);
    return 1;
}

static int call_sequence(lua_State *L) {
    lua_pushinteger(L, current(L)->graph->sequence);
    return 1;
}

static int refuse_change(lua_State *L) {
    return luaL_error(L, "tensors have no fields");
}

void mpt_nn_push(lua_State *L) {
    static const luaL_Reg others[] = {
        {"block", call_block},         {"tokens", call_tokens},     {"vocab", call_vocab},
        {"positions", call_positions}, {"sequence", call_sequence}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"__index", refuse_change}, {"__newindex", refuse_change}, {NULL, NULL}};
    if (luaL_newmetatable(L, tensor_name)) {
        luaL_setfuncs(L, methods, 0);
        lua_pushliteral(L, "read-only");
        lua_setfield(L, -2, "__metatable");
    }
    lua_pop(L, 1);
    lua_newtable(L);
    luaL_setfuncs(L, others, 0);
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, call_word, 1);
        lua_setfield(L, -2, words[i].name);
    }
    mpt_library_proxy(L, "nn");
}
