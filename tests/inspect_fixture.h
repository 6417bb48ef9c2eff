/* Compiled recipes for the tests of explain and diff: shipped files, under the name that a user
 * at the top of the tree would type, and texts. */
#ifndef MPT_INSPECT_FIXTURE_H
#define MPT_INSPECT_FIXTURE_H

#include "mpt_test.h"

#include <jansson.h>

#include "golden_text.h"
#include "writers.h"

typedef struct compiled {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} compiled;

static inline void compile_it(compiled *c, mpt_model_choice model) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = model;
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    assert_mpt_ok(c->ctx, mpt_compile(c->recipe, &options, &c->program));
}

/* A recipe of the tree: "recipes/nvfp4_12b.lua"; `set` as --set, may be NULL. */
static inline void open_file_as(compiled *c, const char *name, const mpt_set *set,
                                mpt_model_choice model) {
    char path[512];
    mpt_str text;
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    options.sets = set;
    options.n_sets = set != NULL;
    *c = (compiled){.ctx = mpt_test_ctx()};
    mpt_str_init(&text, c->ctx);
    snprintf(path, sizeof path, "%s/%s", MPT_SOURCE_DIR, name);
    assert_true(golden_read(path, &text));
    assert_mpt_ok(c->ctx, mpt_recipe_load_string(c->ctx, name, text.data, text.len, &options,
                                                 &c->recipe));
    mpt_str_deinit(&text);
    compile_it(c, model);
}

static inline void open_file(compiled *c, const char *name) {
    open_file_as(c, name, NULL, MPT_MODEL_FULL);
}

/* A recipe that begins, on line 1 of r.lua, with its precision: mlp "tiny", 2 blocks. `before`
 * is what stands above it, whole lines; sets: as --set, may be NULL. */
static inline void open_text(compiled *c, const char *before, const char *precision,
                             const char *more, const mpt_set *set) {
    char text[4096];
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    options.sets = set;
    options.n_sets = set != NULL;
    *c = (compiled){.ctx = mpt_test_ctx()};
    snprintf(text, sizeof text,
             "%sreturn recipe { precision = {%s}, %s\n"
             "  version = 1, name = \"small\", model = (require \"models.mlp\") \"tiny\",\n"
             "  train = { steps = 10, batch = 2, sequence = 16,\n"
             "    lr = constant { peak = 1e-3 } },\n}\n",
             before, precision, more);
    assert_mpt_ok(c->ctx, mpt_recipe_load_string(c->ctx, "r.lua", text, strlen(text), &options,
                                                 &c->recipe));
    compile_it(c, MPT_MODEL_FULL);
}

static inline void close_it(compiled *c) {
    mpt_program_destroy(c->program);
    mpt_recipe_destroy(c->recipe);
    assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, 0);
    mpt_ctx_destroy(c->ctx);
}

static inline void explain(compiled *c, const char *layer, const mpt_explain_options *options,
                           mpt_str *out) {
    mpt_str_init(out, c->ctx);
    assert_mpt_ok(c->ctx, mpt_program_explain(c->program, layer, options, keep, out));
}

static inline json_t *parse_json(const mpt_str *text) {
    json_error_t error;
    json_t *json = json_loads(text->data, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("line %d: %s", error.line, error.text);
    return json;
}

/* Whether the text has a line of these cells, "block|16x16|r.lua:3": two spaces or more stand
 * between two cells, and any number before the first. */
static inline bool has_cells(const mpt_str *text, const char *cells) {
    for (const char *line = text->data; line && *line;) {
        const char *p = line + strspn(line, " "), *c = cells;
        while (*c && (*c == '|' ? strncmp(p, "  ", 2) == 0 : *c == *p)) {
            p += *c == '|' ? strspn(p, " ") : 1;
            c++;
        }
        if (!*c && *p == '\n')
            return true;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return false;
}

#define assert_cells(text, cells)                                                              \
    do {                                                                                       \
        if (!has_cells((text), (cells)))                                                       \
            fail_msg("no line of %s in:\n%s", (cells), (text)->data ? (text)->data : "");      \
    } while (0)
/* Whether the text holds this. */
#define assert_holds(text, part)                                                               \
    do {                                                                                       \
        if (!(text)->data || !strstr((text)->data, (part)))                                    \
            fail_msg("no '%s' in:\n%s", (part), (text)->data ? (text)->data : "");             \
    } while (0)
#define assert_lacks(text, part)                                                               \
    do {                                                                                       \
        if ((text)->data && strstr((text)->data, (part)))                                      \
            fail_msg("'%s' is in:\n%s", (part), (text)->data);                                 \
    } while (0)

#endif
