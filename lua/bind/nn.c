/* The words `nn.*` of a model file: one table call becomes one call of graph/nn.h.
 *
 *   local h = nn.linear { "mixer.up_proj", x, out = 4 * width }
 *
 * Texts at positions are the layer's name, values are its inputs; every other field is one row
 * of graph/nn_words.def, with the words that take it. Values are handles: they belong to the
 * graph being drawn.
 */
#include "graph/nn.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/bind/library.h"
#include "lua/bind/model.h"
#include "lua/bind/source.h"

/* What a word costs: a node with its values, and what compiling makes of it, is memory that
 * only this bounds. 20 million steps are some 28,000 words, or 2,000 blocks of GPT-2, in 70 MB.
 */
enum { WORD_STEPS = 700 };

static const char tensor_name[] = "mpt.tensor";

typedef struct tensor {
    mpt_value_id id;
    int build; /* which drawing it belongs to */
} tensor;

typedef struct nn_word {
    const char *name;
    mpt_op op; /* COUNT: moe, which draws several */
    bool named;
} nn_word;

static const nn_word words[] = {
#define NN_WORD(op, named)          {#op, MPT_OP_##op, named},
#define NN_COMPOSITE(word, summary) {#word, MPT_OP_COUNT, true},
#define NN_KEY(name, type, member, words, doc)
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

typedef enum key_type {
    INT64,
    INT32,
    FLOAT, /* above 0: a 0 given to the builder would mean the default */
    SHARE, /* from 0 to 1 */
    BOOL,
    INIT,
    BIAS_INIT,
    TIED,
    LAYOUT,
    PARTS,
    SIZES,
    SIGNED,
    ROPE,
    ACTIVATION,
    SCORE,
    DOWN_INIT
} key_type;

typedef struct nn_key {
    const char *name;
    key_type type;
    size_t offset;
    const char *words; /* that take it, each with a space behind */
} nn_key;

#define AT(member) offsetof(mpt_nn_args, member)

static const nn_key keys[] = {
#define NN_WORD(op, named)
#define NN_COMPOSITE(word, summary)
#define NN_KEY(name, type, member, words, doc) {name, type, member, words},
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

/* One call on its way to the builder; the arguments' table is at index 1. */
typedef struct nn_call {
    const nn_word *word;
    mpt_nn *nn;
    mpt_nn_args args;
} nn_call;

/* ---- failures ---- */

/* Fails at the line of `key` inside the call, or of `inner` in the table there; or of the call
 * itself (key NULL). */
static void fail_at_path(lua_State *L, const nn_call *call, const char *key, const char *inner,
                         const char *hint, const char *fmt, const char *what) {
    mpt_ctx *ctx = mpt_sandbox_of(L)->ctx;
    mpt_where where = call->nn->where;
    const mpt_lua_chunk *chunk = mpt_sandbox_chunk(mpt_sandbox_of(L), where.file);
    mpt_source_key path[] = {{.name = key}, {.name = inner}};
    if (key && chunk)
        where.line = mpt_source_line(chunk->text, chunk->length, where.line, call->word->name,
                                     path, inner ? 2 : 1);
    char text[256];
    snprintf(text, sizeof text, fmt, what);
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, where, "nn.%s%s%s%s%s: %s", call->word->name, key ? "." : "",
                 key ? key : "", inner ? "." : "", inner ? inner : "", text);
    if (*hint)
        mpt_hint(ctx, "%s", hint);
    mpt_sandbox_check(L, status);
}

static void fail_call(lua_State *L, const nn_call *call, const char *key, const char *hint,
                      const char *fmt, const char *what) {
    fail_at_path(L, call, key, NULL, hint, fmt, what);
}

/* What stands on the top, with its value where it is a number or a short text. */
static void show(lua_State *L, char *out, size_t size) {
    int type = lua_type(L, -1);
    if (type == LUA_TNUMBER && isnan(lua_tonumber(L, -1)))
        snprintf(out, size, "NaN"); /* whose sign printf would show */
    else if (type == LUA_TNUMBER)
        snprintf(out, size, "%.14g", lua_tonumber(L, -1));
    else if (type == LUA_TSTRING && lua_rawlen(L, -1) < 48 && mpt_lua_is_plain(L, -1))
        snprintf(out, size, "'%s'", lua_tostring(L, -1));
    else
        snprintf(out, size, "%s", mpt_lua_describe(L, -1));
}

/* Refuses the value on the top: a field, or `inner` of the table there (or NULL). */
static void fail_inner(lua_State *L, const nn_call *call, const char *key, const char *inner,
                       const char *expected) {
    char shown[64];
    show(L, shown, sizeof shown);
    fail_at_path(L, call, key, inner, expected, "cannot be %s", shown);
}

static void fail_key(lua_State *L, const nn_call *call, const char *key, const char *expected) {
    fail_inner(L, call, key, NULL, expected);
}

/* ---- reading one field; its value is on the top ---- */

/* What a number can be, by the type of its row. */
static const char *range_of(const nn_key *key) {
    return key->type == SIGNED  ? "give a number other than 0, in the range of FP32"
           : key->type == FLOAT ? "give a number above 0, in the range of FP32"
           : key->type == SHARE ? "give a number from 0 to 1"
                                : "give a whole number from 1 to 2147483647";
}

static void read_number(lua_State *L, nn_call *call, const nn_key *key) {
    char *member = (char *)&call->args + key->offset;
    int whole = 0;
    lua_Integer n = lua_tointegerx(L, -1, &whole);
    float real = (float)lua_tonumber(L, -1);
    bool is_real = key->type == FLOAT || key->type == SIGNED || key->type == SHARE;
    bool fits = key->type == SIGNED  ? isfinite(real) && real != 0
                : key->type == FLOAT ? isfinite(real) && real > 0
                : key->type == SHARE ? lua_tonumber(L, -1) >= 0 && lua_tonumber(L, -1) <= 1
                                     : whole && n >= 1 && n <= INT32_MAX;
    if (lua_type(L, -1) != LUA_TNUMBER || !fits)
        fail_key(L, call, key->name, range_of(key));
    int32_t narrow = (int32_t)n;
    int64_t wide = n;
    if (is_real)
        memcpy(member, &real, sizeof real);
    else if (key->type == INT32)
        memcpy(member, &narrow, sizeof narrow);
    else
        memcpy(member, &wide, sizeof wide);
}

/* Refuses what is neither normal nor uniform in the table on the top. */
static void refuse_unknown_init(lua_State *L, const nn_call *call, const nn_key *key,
                                const char *hint) {
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (!name)
            fail_call(L, call, key->name, hint, "%s stands here without a name",
                      mpt_lua_describe(L, -1));
        if (strcmp(name, "normal") != 0 && strcmp(name, "uniform") != 0)
            fail_at_path(L, call, key->name, name, hint, "no initial values '%s'", name);
    }
}

