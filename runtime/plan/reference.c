/* The reference of the recipe language, made from the tables that the compiler reads.
 *
 * One walk serves the whole text and the answer about one word: a section prints its heading
 * with its first row, and a row is printed where its name fits the word. Names that the walk
 * meets are what a wrong word is compared with. */
#include "plan/reference.h"

#include <stdio.h>
#include <string.h>

#include "graph/op.h"
#include "plan/plan.h"
#include "recipe/presets.h"
#include "recipe/schema_store.h"

enum { NAMES_MAX = 512, WORD_MAX = 256 };

typedef struct reference {
    mpt_str *out;
    const char *word; /* NULL: everything */
    bool all;         /* rows of the section at hand are printed, whatever their names */
    bool headed, found;
    const char *title, *intro, *columns;
    int n_names;
    const char *names[NAMES_MAX];
} reference;

/* ---- sections and rows ---- */

static bool note(reference *r, const char *name) {
    if (r->n_names < NAMES_MAX)
        r->names[r->n_names++] = name;
    return !r->word || strcmp(r->word, name) == 0;
}

static void head(reference *r) {
    r->found = true;
    if (r->headed)
        return;
    r->headed = true;
    mpt_str_printf(r->out, "## %s\n\n%s%s", r->title, r->intro, *r->intro ? "\n\n" : "");
    mpt_str_printf(r->out, "| %s |\n|", r->columns);
    for (const char *p = r->columns; p; p = strchr(p + 1, '|'))
        mpt_str_printf(r->out, " --- |");
    mpt_str_printf(r->out, "\n");
}

/* `key` asks for the whole section. */
static void begin(reference *r, const char *key, const char *title, const char *intro,
                  const char *columns) {
    r->title = title;
    r->intro = intro;
    r->columns = columns;
    r->headed = false;
    r->all = note(r, key);
    if (r->all)
        head(r);
}

static bool row(reference *r, const char *name) {
    bool fits = note(r, name) || r->all;
    if (fits)
        head(r);
    return fits;
}

static void end(reference *r) {
    if (r->headed)
        mpt_str_printf(r->out, "\n");
}

static void words(reference *r, const char *key, const char *title, const char *intro,
                  const char *columns, const mpt_reference_word *list) {
    begin(r, key, title, intro, columns);
    for (; list->name; list++)
        if (row(r, list->name))
            mpt_str_printf(r->out, "| `%s` | %s |\n", list->example, list->doc);
    end(r);
}

/* ---- the schema ---- */

/* "lr", "train.lr" and "lr.peak" name rows; so does "stochastic", which one of them takes. */
static bool field_fits(reference *r, const mpt_record *record, const mpt_field *field) {
    bool fits = note(r, field->name);
    bool format = field->type == MPT_FIELD_FORMAT;
    mpt_quantizer q;
    for (const mpt_choice *c = field->choices; c && c->name; c++) {
        bool operand = format && mpt_quantizer_by_name(c->name, &q); /* has a row of its own */
        if (!operand && note(r, c->name))
            fits = true;
    }
    for (int i = 0; field->variants && field->variants[i]; i++)
        if (note(r, field->variants[i]->name))
            fits = true;
    const char *last = r->word ? strrchr(r->word, '.') : NULL;
    if (last && strcmp(last + 1, field->name) == 0)
        fits = mpt_reference_leads(record, r->word, (size_t)(last - r->word));
    return fits || r->all;
}

/* Whether a format's name is a word of the language; "pow2" is a text. */
static bool is_word(const char *format) {
    return mpt_dtype_by_name(format) != MPT_DTYPE_COUNT;
}

/* What a field takes, as a recipe writes it. */
static void print_takes(const mpt_field *field, mpt_str *out) {
    char text[MPT_ACCEPTED_TEXT];
    bool choice = field->type == MPT_FIELD_CHOICE, format = field->type == MPT_FIELD_FORMAT;
    if (!choice && !format && field->type != MPT_FIELD_BLOCK) {
        mpt_schema_accepted(field, text);
        mpt_str_printf(out, "%s", text);
        return;
    }
    for (const mpt_choice *c = field->choices; c->name; c++) {
        mpt_str_printf(out, "%s`", c == field->choices ? "" : ", ");
        if (field->type == MPT_FIELD_BLOCK && (int32_t)c->value)
            mpt_str_printf(out, "{%d, %d}`", (int)(c->value >> 32), (int)(int32_t)c->value);
        else
            mpt_str_printf(out, format && is_word(c->name) ? "%s`" : "\"%s\"`", c->name);
    }
}

