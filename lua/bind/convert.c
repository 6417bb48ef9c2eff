/* Stage 1, second half: values become the recipe IR, row by row of the schema.
 *
 * Every plain field goes through mpt_record_set, which checks and words the errors; what a row
 * calls SPECIAL is read in convert_recipe.c (the recipe and its phases) or in
 * convert_precision.c (rules and their uses).
 * The line of a key is looked up only when its value is refused: the setter is then called
 * again with the exact place.
 * Next: the recipe's rules wait for a model (recipe/resolve.c). */
#include "lua/bind/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/bind/library.h"
#include "lua/bind/presets.h"
#include "recipe/schema_store.h"

/* The structs that a word's value can be. */
typedef union any_struct {
    mpt_optimizer optimizer;
    mpt_lr lr;
    mpt_data_spec data;
    mpt_hadamard hadamard;
    mpt_scale_source scale;
    mpt_scale_rule rule;
    mpt_loss_scale loss_scale;
} any_struct;

/* ---- paths and failures ---- */

mpt_convert_path mpt_convert_key(const char *path, const char *key) {
    mpt_convert_path out;
    snprintf(out.text, sizeof out.text, "%s%s%s", path, *path ? "." : "", key);
    return out;
}

mpt_convert_path mpt_convert_item(const char *path, lua_Integer index) {
    mpt_convert_path out;
    snprintf(out.text, sizeof out.text, "%s[%lld]", path, (long long)index);
    return out;
}

void mpt_convert_fail(lua_State *L, int value, int key, const char *hint, const char *fmt,
                      ...) {
    char text[MPT_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    MPT_SANDBOX_FAIL(L, mpt_lua_value_where(L, value, key), hint, "%s", text);
}

/* The row of a key, or an error at the key's line. */
static const mpt_field *row_of(lua_State *L, const mpt_filler *f, int key) {
    mpt_ctx *ctx = f->recipe->ctx;
    const char *name = lua_tostring(L, key);
    const mpt_field *row = mpt_record_field(ctx, f->record, f->path, name, MPT_NOWHERE);
    if (!row) {
        mpt_where where = mpt_lua_value_where(L, f->value, key);
        (void)mpt_record_field(ctx, f->record, f->path, name, where);
        mpt_sandbox_check(L, MPT_INVALID);
    }
    return row;
}

/* ---- plain values ---- */

static bool read_numbers(lua_State *L, int index, mpt_setting *out) {
    lua_Integer n = mpt_lua_value_length(L, index);
    if (n < 1 || n > (lua_Integer)MPT_COUNT(out->numbers))
        return false;
    *out = (mpt_setting){.kind = MPT_SETTING_NUMBERS, .n = (int)n, .integral = true};
    for (int i = 0; i < out->n; i++) {
        bool number = mpt_lua_value_geti(L, index, i + 1) == LUA_TNUMBER;
        out->numbers[i] = number ? lua_tonumber(L, -1) : 0;
        out->integral = out->integral && floor(out->numbers[i]) == out->numbers[i];
        lua_pop(L, 1);
        if (!number)
            return false;
    }
    return true;
}

/* A bare format stands for its name; one that was refined says more than a name can. */
static bool read_format(lua_State *L, int index, mpt_setting *out) {
    const mpt_lua_value *format = mpt_lua_value_of_kind(L, index, MPT_LUA_FORMAT);
    if (!format || format->where.file)
        return false;
    *out = (mpt_setting){.kind = MPT_SETTING_STRING, .string = format->word};
    return true;
}

static bool read_setting(lua_State *L, int index, mpt_setting *out) {
    *out = (mpt_setting){.kind = MPT_SETTING_BOOL};
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        out->boolean = lua_toboolean(L, index);
        return true;
    case LUA_TNUMBER:
        out->kind = lua_isinteger(L, index) ? MPT_SETTING_INT : MPT_SETTING_NUMBER;
        out->integer = lua_tointeger(L, index);
        out->number = lua_tonumber(L, index);
        return true;
    case LUA_TSTRING:
        out->kind = MPT_SETTING_STRING;
        out->string = lua_tostring(L, index);
        return true;
    default:
        return mpt_lua_value_of_kind(L, index, MPT_LUA_TABLE) ? read_numbers(L, index, out)
                                                              : read_format(L, index, out);
    }
}

