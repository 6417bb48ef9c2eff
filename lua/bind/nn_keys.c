/* The fields of a call of nn: each key is one row of graph/nn_words.def, read by its type into
 * the builder's arguments. What cannot be read is refused at the key's own line. */
#include "lua/bind/nn_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/bind/library.h"
#include "lua/bind/source.h"

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

/* ---- failures ---- */

void mpt_lua_call_fail_at(lua_State *L, const mpt_lua_call *call, const char *key,
                          const char *inner, const char *hint, const char *fmt,
                          const char *what) {
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

void mpt_lua_call_fail(lua_State *L, const mpt_lua_call *call, const char *key,
                       const char *hint, const char *fmt, const char *what) {
    mpt_lua_call_fail_at(L, call, key, NULL, hint, fmt, what);
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

void mpt_lua_call_refuse(lua_State *L, const mpt_lua_call *call, const char *key,
                         const char *inner, const char *expected) {
    char shown[64];
    show(L, shown, sizeof shown);
    mpt_lua_call_fail_at(L, call, key, inner, expected, "cannot be %s", shown);
}

/* ---- reading one field; its value is on the top ---- */

/* What a number can be, by the type of its row. */
static const char *range_of(const nn_key *key) {
    return key->type == SIGNED  ? "give a number other than 0, in the range of FP32"
           : key->type == FLOAT ? "give a number above 0, in the range of FP32"
           : key->type == SHARE ? "give a number from 0 to 1"
                                : "give a whole number from 1 to 2147483647";
}

static void read_number(lua_State *L, mpt_lua_call *call, const nn_key *key) {
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
        mpt_lua_call_refuse(L, call, key->name, NULL, range_of(key));
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
static void refuse_unknown_init(lua_State *L, const mpt_lua_call *call, const nn_key *key,
                                const char *hint) {
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (!name)
            mpt_lua_call_fail(L, call, key->name, hint, "%s stands here without a name",
                              mpt_lua_describe(L, -1));
        if (strcmp(name, "normal") != 0 && strcmp(name, "uniform") != 0)
            mpt_lua_call_fail_at(L, call, key->name, name, hint, "no initial values '%s'",
                                 name);
    }
}

/* init = { normal = 0.02 }, { uniform = 0.5 }, "zeros" or "ones". */
static void read_init(lua_State *L, mpt_lua_call *call, const nn_key *key) {
    static const char hint[] =
        "give { normal = 0.02 }, { uniform = 0.5 }, \"zeros\" or \"ones\"";
    mpt_init init = {MPT_INIT_ZERO, 0, 0};
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(text, "ones") == 0) {
        init.kind = MPT_INIT_ONE;
    } else if (strcmp(text, "zeros") != 0) {
        if (!lua_istable(L, -1))
            mpt_lua_call_refuse(L, call, key->name, NULL, hint);
        refuse_unknown_init(L, call, key, hint);
        bool normal = lua_getfield(L, -1, "normal") == LUA_TNUMBER;
        bool uniform = lua_getfield(L, -2, "uniform") == LUA_TNUMBER;
        if (normal == uniform)
            mpt_lua_call_fail(L, call, key->name, hint, "%s", "no such initial values");
        init.kind = normal ? MPT_INIT_NORMAL : MPT_INIT_UNIFORM;
        lua_pushvalue(L, normal ? -2 : -1);
        init.a = (float)lua_tonumber(L, -1);
        if (!(init.a >= 0 && isfinite(init.a)) || lua_tonumber(L, -1) < 0)
            mpt_lua_call_refuse(L, call, key->name, normal ? "normal" : "uniform",
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
static void read_choice(lua_State *L, const mpt_lua_call *call, const nn_key *key,
                        const char *first, const char *second, bool *out) {
    char hint[64];
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    snprintf(hint, sizeof hint, "give \"%s\" or \"%s\"", first, second);
    *out = strcmp(text, second) == 0;
    if (*out || strcmp(text, first) == 0)
        return;
    char shown[96];
    snprintf(shown, sizeof shown, "%s '%s'", key->name, text);
    if (*text && strlen(text) < 48 && mpt_lua_is_plain(L, -1))
        mpt_lua_call_fail(L, call, key->name, hint, "no %s", shown);
    mpt_lua_call_refuse(L, call, key->name, NULL, hint);
}

/* Refuses an entry with a name in the list on the top. */
static void refuse_names(lua_State *L, const mpt_lua_call *call, const nn_key *key) {
    if (!lua_istable(L, -1) || !mpt_lua_list_stray(L, -1))
        return;
    const char *name = lua_isstring(L, -1) ? lua_tostring(L, -1) : luaL_typename(L, -1);
    mpt_lua_call_fail_at(L, call, key->name, name, MPT_LUA_LIST_HINT,
                         "a list has no field '%s'", name);
}

static void read_parts(lua_State *L, mpt_lua_call *call, const nn_key *key) {
    refuse_names(L, call, key);
    int n = lua_istable(L, -1) ? (int)lua_rawlen(L, -1) : 0;
    if (n < 1 || n > MPT_MAX_PARTS)
        mpt_lua_call_refuse(L, call, key->name, NULL, "give a list of 2 to 8");
    for (int i = 0; i < n; i++) {
        int type = lua_rawgeti(L, -1, i + 1), whole = 0;
        lua_Integer size = lua_tointegerx(L, -1, &whole);
        if (key->type == PARTS && type == LUA_TSTRING)
            call->args.parts[i] = lua_tostring(L, -1); /* stays alive in the list */
        else if (key->type == SIZES && type == LUA_TNUMBER && whole && size > 0)
            call->args.attrs.sizes[i] = size;
        else
            mpt_lua_call_refuse(L, call, key->name, NULL,
                                key->type == PARTS ? "give names" : "give widths above 0");
        lua_pop(L, 1);
    }
    if (key->type == PARTS)
        call->args.n_parts = n;
    else
        call->args.attrs.n_sizes = n;
}

static void read_key(lua_State *L, mpt_lua_call *call, const nn_key *key) {
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
            mpt_lua_call_refuse(L, call, key->name, NULL, "give true or false");
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
            mpt_lua_call_refuse(L, call, key->name, NULL,
                                "give a parameter's name: \"wte.weight\"");
        call->args.tied = lua_tostring(L, -1);
        break;
    case LAYOUT:
        if (lua_type(L, -1) != LUA_TSTRING || strcmp(lua_tostring(L, -1), "conv1d") != 0)
            mpt_lua_call_refuse(L, call, key->name, NULL, "it can only be \"conv1d\"");
        call->args.transposed = true;
        break;
    case PARTS:
    case SIZES:
        read_parts(L, call, key);
        break;
    case ROPE:
        mpt_lua_call_read_rope(L, call, key->name);
        break;
    }
}

/* ---- one field ---- */

/* The row of a key that this word takes. */
static const nn_key *find_key(lua_State *L, const mpt_lua_call *call, const char *name) {
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
    mpt_lua_call_fail(L, call, NULL, hint, "no field '%s'", name);
    return NULL;
}

/* The key on the top, as a text for messages where it is none: a position beyond a hole. */
static const char *key_text(lua_State *L) {
    if (lua_type(L, -1) == LUA_TSTRING)
        return lua_tostring(L, -1);
    return luaL_tolstring(L, -1, NULL);
}

void mpt_lua_call_read(lua_State *L, mpt_lua_call *call) {
    const nn_key *key = find_key(L, call, key_text(L));
    lua_pushvalue(L, -1);
    lua_rawget(L, 1);
    read_key(L, call, key);
}
