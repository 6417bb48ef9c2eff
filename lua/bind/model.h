/* Models of Lua files: families called with a size, and the mpt_source that draws them. */
#ifndef MPT_LUA_BIND_MODEL_H
#define MPT_LUA_BIND_MODEL_H

#include "lua/bind/value.h"
#include "recipe/layer.h"

/* Takes the value on the top, at `key` of the recipe value, as the recipe's model or proxy.
 * Raises. */
void mpt_model_put(lua_State *L, mpt_recipe *recipe, int value, int key, bool proxy);

/* Refuses a size whose fields are not of the kind that the named sizes have; `path` is "model"
 * or "proxy". size.c. Raises. */
void mpt_model_check_size(lua_State *L, int model_size, const char *path);

/* Makes the recipe the owner of the sandbox, and the sandbox the source of its model. */
void mpt_model_attach(mpt_recipe *recipe, mpt_sandbox *box);

/* Pushes the table `nn` of the builder's words (nn.c). Raises. */
void mpt_nn_push(lua_State *L);

#endif