/* The value on the top is nothing that a row takes: says what it takes, and how a word is
 * written whose braces were forgotten. */
static void fail_plain(lua_State *L, const mpt_filler *f, const char *name, int key) {
    mpt_ctx *ctx = f->recipe->ctx;
    const char *example = mpt_word_example(L, -1);
    mpt_where where = mpt_lua_value_where(L, f->value, key);
    const mpt_field *row = mpt_record_field(ctx, f->record, f->path, name, where);
    mpt_status status = mpt_schema_fail_word(ctx, row, f->path, mpt_lua_describe(L, -1), where);
    if (example)
        mpt_hint(ctx, "write %s", example);
    mpt_sandbox_check(L, status);
}

/* Hands the value on the top to the setter of its row. */
static void set_plain(lua_State *L, const mpt_filler *f, const char *name, int key) {
    mpt_ctx *ctx = f->recipe->ctx;
    mpt_arena *arena = &f->recipe->arena;
    mpt_setting setting;
    if (mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE) && mpt_lua_value_length(L, -1) > 0)
        (void)mpt_convert_list(L, -1, mpt_convert_key(f->path, name).text);
    if (lua_type(L, -1) == LUA_TSTRING && !mpt_lua_is_plain(L, -1))
        mpt_convert_fail(L, f->value, key, MPT_LUA_LINE_HINT,
                         "%s: the text has a control character",
                         mpt_convert_key(f->path, name).text);
    if (!read_setting(L, -1, &setting))
        fail_plain(L, f, name, key);
    mpt_status status =
        mpt_record_set(ctx, arena, f->record, f->object, f->path, name, &setting, MPT_NOWHERE);
    if (status == MPT_INVALID) {
        mpt_where where = mpt_lua_value_where(L, f->value, key);
        status =
            mpt_record_set(ctx, arena, f->record, f->object, f->path, name, &setting, where);
    }
    mpt_sandbox_check(L, status);
}

int mpt_convert_texts(lua_State *L, int value, int key, const char *path, const char **out,
                      int most) {
    static const char hint[] = "give one text, or a list of texts";
    int list = lua_gettop(L);
    if (lua_type(L, list) == LUA_TSTRING) {
        out[0] = lua_tostring(L, list);
        return 1;
    }
    if (!mpt_lua_value_of_kind(L, list, MPT_LUA_TABLE))
        mpt_convert_fail(L, value, key, hint, "%s: cannot be %s", path,
                         mpt_lua_describe(L, list));
    lua_Integer n = mpt_convert_list(L, list, path);
    if (n < 1 || n > most)
        mpt_convert_fail(L, value, key, hint, "%s: %lld texts, expected 1 to %d", path,
                         (long long)n, most);
    for (int i = 0; i < n; i++) {
        if (mpt_lua_value_geti(L, list, i + 1) != LUA_TSTRING)
            mpt_convert_fail(L, value, key, hint, "%s: cannot be %s",
                             mpt_convert_item(path, i + 1).text, mpt_lua_describe(L, -1));
        out[i] = lua_tostring(L, -1); /* stays alive in the list */
        lua_pop(L, 1);
    }
    return (int)n;
}

/* ---- records ---- */

/* Puts a finished struct, or none where the record is a view and only its bit counts. */
static void put_struct(lua_State *L, const mpt_filler *f, const char *name, int key,
                       const mpt_record *record, const void *object) {
    mpt_ctx *ctx = f->recipe->ctx;
    mpt_status status =
        mpt_record_put(ctx, f->record, f->object, f->path, name, record, object, MPT_NOWHERE);
    if (status == MPT_INVALID)
        status = mpt_record_put(ctx, f->record, f->object, f->path, name, record, object,
                                mpt_lua_value_where(L, f->value, key));
    mpt_sandbox_check(L, status);
}

