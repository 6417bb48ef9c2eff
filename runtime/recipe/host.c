/* A recipe filled by a host's calls instead of by Lua: the same setters, the same IR.
 *
 * Rules come as short texts in the words of the language; the tests compare the hash of a
 * recipe made here with that of the .lua file that says the same. */
#include "recipe/host.h"
#include "recipe/schema_store.h"
#include "recipe/select.h"
#include "recipe/use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 128, MAX_WORDS = 32 };

/* What all parsers of one rule share. */
typedef struct rule_text {
    mpt_recipe *recipe;
    mpt_where where;
    char path[MPT_RULE_PATH];
} rule_text;

mpt_status mpt_recipe_create(mpt_ctx *ctx, const char *name, mpt_recipe **out) {
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_REQUIRE(ctx, name);
    return mpt_recipe_new(ctx, name, NULL, out);
}

/* The next word of a text separated by spaces, copied to `word`; false at the end. A word too
 * long is cut, which no name survives. */
static bool next_word(const char **text, char word[WORD_MAX]) {
    const char *p = *text + strspn(*text, " \t\n");
    size_t n = strcspn(p, " \t\n");
    snprintf(word, WORD_MAX, "%.*s", (int)(n < WORD_MAX ? n : WORD_MAX - 1), p);
    *text = p + n;
    return n > 0;
}

/* ---- use ---- */

static mpt_status fail_name(const rule_text *rule, const char *path, const char *what,
                            const char *name, const char *const *names, int n) {
    mpt_status status = MPT_FAIL(rule->recipe->ctx, MPT_INVALID, rule->where, "%s: no %s '%s'",
                                 path, what, name);
    const char *near = mpt_nearest(name, names, n);
    if (near)
        mpt_hint(rule->recipe->ctx, "did you mean '%s'?", near);
    else
        mpt_hint(rule->recipe->ctx, "for instance '%s'", names[0]);
    return status;
}

/* "nvfp4 block=16x16", "rounding=stochastic". */
static mpt_status parse_slot(const rule_text *rule, const char *path, const char *text,
                             mpt_slot_use *out) {
    char word[WORD_MAX];
    mpt_ctx *ctx = rule->recipe->ctx;
    *out = (mpt_slot_use){.has_format = false};
    for (int i = 0; next_word(&text, word); i++) {
        char *equals = strchr(word, '=');
        if (!equals && i == 0) {
            int n;
            const char *const *names = mpt_format_names(&n);
            if (!mpt_slot_use_by_name(word, out))
                return fail_name(rule, path, "format", word, names, n);
            continue;
        }
        if (!equals) {
            mpt_status status = MPT_FAIL(ctx, MPT_INVALID, rule->where,
                                         "%s: '%s' is no field with a value", path, word);
            mpt_hint(ctx, "write a format first, then fields: nvfp4 rounding=stochastic");
            return status;
        }
        *equals = 0;
        mpt_text_setting setting = {path, word, equals + 1, rule->where};
        MPT_TRY(mpt_record_set_under(ctx, &rule->recipe->arena, &mpt_record_quantizer, out,
                                     &setting));
    }
    mpt_slot_use_settle(out);
    mpt_slot_use_place(out, rule->where);
    if (out->has_format)
        return mpt_quantizer_validate(ctx, &out->q, path, rule->where);
    return MPT_OK;
}

/* {"fprop.output", "fp32"}, {"output", "bf16"}: the latter, gemm -1, is that of y and dx. */
static mpt_status parse_output(const rule_text *rule, int gemm, const char *text,
                               mpt_gemm_words *words) {
    char path[MPT_RULE_PATH + 16];
    snprintf(path, sizeof path, "%s.use%s%s", rule->path, gemm < 0 ? "" : ".",
             gemm < 0 ? "" : mpt_gemm_name((mpt_gemm)gemm));
    mpt_setting value = {.kind = MPT_SETTING_STRING, .string = text};
    MPT_TRY(mpt_record_set(rule->recipe->ctx, &rule->recipe->arena, &mpt_record_fprop, NULL,
                           path, "output", &value, rule->where));
    for (int g = 0; g < MPT_GEMM_WGRAD; g++) {
        if (gemm >= 0 && gemm != g)
            continue;
        words->has_output[g] = true;
        words->output[g] = mpt_dtype_by_name(text);
        words->output_where[g] = rule->where;
    }
    return MPT_OK;
}

