/* Wrong arguments to the calls of mpt/mpt.h: MPT_INVALID, the argument named, no crash. The
 * other headers have tests of their own, and here is seen that none was left out. */
#include "api_arguments.h"

static void wrong_ctx_create(objects *o) {
    (void)o;
    mpt_ctx *ctx = NULL;
    BARE(mpt_ctx_create(NULL, NULL));
    BARE(mpt_ctx_create(&(mpt_ctx_options){.size = 0}, &ctx));
    BARE(mpt_ctx_create(&(mpt_ctx_options){.size = 8}, &ctx));
    BARE(mpt_ctx_create(&(mpt_ctx_options){.size = 17}, &ctx));
    assert_null(ctx);
}

static void wrong_destroys(objects *o) {
    (void)o;
    mpt_ctx_destroy(NULL);
    mpt_recipe_destroy(NULL);
    mpt_program_destroy(NULL);
    mpt_trainer_destroy(NULL);
}

static void wrong_accessors(objects *o) {
    mpt_warning_view warning;
    mpt_param_view param;
    mpt_scale_view scale;
    mpt_operand_view operand;
    assert_non_null(mpt_ctx_error(NULL)->message);
    assert_int_equal(mpt_ctx_memory(NULL).peak_bytes, 0);
    assert_string_equal(mpt_status_name((mpt_status)77), "MPT_?");
    assert_string_equal(mpt_status_text((mpt_status)-1), "no such status");
    assert_non_null(mpt_version());
    assert_null(mpt_nearest(NULL, (const char *const[]){"a"}, 1));
    assert_null(mpt_nearest("a", NULL, 1));
    assert_null(mpt_nearest("a", (const char *const[]){"a"}, -1));
    assert_null(mpt_recipe_name(NULL));
    assert_null(mpt_recipe_source(NULL));
    assert_false(mpt_recipe_get_file(NULL, 0, NULL));
    assert_null(mpt_program_get_info(NULL).model);
    assert_false(mpt_program_warning(NULL, 0, &warning));
    assert_false(mpt_program_warning(o->program, 0, NULL));
    assert_false(mpt_program_warning(o->program, -1, &warning));
    assert_null(mpt_stage_name(-1));
    assert_null(mpt_stage_name(10));
    assert_false(mpt_trainer_done(NULL));
    assert_false(mpt_trainer_param(NULL, 0, &param));
    assert_false(mpt_trainer_param(o->trainer, 0, NULL));
    assert_false(mpt_trainer_param(o->trainer, -1, &param));
    assert_false(mpt_trainer_scale(NULL, 0, &scale));
    assert_false(mpt_trainer_scale(o->trainer, 0, NULL));
    assert_false(mpt_trainer_scale(o->trainer, -1, &scale));
    assert_false(mpt_trainer_operand(NULL, 0, &operand));
    assert_false(mpt_trainer_operand(o->trainer, 0, NULL));
    assert_false(mpt_trainer_operand(o->trainer, -1, &operand));
    assert_false(mpt_trainer_gemm(NULL, 0, NULL) || mpt_trainer_gemm(o->trainer, 0, NULL));
    mpt_trainer_count_next(NULL);
    assert_false(mpt_trainer_gradient(NULL, 0, &param));
    assert_false(mpt_trainer_gradient(o->trainer, 0, &param)); /* no forward was run */
}

static void wrong_load_file(objects *o) {
    mpt_recipe *out = NULL;
    mpt_load_options half = {.size = 4}, no_sets = MPT_LOAD_OPTIONS_INIT;
    no_sets.n_sets = 1;
    BARE(mpt_recipe_load_file(NULL, "a.lua", NULL, &out));
    refused(o->ctx, mpt_recipe_load_file(o->ctx, NULL, NULL, &out), "path is NULL");
    refused(o->ctx, mpt_recipe_load_file(o->ctx, "a.lua", NULL, NULL), "out is NULL");
    refused(o->ctx, mpt_recipe_load_file(o->ctx, "a.lua", &half, &out),
            "the options have size 4");
    refused(o->ctx, mpt_recipe_load_file(o->ctx, "a.lua", &no_sets, &out), "1 sets");
    assert_null(out);
}

