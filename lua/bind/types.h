/* Between types.c, which has the words of recipes, and types_nn.c, which has those of models.
 */
#ifndef MPT_LUA_BIND_TYPES_H
#define MPT_LUA_BIND_TYPES_H

#include "lua/bind/value.h"

/* Classes of each word's fields, then mpt.nn and mpt.model_fields. */
void mpt_types_print_nn(mpt_str *out);

#endif
