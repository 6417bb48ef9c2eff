/* Rules: selectors, blocks, and the gemm words that fill six operand slots.
 *
 * Words of a gemm overlap, so they are collected first and composed by recipe/use.c from the
 * general to the special. */
#include "lua/bind/convert.h"

#include <stdio.h>
#include <string.h>

#include "recipe/schema_store.h"
#include "recipe/use.h"

enum { SELECTORS_MAX = 32, ONLY_MAX = 1024 };

/* What a rule costs: kilobytes of the host's memory, which only the steps bound, so that there
 * are some thousands of them at most. */
enum { RULE_STEPS = 4000 };

static const char use_hint[] = "give a format (bf16, nvfp4 { ... }) or gemm { ... }";

/* How a format is written that stands there as a text; else the hint given. */
static mpt_convert_path unquoted(lua_State *L, const char *hint) {
    mpt_convert_path out;
    mpt_slot_use use;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (mpt_slot_use_by_name(text, &use))
        snprintf(out.text, sizeof out.text, "formats are values: write %s without quotes",
                 text);
    else
        snprintf(out.text, sizeof out.text, "%s", hint);
    return out;
}

/* ---- one operand ---- */

void mpt_convert_slot(lua_State *L, mpt_recipe *recipe, int parent, int key, const char *path,
                      mpt_slot_use *out) {
    const mpt_lua_value *value = mpt_lua_value_at(L, -1);
    *out = (mpt_slot_use){0};
    if (!value || (value->kind != MPT_LUA_FORMAT && value->kind != MPT_LUA_TABLE))
        mpt_convert_fail(L, parent, key,
                         unquoted(L, "give a format: nvfp4 { rounding = \"stochastic\" }").text,
                         "%s: cannot be %s", path, mpt_lua_describe(L, -1));
    if (value->kind == MPT_LUA_FORMAT && !mpt_slot_use_by_name(value->word, out))
        mpt_convert_fail(L, parent, key, "write it there: mxfp8 { scale_format = e8m0 }",
                         "%s%s%s is for scale_format only", path, *path ? ": " : "",
                         value->word);
    mpt_filler f = {recipe, mpt_record_find("quantizer"), out, lua_gettop(L), path, NULL, NULL};
    mpt_convert_fill(L, &f);
    mpt_slot_use_settle(out);
    mpt_convert_place_slot(L, parent, key, f.value, out);
    if (!out->has_format)
        return;
    mpt_status status = mpt_quantizer_validate(recipe->ctx, &out->q, path, MPT_NOWHERE);
    if (status == MPT_INVALID)
        status = mpt_quantizer_validate(
            recipe->ctx, &out->q, path,
            value->where.file ? value->where : mpt_lua_value_where(L, parent, key));
    mpt_sandbox_check(L, status);
}

/* ---- a state ---- */

void mpt_convert_state(lua_State *L, const mpt_filler *f, const mpt_field *row) {
    mpt_ctx *ctx = f->recipe->ctx;
    const mpt_lua_value *value = mpt_lua_value_at(L, -1);
    mpt_convert_path path = mpt_convert_key(f->path, row->name);
    void *member = (char *)f->object + row->offset;
    mpt_setting word = {.kind = MPT_SETTING_STRING, .string = value->word};
    mpt_status status = mpt_record_set(ctx, &f->recipe->arena, f->record, f->object, f->path,
                                       row->name, &word, value->where);
    mpt_sandbox_check(L, status);
    mpt_slot_use use;
    (void)mpt_slot_use_by_name(value->word, &use);
    mpt_filler inner = {
        f->recipe, mpt_record_find("quantizer"), &use, lua_gettop(L), path.text, NULL, NULL};
    mpt_convert_fill(L, &inner);
    mpt_slot_use_settle(&use);

    mpt_sandbox_check(L, mpt_state_format_validate(ctx, &use.q, path.text, value->where));
    *mpt_field_refined(row, member) = use.q;
}

