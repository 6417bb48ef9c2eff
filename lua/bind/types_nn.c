/* The words of models in lua/types/mpt.lua: those of nn, and the fields of model{...}. */
#include "lua/bind/types.h"

#include <string.h>

#include "graph/op.h"
#include "plan/reference.h"

static const struct {
    const char *name;
    mpt_op op;
    bool named;
    const char *summary; /* NULL: the op's */
} nn_words[] = {
#define NN_WORD(op, named)          {#op, MPT_OP_##op, named, NULL},
#define NN_COMPOSITE(word, summary) {#word, MPT_OP_COUNT, true, summary},
#define NN_KEY(name, type, member, takers, doc)
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

static const struct {
    const char *name, *type, *takers, *doc;
} nn_keys[] = {
#define NN_WORD(op, named)
#define NN_COMPOSITE(word, summary)
#define NN_KEY(name, type, member, takers, doc) {name, #type, takers, doc},
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

/* The Lua type of a key by how it is read. */
static const char *key_type(const char *read) {
    static const char *const types[][2] = {
        {"INT64", "integer"},
        {"INT32", "integer"},
        {"BOOL", "boolean"},
        {"FLOAT", "number"},
        {"SHARE", "number"},
        {"TIED", "string"},
        {"LAYOUT", "\"conv1d\""},
        {"PARTS", "string[]"},
        {"INIT", "mpt.init"},
        {"BIAS_INIT", "mpt.init"},
        {"SIZES", "integer[]"},
        {"SIGNED", "number"},
        {"ROPE", "table"},
        {"ACTIVATION", "\"relu2\"|\"swiglu\""},
        {"SCORE", "\"sigmoid\"|\"softmax\""},
        {"DOWN_INIT", "mpt.init"},
    };
    for (size_t i = 0; i < MPT_COUNT(types); i++)
        if (strcmp(types[i][0], read) == 0)
            return types[i][1];
    return "any";
}

/* Whether a list of words, each with a space behind it, has the word. */
static bool lists(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && at[n] == ' ')
            return true;
    return false;
}

static void print_nn_fields(mpt_str *out) {
    for (size_t i = 0; i < MPT_COUNT(nn_words); i++) {
        mpt_str_printf(out, "\n---@class mpt.nn_%s_fields\n---@field [integer] %smpt.tensor\n",
                       nn_words[i].name, nn_words[i].named ? "string|" : "");
        for (size_t k = 0; k < MPT_COUNT(nn_keys); k++)
            if (lists(nn_keys[k].takers, nn_words[i].name))
                mpt_str_printf(out, "---@field %s? %s %s\n", nn_keys[k].name,
                               key_type(nn_keys[k].type), nn_keys[k].doc);
    }
}

static const char *model_field_type(const char *name) {
    static const char *const types[][2] = {
        {"sizes", "table<string, table>"},
        {"graph", "fun(nn: mpt.nn, size: table)"},
        {"defaults", "table<string, any>"},
        {"only", "table<string, any>"},
        {"config", "fun(fields: table, of_file: boolean): string?"},
    };
    for (size_t i = 0; i < MPT_COUNT(types); i++)
        if (strcmp(types[i][0], name) == 0)
            return types[i][1];
    return "string";
}

void mpt_types_print_nn(mpt_str *out) {
    static const char *const builders[][2] = {
        {"tokens", "fun(): mpt.tensor"},
        {"positions", "fun(): mpt.tensor"},
        {"vocab", "fun(): integer"},
        {"sequence", "fun(): integer"},
        {"block", "fun(i: integer, draw: fun(): ...): ..."},
    };
    print_nn_fields(out);
    mpt_str_printf(out,
                   "\n---Draws the forward pass, one operation a word.\n---@class mpt.nn\n");
    for (size_t i = 0; i < MPT_COUNT(nn_words); i++) {
        const char *name = nn_words[i].name;
        const char *result = nn_words[i].op == MPT_OP_cross_entropy ? ""
                             : nn_words[i].op == MPT_OP_split       ? ": mpt.tensor ..."
                                                                    : ": mpt.tensor";
        mpt_str_printf(out, "---@field %s fun(fields: mpt.nn_%s_fields%s)%s %s\n", name, name,
                       nn_words[i].named ? "" : "|mpt.tensor, ...: mpt.tensor", result,
                       nn_words[i].summary ? nn_words[i].summary
                                           : mpt_op_get(nn_words[i].op)->summary);
    }
    for (const mpt_reference_word *w = mpt_reference_builders; w->name; w++)
        for (size_t i = 0; i < MPT_COUNT(builders); i++)
            if (strcmp(builders[i][0], w->name) == 0)
                mpt_str_printf(out, "---@field %s %s %s\n", w->name, builders[i][1], w->doc);
    mpt_str_printf(out, "\n---@class mpt.model_fields\n");
    for (const mpt_reference_word *w = mpt_reference_model + 1; w->name; w++) {
        mpt_str_printf(out, "---@field %s%s %s %s\n", w->name,
                       strstr(w->doc, "Required") ? "" : "?", model_field_type(w->name),
                       w->doc);
    }
}