/* init = { normal = 0.02 }, { uniform = 0.5 }, "zeros" or "ones". */
static void read_init(lua_State *L, nn_call *call, const nn_key *key) {
    static const char hint[] =
        "give { normal = 0.02 }, { uniform = 0.5 }, \"zeros\" or \"ones\"";
    mpt_init init = {MPT_INIT_ZERO, 0, 0};
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(text, "ones") == 0) {
        init.kind = MPT_INIT_ONE;
    } else if (strcmp(text, "zeros") != 0) {
        if (!lua_istable(L, -1))
            fail_key(L, call, key->name, hint);
        refuse_unknown_init(L, call, key, hint);
        bool normal = lua_getfield(L, -1, "normal") == LUA_TNUMBER;
        bool uniform = lua_getfield(L, -2, "uniform") == LUA_TNUMBER;
        if (normal == uniform)
            fail_call(L, call, key->name, hint, "%s", "no such initial values");
        init.kind = normal ? MPT_INIT_NORMAL : MPT_INIT_UNIFORM;
        lua_pushvalue(L, normal ? -2 : -1);
        init.a = (float)lua_tonumber(L, -1);
        if (!(init.a >= 0 && isfinite(init.a)) || lua_tonumber(L, -1) < 0)
            fail_inner(L, call, key->name, normal ? "normal" : "uniform",
                       "give a number that is not negative, in the range of FP32");
        lua_pop(L, 3);
    }
    *(mpt_init *)(void *)((char *)&call->args + key->offset) = init;
    if (key->type == INIT)
        call->args.has_init = true;
    else if (key->type == BIAS_INIT)
        call->args.has_bias_init = true;
    else
        call->args.moe.has_down_init = true;
}

