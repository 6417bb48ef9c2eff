/* The language as annotations for editors: lua/types/mpt.lua.
 *
 * Made from the rows that the compiler reads, as the reference is: words.c has the words, the
 * schema the fields of each, graph/nn_words.def those of a model. An editor with the Lua
 * language server then completes fields, shows what they mean and marks what does not exist.
 * A word NAME gives a value of class mpt.NAME and takes a table of class mpt.NAME_fields. */
#include "lua/bind/types.h"

#include <string.h>

#include "plan/reference.h"
#include "recipe/presets.h"
#include "recipe/schema_store.h"

static const char head[] =
    "---@meta\n"
    "-- The words of mpt's recipes, for editors with the Lua language server. Made from the\n"
    "-- compiler's tables by `mptrun --list-types`.\n"
    "\n"
    "---Which blocks a rule speaks of.\n"
    "---@class mpt.blocks\n"
    "\n"
    "---A model with its size.\n"
    "---@class mpt.model_size\n"
    "\n"
    "---What a word of nn gives.\n"
    "---@class mpt.tensor\n"
    "\n"
    "---A number format; called with fields it gives a refined one.\n"
    "---@class mpt.format\n"
    "---@overload fun(fields: mpt.quantizer_fields): mpt.format\n"
    "\n"
    "---A family of models; called with the name of a size, or with a table, it gives one.\n"
    "---@class mpt.model\n"
    "---@overload fun(size: string|table): mpt.model_size\n"
    "\n"
    "---What the function of a rule sees of a layer.\n"
    "---@class mpt.layer\n"
    "---@field path string its name in checkpoints, without the root\n"
    "---@field kind string\n"
    "---@field block integer from 0; -1 outside blocks\n"
    "---@field in_features integer\n"
    "---@field out_features integer\n"
    "\n"
    "---@alias mpt.operand mpt.format|mpt.quantizer_fields\n"
    "---@alias mpt.product \"fprop\"|\"dgrad\"|\"wgrad\"\n"
    "---@alias mpt.init \"zeros\"|\"ones\"|{ normal: number }|{ uniform: number }\n";

static const char tail[] =
    "\n---A changed copy: tables merge field by field, rules are appended, all "
    "else is replaced.\n"
    "---@generic T\n"
    "---@param base T\n"
    "---@param changes table\n"
    "---@return T\n"
    "function derive(base, changes) end\n";

/* ---- types ---- */

/* Types of special rows, which their owners read in code. */
static const char *special_type(const mpt_record *record, const mpt_field *field) {
    static const char operand[] = "mpt.operand";
    static const struct {
        const char *name, *type;
    } types[] = {
        {"weight", operand},
        {"activation", operand},
        {"gradient", operand},
        {"x", operand},
        {"w", operand},
        {"dy", operand},
        {"fprop", "mpt.fprop_fields"},
        {"dgrad", "mpt.dgrad_fields"},
        {"wgrad", "mpt.wgrad_fields"},
        {"hadamard", "mpt.hadamard|\"none\""},
        {"rules", "mpt.rule[]"},
        {"blocks", "mpt.blocks"},
        {"gemms", "mpt.product|mpt.product[]"},
        {"where", "fun(layer: mpt.layer): boolean"},
        {"use", "mpt.format|mpt.gemm"},
        {"model", "mpt.model_size"},
        {"phases", "mpt.phase[]"},
        {"allow", "mpt.warning|mpt.warning[]"},
        {"files", "(string|mpt.file_fields)[]"},
    };
    if (strcmp(field->name, "proxy") == 0)
        return record == &mpt_record_train ? "mpt.proxy_fields" : "mpt.model_size";
    for (size_t i = 0; i < MPT_COUNT(types); i++)
        if (strcmp(types[i].name, field->name) == 0)
            return types[i].type;
    return "any";
}

/* Whether a choice is the name of a format, which is a value and no text. */
static bool is_format(const mpt_field *field, const char *name) {
    mpt_quantizer q;
    return field->type == MPT_FIELD_FORMAT &&
           (mpt_quantizer_by_name(name, &q) || mpt_dtype_by_name(name) == MPT_DTYPE_E8M0);
}

/* "a"|"b" of choices; of formats one class, of blocks those that are texts. */
static void add_choices(const mpt_field *field, mpt_str *out) {
    bool number = field->type == MPT_FIELD_INT, formats = false;
    const char *before = "";
    for (const mpt_choice *c = field->choices; c && c->name; c++) {
        bool format = is_format(field, c->name);
        if ((format && formats) || (field->type == MPT_FIELD_BLOCK && (int32_t)c->value))
            continue;
        formats |= format;
        if (format)
            mpt_str_printf(out, "%smpt.format", before);
        else
            mpt_str_printf(out, number ? "%s%s" : "%s\"%s\"", before, c->name);
        before = "|";
    }
}

/* The word that makes a record, NULL where it is a plain table. */
static const mpt_lua_word *word_of(const mpt_record *record) {
    int n;
    const mpt_lua_word *words = mpt_words_all(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(words[i].name, record->name) == 0)
            return &words[i];
    return NULL;
}

