/* The field `scaling` of nn.rope, a table as config.json has it: its kind first, then what that
 * kind asks for. */
#include "lua/bind/nn_call.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lua/bind/library.h"

static const char hint[] =
    "give { rope_type = \"llama3\", factor = 8, low_freq_factor = 1, high_freq_factor = 4, "
    "original_max_position_embeddings = 8192 }";

/* rope_type, or type as older files have it; on the top. */
static mpt_rope_scaling read_type(lua_State *L, const mpt_lua_call *call, const char *name) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(text, "default") == 0)
        return MPT_ROPE_DEFAULT;
    if (strcmp(text, "linear") == 0)
        return MPT_ROPE_LINEAR;
    if (strcmp(text, "llama3") != 0)
        mpt_lua_call_fail_at(L, call, "scaling", name,
                             "it can be \"default\", \"linear\", \"llama3\"", "cannot be %s",
                             *text ? text : mpt_lua_describe(L, -1));
    return MPT_ROPE_LLAMA3;
}

/* One field of the table, its value on the top. */
static void read_field(lua_State *L, const mpt_lua_call *call, mpt_rope *rope,
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
        rope->scaling = read_type(L, call, name);
        return;
    }
    for (size_t i = 0; i < MPT_COUNT(numbers); i++) {
        if (strcmp(numbers[i].name, name) != 0)
            continue;
        if (numbers[i].real && !((float)x > 0 && x <= (double)FLT_MAX))
            mpt_lua_call_refuse(L, call, "scaling", name,
                                "give a number above 0, in the range of FP32");
        if (!numbers[i].real && !(x >= 1 && x <= INT32_MAX && floor(x) == x))
            mpt_lua_call_refuse(L, call, "scaling", name,
                                "give a whole number from 1 to 2147483647");
        if (numbers[i].real)
            *numbers[i].real = (float)x;
        else
            rope->original_positions = (int32_t)x;
        return;
    }
    mpt_lua_call_fail_at(L, call, "scaling", name, hint, "no field '%s'", name);
}

/* What the kind of rope asks for must be there. */
static void require_fields(lua_State *L, const mpt_lua_call *call, const mpt_rope *rope) {
    bool llama3 = rope->scaling == MPT_ROPE_LLAMA3;
    const char *name = rope->scaling == MPT_ROPE_DEFAULT       ? NULL
                       : rope->factor == 0                     ? "factor"
                       : llama3 && rope->low_freq_factor == 0  ? "low_freq_factor"
                       : llama3 && rope->high_freq_factor == 0 ? "high_freq_factor"
                       : llama3 && rope->original_positions == 0
                           ? "original_max_position_embeddings"
                           : NULL;
    if (name)
        mpt_lua_call_fail(L, call, "scaling", hint, "%s is missing", name);
}

void mpt_lua_call_read_rope(lua_State *L, mpt_lua_call *call, const char *key) {
    if (mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
        mpt_lua_value_fields(L, -1);
    if (!lua_istable(L, -1))
        mpt_lua_call_refuse(L, call, key, NULL, hint);
    int fields = lua_gettop(L), names = fields + 1;
    mpt_library_sorted_keys(L, fields);
    for (lua_Integer i = 1; lua_rawgeti(L, names, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -1);
        lua_rawget(L, fields);
        if (lua_type(L, -2) != LUA_TSTRING)
            mpt_lua_call_fail(L, call, key, hint, "%s stands here without a name",
                              mpt_lua_describe(L, -1));
        read_field(L, call, &call->args.attrs.rope, lua_tostring(L, -2));
        lua_settop(L, names);
    }
    require_fields(L, call, &call->args.attrs.rope);
    if (call->args.attrs.rope.factor > 0 && call->args.attrs.rope.scaling == MPT_ROPE_DEFAULT)
        mpt_lua_call_fail(L, call, key, hint, "%s", "a factor without its rope_type");
}