static void print_field(const mpt_field *field, mpt_str *out) {
    mpt_str_printf(out, "| `%s` | ", field->name);
    print_takes(field, out);
    mpt_str_printf(out, " | %s | %s", field->by_default, field->doc);
    const char *before = " ";
    for (const mpt_choice *c = field->choices; c && c->name; c++) {
        if (!*c->doc || field->choices[1].name == NULL || field->type == MPT_FIELD_FORMAT)
            continue;
        mpt_str_printf(out, "%s`%s`: %s", before, c->name, c->doc);
        before = "; ";
    }
    mpt_str_printf(out, "%s | %s |\n", *before == ';' ? "." : "",
                   *field->source ? field->source : "-");
}

static void print_record(reference *r, const mpt_record *record) {
    char title[64], intro[512];
    const mpt_reference_word *example = mpt_reference_examples;
    const char *key = record == &mpt_record_fixed_scale ? "scale.static" : record->name;
    while (example->name && strcmp(example->name, key) != 0)
        example++;
    snprintf(title, sizeof title, "`%s`", record->name);
    snprintf(intro, sizeof intro, "%s%s%s%s", record->doc, example->name ? "\n\n```lua\n" : "",
             example->name ? example->example : "", example->name ? "\n```" : "");
    begin(r, record->name, title, intro, "field | takes | default | meaning | source");
    mpt_quantizer q;
    bool refined = r->word && record == &mpt_record_quantizer &&
                   mpt_quantizer_by_name(r->word, &q) && q.scale.kind != MPT_SCALING_NONE;
    r->all |= refined; /* "nvfp4" asks for its fields too */
    for (int i = 0; i < record->n_fields; i++) {
        if (!field_fits(r, record, &record->fields[i]))
            continue;
        head(r);
        print_field(&record->fields[i], r->out);
    }
    end(r);
}

static void print_records(reference *r) {
    int n;
    const mpt_record *const *records = mpt_record_all(&n);
    for (int i = 0; i < n; i++)
        if (records[i] != &mpt_record_proxy) /* the fields of train again */
            print_record(r, records[i]);
}

/* ---- other tables ---- */

static void print_formats(reference *r) {
    int n;
    const char *const *names = mpt_format_names(&n);
    begin(r, "formats", "Formats",
          "A format is a value: `use = bf16`. One that has scales is refined by calling it "
          "with fields of `quantizer`, and gives a new value: "
          "`nvfp4 { block = {16, 16}, rounding = \"stochastic\" }`. Where scale_format is "
          "refined and the scale's rule and outer level are not, those follow it. `e8m0` is a "
          "format of scales only. What a bare name means:",
          "format | bits | elements | block | scale | scale_format | scale_rule | outer");
    for (int i = 0; i < n; i++) {
        mpt_quantizer q;
        char block[MPT_PLAN_LABEL];
        if (!mpt_quantizer_by_name(names[i], &q) || !row(r, names[i]))
            continue;
        mpt_plan_block(&q, block);
        mpt_str_printf(r->out, "| `%s` | %d | %s | %s | %s | %s | %s | %s |\n", names[i],
                       mpt_dtype_bits(q.format), mpt_dtype_name(q.format), block,
                       mpt_plan_scale(&q), mpt_plan_scale_format(&q), mpt_plan_scale_rule(&q),
                       mpt_plan_outer(&q));
    }
    end(r);
}

static void print_kinds(reference *r) {
    static const char *const docs[] = {
#define KIND_DOC(id, name, doc) doc,
        MPT_LAYER_KIND_LIST(KIND_DOC)
#undef KIND_DOC
    };
    begin(r, "selector", "Selectors of rules",
          "A rule begins with a kind, with a glob on layer paths (`\"*.o_proj\"`, "
          "`\"layers.{0,1}.mixer.*\"`), or with a list of them.",
          "kind | layers");
    for (int k = 0; k < MPT_LAYER_KIND_COUNT; k++) {
        const char *name = mpt_layer_kind_name((mpt_layer_kind)k);
        if (row(r, name))
            mpt_str_printf(r->out, "| `\"%s\"` | %s |\n", name, docs[k]);
    }
    end(r);
}

