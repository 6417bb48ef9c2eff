/* The reference of the recipe language: the committed page, what a word answers, and that what
 * it claims holds (examples load, defaults are values, files and models are there). */
#include "lua_test.h"

#include <dirent.h>

#include "golden_text.h"
#include "plan/reference.h"
#include "recipe/ops.h"
#include "recipe/schema_store.h"
#include "writers.h"

/* ---- the page ---- */

static void test_reference_when_whole_then_it_is_the_committed_page(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_recipe_reference(ctx, NULL, keep, &out));
    assert_golden_file(&out, MPT_SOURCE_DIR "/recipes/README.md");
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

/* A '|' inside a cell would break its table. */
static void test_reference_when_tables_then_each_row_has_all_cells(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    int want = 0;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_recipe_reference(ctx, NULL, keep, &out));
    for (const char *p = out.data; *p; p += strcspn(p, "\n") + (*p != 0)) {
        int pipes = 0;
        size_t n = strcspn(p, "\n");
        for (size_t i = 0; i < n; i++)
            pipes += p[i] == '|';
        if (*p != '|')
            want = 0;
        else if (want == 0)
            want = pipes;
        if (*p == '|' && (pipes != want || strstr(p, "| |") == p))
            fail_msg("%d cells wanted: %.*s", want - 1, (int)n, p);
        if (p[n] == 0)
            break;
    }
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

/* The autocast table names each row of operations in the line of its class. */
static void test_reference_when_operations_then_each_stands_in_its_class(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    int n;
    const mpt_ops_row *rows = mpt_ops_rows(&n);
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_recipe_reference(ctx, "operations", keep, &out));
    for (int i = 0; i < n; i++) {
        char head[32], name[48];
        snprintf(head, sizeof head, "\n| %s |", mpt_ops_class_name(rows[i].kind));
        snprintf(name, sizeof name, "`%s`", rows[i].op);
        const char *line = strstr(out.data, head), *at = line ? strstr(line, name) : NULL;
        if (!at || at > line + 1 + strcspn(line + 1, "\n"))
            fail_msg("%s is not in the line of %s", rows[i].op, head + 1);
    }
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static void test_reference_when_the_writer_refuses_then_io(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_int_equal(mpt_recipe_reference(ctx, NULL, refuse, NULL), MPT_IO);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* ---- one word ---- */

/* What the answer to a word has, and what it has not. */
static const struct {
    const char *word, *has, *has_not;
} answers[] = {
    {"rounding", "| `rounding` | `\"nearest\"`", "| `block`"},
    {"stochastic", "| `rounding` |", "| `outer`"},
    {"nvfp4", "| `nvfp4` | 4 | e2m1 | 1x16 |", "| `e4m3` | 8"},
    {"nvfp4", "| `rounding` |", "`train`"},
    {"bf16", "| `bf16` | 16 |", "`rounding` |"},
    {"mxfp8", "| `mxfp8` | 8 | e4m3 | 1x32 | current | e8m0 | up | none |", "| `mxfp6`"},
    {"e8m0", "| `scale_format` |", "| `mxfp8` |"},
    {"pow2", "| `scale_format` |", "| `rounding` |"},
    {"delayed", "| `history` | a whole number of 1 or more and at most 65536 | 1024 |",
     "| `size`"},
    {"delayed", "e4m3 { scale = delayed {", "loss_scale = static"},
    {"static", "`e4m3 { scale = static(1) }` is the plain cast", "| `history`"},
    {"static", "loss_scale = static(1024)", "| `history`"},
    {"current", "| `scale` | one of current, delayed or static |", "| `rounding`"},
    {"four_over_six", "| `bound` | 256 or 448 | 256 |", "| `history`"},
    {"quantizer.scale.history", "| `history` |", "| `algo`"},
    {"quantizer.hadamard.seed", "| `seed` |", "| `signs`"},
    {"short-history", "| `short-history` |", "| `no-clip`"},
    {"rule.blocks", "| `blocks` |", "| `gemms`"},
    {"train.lr", "| `lr` |", "| `peak`"},
    {"train.lr.peak", "## `wsd`", "| `final`"},
    {"train.proxy.steps", "| `steps` |", "| `batch`"},
    {"precision.rules.gemms", "| `gemms` |", "| `blocks`"},
    {"recipe.train.steps", "| `steps` |", "| `batch`"},
    {"wsd", "| `decay` | a whole number", "`matrices`"},
    {"train.decay", "`\"matrices\"`", "## `wsd`"},
    {"precision.rules[2].use.wgrad.dy.rounding", "| `rounding` |", "| `block` |"},
    {"precision.rules.use.weight.scale", "| `scale` | one of current", "| `scale_rule`"},
    {"phases[1].rules[1].use.fprop.hadamard", "| `hadamard` |", "## `dgrad`"},
    {"precision.rules[1].use.wgrad.hadamard.size", "| `size` |", "| `signs`"},
    {"precision.rules.use.output", "## `gemm`", "| `weight`"},
    {"gemm.wgrad.dy", "| `dy` |", "## `dgrad`"},
    {"e4m3.scale.delayed.history", "| `history` |", "| `algo`"},
    {"nvfp4.block", "| `block` |", "| `rounding`"},
    {"presets.nvfp4", "| `presets.nvfp4` |", "| `presets.mxfp4` |"},
    {"presets", "| `presets.fp8_delayed` |", "## Rules"},
    {"precision", "loss_scale = static(1024)", "## `state`"},
    {"not covered", "| uniform grids of 4 bits", "## Rules"},
    {"errors", "did you mean 'stochastic'?", "## Warnings"},
    {"derive", "## Files and changed copies", "## Rules"},
    {"last_fraction", "last_fraction(0.15)", "only {"},
    {"attention", "\"attention\"", "\"norm\""},
    {"no-clip", "| `no-clip` |", "| `no-warmup`"},
    {"kv_heads", "| `kv_heads` |", "| `exact`"},
    {"nn.linear", "| `nn.linear` |", "## `linear`"},
    {"gpt2_fp8", "gpt2_fp8.lua", "gpt2_bf16.lua"},
};

static void test_word_when_known_then_only_what_concerns_it(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(answers); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_str out;
        mpt_str_init(&out, ctx);
        assert_mpt_ok(ctx, mpt_recipe_reference(ctx, answers[i].word, keep, &out));
        if (!strstr(out.data, answers[i].has))
            fail_msg("%s: '%s' is missing in\n%s", answers[i].word, answers[i].has, out.data);
        if (strstr(out.data, answers[i].has_not))
            fail_msg("%s: '%s' does not belong in\n%s", answers[i].word, answers[i].has_not,
                     out.data);
        mpt_str_deinit(&out);
        mpt_ctx_destroy(ctx);
    }
}