static void wrong_load_string(objects *o) {
    mpt_recipe *out = NULL;
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    BARE(mpt_recipe_load_string(NULL, "a", "", 0, NULL, &out));
    refused(o->ctx, mpt_recipe_load_string(o->ctx, NULL, "", 0, NULL, &out), "name is NULL");
    refused(o->ctx, mpt_recipe_load_string(o->ctx, "a", NULL, 3, NULL, &out), "text is NULL");
    refused(o->ctx, mpt_recipe_load_string(o->ctx, "a", "", 0, NULL, NULL), "out is NULL");
    options.n_sets = -1;
    refused(o->ctx, mpt_recipe_load_string(o->ctx, "a", "", 0, &options, &out), "-1 sets");
    options.n_sets = 1;
    options.sets = &(mpt_set){NULL, "3"};
    refused(o->ctx, mpt_recipe_load_string(o->ctx, "a", "", 0, &options, &out),
            "sets[0].path is NULL");
    options.sets = &(mpt_set){"train.steps", NULL};
    refused(o->ctx, mpt_recipe_load_string(o->ctx, "a", "", 0, &options, &out),
            "sets[0].value is NULL");
    assert_null(out);
}

static void wrong_recipe_create(objects *o) {
    mpt_recipe *out = NULL;
    BARE(mpt_recipe_create(NULL, "a", &out));
    refused(o->ctx, mpt_recipe_create(o->ctx, NULL, &out), "mpt_recipe_create: name is NULL");
    refused(o->ctx, mpt_recipe_create(o->ctx, "a", NULL), "out is NULL");
    assert_null(out);
}

static void wrong_recipe_set(objects *o) {
    BARE(mpt_recipe_set(NULL, "train.steps", "3"));
    refused(o->ctx, mpt_recipe_set(o->open, NULL, "3"), "path is NULL");
    refused(o->ctx, mpt_recipe_set(o->open, "train.steps", NULL), "value is NULL");
}

static void wrong_add_phase(objects *o) {
    BARE(mpt_recipe_add_phase(NULL, "a", "0.5"));
    refused(o->ctx, mpt_recipe_add_phase(o->open, NULL, "0.5"), "name is NULL");
}

static void wrong_set_phase(objects *o) {
    BARE(mpt_recipe_set_phase(NULL, "a", "from", "0.5"));
    refused(o->ctx, mpt_recipe_set_phase(o->open, NULL, "from", "0.5"), "phase is NULL");
    refused(o->ctx, mpt_recipe_set_phase(o->open, "a", NULL, "0.5"), "path is NULL");
    refused(o->ctx, mpt_recipe_set_phase(o->open, "a", "from", NULL), "value is NULL");
}

static void wrong_add_rule(objects *o) {
    static const mpt_set no_path[] = {{"weight", "bf16"}, {NULL, "bf16"}};
    static const mpt_rule_desc small = {.size = 8};
    BARE(mpt_recipe_add_rule(NULL, MPT_RULE(.selector = "linear", .use = "bf16")));
    refused(o->ctx, mpt_recipe_add_rule(o->open, NULL), "rule is NULL");
    refused(o->ctx, mpt_recipe_add_rule(o->open, &small), "the options have size 8");
    refused(o->ctx, mpt_recipe_add_rule(o->open, MPT_RULE(.n_words = 2)), "2 words");
    refused(o->ctx, mpt_recipe_add_rule(o->open, MPT_RULE(.n_words = -2)), "-2 words");
    refused(o->ctx, mpt_recipe_add_rule(o->open, MPT_RULE(.words = no_path, .n_words = 2)),
            "words[1].path is NULL");
}

static void wrong_set_model(objects *o) {
    BARE(mpt_recipe_set_model(NULL, "m", "s", build_tiny, NULL));
    refused(o->ctx, mpt_recipe_set_model(o->open, NULL, "s", build_tiny, NULL), "name is NULL");
    refused(o->ctx, mpt_recipe_set_model(o->open, "m", NULL, build_tiny, NULL), "size is NULL");
    refused(o->ctx, mpt_recipe_set_model(o->open, "m", "s", NULL, NULL), "build is NULL");
}