/* The record of a word: static is one thing in loss_scale and another in a quantizer. */
static const mpt_record *record_of(const mpt_field *row, const char *word) {
    const mpt_record *variant = mpt_field_variant(row, word);
    return variant ? variant : mpt_record_find(word);
}

/* A word's value (wsd{...}, static(1024)) into a field that takes records. */
static void put_word(lua_State *L, const mpt_filler *f, const mpt_field *row, int key) {
    const mpt_lua_value *word = mpt_lua_value_at(L, -1);
    const char *name = row->name;
    const mpt_record *record = record_of(row, word->word);
    mpt_convert_path path = mpt_convert_key(f->path, name);
    any_struct object;
    memset(&object, 0, sizeof object);
    if (!record || record->bytes > sizeof object)
        mpt_convert_fail(L, f->value, key, "", "%s: cannot be %s", path.text,
                         mpt_lua_describe(L, -1));
    if (record->bytes > 0) /* else a view of the recipe, whose fields lie in no struct here */
        mpt_record_init(record, &object);
    put_struct(L, f, name, key, record, &object); /* does the word fit here at all? */
    if (record->bytes == 0)
        mpt_convert_fail(L, f->value, key, "", "%s: cannot be %s", path.text,
                         mpt_lua_describe(L, -1));
    mpt_special_fn special = word->kind == MPT_LUA_DATA ? mpt_convert_data_special : NULL;
    mpt_filler inner = {f->recipe, record, &object, lua_gettop(L), path.text, special, NULL};
    mpt_convert_fill(L, &inner);
    if (word->kind == MPT_LUA_DATA)
        object.data.where = word->where;
    put_struct(L, f, name, key, record, &object);
}

/* The line of a key of the table on the top, where it has one. */
static void note_place(lua_State *L, const char *key, mpt_where *out) {
    int value = lua_gettop(L);
    lua_pushstring(L, key);
    if (mpt_lua_value_get(L, value, key) != LUA_TNIL)
        *out = mpt_convert_place(L, value, value + 1);
    lua_settop(L, value);
}

/* Formats outside of rules keep their places, which warnings, schedules and explanations name.
 */
static void note_places(lua_State *L, mpt_recipe *recipe, const mpt_record *record) {
    for (int i = 0; record == &mpt_record_ops && i < MPT_OPS_COUNT; i++)
        note_place(L, mpt_ops_word_name((mpt_ops_word)i), &recipe->ops[i].where);
    if (record == &mpt_record_precision)
        note_place(L, "base", &recipe->base_where);
    if (record == &mpt_record_state) {
        note_place(L, "activation", &recipe->activation_where);
        note_place(L, "residual", &recipe->residual_where);
    }
}

/* Whether a plain table is what the field takes: precision, state, train, eval. */
static bool is_view(const mpt_field *row) {
    return row->record && (row->bytes == 0 || row->record->set_offset != SIZE_MAX);
}

static void put_record(lua_State *L, const mpt_filler *f, const mpt_field *row, int key) {
    const mpt_lua_value *value = mpt_lua_value_at(L, -1);
    bool of_precision = row->record == &mpt_record_precision;
    bool method = of_precision && value && value->kind == MPT_LUA_PRECISION;
    if (method || (value && value->kind == MPT_LUA_TABLE && is_view(row))) {
        mpt_convert_path path = mpt_convert_key(f->path, row->name);
        mpt_filler inner = *f;
        inner.record = row->record;
        inner.object = (char *)f->object + row->offset;
        inner.value = lua_gettop(L);
        inner.path = path.text;
        if (row->choices) /* in the place of a word */
            mpt_record_init(row->record, inner.object);
        mpt_convert_fill(L, &inner);
        note_places(L, f->recipe, row->record);
        if (row->bytes == 0)
            put_struct(L, f, row->name, key, row->record, NULL);
        else
            mpt_record_mark(f->record, f->object, row);
    } else if (of_precision) {
        mpt_presets_refuse(L, f->value, key);
    } else if (value && value->kind != MPT_LUA_TABLE && value->kind != MPT_LUA_FORMAT) {
        put_word(L, f, row, key);
    } else {
        set_plain(L, f, row->name, key);
    }
    if (f->object == f->recipe && strcmp(row->name, "loss_scale") == 0)
        f->recipe->loss_scale.where = mpt_lua_value_where(L, f->value, key);
}

