/* One call of a word of nn, between nn.c, which makes it, and nn_keys.c and nn_rope.c, which
 * read its fields. */
#ifndef MPT_LUA_BIND_NN_CALL_H
#define MPT_LUA_BIND_NN_CALL_H

#include "graph/nn.h"
#include "lua/bind/value.h"

typedef struct mpt_lua_nn_word {
    const char *name;
    mpt_op op; /* COUNT: moe, which draws several */
    bool named;
} mpt_lua_nn_word;

/* One call on its way to the builder; the arguments' table is at index 1. */
typedef struct mpt_lua_call {
    const mpt_lua_nn_word *word;
    mpt_nn *nn;
    mpt_nn_args args;
} mpt_lua_call;

/* Fails at the line of `key` inside the call, or of `inner` in the table there; or of the call
 * itself (key NULL). `hint` may be empty; `fmt` takes `what`. */
void mpt_lua_call_fail_at(lua_State *L, const mpt_lua_call *call, const char *key,
                          const char *inner, const char *hint, const char *fmt,
                          const char *what);

/* The same, of a field or of the call itself. */
void mpt_lua_call_fail(lua_State *L, const mpt_lua_call *call, const char *key,
                       const char *hint, const char *fmt, const char *what);

/* Refuses the value on the top: a field, or `inner` of the table there (or NULL). */
void mpt_lua_call_refuse(lua_State *L, const mpt_lua_call *call, const char *key,
                         const char *inner, const char *expected);

/* Reads the field whose key is on the top into the call's arguments, and leaves its value
 * there. Raises at a key that the word does not take. */
void mpt_lua_call_read(lua_State *L, mpt_lua_call *call);

/* Reads the value on the top into the call's rope: a table written here, or one of the model's
 * size. Theta is read after it: names are sorted. */
void mpt_lua_call_read_rope(lua_State *L, mpt_lua_call *call, const char *key);

#endif