static void wrong_set_proxy(objects *o) {
    BARE(mpt_recipe_set_proxy(NULL, "m", "s"));
    refused(o->ctx, mpt_recipe_set_proxy(o->open, NULL, "s"), "name is NULL");
    refused(o->ctx, mpt_recipe_set_proxy(o->open, "m", NULL), "size is NULL");
    refused(o->ctx, mpt_recipe_set_proxy(o->recipe, "m", "s"),
            "proxy: the recipe was compiled");
    BARE(mpt_recipe_add_file(NULL, "a.txt", 1));
    refused(o->ctx, mpt_recipe_add_file(o->open, NULL, 1), "path is NULL");
}

static void wrong_allow(objects *o) {
    BARE(mpt_recipe_allow(NULL, "no-clip"));
    refused(o->ctx, mpt_recipe_allow(o->open, NULL), "name is NULL");
    refused(o->ctx, mpt_recipe_allow(o->open, "no-clp"), "no warning 'no-clp'");
    refused(o->ctx, mpt_recipe_allow(o->recipe, "no-clip"), "allow: the recipe was compiled");
}

static void wrong_annotations(objects *o) {
    BARE(mpt_recipe_annotations(NULL, write_nothing, NULL));
    refused(o->ctx, mpt_recipe_annotations(o->ctx, NULL, NULL), "write is NULL");
}

static void compile_refused(objects *o, mpt_compile_options options, const char *named) {
    mpt_program *out = NULL;
    refused(o->ctx, mpt_compile(o->open, &options, &out), named);
    assert_null(out);
}

#define COMPILE(...) ((mpt_compile_options){.size = sizeof(mpt_compile_options), __VA_ARGS__})

static void wrong_compile(objects *o) {
    mpt_program *out = NULL;
    BARE(mpt_compile(NULL, NULL, &out));
    refused(o->ctx, mpt_compile(o->open, NULL, NULL), "out is NULL");
    compile_refused(o, (mpt_compile_options){.size = 0}, "the options have size 0");
    compile_refused(o, COMPILE(.model = (mpt_model_choice)3), "options.model is 3");
    compile_refused(o, COMPILE(.model = (mpt_model_choice)-1), "options.model is -1");
    compile_refused(o, COMPILE(.device = (mpt_device)4), "options.device is 4");
    compile_refused(o, COMPILE(.device = (mpt_device)-1), "options.device is -1");
    compile_refused(o, COMPILE(.n_threads = -1), "options.n_threads is -1");
    compile_refused(o, COMPILE(.n_threads = 4097), "options.n_threads is 4097");
}

static void wrong_device_find(objects *o) {
    mpt_device_info info;
    BARE(mpt_device_find(NULL, MPT_DEVICE_CPU, &info));
    refused(o->ctx, mpt_device_find(o->ctx, MPT_DEVICE_CPU, NULL), "out is NULL");
    refused(o->ctx, mpt_device_find(o->ctx, (mpt_device)4, &info), "device is 4");
    refused(o->ctx, mpt_device_find(o->ctx, (mpt_device)-1, &info), "device is -1");
}

static void wrong_print(objects *o) {
    BARE(mpt_program_print(NULL, MPT_PRINT_PLAN, NULL, write_nothing, NULL));
    refused(o->ctx, mpt_program_print(o->program, MPT_PRINT_PLAN, NULL, NULL, NULL),
            "write is NULL");
    refused(o->ctx, mpt_program_print(o->program, (mpt_print)9, NULL, write_nothing, NULL),
            "no text of kind 9");
    refused(o->ctx, mpt_program_print(o->program, MPT_PRINT_STAGE, NULL, write_nothing, NULL),
            "no stage ''");
}

static void wrong_explain(objects *o) {
    mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
    BARE(mpt_program_explain(NULL, "linear", NULL, write_nothing, NULL));
    refused(o->ctx, mpt_program_explain(o->program, NULL, NULL, write_nothing, NULL),
            "layer is NULL");
    refused(o->ctx, mpt_program_explain(o->program, "*", NULL, NULL, NULL), "write is NULL");
    refused(o->ctx, mpt_program_explain(o->program, "nothing", NULL, write_nothing, NULL),
            "no layer 'nothing'");
    options.phase = "nothing";
    refused(o->ctx, mpt_program_explain(o->program, "*", &options, write_nothing, NULL),
            "no phase 'nothing'");
    options.size = 0;
    refused(o->ctx, mpt_program_explain(o->program, "*", &options, write_nothing, NULL),
            "the options have size 0");
}