/* Fields that are tables or words: lr, hadamard, precision, loss_scale. */
static void add_record_type(const mpt_field *field, mpt_str *out) {
    const mpt_record *record = field->record;
    size_t start = out->len;
    if (record && (!word_of(record) || record == &mpt_record_precision))
        mpt_str_printf(out, "mpt.%s_fields|", record->name);
    if (record && word_of(record))
        mpt_str_printf(out, "mpt.%s|", record->name);
    if (mpt_field_plain(field)) /* its only value stands for it */
        mpt_str_printf(out, "number|");
    for (int i = 0; field->variants && field->variants[i]; i++)
        mpt_str_printf(out, "mpt.%s%s|", field->variants[i]->name,
                       word_of(field->variants[i]) ? "" : "_fields");
    add_choices(field, out);
    if (out->len > start && out->data[out->len - 1] == '|')
        out->data[--out->len] = 0;
}

static void add_type(const mpt_record *record, const mpt_field *field, mpt_str *out) {
    switch (field->type) {
    case MPT_FIELD_BOOL:
        mpt_str_printf(out, "boolean");
        return;
    case MPT_FIELD_INT:
        if (!field->choices)
            mpt_str_printf(out, "integer");
        add_choices(field, out);
        return;
    case MPT_FIELD_NUMBER:
    case MPT_FIELD_SPAN:
        mpt_str_printf(out, "number");
        return;
    case MPT_FIELD_PART:
        mpt_str_printf(out, "number|string");
        return;
    case MPT_FIELD_STRING:
        mpt_str_printf(out, "string");
        return;
    case MPT_FIELD_PAIR:
        mpt_str_printf(out, "{ [1]: number, [2]: number }");
        return;
    case MPT_FIELD_BLOCK:
        mpt_str_printf(out, "{ [1]: integer, [2]: integer }|");
        add_choices(field, out);
        return;
    case MPT_FIELD_CHOICE:
    case MPT_FIELD_FORMAT:
        add_choices(field, out);
        return;
    case MPT_FIELD_RECORD:
        add_record_type(field, out);
        return;
    case MPT_FIELD_SPECIAL:
        mpt_str_printf(out, "%s", special_type(record, field));
        return;
    }
}

/* ---- the schema ---- */

static void print_field(const mpt_record *record, const mpt_field *field, mpt_str *out) {
    bool required = strcmp(field->by_default, "required") == 0 && record != &mpt_record_proxy;
    mpt_str_printf(out, "---@field %s%s ", field->name, required ? "" : "?");
    add_type(record, field, out);
    mpt_str_printf(out, " %s", field->doc);
    if (!required && record != &mpt_record_proxy)
        mpt_str_printf(out, " Default: %s.", field->by_default);
    mpt_str_printf(out, "\n");
}

/* The table that a record is read from. Words that take plain arguments only have none. */
static void print_record(const mpt_record *record, mpt_str *out) {
    const mpt_lua_word *word = word_of(record);
    if (word && word->n_values && word->kind != MPT_LUA_DATA)
        return;
    mpt_str_printf(out, "\n---@class mpt.%s_fields\n", record->name);
    if (record == &mpt_record_rule)
        mpt_str_printf(out,
                       "---@field [1] string|string[] A kind such as \"linear\", a glob on "
                       "layer paths, or a list of them.\n");
    if (record == &mpt_record_phase)
        mpt_str_printf(out, "---@field [1] string Its name.\n");
    if (record == &mpt_record_text || record == &mpt_record_tokens)
        mpt_str_printf(out, "---@field [integer] string|mpt.file_fields As in `files`.\n");
    for (int i = 0; i < record->n_fields; i++)
        print_field(record, &record->fields[i], out);
}

static void print_warnings(mpt_str *out) {
    int n;
    const char *const *names = mpt_warning_names(&n);
    mpt_str_printf(out, "\n---@alias mpt.warning\n");
    for (int i = 0; i < n; i++)
        mpt_str_printf(out, "---| \"%s\" # %s\n", names[i], mpt_warning_doc(i));
}

/* ---- words ---- */

static void print_doc(const mpt_lua_word *word, mpt_str *out) {
    const mpt_record *record = mpt_record_find(word->name);
    for (const mpt_reference_word *w = mpt_reference_selectors; w->name; w++)
        if (strcmp(w->name, word->name) == 0)
            mpt_str_printf(out, "---`%s`: %s\n", w->example, w->doc);
    if (word->kind == MPT_LUA_BLOCKS)
        return;
    const char *doc =
        word->kind == MPT_LUA_STATIC    ? "A loss scale, or a quantizer's scale, that stays."
        : record                        ? record->doc
        : word->kind == MPT_LUA_REPLACE ? "In derive: takes the place of the old table or list."
                                        : "A scale from the tensor at hand.";
    mpt_str_printf(out, "---%s\n", doc);
}

