/* The recipe as a whole, filled by convert.c: its special fields, which are no plain rows, are
 * phases, the models, what train.eval and train.proxy say, and the warnings allowed. */
#include "lua/bind/convert.h"

#include <string.h>

#include "lua/bind/model.h"
#include "recipe/schema_store.h"

/* rules and use; use goes in front, whichever is read first. */
static void phase_special(lua_State *L, const mpt_filler *f, const char *name) {
    mpt_convert_path path = mpt_convert_key(f->path, name);
    int phase = *(const int *)f->ud, key = lua_gettop(L) - 1;
    if (strcmp(name, "rules") == 0) {
        mpt_convert_rules(L, f->recipe, f->value, path.text, phase);
        return;
    }
    mpt_rule *rule =
        mpt_recipe_insert_use(f->recipe, phase, mpt_lua_value_where(L, f->value, key));
    if (!rule)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    mpt_convert_use(L, f, rule, path.text);
}

/* train.eval.use, the only special field of eval. */
static void put_eval_use(lua_State *L, const mpt_filler *f) {
    mpt_train *train = f->object;
    mpt_convert_path path = mpt_convert_key(f->path, "use");
    mpt_where where = mpt_lua_value_where(L, f->value, lua_gettop(L) - 1);
    mpt_rule *rule = mpt_recipe_make_eval_use(f->recipe, where);
    if (!rule)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    mpt_convert_use(L, f, rule, path.text);
    train->eval_use = rule;
}

static void put_phase(lua_State *L, mpt_recipe *recipe, int list, int key, const char *path) {
    const mpt_lua_value *value = mpt_lua_value_of_kind(L, -1, MPT_LUA_PHASE);
    int phase = lua_gettop(L);
    if (!value)
        mpt_convert_fail(L, list, key, "write phase { \"name\", from = 0.8 }",
                         "%s: cannot be %s", path, mpt_lua_describe(L, -1));
    if (mpt_lua_value_geti(L, phase, 1) != LUA_TSTRING) {
        lua_pushinteger(L, 1);
        mpt_convert_fail(L, phase, lua_gettop(L), "write phase { \"name\", from = 0.8 }",
                         "%s: the phase has no name", path);
    }
    if (!mpt_lua_is_plain(L, -1)) {
        lua_pushinteger(L, 1);
        mpt_convert_fail(L, phase, lua_gettop(L), MPT_LUA_LINE_HINT,
                         "%s: the phase's name has a control character", path);
    }
    mpt_phase *made = mpt_recipe_append_phase(recipe, lua_tostring(L, -1));
    if (!made)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    made->where = value->where;
    int index = recipe->n_phases - 1;
    mpt_filler f = {recipe, mpt_record_find("phase"), made, phase, path, phase_special, &index};
    mpt_convert_fill(L, &f);
}

static void put_phases(lua_State *L, const mpt_filler *f, int key) {
    int list = lua_gettop(L);
    if (!mpt_lua_value_of_kind(L, list, MPT_LUA_TABLE))
        mpt_convert_fail(L, f->value, key, "give a list: { phase { ... }, phase { ... } }",
                         "phases: cannot be %s", mpt_lua_describe(L, list));
    lua_Integer n = mpt_convert_list(L, list, "phases");
    for (lua_Integer i = 1; i <= n; i++) {
        mpt_convert_path path = mpt_convert_item("phases", i);
        lua_pushinteger(L, i);
        mpt_lua_value_geti(L, list, i);
        put_phase(L, f->recipe, list, list + 1, path.text);
        lua_settop(L, list);
    }
}

static void put_allow(lua_State *L, const mpt_filler *f, int key) {
    const char *names[64];
    int n = mpt_convert_texts(L, f->value, key, "allow", names, (int)MPT_COUNT(names));
    for (int i = 0; i < n; i++) {
        mpt_status status = mpt_recipe_append_allow(f->recipe, names[i], MPT_NOWHERE);
        if (status == MPT_INVALID)
            status = mpt_recipe_append_allow(f->recipe, names[i],
                                             mpt_lua_value_where(L, f->value, key));
        mpt_sandbox_check(L, status);
    }
}

static void put_proxy_settings(lua_State *L, const mpt_filler *f, int key) {
    if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
        mpt_convert_fail(L, f->value, key, "give a table: { steps = 200 }",
                         "train.proxy: cannot be %s", mpt_lua_describe(L, -1));
    mpt_filler inner = {f->recipe,
                        mpt_record_find("proxy"),
                        &f->recipe->train_proxy,
                        lua_gettop(L),
                        "train.proxy",
                        f->special,
                        f->ud};
    mpt_convert_fill(L, &inner);
}

/* The special fields of the recipe and of the views inside it (precision, train). */
static void recipe_special(lua_State *L, const mpt_filler *f, const char *name) {
    int key = lua_gettop(L) - 1;
    bool in_train = strcmp(f->record->name, "train") == 0;
    if (f->record == &mpt_record_eval)
        put_eval_use(L, f);
    else if (strcmp(name, "rules") == 0)
        mpt_convert_rules(L, f->recipe, f->value, "precision.rules", -1);
    else if (strcmp(name, "phases") == 0)
        put_phases(L, f, key);
    else if (strcmp(name, "allow") == 0)
        put_allow(L, f, key);
    else if (in_train)
        put_proxy_settings(L, f, key);
    else
        mpt_model_put(L, f->recipe, f->value, key, strcmp(name, "proxy") == 0);
}

void mpt_convert_recipe(lua_State *L, int index) {
    mpt_recipe *recipe = mpt_sandbox_of(L)->recipe;
    const mpt_lua_value *value = mpt_lua_value_at(L, index);
    recipe->where = value->where;
    mpt_filler f = {
        recipe, mpt_record_find("recipe"), recipe, lua_absindex(L, index), "", recipe_special,
        NULL};
    mpt_convert_fill(L, &f);
    if (!recipe->model.present) {
        mpt_status status = MPT_FAIL(recipe->ctx, MPT_INVALID, recipe->where, "model: missing");
        mpt_hint(recipe->ctx, "name one: model = require \"models.gpt2\" \"124m\"");
        mpt_sandbox_check(L, status);
    }
}