static const struct {
    const char *name;
    mpt_op op;
    const char *summary; /* NULL: the op's */
} nn_words[] = {
#define NN_WORD(op, named)          {#op, MPT_OP_##op, NULL},
#define NN_COMPOSITE(word, summary) {#word, MPT_OP_COUNT, summary},
#define NN_KEY(name, type, member, takers, doc)
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

static const struct {
    const char *name, *takers, *doc;
} nn_keys[] = {
#define NN_WORD(op, named)
#define NN_COMPOSITE(word, summary)
#define NN_KEY(name, type, member, takers, doc) {name, takers, doc},
#include "graph/nn_words.def"
#undef NN_WORD
#undef NN_COMPOSITE
#undef NN_KEY
};

static void print_nn(reference *r) {
    begin(
        r, "nn", "The words of `nn`",
        "One word draws one operation: `nn.linear { \"mixer.up_proj\", x, out = 4 * width }`. "
        "A word with a layer begins with the layer's path in its block; values are what other "
        "words gave. `nn.add(x, y)` is short for `nn.add { x, y }`.",
        "word | inputs and result | fields");
    for (size_t i = 0; i < MPT_COUNT(nn_words); i++) {
        const char *before = "";
        if (!row(r, nn_words[i].name))
            continue;
        mpt_str_printf(r->out, "| `nn.%s` | %s | ", nn_words[i].name,
                       nn_words[i].summary ? nn_words[i].summary
                                           : mpt_op_get(nn_words[i].op)->summary);
        for (size_t k = 0; k < MPT_COUNT(nn_keys); k++) {
            size_t n = strlen(nn_words[i].name);
            const char *at = strstr(nn_keys[k].takers, nn_words[i].name);
            while (at && ((at > nn_keys[k].takers && at[-1] != ' ') || at[n] != ' '))
                at = strstr(at + 1, nn_words[i].name);
            if (at)
                mpt_str_printf(r->out, "%s`%s`", before, nn_keys[k].name);
            before = at ? " " : before;
        }
        mpt_str_printf(r->out, "%s |\n", *before ? "" : "-");
    }
    end(r);
    begin(r, "nn fields", "The fields of `nn` words", "", "field | of | meaning");
    for (size_t k = 0; k < MPT_COUNT(nn_keys); k++)
        if (row(r, nn_keys[k].name))
            mpt_str_printf(r->out, "| `%s` | %s| %s |\n", nn_keys[k].name, nn_keys[k].takers,
                           nn_keys[k].doc);
    end(r);
}

static void print_presets(reference *r) {
    int n;
    const mpt_preset *presets = mpt_preset_all(&n);
    begin(r, "presets", "Presets",
          "Whole precision methods: `precision = presets.nvfp4`, from the command line `--set "
          "precision=nvfp4`. None names single blocks; `derive(presets.nvfp4, { rules = { ... "
          "} })` adds what a model needs. They stand in `lua/presets.lua`; a method of your "
          "own is made by `precision { ... }`.",
          "preset | method");
    for (int i = 0; i < n; i++) {
        bool fits = row(r, presets[i].name);
        if (row(r, presets[i].place) || fits)
            mpt_str_printf(r->out, "| `%s` | %s |\n", presets[i].place, presets[i].doc);
    }
    end(r);
}

static void print_warnings(reference *r) {
    int n;
    const char *const *names = mpt_warning_names(&n);
    begin(r, "warnings", "Warnings",
          "Allowed, but known to go wrong; `allow = { \"no-clip\" }` in a recipe keeps one "
          "quiet.",
          "name | meaning");
    for (int i = 0; i < n; i++)
        if (row(r, names[i]))
            mpt_str_printf(r->out, "| `%s` | %s |\n", names[i], mpt_warning_doc(i));
    end(r);
}

/* ---- the whole ---- */

static void print_texts(reference *r) {
    for (const mpt_reference_text *t = mpt_reference_texts; t->title; t++) {
        bool fits = !r->word;
        for (int i = 0; t->words[i]; i++)
            if (note(r, t->words[i]))
                fits = true;
        if (fits)
            mpt_str_printf(r->out, "## %s\n\n%s\n\n", t->title, t->body);
        r->found |= fits;
    }
}

/* A call that the text above the section tells of. */
static bool is_in_model(reference *r) {
    bool plain = note(r, "from_config"), whole = note(r, "model.from_config");
    return r->word && (plain || whole);
}

static void print_model(reference *r) {
    const char *word = r->word;
    if (is_in_model(r))
        r->word = "model";
    words(r, "model", "A model", mpt_reference_model->doc, "field | meaning",
          mpt_reference_model + 1);
    r->word = word;
    words(r, "builder", "The words of `nn` around operations", "", "word | meaning",
          mpt_reference_builders);
    print_nn(r);
}

static void print_all(reference *r) {
    if (r->word && strncmp(r->word, "nn.", 3) == 0) {
        r->word += 3;
        print_model(r);
        return;
    }
    if (!r->word)
        mpt_str_printf(
            r->out, "# The recipe language\n\nEvery word of a recipe with its values, "
                    "default and meaning. Printed by `mptrun --help-recipe`, from the tables "
                    "that the compiler reads; `mptrun --help-recipe WORD` prints what "
                    "concerns one word.\n\n");
    print_texts(r);
    print_records(r);
    words(r, "blocks", "Block selectors",
          "Values of `rule.blocks`. Blocks are counted from 0; layers outside blocks are in "
          "none of them.",
          "written | blocks", mpt_reference_selectors);
    print_kinds(r);
    print_formats(r);
    print_presets(r);
    print_warnings(r);
    print_model(r);
    words(r, "models", "Shipped models", "`require \"models.NAME\"`, then `NAME \"SIZE\"`.",
          "model | what it is", mpt_reference_models);
    words(r, "recipes", "Shipped recipes",
          "`require \"recipes.NAME\"` gives one to derive from.", "recipe | what it is",
          mpt_reference_recipes);
}

static mpt_status fail_unknown(mpt_ctx *ctx, reference *r) {
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                                 "the recipe language has no word '%s'", r->word);
    const char *last = strrchr(r->word, '.');
    const char *near = NULL;
    for (int i = 0; last && !near && i < r->n_names; i++)
        if (r->names[i] && strcmp(r->names[i], last + 1) == 0)
            near = r->names[i]; /* a field, of something else */
    if (!near)
        near = mpt_nearest(last ? last + 1 : r->word, r->names, r->n_names);
    if (near)
        mpt_hint(ctx, "did you mean '%s'?", near);
    else
        mpt_hint(ctx, "mptrun --help-recipe prints all of them");
    return status;
}