/* {"accumulate", "bf16"}, {"wgrad.promote", "128"}: without a product, gemm -1, of all three.
 */
static mpt_status parse_sum(const rule_text *rule, int gemm, const char *name, const char *text,
                            mpt_gemm_words *words) {
    char path[MPT_RULE_PATH + 16], whole[MPT_RULE_PATH + 32];
    const mpt_field *row = mpt_record_lookup(&mpt_record_fprop, name);
    mpt_setting value;
    snprintf(path, sizeof path, "%s.use%s%s", rule->path, gemm < 0 ? "" : ".",
             gemm < 0 ? "" : mpt_gemm_name((mpt_gemm)gemm));
    snprintf(whole, sizeof whole, "%s.%s", path, name);
    mpt_setting_parse(row, text, &value);
    MPT_TRY(mpt_record_set(rule->recipe->ctx, &rule->recipe->arena, &mpt_record_fprop, NULL,
                           path, name, &value, rule->where));
    bool promote = strcmp(name, "promote") == 0;
    if (promote)
        MPT_TRY(
            mpt_promote_check(rule->recipe->ctx, whole, (int64_t)value.number, rule->where));
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        bool *has = promote ? &words->has_promote[g] : &words->has_accumulate[g];
        if (gemm < 0 ? *has : gemm != g) /* what one product says outranks it */
            continue;
        if (promote)
            words->promote[g] = (int32_t)value.number;
        else
            words->accumulate[g] = mpt_dtype_by_name(text);
        *has = true;
    }
    return MPT_OK;
}

/* The product whose name ends at a dot, or -1. */
static int gemm_before(const char *path, const char *dot) {
    char name[WORD_MAX];
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    return mpt_gemm_by_name(name);
}

/* Fields that both operands of a GEMM have in common: the rotation. */
static mpt_status parse_gemm(const rule_text *rule, const char *path, const char *text,
                             mpt_slot_use *out) {
    uint64_t hadamard = 0;
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++)
        if (mpt_record_quantizer.fields[f].record == &mpt_record_hadamard)
            hadamard = UINT64_C(1) << f;
    MPT_TRY(parse_slot(rule, path, text, out));
    if (!out->has_format && out->set == hadamard)
        return MPT_OK;
    mpt_status status = MPT_FAIL(rule->recipe->ctx, MPT_INVALID, rule->where,
                                 "%s: only hadamard belongs to a whole product", path);
    mpt_hint(rule->recipe->ctx, "name the operand: fprop.x, fprop.w, dgrad.dy, dgrad.w, "
                                "wgrad.dy or wgrad.x");
    return status;
}