static void wrong_diff(objects *o) {
    mpt_diff_options options = MPT_DIFF_OPTIONS_INIT;
    BARE(mpt_program_diff(NULL, o->program, NULL, write_nothing, NULL));
    refused(o->ctx, mpt_program_diff(o->program, NULL, NULL, write_nothing, NULL), "b is NULL");
    refused(o->ctx, mpt_program_diff(o->program, o->program, NULL, NULL, NULL),
            "write is NULL");
    options.size = 0;
    refused(o->ctx, mpt_program_diff(o->program, o->program, &options, write_nothing, NULL),
            "the options have size 0");
}

static void wrong_list(objects *o) {
    BARE(mpt_list(NULL, MPT_LIST_OPS, write_nothing, NULL));
    refused(o->ctx, mpt_list(o->ctx, MPT_LIST_OPS, NULL, NULL), "write is NULL");
    refused(o->ctx, mpt_list(o->ctx, (mpt_listing)7, write_nothing, NULL), "no list of kind 7");
}

static void wrong_reference(objects *o) {
    BARE(mpt_recipe_reference(NULL, NULL, write_nothing, NULL));
    refused(o->ctx, mpt_recipe_reference(o->ctx, NULL, NULL, NULL), "write is NULL");
}

static void wrong_trainer_create(objects *o) {
    mpt_trainer *out = NULL;
    BARE(mpt_trainer_create(NULL, NULL, &out));
    refused(o->ctx, mpt_trainer_create(o->program, NULL, NULL), "out is NULL");
    refused(o->ctx, mpt_trainer_create(o->program, &(mpt_trainer_options){.size = 1}, &out),
            "the options have size 1");
    assert_null(out);
}

static void wrong_trainer_calls(objects *o) {
    double loss;
    mpt_step_result step;
    BARE(mpt_trainer_step(NULL, NULL, &step));
    BARE(mpt_trainer_eval(NULL, 0, &loss));
    BARE(mpt_trainer_finish(NULL));
    refused(o->ctx, mpt_trainer_step(o->trainer, NULL, NULL), "out is NULL");
    refused(o->ctx, mpt_trainer_eval(o->trainer, 0, NULL), "out_loss is NULL");
    refused(o->ctx, mpt_trainer_eval(o->trainer, -1, &loss), "max_windows is -1");
}

static void wrong_trainer_weights(objects *o) {
    BARE(mpt_trainer_load_weights(NULL, "w"));
    BARE(mpt_trainer_save_weights(NULL, "w", NULL));
    refused(o->ctx, mpt_trainer_load_weights(o->trainer, NULL), "path is NULL");
    refused(o->ctx, mpt_trainer_save_weights(o->trainer, NULL, NULL), "path is NULL");
    mpt_save_options small = {.size = 1};
    refused(o->ctx, mpt_trainer_save_weights(o->trainer, "w", &small),
            "the options have size 1");
    mpt_save_options wrong = {.size = sizeof wrong, .type = MPT_WEIGHT_TYPE_COUNT};
    refused(o->ctx, mpt_trainer_save_weights(o->trainer, "w", &wrong), "no type of weights 3");
}

static void wrong_export_weights(objects *o) {
    BARE(mpt_program_export_weights(NULL, NULL, "w", NULL));
    refused(o->ctx, mpt_program_export_weights(o->program, NULL, NULL, NULL), "to is NULL");
    mpt_save_options small = {.size = 1};
    refused(o->ctx, mpt_program_export_weights(o->program, NULL, "w", &small), "have size 1");
}

static void wrong_trainer_forward(objects *o) {
    mpt_forward_options options = MPT_FORWARD_OPTIONS_INIT, half = {.size = 4};
    BARE(mpt_trainer_forward(NULL, &options, NULL, NULL));
    refused(o->ctx, mpt_trainer_forward(o->trainer, NULL, NULL, NULL), "options is NULL");
    refused(o->ctx, mpt_trainer_forward(o->trainer, &half, NULL, NULL),
            "the options have size 4");
    refused(o->ctx, mpt_trainer_forward(o->trainer, &options, NULL, NULL), "tokens is NULL");
}

