/* Models of Lua files: families called with a size, and the mpt_source that draws them. */
#ifndef MPT_LUA_BIND_MODEL_H
#define MPT_LUA_BIND_MODEL_H

#include "lua/bind/value.h"
#include "recipe/layer.h"

/* The name of a size that is none of the model's own. */
#define MPT_MODEL_CUSTOM "custom"

/* Takes the value on the top, at `key` of the recipe value, as the recipe's model or proxy.
 * Raises. */
void mpt_model_put(lua_State *L, mpt_recipe *recipe, int value, int key, bool proxy);

/* Refuses a size whose fields are not of the kind that the named sizes have; `path` stands
 * before the field's name: "model.", "proxy.", "config.json: ". size.c. Raises. */
void mpt_model_check_size(lua_State *L, int model_size, const char *path);

/* Makes the recipe the owner of the sandbox, and the sandbox the source of its model. */
void mpt_model_attach(mpt_recipe *recipe, mpt_sandbox *box);

/* Pushes the table `nn` of the builder's words (nn.c). Raises. */
void mpt_nn_push(lua_State *L);

/* Refuses a model{...} at `model` that lacks what one needs. Raises. */
void mpt_model_check(lua_State *L, int model);

/* The name of the model at `model`; it stays alive in the model. */
const char *mpt_model_name(lua_State *L, int model);

/* Refuses a value at a position of the value on the top, whose fields all have names. Raises.
 */
void mpt_model_refuse_positions(lua_State *L, const char *path);

/* Pushes the model with its size at `base`, fields of the size changed by those of the value at
 * `changes`, which are checked as those of a table of its own. Raises. */
void mpt_model_derive(lua_State *L, int base, int changes, mpt_where where);

/* Replaces the size (a TABLE value) on the top by what a recipe uses: the model at `model` with
 * this size. Raises. */
void mpt_model_wrap(lua_State *L, int model, const char *size_name, mpt_where where);

/* ---- model_size.c ---- */

/* Where the fields of a size come from. */
typedef struct mpt_size_source {
    mpt_where where;  /* of the call */
    const char *file; /* a config.json, whose other fields are left aside; NULL: the recipe */
    int changes;      /* with a file: the recipe's own fields, a plain table; 0: none */
} mpt_size_source;

/* Pushes the TABLE value of a size given as a plain table at `table`: other spellings
 * rewritten, checked, with defaults. Kinds are left to mpt_model_check_size. Raises. */
void mpt_model_size_own(lua_State *L, int model, int table, const mpt_size_source *from);

/* Pushes a copy of the model's own size at `size` with the defaults in it. Raises. */
void mpt_model_size_named(lua_State *L, int model, int size, mpt_where where);

/* Pushes the fields of the TABLE value at `index` as text, sorted by name, each after `before`:
 * "n_layer = 2". Equal sizes give equal texts. Raises. */
void mpt_model_push_fields_text(lua_State *L, int index, const char *before);

/* ---- config.c ---- */

/* model.from_config(path, changes): the model that a Hugging Face config.json describes. */
int mpt_model_from_config(lua_State *L);

#endif