static mpt_status parse_one_word(const rule_text *rule, const mpt_set *set,
                                 mpt_gemm_words *words) {
    static const char *const names[] = {"weight",
                                        "activation",
                                        "gradient",
                                        "fprop",
                                        "dgrad",
                                        "wgrad",
                                        "fprop.x",
                                        "fprop.w",
                                        "dgrad.dy",
                                        "dgrad.w",
                                        "wgrad.dy",
                                        "wgrad.x",
                                        "fprop.output",
                                        "dgrad.output",
                                        "output",
                                        "accumulate",
                                        "promote",
                                        "fprop.accumulate",
                                        "dgrad.accumulate",
                                        "wgrad.accumulate",
                                        "fprop.promote",
                                        "dgrad.promote",
                                        "wgrad.promote"};
    char path[2 * MPT_RULE_PATH];
    snprintf(path, sizeof path, "%s.use.%s", rule->path, set->path);
    int operand = mpt_operand_by_name(set->path), gemm = mpt_gemm_by_name(set->path);
    int slot = mpt_slot_by_name(set->path);
    const char *dot = strchr(set->path, '.'), *field = dot ? dot + 1 : set->path;
    if (operand >= 0)
        return parse_slot(rule, path, set->value, &words->operand[operand]);
    if (gemm >= 0)
        return parse_gemm(rule, path, set->value, &words->gemm[gemm]);
    if (slot >= 0)
        return parse_slot(rule, path, set->value, &words->slot[slot]);
    if (strcmp(set->path, "output") == 0)
        return parse_output(rule, -1, set->value, words);
    if (strcmp(set->path, "fprop.output") == 0)
        return parse_output(rule, MPT_GEMM_FPROP, set->value, words);
    if (strcmp(set->path, "dgrad.output") == 0)
        return parse_output(rule, MPT_GEMM_DGRAD, set->value, words);
    if (dot)
        gemm = gemm_before(set->path, dot);
    if ((gemm >= 0 || !dot) &&
        (strcmp(field, "accumulate") == 0 || strcmp(field, "promote") == 0))
        return parse_sum(rule, gemm, field, set->value, words);
    snprintf(path, sizeof path, "%s.use", rule->path);
    return fail_name(rule, path, "word", set->path, names, (int)MPT_COUNT(names));
}

static mpt_status parse_use(const rule_text *rule, const mpt_rule_desc *desc, mpt_use *out) {
    char path[MPT_RULE_PATH + 8];
    mpt_slot_use format = {.has_format = false};
    mpt_gemm_words words;
    if (desc->use) {
        snprintf(path, sizeof path, "%s.use", rule->path);
        MPT_TRY(parse_slot(rule, path, desc->use, &format));
        mpt_use_from_format(&format, out);
        return MPT_OK;
    }
    memset(&words, 0, sizeof words);
    for (int i = 0; i < desc->n_words; i++)
        MPT_TRY(parse_one_word(rule, &desc->words[i], &words));
    mpt_use_from_words(&words, out);
    return MPT_OK;
}

mpt_status mpt_use_parse(mpt_recipe *recipe, const char *path, const char *text,
                         mpt_where where, mpt_use *out) {
    rule_text rule = {.recipe = recipe, .where = where};
    mpt_rule_desc desc = {.use = text};
    snprintf(rule.path, sizeof rule.path, "%s", path);
    return parse_use(&rule, &desc, out);
}

/* ---- selectors, blocks, gemms ---- */

static mpt_status parse_selectors(const rule_text *rule, const char *text, mpt_rule *out) {
    char word[WORD_MAX];
    mpt_arena *arena = &rule->recipe->arena;
    const char **list = NULL;
    int n = 0, cap = 0;
    while (text && next_word(&text, word)) {
        const char **grown = mpt_arena_grow(arena, list, sizeof *list, n, &cap);
        const char *copy = grown ? mpt_arena_strdup(arena, word) : NULL;
        if (!copy)
            return MPT_OUT_OF_MEMORY;
        list = grown;
        list[n++] = copy;
    }
    out->selectors = list;
    out->n_selectors = n;
    return MPT_OK;
}

static mpt_status parse_gemms(const rule_text *rule, const char *text, mpt_rule *out) {
    static const char *const names[] = {"fprop", "dgrad", "wgrad"};
    char word[WORD_MAX], path[MPT_RULE_PATH + 8];
    snprintf(path, sizeof path, "%s.gemms", rule->path);
    while (text && next_word(&text, word)) {
        int gemm = mpt_gemm_by_name(word);
        if (gemm < 0)
            return fail_name(rule, path, "gemm", word, names, (int)MPT_COUNT(names));
        out->gemms |= 1U << gemm;
    }
    return MPT_OK;
}