/* ---- gemm ---- */

/* The filler's `output` field, where it has one: the row checks it when all fields are read. */
static void read_output(lua_State *L, const mpt_filler *f, mpt_gemm_words *words,
                        mpt_gemm first, mpt_gemm last) {
    lua_pushliteral(L, "output");
    mpt_lua_value_get(L, f->value, "output");
    const mpt_lua_value *format = mpt_lua_value_of_kind(L, -1, MPT_LUA_FORMAT);
    for (int g = (int)first; format && g <= (int)last; g++) {
        words->output[g] = mpt_dtype_by_name(format->word);
        words->output_where[g] = mpt_convert_place(L, f->value, lua_gettop(L) - 1);
        words->has_output[g] = true;
    }
    lua_pop(L, 2);
}

/* In the same way, how products are summed up. */
static void read_sum(lua_State *L, const mpt_filler *f, mpt_gemm_words *words, mpt_gemm first,
                     mpt_gemm last) {
    int top = lua_gettop(L);
    mpt_convert_path path = mpt_convert_key(f->path, "promote");
    mpt_lua_value_get(L, f->value, "accumulate");
    const mpt_lua_value *format = mpt_lua_value_of_kind(L, -1, MPT_LUA_FORMAT);
    lua_pushliteral(L, "promote");
    bool has_promote = mpt_lua_value_get(L, f->value, "promote") == LUA_TNUMBER;
    lua_Number promote = lua_tonumber(L, -1);
    has_promote = has_promote && promote >= 1 && promote <= 0x1p30;
    if (has_promote)
        mpt_sandbox_check(L, mpt_promote_check(f->recipe->ctx, path.text, (int64_t)promote,
                                               mpt_lua_value_where(L, f->value, top + 2)));
    for (int g = (int)first; g <= (int)last; g++) {
        if (format) {
            words->accumulate[g] = mpt_dtype_by_name(format->word);
            words->has_accumulate[g] = true;
        }
        if (has_promote) {
            words->promote[g] = (int32_t)promote;
            words->has_promote[g] = true;
        }
    }
    lua_settop(L, top);
}

/* One field of fprop, dgrad or wgrad. */
static void read_gemm_field(lua_State *L, const mpt_filler *f, mpt_gemm gemm, const char *name,
                            mpt_gemm_words *words) {
    int key = lua_gettop(L) - 1;
    mpt_convert_path path = mpt_convert_key(f->path, name);
    char slot_name[32];
    if (strcmp(name, "hadamard") == 0) {
        mpt_filler one = *f;
        one.record = mpt_record_find("quantizer");
        one.object = &words->gemm[gemm];
        mpt_convert_field(L, &one, key);
        mpt_slot_use_place(&words->gemm[gemm], mpt_convert_place(L, f->value, key));
        return;
    }
    snprintf(slot_name, sizeof slot_name, "%s.%s", mpt_gemm_name(gemm), name);
    int slot = mpt_slot_by_name(slot_name);
    mpt_convert_slot(L, f->recipe, f->value, key, path.text, &words->slot[slot]);
}

typedef struct gemm_reader {
    mpt_gemm_words *words;
    mpt_gemm gemm;
} gemm_reader;

static void gemm_part_special(lua_State *L, const mpt_filler *f, const char *name) {
    const gemm_reader *reader = f->ud;
    read_gemm_field(L, f, reader->gemm, name, reader->words);
}