/* One of two words; the member is whether it is the second. */
static void read_choice(lua_State *L, const nn_call *call, const nn_key *key, const char *first,
                        const char *second, bool *out) {
    char hint[64];
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    snprintf(hint, sizeof hint, "give \"%s\" or \"%s\"", first, second);
    *out = strcmp(text, second) == 0;
    if (*out || strcmp(text, first) == 0)
        return;
    char shown[96];
    snprintf(shown, sizeof shown, "%s '%s'", key->name, text);
    if (*text && strlen(text) < 48 && mpt_lua_is_plain(L, -1))
        fail_call(L, call, key->name, hint, "no %s", shown);
    fail_key(L, call, key->name, hint);
}

/* Refuses an entry with a name in the list on the top. */
static void refuse_names(lua_State *L, const nn_call *call, const nn_key *key) {
    if (!lua_istable(L, -1) || !mpt_lua_list_stray(L, -1))
        return;
    const char *name = lua_isstring(L, -1) ? lua_tostring(L, -1) : luaL_typename(L, -1);
    fail_at_path(L, call, key->name, name, MPT_LUA_LIST_HINT, "a list has no field '%s'", name);
}

static void read_parts(lua_State *L, nn_call *call, const nn_key *key) {
    refuse_names(L, call, key);
    int n = lua_istable(L, -1) ? (int)lua_rawlen(L, -1) : 0;
    if (n < 1 || n > MPT_MAX_PARTS)
        fail_key(L, call, key->name, "give a list of 2 to 8");
    for (int i = 0; i < n; i++) {
        int type = lua_rawgeti(L, -1, i + 1), whole = 0;
        lua_Integer size = lua_tointegerx(L, -1, &whole);
        if (key->type == PARTS && type == LUA_TSTRING)
            call->args.parts[i] = lua_tostring(L, -1); /* stays alive in the list */
        else if (key->type == SIZES && type == LUA_TNUMBER && whole && size > 0)
            call->args.attrs.sizes[i] = size;
        else
            fail_key(L, call, key->name,
                     key->type == PARTS ? "give names" : "give widths above 0");
        lua_pop(L, 1);
    }
    if (key->type == PARTS)
        call->args.n_parts = n;
    else
        call->args.attrs.n_sizes = n;
}

/* ---- rope's scaling, as config.json has it ---- */

static const char rope_hint[] =
    "give { rope_type = \"llama3\", factor = 8, low_freq_factor = 1, high_freq_factor = 4, "
    "original_max_position_embeddings = 8192 }";

/* rope_type, or type as older files have it; on the top. */
static mpt_rope_scaling rope_type(lua_State *L, const nn_call *call, const char *name) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(text, "default") == 0)
        return MPT_ROPE_DEFAULT;
    if (strcmp(text, "linear") == 0)
        return MPT_ROPE_LINEAR;
    if (strcmp(text, "llama3") != 0)
        fail_at_path(L, call, "scaling", name, "it can be \"default\", \"linear\", \"llama3\"",
                     "cannot be %s", *text ? text : mpt_lua_describe(L, -1));
    return MPT_ROPE_LLAMA3;
}