/* The numbers after the word of a blocks text. */
static int parse_block_numbers(const char *text, double numbers[MAX_WORDS]) {
    char word[WORD_MAX], *end;
    int n = 0;
    while (next_word(&text, word)) {
        double number = strtod(word, &end);
        if (*end || n == MAX_WORDS || !(number > -1e9 && number < 1e9))
            return -1;
        numbers[n++] = number;
    }
    return n;
}

/* Copies the blocks of "only 3 7". */
static mpt_status copy_only(mpt_recipe *recipe, const double *numbers, int n, mpt_blocks *out) {
    int32_t *only = mpt_arena_alloc(&recipe->arena, sizeof *only * (size_t)n);
    if (!only)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++)
        only[i] = (int32_t)numbers[i];
    out->only = only;
    out->n_only = n;
    return MPT_OK;
}

static mpt_status parse_blocks(const rule_text *rule, const char *text, mpt_blocks *out) {
    static const struct {
        const char *name;
        mpt_blocks_kind kind;
        int n; /* numbers after it; -1: one or more */
    } words[] = {{"all", MPT_BLOCKS_ALL, 0},     {"first", MPT_BLOCKS_FIRST, 1},
                 {"last", MPT_BLOCKS_LAST, 1},   {"range", MPT_BLOCKS_RANGE, 2},
                 {"every", MPT_BLOCKS_EVERY, 1}, {"last_fraction", MPT_BLOCKS_LAST_FRACTION, 1},
                 {"only", MPT_BLOCKS_ONLY, -1}};
    char word[WORD_MAX];
    double numbers[MAX_WORDS] = {0};
    const char *rest = text;
    bool whole = true;
    (void)next_word(&rest, word);
    int n = parse_block_numbers(rest, numbers);
    for (int i = 0; i < n; i++)
        whole = whole && numbers[i] == (double)(int32_t)numbers[i];
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        bool fits = words[i].n < 0 ? n > 0 : n == words[i].n;
        if (strcmp(word, words[i].name) != 0 || !fits ||
            (!whole && words[i].kind != MPT_BLOCKS_LAST_FRACTION))
            continue;
        *out = (mpt_blocks){.kind = words[i].kind,
                            .a = (int32_t)numbers[0],
                            .b = (int32_t)numbers[1],
                            .fraction = numbers[0]};
        if (out->kind == MPT_BLOCKS_ONLY)
            MPT_TRY(copy_only(rule->recipe, numbers, n, out));
        return mpt_blocks_check(rule->recipe->ctx, out, rule->path, rule->where);
    }
    mpt_status status = MPT_FAIL(rule->recipe->ctx, MPT_INVALID, rule->where,
                                 "%s.blocks: '%s' is no choice of blocks", rule->path, text);
    mpt_hint(rule->recipe->ctx, "write first 2, last 8, range 3 7, every 4, last_fraction 0.15 "
                                "or only 3 7");
    return status;
}

/* ---- public ---- */

static mpt_status find_phase(mpt_recipe *recipe, const char *what, const char *name,
                             mpt_where where, int *out) {
    *out = -1;
    for (int i = 0; name && i < recipe->n_phases; i++)
        if (strcmp(recipe->phases[i].name, name) == 0)
            *out = i;
    if (!name || *out >= 0)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(recipe->ctx, MPT_INVALID, where, "%s: there is no phase '%s'", what, name);
    mpt_hint(recipe->ctx, "add it first, by mpt_recipe_add_phase");
    return status;
}