/* Whether the word has its one argument at position 1: static(1024), text "file" and the other
 * words for data in a file. */
static bool takes_argument(lua_State *L, const mpt_filler *f) {
    const mpt_lua_value *value = mpt_lua_value_at(L, f->value);
    return value->kind == MPT_LUA_STATIC ||
           (value->kind == MPT_LUA_DATA && strcmp(value->word, "synthetic") != 0);
}

/* What to write instead of an entry without a name: the value at the top. */
static const char *named_instead(lua_State *L, mpt_lua_kind kind) {
    const mpt_lua_value *entry = mpt_lua_value_at(L, -1);
    if (entry && entry->kind == MPT_LUA_RULE)
        return "put rules in rules = { ... }";
    if (kind == MPT_LUA_RULE && lua_type(L, -1) == LUA_TSTRING)
        return "several selectors are a list: rule { {\"linear\", \"norm\"}, use = bf16 }";
    return "give it a name: name = value";
}

/* Positions mean something only where a word says so: the selector of a rule, a phase's name,
 * the argument of static(1024) and of text "file". */
static void refuse_position(lua_State *L, const mpt_filler *f, int key) {
    mpt_lua_kind kind = mpt_lua_value_at(L, f->value)->kind;
    bool first = kind == MPT_LUA_RULE || kind == MPT_LUA_PHASE || takes_argument(L, f);
    if (mpt_convert_has_files(L, f->value))
        return;
    if (!first || lua_tointeger(L, key) != 1)
        mpt_convert_fail(
            L, f->value, key, named_instead(L, kind), "%s: %s stands here without a name",
            *f->path ? f->path : mpt_lua_value_at(L, f->value)->word, mpt_lua_describe(L, -1));
}

/* Whether the value at the top is a format with fields of its own. */
static bool is_refined(lua_State *L) {
    const mpt_lua_value *format = mpt_lua_value_of_kind(L, -1, MPT_LUA_FORMAT);
    return format && format->where.file;
}

void mpt_convert_field(lua_State *L, const mpt_filler *f, int key) {
    if (lua_type(L, key) != LUA_TSTRING) {
        refuse_position(L, f, key);
        return;
    }
    const mpt_field *row = row_of(L, f, key);
    if (row->type == MPT_FIELD_SPECIAL)
        f->special(L, f, row->name);
    else if (row->type == MPT_FIELD_RECORD)
        put_record(L, f, row, key);
    else if (row->refined && is_refined(L))
        mpt_convert_state(L, f, row);
    else
        set_plain(L, f, row->name, key);
}

/* static(1024) and text "file": the one argument is the record's one row. */
static void fill_argument(lua_State *L, const mpt_filler *f) {
    if (mpt_convert_has_files(L, f->value)) {
        mpt_convert_files(L, f, f->value, f->path);
        return;
    }
    if (mpt_lua_value_geti(L, f->value, 1) != LUA_TNIL && takes_argument(L, f)) {
        lua_pushinteger(L, 1);
        lua_insert(L, -2);
        set_plain(L, f, f->record->fields[0].name, lua_gettop(L) - 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void mpt_convert_fill(lua_State *L, const mpt_filler *f) {
    luaL_checkstack(L, 32, "the recipe nests too deep");
    int top = lua_gettop(L);
    fill_argument(L, f);
    mpt_lua_value_fields(L, f->value);
    mpt_library_sorted_keys(L, -1);
    for (lua_Integer i = 1; lua_rawgeti(L, top + 2, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -1);
        lua_rawget(L, top + 1);
        mpt_convert_field(L, f, lua_gettop(L) - 1);
        lua_settop(L, top + 2);
    }
    lua_settop(L, top);
}