/* One field of the table, its value on the top. */
static void read_rope_field(lua_State *L, const nn_call *call, mpt_rope *rope,
                            const char *name) {
    const struct {
        const char *name;
        float *real;
    } numbers[] = {{"factor", &rope->factor},
                   {"low_freq_factor", &rope->low_freq_factor},
                   {"high_freq_factor", &rope->high_freq_factor},
                   {"rope_theta", &rope->theta},
                   {"original_max_position_embeddings", NULL}};
    double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (strcmp(name, "rope_type") == 0 || strcmp(name, "type") == 0) {
        rope->scaling = rope_type(L, call, name);
        return;
    }
    for (size_t i = 0; i < MPT_COUNT(numbers); i++) {
        if (strcmp(numbers[i].name, name) != 0)
            continue;
        if (numbers[i].real && !((float)x > 0 && x <= (double)FLT_MAX))
            fail_inner(L, call, "scaling", name, "give a number above 0, in the range of FP32");
        if (!numbers[i].real && !(x >= 1 && x <= INT32_MAX && floor(x) == x))
            fail_inner(L, call, "scaling", name, "give a whole number from 1 to 2147483647");
        if (numbers[i].real)
            *numbers[i].real = (float)x;
        else
            rope->original_positions = (int32_t)x;
        return;
    }
    fail_at_path(L, call, "scaling", name, rope_hint, "no field '%s'", name);
}

/* What the kind of rope asks for must be there. */
static void require_rope_fields(lua_State *L, const nn_call *call, const mpt_rope *rope) {
    bool llama3 = rope->scaling == MPT_ROPE_LLAMA3;
    const char *name = rope->scaling == MPT_ROPE_DEFAULT       ? NULL
                       : rope->factor == 0                     ? "factor"
                       : llama3 && rope->low_freq_factor == 0  ? "low_freq_factor"
                       : llama3 && rope->high_freq_factor == 0 ? "high_freq_factor"
                       : llama3 && rope->original_positions == 0
                           ? "original_max_position_embeddings"
                           : NULL;
    if (name)
        fail_call(L, call, "scaling", rope_hint, "%s is missing", name);
}

/* A table written here, or one of the model's size. Theta is read after it: names are sorted.
 */