static void test_word_when_unknown_then_the_nearest_is_suggested(void **state) {
    (void)state;
    static const struct {
        const char *word, *says;
    } rows[] = {
        {"roundng", "the recipe language has no word 'roundng'; did you mean 'rounding'?"},
        {"train.lrr", "the recipe language has no word 'train.lrr'; did you mean 'lr'?"},
        {"train.rounding", "the recipe language has no word 'train.rounding'; did you mean "
                           "'rounding'?"},
        {"precision.rules.use.wgrad.dy.roundng",
         "the recipe language has no word 'precision.rules.use.wgrad.dy.roundng'; did you mean "
         "'rounding'?"},
        {"nn.liner", "the recipe language has no word 'liner'; did you mean 'linear'?"},
        {"gpt2_fp9", "the recipe language has no word 'gpt2_fp9'; did you mean 'gpt2_fp8'?"},
        {"qqqqqqqq", "the recipe language has no word 'qqqqqqqq'; mptrun --help-recipe prints "
                     "all of them"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        assert_int_equal(mpt_recipe_reference(ctx, rows[i].word, refuse, NULL), MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, rows[i].says);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
}

/* Every name of the schema is a word that can be asked for. */
static void test_word_when_any_of_the_schema_then_answered(void **state) {
    (void)state;
    int n;
    const mpt_record *const *records = mpt_record_all(&n);
    mpt_ctx *ctx = mpt_test_ctx();
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < records[i]->n_fields; f++) {
            char path[128];
            mpt_str out;
            mpt_str_init(&out, ctx);
            snprintf(path, sizeof path, "%s.%s", records[i]->name, records[i]->fields[f].name);
            assert_mpt_ok(ctx, mpt_recipe_reference(ctx, path, keep, &out));
            mpt_str_deinit(&out);
        }
    }
    mpt_ctx_destroy(ctx);
}

/* ---- what it claims ---- */