static void gemm_special(lua_State *L, const mpt_filler *f, const char *name) {
    mpt_gemm_words *words = f->ud;
    int key = lua_gettop(L) - 1, operand = mpt_operand_by_name(name);
    mpt_convert_path path = mpt_convert_key(f->path, name);
    if (operand >= 0) {
        mpt_convert_slot(L, f->recipe, f->value, key, path.text, &words->operand[operand]);
        return;
    }
    if (!mpt_lua_value_of_kind(L, -1, MPT_LUA_TABLE))
        mpt_convert_fail(L, f->value, key, "give a table of its operands: { x = ..., w = ... }",
                         "%s: cannot be %s", path.text, mpt_lua_describe(L, -1));
    gemm_reader reader = {words, (mpt_gemm)mpt_gemm_by_name(name)};
    mpt_filler part = {f->recipe, mpt_record_find(name), NULL,   lua_gettop(L),
                       path.text, gemm_part_special,     &reader};
    read_output(L, &part, words, reader.gemm, reader.gemm);
    read_sum(L, &part, words, reader.gemm, reader.gemm);
    mpt_convert_fill(L, &part);
}

/* `output` of the whole gemm is that of fprop and dgrad, where those say nothing themselves. */
static void read_gemm(lua_State *L, mpt_recipe *recipe, const char *path, mpt_use *out) {
    mpt_gemm_words words;
    memset(&words, 0, sizeof words);
    int gemm = lua_gettop(L);
    mpt_filler f = {recipe, mpt_record_find("gemm"), &words, gemm, path, gemm_special, &words};
    read_output(L, &f, &words, MPT_GEMM_FPROP, MPT_GEMM_DGRAD);
    read_sum(L, &f, &words, MPT_GEMM_FPROP, MPT_GEMM_WGRAD);
    mpt_convert_fill(L, &f);
    mpt_use_from_words(&words, out);
}

/* ---- rule ---- */

static bool read_count(lua_State *L, int blocks, lua_Integer i, int32_t least, int32_t *out) {
    int is_whole = 0;
    mpt_lua_value_geti(L, blocks, i);
    lua_Integer n = lua_tointegerx(L, -1, &is_whole);
    lua_pop(L, 1);
    *out = (int32_t)n;
    return is_whole && n >= least && n <= INT32_MAX;
}

static bool read_only(lua_State *L, mpt_recipe *recipe, int blocks, const char *path,
                      mpt_blocks *out) {
    lua_Integer n = mpt_convert_list(L, blocks, path);
    if (n < 1 || n > ONLY_MAX)
        return false;
    int32_t *list = mpt_arena_alloc(&recipe->arena, sizeof *list * (size_t)n);
    if (!list)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    for (int i = 0; i < n; i++)
        if (!read_count(L, blocks, i + 1, 0, &list[i]))
            return false;
    out->only = list;
    out->n_only = (int)n;
    return true;
}

static bool read_blocks(lua_State *L, mpt_recipe *recipe, const char *path, mpt_blocks *out) {
    static const char *const names[] = {"",      "first",         "last", "range",
                                        "every", "last_fraction", "only"};
    int blocks = lua_gettop(L);
    const mpt_lua_value *value = mpt_lua_value_of_kind(L, blocks, MPT_LUA_BLOCKS);
    for (size_t i = 1; i < MPT_COUNT(names); i++)
        if (strcmp(names[i], value->word) == 0)
            out->kind = (mpt_blocks_kind)i;
    switch (out->kind) {
    case MPT_BLOCKS_RANGE:
        return read_count(L, blocks, 1, 0, &out->a) &&
               read_count(L, blocks, 2, out->a, &out->b);
    case MPT_BLOCKS_LAST_FRACTION:
        mpt_lua_value_geti(L, blocks, 1);
        out->fraction = lua_tonumber(L, -1);
        lua_pop(L, 1);
        return out->fraction > 0 && out->fraction <= 1;
    case MPT_BLOCKS_ONLY:
        return read_only(L, recipe, blocks, path, out);
    default:
        return read_count(L, blocks, 1, 1, &out->a);
    }
}

/* One number of blocks = first(2) as its writer would know it. */
static const char *block_number(lua_State *L, int blocks, int i) {
    mpt_lua_value_geti(L, blocks, i);
    if (lua_tonumber(L, -1) != lua_tonumber(L, -1))
        return "NaN"; /* whose sign Lua would show */
    return lua_tostring(L, -1);
}