/* "precision.rules[2].use", as messages write it, without the numbers. */
static const char *without_indices(const char *word, char out[WORD_MAX]) {
    size_t n = 0;
    if (!word || strlen(word) >= WORD_MAX)
        return word;
    for (const char *p = word; *p; p += *p != 0) {
        size_t digits = *p == '[' ? strspn(p + 1, "0123456789") : 0;
        if (digits && p[digits + 1] == ']')
            p += digits + 2;
        if (*p)
            out[n++] = *p;
    }
    out[n] = 0;
    return out;
}

mpt_status mpt_recipe_reference(mpt_ctx *ctx, const char *word, mpt_write_fn write, void *ud) {
    mpt_str text;
    char plain[WORD_MAX];
    reference r = {.out = &text, .word = without_indices(word, plain)};
    mpt_status status = MPT_OK;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, write);
    mpt_str_init(&text, ctx);
    print_all(&r);
    while (text.len > 1 && text.data[text.len - 2] == '\n') /* one newline at the end */
        text.data[--text.len] = 0;
    if (text.failed)
        status = mpt_fail_memory(ctx, text.cap);
    else if (!r.found)
        status = fail_unknown(ctx, &r);
    else if (!write(ud, text.data, text.len))
        status = MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "the reference could not be written");
    mpt_str_deinit(&text);
    return status;
}