/* A default is a value that the field takes, or one of these words. */
static void test_defaults_when_claimed_then_the_field_takes_them(void **state) {
    (void)state;
    static const char *const words[] = {
        "required",
        "none",
        "by format",
        "by scale_format",
        "as the rules before say",
        "all",
        "all three",
        "one",
        "the file's name",
        "precision.base",
        "precision.base; fp32 for the head's logits",
        "all fp32",
        "this or tokens",
        "this or steps",
        "this or the model's",
        "this or path",
        "this or files",
        ("batch for the proxy, and for a model below 100 M parameters "
         "without one; else 1"),
        "at the end",
        "skips, and 20 in a row stop",
        "warn at z = 24",
        "every 10th step, or 100 times a run",
        "the autocast table",
        "as computed",
        "norm",
        "conv",
        "scan",
        "precision.state.residual",
        "the widest input",
        "bf16"};
    int n, taken = 0;
    const mpt_record *const *records = mpt_record_all(&n);
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < records[i]->n_fields; f++) {
            const mpt_field *field = &records[i]->fields[f];
            double member[64] = {0};
            mpt_setting value;
            bool word = false;
            mpt_setting_parse(field, field->by_default, &value);
            assert_true(field->bytes <= sizeof member);
            if (mpt_field_store(field, member, &value) == MPT_PROBLEM_NONE) {
                taken++;
                continue;
            }
            for (size_t w = 0; w < MPT_COUNT(words); w++)
                word = word || strcmp(words[w], field->by_default) == 0;
            if (!word)
                fail_msg("%s.%s: '%s' is no value of it", records[i]->name, field->name,
                         field->by_default);
        }
    }
    assert_true(taken >= 30);
}

static void test_defaults_when_a_recipe_says_nothing_then_they_hold(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, "train = { steps = 9, batch = 2, sequence = 8, lr = wsd { peak = 1 } },\n"
             "phases = { phase { 'p' } }");
    mpt_program *program = NULL;
    assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
    mpt_train train = mpt_recipe_train(r, false);
    assert_int_equal(r->base, MPT_DTYPE_BF16);
    assert_int_equal(r->loss_scale.kind, MPT_LOSS_SCALE_NONE);
    assert_int_equal(r->data.kind, MPT_DATA_SYNTHETIC);
    assert_int_equal(r->data.vocab, 128);
    assert_true(r->phases[0].from == 0);
    assert_int_equal(train.micro_batch, 2); /* the batch, for it is small */
    assert_int_equal(train.decay, MPT_DECAY_MATRICES);
    assert_true(train.clip == 1 && train.seed == 1234 && train.lr.final == 0);
    assert_true(train.lr.decay.fraction && train.lr.decay.value == 0.2);
    assert_int_equal(train.optimizer.kind, MPT_OPTIMIZER_ADAMW);
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, r);
}

/* The plan tells which defaults hold, and of no field that was said, even as its default. */
static void test_plan_when_fields_are_left_out_then_it_lists_them(void **state) {
    (void)state;
    static const char *const lists[] = {
        " precision.base=bf16 ",           " precision.state.residual=bf16 ",
        " precision.loss_scale=none",      " train.micro_batch=",
        " train.optimizer.betas=0.9,0.95", " train.lr.final=0",
        " train.eval.batches=8",           " data.vocab=128"};
    static const char *const leaves_out[] = {"optimizer.eps", "lr.decay", "state.master",
                                             "eval.every", "data.seed"};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, "train = { steps = 9, batch = 2, sequence = 8, optimizer = adamw { eps = 1e-8 },\n"
             "lr = wsd { peak = 1, decay = 0.2 }, eval = { every = 0 } },\n"
             "precision = { state = { master = fp32 } }");
    mpt_program *program = NULL;
    mpt_str out;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_recipe_set(r, "data.seed", "0"));
    assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
    assert_mpt_ok(ctx, mpt_program_print(program, MPT_PRINT_PLAN, NULL, keep, &out));
    char *defaults = strstr(out.data, "\ndefaults ");
    assert_non_null(defaults);
    *strstr(defaults, "\nwarning") = 0;
    for (char *p = strchr(out.data, '\n'); p; p = strchr(p + 1, '\n'))
        if (p > defaults && p[1] == ' ') /* a line that was broken */
            *p = ' ';
    for (size_t i = 0; i < MPT_COUNT(lists); i++)
        if (!strstr(defaults, lists[i]))
            fail_msg("%s is not in %s", lists[i], defaults);
    for (size_t i = 0; i < MPT_COUNT(leaves_out); i++)
        if (strstr(defaults, leaves_out[i]))
            fail_msg("%s is in %s", leaves_out[i], defaults);
    mpt_str_deinit(&out);
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, r);
}

