/* What a host adds to its recipe beside fields and rules: the model, its proxy, functions of
 * rules and warnings to keep quiet. */
#include "recipe/host.h"

mpt_status mpt_host_check_open(mpt_recipe *recipe, const char *what) {
    if (!recipe->frozen)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(recipe->ctx, MPT_INVALID, recipe->where,
                 "%s: the recipe was compiled and does not change any more", what);
    mpt_hint(recipe->ctx, "add it before compiling");
    return status;
}

/* A recipe from a file has a model and functions of its own, which a host's would not go with.
 */
static mpt_status check_own(mpt_recipe *recipe, const char *what) {
    MPT_TRY(mpt_host_check_open(recipe, what));
    if (!recipe->source_text)
        return MPT_OK;
    mpt_status status = MPT_FAIL(recipe->ctx, MPT_INVALID, recipe->where,
                                 "%s: the recipe is from a file, which says it", what);
    mpt_hint(recipe->ctx, "fill one made by mpt_recipe_create");
    return status;
}

/* ---- functions of the host ---- */

mpt_status mpt_host_add_predicate(mpt_recipe *recipe, const mpt_rule_desc *desc,
                                  mpt_rule *rule) {
    MPT_TRY(check_own(recipe, "rule.where"));
    mpt_host_predicate *grown =
        mpt_arena_grow(&recipe->arena, recipe->predicates, sizeof *grown, recipe->n_predicates,
                       &recipe->cap_predicates);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    recipe->predicates = grown;
    rule->predicate = recipe->n_predicates;
    grown[recipe->n_predicates++] = (mpt_host_predicate){desc->where, desc->where_ud};
    return MPT_OK;
}

/* What a host's build and where functions are called through; in the recipe's arena. */
typedef struct host_source {
    mpt_recipe *recipe;
    mpt_build_fn build;
    void *ud;
} host_source;

static mpt_status host_build(void *ud, struct mpt_nn *nn, bool proxy) {
    const host_source *host = ud;
    return host->build(host->ud, nn, proxy);
}

static mpt_status host_where(void *ud, int predicate, const mpt_layer *layer, bool *out) {
    const host_source *host = ud;
    const mpt_host_predicate *where = &host->recipe->predicates[predicate];
    const mpt_layer_view view = {layer->path, mpt_layer_kind_name(layer->kind), layer->block,
                                 layer->in_features, layer->out_features};
    *out = where->fn(where->ud, &view);
    return MPT_OK;
}

static mpt_status name_model(mpt_recipe *recipe, const char *name, const char *size,
                             mpt_model_ref *out) {
    const char *name_copy = mpt_arena_strdup(&recipe->arena, name);
    const char *size_copy = mpt_arena_strdup(&recipe->arena, size);
    if (!name_copy || !size_copy)
        return MPT_OUT_OF_MEMORY;
    *out = (mpt_model_ref){true, name_copy, size_copy, NULL, recipe->where};
    return MPT_OK;
}

mpt_status mpt_recipe_set_model(mpt_recipe *recipe, const char *name, const char *size,
                                mpt_build_fn build, void *ud) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, name);
    MPT_REQUIRE(recipe->ctx, size);
    MPT_REQUIRE(recipe->ctx, build);
    MPT_TRY(check_own(recipe, "model"));
    host_source *host = mpt_arena_alloc(&recipe->arena, sizeof *host);
    if (!host)
        return MPT_OUT_OF_MEMORY;
    *host = (host_source){recipe, build, ud};
    MPT_TRY(name_model(recipe, name, size, &recipe->model));
    recipe->source = (mpt_source){.ud = host, .build = host_build, .where = host_where};
    return MPT_OK;
}

mpt_status mpt_recipe_set_proxy(mpt_recipe *recipe, const char *name, const char *size) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, name);
    MPT_REQUIRE(recipe->ctx, size);
    MPT_TRY(check_own(recipe, "proxy"));
    return name_model(recipe, name, size, &recipe->proxy);
}

mpt_status mpt_recipe_allow(mpt_recipe *recipe, const char *name) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, name);
    MPT_TRY(mpt_host_check_open(recipe, "allow"));
    return mpt_recipe_append_allow(recipe, name, recipe->where);
}