static void read_rope(lua_State *L, nn_call *call, const nn_key *key) {
    if (mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
        mpt_lua_value_fields(L, -1);
    if (!lua_istable(L, -1))
        fail_key(L, call, key->name, rope_hint);
    int fields = lua_gettop(L), names = fields + 1;
    mpt_library_sorted_keys(L, fields);
    for (lua_Integer i = 1; lua_rawgeti(L, names, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -1);
        lua_rawget(L, fields);
        if (lua_type(L, -2) != LUA_TSTRING)
            fail_call(L, call, key->name, rope_hint, "%s stands here without a name",
                      mpt_lua_describe(L, -1));
        read_rope_field(L, call, &call->args.attrs.rope, lua_tostring(L, -2));
        lua_settop(L, names);
    }
    require_rope_fields(L, call, &call->args.attrs.rope);
    if (call->args.attrs.rope.factor > 0 && call->args.attrs.rope.scaling == MPT_ROPE_DEFAULT)
        fail_call(L, call, key->name, rope_hint, "%s", "a factor without its rope_type");
}

static void read_key(lua_State *L, nn_call *call, const nn_key *key) {
    switch (key->type) {
    case INT64:
    case INT32:
    case FLOAT:
    case SHARE:
    case SIGNED:
        read_number(L, call, key);
        break;
    case BOOL:
        if (!lua_isboolean(L, -1))
            fail_key(L, call, key->name, "give true or false");
        *((bool *)((char *)&call->args + key->offset)) = lua_toboolean(L, -1);
        break;
    case INIT:
    case BIAS_INIT:
    case DOWN_INIT:
        read_init(L, call, key);
        break;
    case ACTIVATION:
        read_choice(L, call, key, "relu2", "swiglu", &call->args.moe.gated);
        break;
    case SCORE:
        read_choice(L, call, key, "sigmoid", "softmax", &call->args.attrs.by_softmax);
        break;
    case TIED:
        if (lua_type(L, -1) != LUA_TSTRING)
            fail_key(L, call, key->name, "give a parameter's name: \"wte.weight\"");
        call->args.tied = lua_tostring(L, -1);
        break;
    case LAYOUT:
        if (lua_type(L, -1) != LUA_TSTRING || strcmp(lua_tostring(L, -1), "conv1d") != 0)
            fail_key(L, call, key->name, "it can only be \"conv1d\"");
        call->args.transposed = true;
        break;
    case PARTS:
    case SIZES:
        read_parts(L, call, key);
        break;
    case ROPE:
        read_rope(L, call, key);
        break;
    }
}

/* ---- reading the call ---- */

/* The row of a key that this word takes. */
static const nn_key *find_key(lua_State *L, const nn_call *call, const char *name) {
    char word[32], hint[128] = "";
    const char *names[MPT_COUNT(keys)];
    int n = 0;
    snprintf(word, sizeof word, "%s ", call->word->name);
    for (size_t i = 0; i < MPT_COUNT(keys); i++) {
        const char *at = strstr(keys[i].words, word);
        if (!at || (at != keys[i].words && at[-1] != ' '))
            continue;
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
        names[n++] = keys[i].name;
    }
    const char *nearest = mpt_nearest(name, names, n);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    fail_call(L, call, NULL, hint, "no field '%s'", name);
    return NULL;
}

/* A position: the layer's name, or an input. */
static void read_position(lua_State *L, nn_call *call) {
    mpt_nn_args *args = &call->args;
    const tensor *t = luaL_testudata(L, -1, tensor_name);
    if (lua_type(L, -1) == LUA_TSTRING && !args->name && args->n_in == 0) {
        if (!mpt_lua_is_plain(L, -1))
            fail_call(L, call, NULL, "write one line of plain text", "%s",
                      "the name has a control character");
        args->name = lua_tostring(L, -1);
        return;
    }
    if (!t)
        fail_call(L, call, NULL, "inputs are what other nn words returned",
                  "an input cannot be %s", mpt_lua_describe(L, -1));
    if (t->build != mpt_sandbox_of(L)->n_builds)
        fail_call(L, call, NULL, "draw every value anew in graph = function(nn, size)", "%s",
                  "an input belongs to another graph");
    if (args->n_in == MPT_MAX_IN)
        fail_call(L, call, NULL, "", "%s", "too many inputs");
    args->in[args->n_in++] = t->id;
}

/* The key on the top, as a text for messages where it is none: a position beyond a hole. */
static const char *key_text(lua_State *L) {
    if (lua_type(L, -1) == LUA_TSTRING)
        return lua_tostring(L, -1);
    return luaL_tolstring(L, -1, NULL);
}

/* Whether a layer takes its width from elsewhere: the weight it is tied to, the vocabulary. */
static bool has_own_width(const nn_call *call) {
    return !call->args.tied && !call->args.head;
}

/* Refuses a call without what its word needs; the builder would speak of 0. */
static void require_keys(lua_State *L, const nn_call *call) {
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
            fail_call(L, call, NULL, hint, "%s is missing", key);
        }
        lua_pop(L, 1);
    }
    if (call->args.has_bias_init && !call->args.bias)
        fail_call(L, call, "bias_init", "say bias = true", "%s", "there is no bias to begin");
}

static void read_call(lua_State *L, nn_call *call) {
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
            const nn_key *key = find_key(L, call, key_text(L));
            lua_pushvalue(L, -1);
            lua_rawget(L, 1);
            read_key(L, call, key);
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
    nn_call call = {.word = &words[lua_tointeger(L, lua_upvalueindex(1))], .nn = current(L)};
    int n = lua_gettop(L);
    if (n != 1 || !lua_istable(L, 1)) {
        lua_createtable(L, n, 0);
        lua_insert(L, 1);
        for (int i = n; i >= 1; i--) {
            if (lua_isnil(L, -1))
                fail_call(L, &call, NULL, "inputs are what other nn words returned",
                          "an input cannot be %s", "nothing");
            lua_rawseti(L, 1, i);
        }
    }
    read_call(L, &call);
    if (call.word->named && !call.args.name)
        fail_call(L, &call, NULL, "begin with its name: { \"mixer.up_proj\", x, ... }", "%s",
                  "the layer has no name");
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
