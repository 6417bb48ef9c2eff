/* What the words of the language return: immutable values that know where they were written.
 *
 * A value is a userdata of one kind. What was given to its word lies beside it as fields;
 * tables inside are copied into values of kind TABLE, so nothing a recipe does later changes
 * them, and each can tell the line of each of its keys. convert.c reads them into the recipe
 * IR. All functions here may raise. */
#ifndef MPT_LUA_BIND_VALUE_H
#define MPT_LUA_BIND_VALUE_H

#include "lua/bind/sandbox.h"

typedef enum mpt_lua_kind {
    MPT_LUA_TABLE, /* a plain table inside another value */
    MPT_LUA_FORMAT,
    MPT_LUA_SCALE,      /* current{}, delayed{} */
    MPT_LUA_SCALE_RULE, /* four_over_six{} */
    MPT_LUA_HADAMARD,
    MPT_LUA_GEMM,
    MPT_LUA_PRECISION, /* precision{...}: a whole method, as a preset is */
    MPT_LUA_RULE,
    MPT_LUA_PHASE,
    MPT_LUA_BLOCKS,
    MPT_LUA_OPTIMIZER,
    MPT_LUA_LR,
    MPT_LUA_STATIC,
    MPT_LUA_DYNAMIC,
    MPT_LUA_DATA,
    MPT_LUA_RECIPE,
    MPT_LUA_REPLACE,
    MPT_LUA_MODEL,     /* model{...}: a family of models */
    MPT_LUA_MODEL_SIZE /* one of them: nemotron_h "12b" */
} mpt_lua_kind;

typedef struct mpt_lua_value {
    mpt_lua_kind kind;
    char word[24];   /* "nvfp4", "adamw", "first"; of a TABLE: the word it was given to */
    mpt_where where; /* of the call; file NULL for a bare format */
} mpt_lua_value;

/* The value at `index`, or NULL where something else stands there. */
const mpt_lua_value *mpt_lua_value_at(lua_State *L, int index);
/* The same where it is of this kind, else NULL. */
const mpt_lua_value *mpt_lua_value_of_kind(lua_State *L, int index, mpt_lua_kind kind);

/* What stands at `index`, for messages: "a gemm", "a number", "nothing". */
const char *mpt_lua_describe(lua_State *L, int index);

/* Pushes a field of the value at `index` (nil where absent). */
int mpt_lua_value_get(lua_State *L, int index, const char *key);
int mpt_lua_value_geti(lua_State *L, int index, lua_Integer key);
/* Pushes the table of all fields: not to be changed. */
void mpt_lua_value_fields(lua_State *L, int index);
/* How many fields stand at positions 1, 2, ... */
lua_Integer mpt_lua_value_length(lua_State *L, int index);

/* Whether the list at `index`, a value or a plain table, has an entry with a name; pushes the
 * first such key. Who reads a list must ask: positions alone would drop it. list.c. */
bool mpt_lua_list_stray(lua_State *L, int index);
#define MPT_LUA_LIST_HINT "give the entries without names"

/* The line where the key at `key_index` of the value at `index` is written. */
mpt_where mpt_lua_value_where(lua_State *L, int index, int key_index);

/* Pushes a new value whose fields are a copy of the table at `fields`. */
void mpt_lua_value_new(lua_State *L, mpt_lua_kind kind, const char *word, mpt_where where,
                       int fields);
/* Pushes a value of the kind and word of `base` that is `base` changed by `change`: maps merge,
 * `rules` append, replace{...} replaces. */
void mpt_lua_value_merge(lua_State *L, int base, int change, mpt_where where);

/* Makes the metatable of values. */
void mpt_value_open(lua_State *L);

/* A word of the language: a function that gives a value. */
typedef struct mpt_lua_word {
    const char *name;
    mpt_lua_kind kind;
    int n_values; /* numbers or texts it takes; 0: one table */
    int type;     /* of those */
    const char *example;
} mpt_lua_word;
const mpt_lua_word *mpt_words_all(int *out_n);

/* Adds the words to the table of globals on the top (words.c). */
void mpt_words_open(lua_State *L);

/* Whether the text at `index` has no control character, so that it can stand in one line. */
bool mpt_lua_is_plain(lua_State *L, int index);
#define MPT_LUA_LINE_HINT "write one line of plain text"

/* How the word is written whose function stands at `index`, or NULL: adamw without its { }. */
const char *mpt_word_example(lua_State *L, int index);

/* Calls a model value with a size: model.c. */
int mpt_model_call(lua_State *L);

#endif