/* Words that take plain arguments: first(2), static(1024), text "file". */
static void print_plain_word(const mpt_lua_word *word, mpt_str *out) {
    bool data = word->kind == MPT_LUA_DATA; /* then all fields may be given instead */
    const char *type =
        word->type == LUA_TSTRING                                                  ? "string"
        : word->kind == MPT_LUA_STATIC || strcmp(word->name, "last_fraction") == 0 ? "number"
                                                                                   : "integer";
    for (int i = 0; i < word->n_values; i++)
        mpt_str_printf(out, "---@param %c %s%s%s%s\n", "ab"[i], type, data ? "|mpt." : "",
                       data ? word->name : "", data ? "_fields" : "");
    if (word->kind == MPT_LUA_BLOCKS)
        mpt_str_printf(out, "---@return mpt.blocks\n");
    else
        mpt_str_printf(out, "---@return mpt.%s\n", word->name);
    mpt_str_printf(out, "function %s(a%s) end\n", word->name, word->n_values > 1 ? ", b" : "");
}

/* The word that has a field. */
static void print_model_word(mpt_str *out) {
    mpt_str_printf(
        out, "---A family of models: how one is drawn, and its sizes.\n"
             "---@class mpt.model_word\n"
             "---@overload fun(fields: mpt.model_fields): mpt.model\n"
             "---@field from_config fun(path: string, changes?: table): mpt.model_size The "
             "model that a Hugging Face config.json describes; changes replace its fields.\n"
             "\n---@type mpt.model_word\nmodel = nil\n");
}

static void print_word(const mpt_lua_word *word, mpt_str *out) {
    bool blocks = word->kind == MPT_LUA_BLOCKS, model = word->kind == MPT_LUA_MODEL;
    bool fields = word->n_values == 0 && mpt_record_find(word->name);
    if (!blocks && !model && word->kind != MPT_LUA_REPLACE)
        mpt_str_printf(out, "\n---@class mpt.%s%s%s%s\n", word->name, fields ? ": mpt." : "",
                       fields ? word->name : "", fields ? "_fields" : "");
    mpt_str_printf(out, "\n");
    if (model) {
        print_model_word(out);
        return;
    }
    print_doc(word, out);
    if (word->n_values) {
        print_plain_word(word, out);
        return;
    }
    if (fields)
        mpt_str_printf(out, "---@param fields mpt.%s_fields\n", word->name);
    else
        mpt_str_printf(out, "---@param fields %s\n", blocks ? "integer[]" : "table");
    if (word->kind == MPT_LUA_REPLACE)
        mpt_str_printf(out, "---@return any\n");
    else
        mpt_str_printf(out, "---@return mpt.%s\n", blocks ? "blocks" : word->name);
    mpt_str_printf(out, "function %s(fields) end\n", word->name);
}

static void print_formats(mpt_str *out) {
    int n;
    const char *const *names = mpt_format_names(&n);
    for (int i = 0; i < n; i++) {
        mpt_quantizer q;
        (void)mpt_quantizer_by_name(names[i], &q);
        mpt_str_printf(out, "\n---%s elements of %d bits%s\n---@type mpt.format\n%s = nil\n",
                       mpt_dtype_name(q.format), mpt_dtype_bits(q.format),
                       q.scale.kind == MPT_SCALING_NONE ? ", without a scale"
                       : q.block_cols                   ? ", scaled in blocks"
                                                        : ", one scale a tensor",
                       names[i]);
    }
    mpt_str_printf(out, "\n---a format of scales only: powers of two\n---@type mpt.format\n"
                        "e8m0 = nil\n");
}

static void print_presets(mpt_str *out) {
    int n;
    const mpt_preset *presets = mpt_preset_all(&n);
    mpt_str_printf(out, "\n---Whole precision methods.\n---@class mpt.presets\n");
    for (int i = 0; i < n; i++)
        mpt_str_printf(out, "---@field %s mpt.precision %s\n", presets[i].name, presets[i].doc);
    mpt_str_printf(out, "\n---@type mpt.presets\npresets = nil\n");
}

/* ---- the whole ---- */

mpt_status mpt_recipe_annotations(mpt_ctx *ctx, mpt_write_fn write, void *ud) {
    mpt_str out;
    int n;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, write);
    mpt_str_init(&out, ctx);
    mpt_str_printf(&out, "%s", head);
    print_warnings(&out);
    const mpt_record *const *records = mpt_record_all(&n);
    for (int i = 0; i < n; i++)
        print_record(records[i], &out);
    const mpt_lua_word *words = mpt_words_all(&n);
    mpt_types_print_nn(&out);
    for (int i = 0; i < n; i++)
        print_word(&words[i], &out);
    print_formats(&out);
    print_presets(&out);
    mpt_str_printf(&out, "%s", tail);
    mpt_status status = MPT_OK;
    if (out.failed)
        status = mpt_fail_memory(ctx, out.cap);
    else if (!write(ud, out.data, out.len))
        status = MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "the annotations could not be written");
    mpt_str_deinit(&out);
    return status;
}