static void test_rows_when_special_then_they_say_what_they_take(void **state) {
    (void)state;
    int n;
    const mpt_record *const *records = mpt_record_all(&n);
    for (int i = 0; i < n; i++)
        for (int f = 0; f < records[i]->n_fields; f++) {
            const mpt_field *field = &records[i]->fields[f];
            if ((field->type == MPT_FIELD_SPECIAL) != (field->takes != NULL))
                fail_msg("%s.%s: a special row, and only that, says what it takes",
                         records[i]->name, field->name);
        }
    const char *const *names = mpt_warning_names(&n);
    for (int i = 0; i < n; i++)
        if (strlen(mpt_warning_doc(i)) < 20 || !strchr(mpt_warning_doc(i), '.'))
            fail_msg("%s: no sentence on it", names[i]);
}

/* How the example of a record stands in a recipe; "%s" is the example. */
static const char *frame_of(const char *record) {
    static const char *const frames[][2] = {
        {"precision", "%s"},
        {"state", "precision = { %s }"},
        {"ops", "precision = { %s }"},
        {"static", "precision = { %s }"},
        {"dynamic", "precision = { %s }"},
        {"rule", "precision = { rules = { %s } }"},
        {"gemm", "precision = { rules = { rule { 'linear', use = %s } } }"},
        {"fprop", "precision = { rules = { rule { 'linear', use = gemm { %s } } } }"},
        {"dgrad", "precision = { rules = { rule { 'linear', use = gemm { %s } } } }"},
        {"wgrad", "precision = { rules = { rule { 'linear', use = gemm { %s } } } }"},
        {"quantizer", "precision = { rules = { rule { 'linear', use = %s } } }"},
        {"delayed", "precision = { rules = { rule { 'linear', use = %s } } }"},
        {"scale.static", "precision = { rules = { rule { 'linear', use = %s } } }"},
        {"four_over_six", "precision = { rules = { rule { 'linear', use = %s } } }"},
        {"hadamard", "precision = { rules = { rule { 'linear', use = gemm { wgrad = { hadamard "
                     "= %s } } } } }"},
        {"phase", "phases = { phase { 'one' }, %s }"},
        {"train", "%s"},
        {"synthetic", "%s"},
        {"text", "%s"},
        {"tokens", "%s"},
        {"file", "%s"},
        {"batches", "%s"},
    };
    for (size_t i = 0; i < MPT_COUNT(frames); i++)
        if (strcmp(frames[i][0], record) == 0)
            return frames[i][1];
    return "train = { steps = 9, batch = 2, sequence = 8, %s }";
}

/* Examples hold "..." where a reader fills something in. */
static void test_examples_when_put_into_a_recipe_then_they_load(void **state) {
    (void)state;
    for (const mpt_reference_word *e = mpt_reference_examples; e->name; e++) {
        char fields[1024], example[512];
        const char *dot = strchr(e->name, '.'); /* "scale.static" is the static of scale */
        assert_non_null(mpt_record_find(dot ? dot + 1 : e->name));
        if (strcmp(e->name, "recipe") == 0) /* what stands around all others */
            continue;
        mpt_ctx *ctx = mpt_test_ctx();
        snprintf(example, sizeof example, "%s", e->example);
        for (char *dots = strstr(example, "..."); dots; dots = strstr(example, "..."))
            memcpy(dots, "   ", 3);
        const char *frame = frame_of(e->name), *at = strstr(frame, "%s");
        snprintf(fields, sizeof fields, "%.*s%s%s", (int)(at - frame), frame, example, at + 2);
        mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
        mpt_lua_finish(ctx, r);
    }
    for (const mpt_reference_word *e = mpt_reference_selectors; e->name; e++) {
        char fields[512];
        mpt_ctx *ctx = mpt_test_ctx();
        snprintf(fields, sizeof fields,
                 "precision = { rules = { rule { 'linear', blocks = %s, use = bf16 } } }",
                 e->example);
        mpt_lua_finish(ctx, mpt_lua_load_fields(ctx, fields));
    }
}

