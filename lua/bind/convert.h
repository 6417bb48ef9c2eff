/* From the value a recipe file returned to the recipe IR. */
#ifndef MPT_LUA_BIND_CONVERT_H
#define MPT_LUA_BIND_CONVERT_H

#include "lua/bind/value.h"
#include "recipe/schema.h"

/* Fills box->recipe from the RECIPE value at `index`. Raises. */
void mpt_convert_recipe(lua_State *L, int index);

/* ---- between convert.c and the files beside it ---- */

enum { MPT_CONVERT_PATH = 256 };

/* The field path of a value, for messages: "precision.rules[2].use". */
typedef struct mpt_convert_path {
    char text[MPT_CONVERT_PATH];
} mpt_convert_path;
mpt_convert_path mpt_convert_key(const char *path, const char *key);
mpt_convert_path mpt_convert_item(const char *path, lua_Integer index);

/* Puts one field of a record that is no plain row; false where it does not know the name. The
 * field's value is on the top of the stack, its key below it. */
typedef struct mpt_filler mpt_filler;
typedef void (*mpt_special_fn)(lua_State *L, const mpt_filler *filler, const char *name);

/* One value on its way into one struct. */
struct mpt_filler {
    mpt_recipe *recipe;
    const mpt_record *record;
    void *object;
    int value;        /* stack index of the value that is read */
    const char *path; /* its field path */
    mpt_special_fn special;
    void *ud; /* of `special` */
};

/* Reads all fields of the value into the struct. Position 1 of a word that has one argument
 * goes to the record's first row; other positions are left to whoever reads lists. */
void mpt_convert_fill(lua_State *L, const mpt_filler *filler);

/* Reads the one field whose key is at `key` and whose value is on the top. */
void mpt_convert_field(lua_State *L, const mpt_filler *filler, int key);

/* The number of entries of the list value at `index`; raises at an entry that has a name. */
lua_Integer mpt_convert_list(lua_State *L, int index, const char *path);

/* Raises an error at the key (on the stack at `key`) of the filler's value. */
void mpt_convert_fail(lua_State *L, int value, int key, const char *hint, const char *fmt, ...)
    MPT_PRINTF(5, 6);

/* Reads the format of a state that has fields of its own, whose value is on the top, into the
 * refined row. */
void mpt_convert_state(lua_State *L, const mpt_filler *f, const mpt_field *row);

/* Reads one operand, a format or a table of single fields, whose value is on the top. The key
 * of `parent` at stack index `key` is the place of errors that the value has no line for. */
void mpt_convert_slot(lua_State *L, mpt_recipe *recipe, int parent, int key, const char *path,
                      mpt_slot_use *out);

/* ---- convert_data.c: several files ---- */

/* Whether the value at `index` is text or tokens with entries that have no names, of which one
 * alone is a path. */
bool mpt_convert_has_files(lua_State *L, int index);

/* Reads the list of files at `list` into the filler's data: paths, and tables of a path and a
 * weight. `path` is its field path. */
void mpt_convert_files(lua_State *L, const mpt_filler *filler, int list, const char *path);

/* The special field of data, `files`. */
void mpt_convert_data_special(lua_State *L, const mpt_filler *filler, const char *name);

/* ---- places.c: where what is right was written ---- */

/* The line of the key at `key` in the value at `value`, as mpt_lua_value_where gives it. */
mpt_where mpt_convert_place(lua_State *L, int value, int key);

/* Notes where the format and each field of the operand at `value` are written; `key` is the
 * stack index of its own key in `parent`. */
void mpt_convert_place_slot(lua_State *L, int parent, int key, int value, mpt_slot_use *out);

/* ---- rules ---- */

/* The special fields of precision: rules, and what a rule says. `phase` as in
 * mpt_recipe_append_rule. */
void mpt_convert_rules(lua_State *L, mpt_recipe *recipe, int value, const char *path,
                       int phase);

/* Reads the value of `use` on the top, a format or a gemm; the key below it is the place of
 * errors that it has no line for. */
void mpt_convert_use(lua_State *L, const mpt_filler *filler, mpt_rule *rule, const char *path);

/* Reads the value on the top, one text or a list of 1 to `most`, into `out`, where the texts
 * live as long as the value; gives how many. `key` of `value` is the place of errors. */
int mpt_convert_texts(lua_State *L, int value, int key, const char *path, const char **out,
                      int most);

#endif
