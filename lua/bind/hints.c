/* The way out of a name that a recipe cannot use: words of Lua's that it lacks, words of other
 * tools, texts without their quotes, slips. */
#include "lua/bind/library.h"
#include "recipe/schema.h"

#include <string.h>

/* What Lua has elsewhere and a recipe has not, so that no word that merely looks like it is
 * suggested. */
static bool is_withheld(const char *key) {
    static const char *const names[] = {
        "load",   "loadstring", "loadfile", "dofile", "collectgarbage", "coroutine", "debug",
        "dump",   "io",         "os",       "module", "package",        "setfenv",   "getfenv",
        "unpack", "warn",       "_G"};
    for (size_t i = 0; i < MPT_COUNT(names); i++)
        if (strcmp(key, names[i]) == 0)
            return true;
    return false;
}

/* What other tools call a format, and what it is here. */
static const char *other_word(const char *key) {
    static const struct {
        const char *key, *hint;
    } words[] = {
        {"fp8", "FP8 is e4m3 or e5m2, or in blocks fp8_block or mxfp8"},
        {"fp6", "FP6 is e3m2 or e2m3, or in blocks mxfp6"},
        {"fp4", "FP4 comes in blocks: nvfp4 or mxfp4"},
        {"half", "half precision is fp16"},
        {"float16", "it is fp16 here"},
        {"bfloat16", "it is bf16 here"},
        {"float32", "it is fp32 here"},
        {"float", "it is fp32 here"},
    };
    for (size_t i = 0; i < MPT_COUNT(words); i++)
        if (strcmp(key, words[i].key) == 0)
            return words[i].hint;
    return NULL;
}

/* Whether some field takes this word as a text. */
static bool is_choice(const char *key) {
    int n;
    const mpt_record *const *records = mpt_record_all(&n);
    for (int r = 0; r < n; r++) {
        for (int f = 0; f < records[r]->n_fields; f++) {
            const mpt_field *field = &records[r]->fields[f];
            for (const mpt_choice *c = field->choices;
                 c && c->name && field->type == MPT_FIELD_CHOICE; c++)
                if (strcmp(c->name, key) == 0)
                    return true;
        }
    }
    return false;
}

void mpt_library_hint(mpt_ctx *ctx, const char *table, const char *key, const char *nearest) {
    const char *word = *table ? NULL : other_word(key);
    if (is_withheld(key))
        mpt_hint(ctx, "a recipe only declares, and has no '%s' of Lua's", key);
    else if (word)
        mpt_hint(ctx, "%s", word);
    else if (!*table && is_choice(key))
        mpt_hint(ctx, "it is a text: write \"%s\"", key);
    else if (nearest)
        mpt_hint(ctx, "did you mean '%s%s%s'?", table, *table ? "." : "", nearest);
    else if (!*table)
        mpt_hint(ctx, "a variable of your own is made with `local`");
}