/* Raises for blocks whose numbers name none. */
static void fail_blocks(lua_State *L, const mpt_filler *f, int key, const char *path,
                        const mpt_blocks *blocks, const char *word) {
    int value = lua_gettop(L);
    if (blocks->kind == MPT_BLOCKS_ONLY)
        mpt_convert_fail(L, f->value, key, "list whole numbers of 0 or more: only { 3, 7 }",
                         "%s: only { ... } names no blocks by this list", path);
    const char *first = block_number(L, value, 1);
    if (blocks->kind != MPT_BLOCKS_RANGE)
        mpt_convert_fail(L, f->value, key,
                         blocks->kind == MPT_BLOCKS_LAST_FRACTION
                             ? "give a fraction above 0 and up to 1"
                         : blocks->kind == MPT_BLOCKS_EVERY ? "give a whole number of 1 or more"
                                                            : "give how many blocks, 1 or more",
                         "%s: %s(%s) names no blocks", path, word, first);
    double a = lua_tonumber(L, -1);
    const char *last = block_number(L, value, 2);
    bool backwards = a > lua_tonumber(L, -1);
    mpt_convert_fail(L, f->value, key,
                     backwards ? "the first block comes after the last"
                               : "give two whole numbers of 0 or more: range(2, 5)",
                     "%s: range(%s, %s) names no blocks", path, first, last);
}

static void put_blocks(lua_State *L, const mpt_filler *f, mpt_rule *rule, const char *path) {
    static const char hint[] =
        "first(2), last(8), range(2, 5), every(4), last_fraction(0.15) or "
        "only { 3, 7 }; blocks are counted from 0";
    int key = lua_gettop(L) - 1;
    const mpt_lua_value *value = mpt_lua_value_of_kind(L, -1, MPT_LUA_BLOCKS);
    if (!value)
        mpt_convert_fail(L, f->value, key, hint, "%s: cannot be %s", path,
                         mpt_lua_describe(L, -1));
    if (!read_blocks(L, f->recipe, path, &rule->blocks))
        fail_blocks(L, f, key, path, &rule->blocks, value->word);
}

static void put_gemms(lua_State *L, const mpt_filler *f, mpt_rule *rule, const char *path) {
    const char *names[MPT_GEMM_COUNT];
    int key = lua_gettop(L) - 1;
    int n = mpt_convert_texts(L, f->value, key, path, names, MPT_GEMM_COUNT);
    for (int i = 0; i < n; i++) {
        int gemm = mpt_gemm_by_name(names[i]);
        if (gemm < 0)
            mpt_convert_fail(L, f->value, key, "it can be fprop, dgrad or wgrad",
                             "%s: no product '%s'", path, names[i]);
        rule->gemms |= 1u << gemm;
    }
}

/* The function stays in the Lua state, under the number that the rule carries. */
static void put_where(lua_State *L, const mpt_filler *f, mpt_rule *rule, const char *path) {
    mpt_sandbox *box = mpt_sandbox_of(L);
    int key = lua_gettop(L) - 1;
    if (!lua_isfunction(L, -1))
        mpt_convert_fail(
            L, f->value, key,
            "write where = function(layer) return layer.out_features % 16 == 0 end",
            "%s: cannot be %s", path, mpt_lua_describe(L, -1));
    lua_getfield(L, LUA_REGISTRYINDEX, "mpt.predicates");
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, box->n_predicates + 1);
    rule->predicate = box->n_predicates++;
}

void mpt_convert_use(lua_State *L, const mpt_filler *f, mpt_rule *rule, const char *path) {
    const mpt_lua_value *value = mpt_lua_value_at(L, -1);
    int key = lua_gettop(L) - 1;
    if (value && value->kind == MPT_LUA_GEMM) {
        read_gemm(L, f->recipe, path, &rule->use);
        return;
    }
    if (!value || value->kind != MPT_LUA_FORMAT)
        mpt_convert_fail(L, f->value, key, unquoted(L, use_hint).text, "%s: cannot be %s", path,
                         mpt_lua_describe(L, -1));
    mpt_slot_use format;
    mpt_convert_slot(L, f->recipe, f->value, key, path, &format);
    mpt_use_from_format(&format, &rule->use);
}