/* The fenced Lua texts that are whole files. */
static void test_texts_when_they_show_a_file_then_it_loads(void **state) {
    (void)state;
    static const char fence[] = "```lua\n";
    int n = 0;
    for (const mpt_reference_text *t = mpt_reference_texts; t->title; t++) {
        const char *at = strstr(t->body, fence);
        if (!at || !strstr(at, "return "))
            continue;
        at += sizeof fence - 1;
        if (strncmp(at, "rules", 5) == 0)
            continue;
        char text[2048];
        mpt_ctx *ctx = mpt_test_ctx();
        snprintf(text, sizeof text, "%.*s", (int)(strstr(at, "```") - at), at);
        mpt_lua_finish(ctx, mpt_lua_load(ctx, text));
        n++;
    }
    assert_int_equal(n, 2);
    char text[4096];
    mpt_ctx *ctx = mpt_test_ctx();
    const char *at = strstr(mpt_reference_model->doc, fence) + sizeof fence - 1;
    const char *body = strstr(at, "return ") + strlen("return ");
    snprintf(text, sizeof text, "local m = %.*s\nreturn recipe { model = m 'tiny', %s }",
             (int)(strstr(body, "```") - body), body,
             "train = { steps = 2, batch = 2, sequence = 8, lr = constant { peak = 0.1 } }");
    mpt_recipe *recipe = mpt_lua_load(ctx, text);
    mpt_program *program = NULL;
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, recipe);
}

static void test_word_when_from_config_then_the_models_text(void **state) {
    (void)state;
    static const char *const words[] = {"from_config", "model.from_config"};
    mpt_ctx *ctx = mpt_test_ctx();
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        mpt_str text;
        mpt_str_init(&text, ctx);
        assert_mpt_ok(ctx, mpt_recipe_reference(ctx, words[i], keep, &text));
        assert_non_null(strstr(text.data, "`model.from_config \"FOLDER\"`"));
        mpt_str_deinit(&text);
    }
    mpt_ctx_destroy(ctx);
}

/* The Lua files of a folder are those of a list, and no more. */
static void check_folder(const char *folder, const mpt_reference_word *list) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", MPT_SOURCE_DIR, folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int files = 0, listed = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t n = strcspn(entry->d_name, ".");
        bool known = false;
        if (strcmp(entry->d_name + n, ".lua") != 0)
            continue;
        files++;
        for (const mpt_reference_word *w = list; w->name; w++)
            known = known || (strlen(w->name) == n && memcmp(w->name, entry->d_name, n) == 0);
        if (!known)
            fail_msg("%s/%s is not in the reference", folder, entry->d_name);
    }
    closedir(dir);
    while (list[listed].name)
        listed++;
    assert_int_equal(files, listed);
}

static void test_lists_when_of_files_then_each_file_is_in(void **state) {
    (void)state;
    check_folder("recipes", mpt_reference_recipes);
    check_folder("models", mpt_reference_models);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_reference_when_whole_then_it_is_the_committed_page),
    cmocka_unit_test(test_reference_when_tables_then_each_row_has_all_cells),
    cmocka_unit_test(test_reference_when_operations_then_each_stands_in_its_class),
    cmocka_unit_test(test_reference_when_the_writer_refuses_then_io),
    cmocka_unit_test(test_word_when_known_then_only_what_concerns_it),
    cmocka_unit_test(test_word_when_from_config_then_the_models_text),
    cmocka_unit_test(test_word_when_unknown_then_the_nearest_is_suggested),
    cmocka_unit_test(test_word_when_any_of_the_schema_then_answered),
    cmocka_unit_test(test_defaults_when_claimed_then_the_field_takes_them),
    cmocka_unit_test(test_defaults_when_a_recipe_says_nothing_then_they_hold),
    cmocka_unit_test(test_plan_when_fields_are_left_out_then_it_lists_them),
    cmocka_unit_test(test_rows_when_special_then_they_say_what_they_take),
    cmocka_unit_test(test_examples_when_put_into_a_recipe_then_they_load),
    cmocka_unit_test(test_texts_when_they_show_a_file_then_it_loads),
    cmocka_unit_test(test_lists_when_of_files_then_each_file_is_in),
};
MPT_TEST_MAIN(cases)
