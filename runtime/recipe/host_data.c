/* Several files of a recipe that a host fills, as text { ... } and tokens { ... } have them. */
#include "recipe/host.h"
#include "recipe/schema_rows.h"

#include <string.h>

static mpt_status refuse_file(mpt_recipe *recipe, const char *fault, const char *hint) {
    mpt_status status =
        MPT_FAIL(recipe->ctx, MPT_INVALID, recipe->where, "data.files: %s", fault);
    mpt_hint(recipe->ctx, "%s", hint);
    return status;
}

mpt_data_file *mpt_data_spec_append(mpt_recipe *recipe, mpt_data_spec *data) {
    int cap = data->cap_files;
    mpt_data_file *grown =
        mpt_arena_grow(&recipe->arena, data->files, sizeof *grown, data->n_files, &cap);
    if (!grown)
        return NULL;
    data->files = grown;
    data->cap_files = cap;
    mpt_data_file *file = &grown[data->n_files++];
    memset(file, 0, sizeof *file);
    mpt_record_init(&mpt_record_file, file);
    return file;
}

mpt_status mpt_recipe_add_file(mpt_recipe *recipe, const char *path, double weight) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, path);
    mpt_data_spec *data = &recipe->data;
    mpt_setting text = {.kind = MPT_SETTING_STRING, .string = path};
    mpt_setting number = {.kind = MPT_SETTING_NUMBER, .number = weight};
    mpt_data_file file = {.where = recipe->where};
    MPT_TRY(mpt_host_check_open(recipe, "data.files"));
    if (data->kind != MPT_DATA_TEXT && data->kind != MPT_DATA_TOKENS)
        return refuse_file(recipe, "only text and tokens have several",
                           "set data to text or tokens first");
    if (data->path)
        return refuse_file(recipe, "data.path is set, and is one file",
                           "add that file too, and leave data.path alone");
    MPT_TRY(mpt_record_set(recipe->ctx, &recipe->arena, &mpt_record_file, &file, "data.files",
                           "path", &text, recipe->where));
    MPT_TRY(mpt_record_set(recipe->ctx, &recipe->arena, &mpt_record_file, &file, "data.files",
                           "weight", &number, recipe->where));
    mpt_data_file *added = mpt_data_spec_append(recipe, data);
    if (!added)
        return MPT_OUT_OF_MEMORY;
    *added = file;
    return MPT_OK;
}