static void rule_special(lua_State *L, const mpt_filler *f, const char *name) {
    mpt_rule *rule = f->ud;
    mpt_convert_path path = mpt_convert_key(f->path, name);
    if (strcmp(name, "blocks") == 0)
        put_blocks(L, f, rule, path.text);
    else if (strcmp(name, "gemms") == 0)
        put_gemms(L, f, rule, path.text);
    else if (strcmp(name, "where") == 0)
        put_where(L, f, rule, path.text);
    else
        mpt_convert_use(L, f, rule, path.text);
}

static void put_selectors(lua_State *L, mpt_recipe *recipe, mpt_rule *rule, int value,
                          const char *path) {
    static const char hint[] = "begin with a kind or a path: rule { \"linear\", use = bf16 }";
    const char *names[SELECTORS_MAX];
    lua_pushinteger(L, 1);
    int key = lua_gettop(L);
    if (mpt_lua_value_geti(L, value, 1) == LUA_TNIL)
        mpt_convert_fail(L, value, key, hint, "%s: says no layers", path);
    int n = mpt_convert_texts(L, value, key, path, names, SELECTORS_MAX);
    const char **copies = mpt_arena_alloc(&recipe->arena, sizeof *copies * (size_t)n);
    for (int i = 0; copies && i < n; i++) {
        copies[i] = mpt_arena_strdup(&recipe->arena, names[i]);
        if (!copies[i])
            copies = NULL;
    }
    if (!copies)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    rule->selectors = copies;
    rule->n_selectors = n;
    lua_settop(L, key - 1);
}

/* One rule, whose value is on the top. */
static void put_rule(lua_State *L, mpt_recipe *recipe, int list, int key, const char *path,
                     int phase) {
    int value = lua_gettop(L);
    const mpt_lua_value *said = mpt_lua_value_of_kind(L, value, MPT_LUA_RULE);
    if (!said)
        mpt_convert_fail(L, list, key, "write rule { \"linear\", use = bf16 }",
                         "%s: cannot be %s", path, mpt_lua_describe(L, value));
    mpt_sandbox_charge(L, RULE_STEPS);
    mpt_rule *rule = mpt_recipe_append_rule(recipe, phase);
    if (!rule)
        mpt_sandbox_check(L, MPT_OUT_OF_MEMORY);
    rule->where = said->where;
    put_selectors(L, recipe, rule, value, path);
    lua_pushliteral(L, "use");
    if (mpt_lua_value_get(L, value, "use") == LUA_TNIL)
        mpt_convert_fail(L, value, value + 1, use_hint, "%s.use: missing", path);
    lua_settop(L, value);
    mpt_filler f = {recipe, mpt_record_find("rule"), NULL, value, path, rule_special, rule};
    mpt_convert_fill(L, &f);
}

void mpt_convert_rules(lua_State *L, mpt_recipe *recipe, int value, const char *path,
                       int phase) {
    int list = lua_gettop(L);
    if (!mpt_lua_value_of_kind(L, list, MPT_LUA_TABLE))
        mpt_convert_fail(L, value, list - 1, "give a list: { rule { ... }, rule { ... } }",
                         "%s: cannot be %s", path, mpt_lua_describe(L, list));
    lua_Integer n = mpt_convert_list(L, list, path);
    for (lua_Integer i = 1; i <= n; i++) {
        mpt_convert_path item = mpt_convert_item(path, i);
        lua_pushinteger(L, i);
        mpt_lua_value_geti(L, list, i);
        put_rule(L, recipe, list, list + 1, item.text, phase);
        lua_settop(L, list);
    }
}