static mpt_status add_rule(mpt_recipe *recipe, const mpt_rule_desc *desc) {
    MPT_TRY(mpt_host_check_open(recipe, "rule"));
    rule_text text = {.recipe = recipe, .where = recipe->where};
    int phase;
    if (desc->file) {
        text.where = (mpt_where){mpt_arena_strdup(&recipe->arena, desc->file), desc->line};
        if (!text.where.file)
            return MPT_OUT_OF_MEMORY;
    }
    MPT_TRY(find_phase(recipe, "rule", desc->phase, text.where, &phase));
    int *n = phase < 0 ? &recipe->n_rules : &recipe->phases[phase].n_rules;
    mpt_rule *rule = mpt_recipe_append_rule(recipe, phase);
    if (!rule)
        return MPT_OUT_OF_MEMORY;
    rule->where = text.where;
    mpt_cascade_rule named = {rule, phase, *n - 1};
    if (phase >= 0)
        named = mpt_phase_rule(recipe, phase, *n - 1);
    mpt_rule_path(&named, text.path);
    mpt_status status = parse_selectors(&text, desc->selector, rule);
    if (status == MPT_OK)
        status = parse_gemms(&text, desc->gemms, rule);
    if (status == MPT_OK && desc->blocks)
        status = parse_blocks(&text, desc->blocks, &rule->blocks);
    if (status == MPT_OK)
        status = parse_use(&text, desc, &rule->use);
    if (status == MPT_OK && desc->where)
        status = mpt_host_add_predicate(recipe, desc, rule);
    if (status != MPT_OK)
        (*n)--; /* a refused rule leaves the recipe as it was */
    return status;
}

mpt_status mpt_recipe_add_rule(mpt_recipe *recipe, const mpt_rule_desc *rule) {
    mpt_rule_desc desc = {.size = sizeof desc};
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, rule);
    MPT_TRY(mpt_options_read(recipe->ctx, __func__, rule, &desc, sizeof desc));
    MPT_TRY(mpt_sets_check(recipe->ctx, __func__, "words", desc.words, desc.n_words));
    return add_rule(recipe, &desc);
}

mpt_status mpt_recipe_add_phase(mpt_recipe *recipe, const char *name, const char *from) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, name);
    MPT_TRY(mpt_host_check_open(recipe, "phase"));
    mpt_phase *phase = mpt_recipe_append_phase(recipe, name);
    if (!phase)
        return MPT_OUT_OF_MEMORY;
    mpt_status status =
        from ? mpt_record_set_path(recipe->ctx, &recipe->arena, &mpt_record_phase, phase,
                                   "from", from, recipe->where)
             : MPT_OK;
    if (status != MPT_OK)
        recipe->n_phases--;
    return status;
}

/* Puts the rule of a phase's `use` in front, or takes it out again where it is refused. */
static mpt_status set_phase_use(mpt_recipe *recipe, int index, const char *text) {
    mpt_phase *phase = &recipe->phases[index];
    char path[MPT_RULE_PATH];
    mpt_use use;
    memset(&use, 0, sizeof use);
    snprintf(path, sizeof path, "phases[%d]", index + 1);
    MPT_TRY(mpt_use_parse(recipe, path, text, recipe->where, &use));
    if (!phase->has_use && !mpt_recipe_insert_use(recipe, index, recipe->where))
        return MPT_OUT_OF_MEMORY;
    phase->rules[0].use = use;
    return MPT_OK;
}

mpt_status mpt_recipe_set_phase(mpt_recipe *recipe, const char *phase, const char *path,
                                const char *value) {
    char prefix[MPT_RULE_PATH];
    int index;
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, phase);
    MPT_REQUIRE(recipe->ctx, path);
    MPT_REQUIRE(recipe->ctx, value);
    MPT_TRY(mpt_host_check_open(recipe, "phase"));
    MPT_TRY(find_phase(recipe, "phase", phase, recipe->where, &index));
    if (strcmp(path, "use") == 0)
        return set_phase_use(recipe, index, value);
    snprintf(prefix, sizeof prefix, "phases[%d]", index + 1);
    mpt_text_setting setting = {prefix, path, value, recipe->where};
    return mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_phase,
                                &recipe->phases[index], &setting);
}