static const api_row rows[] = {
    {"mpt_ctx_create", wrong_ctx_create},
    {"mpt_ctx_destroy mpt_recipe_destroy mpt_program_destroy mpt_trainer_destroy",
     wrong_destroys},
    {"mpt_ctx_error mpt_ctx_memory mpt_status_name mpt_status_text mpt_version mpt_nearest "
     "mpt_recipe_name mpt_recipe_source mpt_recipe_get_file mpt_program_get_info "
     "mpt_program_warning mpt_stage_name mpt_trainer_done mpt_trainer_param mpt_trainer_scale "
     "mpt_trainer_count_next mpt_trainer_operand mpt_trainer_gradient mpt_trainer_gemm",
     wrong_accessors},
    {"mpt_recipe_load_file", wrong_load_file},
    {"mpt_recipe_load_string", wrong_load_string},
    {"mpt_recipe_create", wrong_recipe_create},
    {"mpt_recipe_set", wrong_recipe_set},
    {"mpt_recipe_add_phase", wrong_add_phase},
    {"mpt_recipe_set_phase", wrong_set_phase},
    {"mpt_recipe_add_rule", wrong_add_rule},
    {"mpt_recipe_set_model", wrong_set_model},
    {"mpt_recipe_set_proxy mpt_recipe_add_file", wrong_set_proxy},
    {"mpt_recipe_allow", wrong_allow},
    {"mpt_compile", wrong_compile},
    {"mpt_device_find", wrong_device_find},
    {"mpt_program_print", wrong_print},
    {"mpt_program_explain", wrong_explain},
    {"mpt_program_diff", wrong_diff},
    {"mpt_list", wrong_list},
    {"mpt_recipe_reference", wrong_reference},
    {"mpt_recipe_annotations", wrong_annotations},
    {"mpt_trainer_create", wrong_trainer_create},
    {"mpt_trainer_step mpt_trainer_eval mpt_trainer_finish", wrong_trainer_calls},
    {"mpt_trainer_forward", wrong_trainer_forward},
    {"mpt_trainer_load_weights mpt_trainer_save_weights", wrong_trainer_weights},
    {"mpt_program_export_weights", wrong_export_weights},
};

static void test_call_when_arguments_are_wrong_then_they_are_named(void **state) {
    (void)state;
    check_rows(rows, MPT_COUNT(rows));
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **state) {
    (void)state;
    api_table table = {rows, MPT_COUNT(rows), sizeof *rows};
    assert_header("mpt.h", rows);
    assert_true(table_has(&table, "mpt_recipe_create", strlen("mpt_recipe_create")));
    assert_false(table_has(&table, "mpt_recipe", strlen("mpt_recipe")));
}

/* What a header without calls has, such as one of types. */
static const api_row no_rows[1] = {{"", NULL}};

static void test_header_when_it_is_of_types_then_it_has_no_call(void **state) {
    (void)state;
    assert_header("status.h", no_rows);
    assert_header("version.h", no_rows);
}

/* How often a source of this folder compares its rows with the header. */
static int count_checks(const char *source, const char *header) {
    char path[512], line[128];
    int n = 0;
    snprintf(path, sizeof path, MPT_TESTS_DIR "/unit/%s", source);
    snprintf(line, sizeof line, "    assert_header(\"%s\", ", header);
    file_bytes text = bytes_read(path);
    text.data[text.size] = 0;
    for (const char *at = (const char *)text.data; (at = strstr(at, line)); at++)
        n++;
    bytes_free(&text);
    return n;
}

static int count_all_checks(const char *header) {
    DIR *dir = opendir(MPT_TESTS_DIR "/unit");
    int n = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, "test_api_arguments", strlen("test_api_arguments")) == 0)
            n += count_checks(entry->d_name, header);
    closedir(dir);
    return n;
}

static void test_headers_when_one_is_public_then_one_test_compares_its_rows(void **state) {
    (void)state;
    DIR *dir = opendir(MPT_SOURCE_DIR "/runtime/include/mpt");
    int n_headers = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!strstr(entry->d_name, ".h"))
            continue;
        int n = count_all_checks(entry->d_name);
        if (n != 1)
            fail_msg("%d tests of wrong arguments compare their rows with %s, expected one", n,
                     entry->d_name);
        n_headers++;
    }
    closedir(dir);
    assert_true(n_headers > 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
    cmocka_unit_test(test_header_when_it_is_of_types_then_it_has_no_call),
    cmocka_unit_test(test_headers_when_one_is_public_then_one_test_compares_its_rows),
};
MPT_TEST_MAIN(cases)
