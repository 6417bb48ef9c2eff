/* Wrong arguments of a host: every public call answers with MPT_INVALID and names the argument,
 * and none crashes. The headers are read, so a new call without a row here fails. */
#include "mpt/eval.h"
#include "mpt/model.h"
#include "mpt/tools.h"
#include "mpt_test.h"

/* What the rows need: one of each object, all sound. */
typedef struct objects {
    mpt_ctx *ctx;
    mpt_recipe *recipe, *open; /* `open` is not compiled */
    mpt_program *program;
    mpt_trainer *trainer;
} objects;

static mpt_status build_tiny(void *ud, mpt_nn *nn, bool proxy) {
    (void)ud, (void)proxy;
    mpt_model_value x = mpt_model_embedding(nn, "wte", mpt_model_tokens(nn), 0, 8);
    return mpt_model_cross_entropy(
        nn, mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true)));
}

static mpt_recipe *make_recipe(mpt_ctx *ctx, mpt_build_fn build) {
    static const mpt_set fields[] = {{"train.steps", "2"},     {"train.batch", "2"},
                                     {"train.sequence", "8"},  {"train.lr", "constant"},
                                     {"train.lr.peak", "0.1"}, {"data", "synthetic"},
                                     {"data.vocab", "32"}};
    mpt_recipe *recipe;
    assert_mpt_ok(ctx, mpt_recipe_create(ctx, "tiny", &recipe));
    assert_mpt_ok(ctx, mpt_recipe_set_model(recipe, "tiny", "8", build, NULL));
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, fields[i].path, fields[i].value));
    return recipe;
}

static void open_objects(objects *o) {
    o->ctx = mpt_test_ctx();
    o->recipe = make_recipe(o->ctx, build_tiny);
    o->open = make_recipe(o->ctx, build_tiny);
    assert_mpt_ok(o->ctx, mpt_compile(o->recipe, NULL, &o->program));
    assert_mpt_ok(o->ctx, mpt_trainer_create(o->program, NULL, &o->trainer));
}

static void close_objects(objects *o) {
    mpt_trainer_destroy(o->trainer);
    mpt_program_destroy(o->program);
    mpt_recipe_destroy(o->open);
    mpt_recipe_destroy(o->recipe);
    assert_int_equal(mpt_ctx_memory(o->ctx).live_bytes, 0);
    mpt_ctx_destroy(o->ctx);
}

/* The status is MPT_INVALID, and the message holds `named`. */
static void refused(const objects *o, mpt_status status, const char *named) {
    const char *message = mpt_ctx_error(o->ctx)->message;
    if (status != MPT_INVALID || !strstr(message, named))
        fail_msg("expected MPT_INVALID naming '%s', got %s: %s", named, mpt_status_name(status),
                 message);
    (void)MPT_FAIL(o->ctx, MPT_INTERNAL, MPT_NOWHERE, "the message before"); /* not to be met */
}

#define BARE(expression) assert_int_equal((expression), MPT_INVALID)

static bool write_nothing(void *ud, const char *text, size_t length) {
    (void)ud, (void)text, (void)length;
    return true;
}

/* ---- one function a call of mpt.h and tools.h ---- */

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
    refused(o, mpt_recipe_load_file(o->ctx, NULL, NULL, &out), "path is NULL");
    refused(o, mpt_recipe_load_file(o->ctx, "a.lua", NULL, NULL), "out is NULL");
    refused(o, mpt_recipe_load_file(o->ctx, "a.lua", &half, &out), "the options have size 4");
    refused(o, mpt_recipe_load_file(o->ctx, "a.lua", &no_sets, &out), "1 sets");
    assert_null(out);
}

static void wrong_load_string(objects *o) {
    mpt_recipe *out = NULL;
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    BARE(mpt_recipe_load_string(NULL, "a", "", 0, NULL, &out));
    refused(o, mpt_recipe_load_string(o->ctx, NULL, "", 0, NULL, &out), "name is NULL");
    refused(o, mpt_recipe_load_string(o->ctx, "a", NULL, 3, NULL, &out), "text is NULL");
    refused(o, mpt_recipe_load_string(o->ctx, "a", "", 0, NULL, NULL), "out is NULL");
    options.n_sets = -1;
    refused(o, mpt_recipe_load_string(o->ctx, "a", "", 0, &options, &out), "-1 sets");
    options.n_sets = 1;
    options.sets = &(mpt_set){NULL, "3"};
    refused(o, mpt_recipe_load_string(o->ctx, "a", "", 0, &options, &out),
            "sets[0].path is NULL");
    options.sets = &(mpt_set){"train.steps", NULL};
    refused(o, mpt_recipe_load_string(o->ctx, "a", "", 0, &options, &out),
            "sets[0].value is NULL");
    assert_null(out);
}

static void wrong_recipe_create(objects *o) {
    mpt_recipe *out = NULL;
    BARE(mpt_recipe_create(NULL, "a", &out));
    refused(o, mpt_recipe_create(o->ctx, NULL, &out), "mpt_recipe_create: name is NULL");
    refused(o, mpt_recipe_create(o->ctx, "a", NULL), "out is NULL");
    assert_null(out);
}

static void wrong_recipe_set(objects *o) {
    BARE(mpt_recipe_set(NULL, "train.steps", "3"));
    refused(o, mpt_recipe_set(o->open, NULL, "3"), "path is NULL");
    refused(o, mpt_recipe_set(o->open, "train.steps", NULL), "value is NULL");
}

static void wrong_add_phase(objects *o) {
    BARE(mpt_recipe_add_phase(NULL, "a", "0.5"));
    refused(o, mpt_recipe_add_phase(o->open, NULL, "0.5"), "name is NULL");
}

static void wrong_set_phase(objects *o) {
    BARE(mpt_recipe_set_phase(NULL, "a", "from", "0.5"));
    refused(o, mpt_recipe_set_phase(o->open, NULL, "from", "0.5"), "phase is NULL");
    refused(o, mpt_recipe_set_phase(o->open, "a", NULL, "0.5"), "path is NULL");
    refused(o, mpt_recipe_set_phase(o->open, "a", "from", NULL), "value is NULL");
}

static void wrong_add_rule(objects *o) {
    static const mpt_set no_path[] = {{"weight", "bf16"}, {NULL, "bf16"}};
    static const mpt_rule_desc small = {.size = 8};
    BARE(mpt_recipe_add_rule(NULL, MPT_RULE(.selector = "linear", .use = "bf16")));
    refused(o, mpt_recipe_add_rule(o->open, NULL), "rule is NULL");
    refused(o, mpt_recipe_add_rule(o->open, &small), "the options have size 8");
    refused(o, mpt_recipe_add_rule(o->open, MPT_RULE(.n_words = 2)), "2 words");
    refused(o, mpt_recipe_add_rule(o->open, MPT_RULE(.n_words = -2)), "-2 words");
    refused(o, mpt_recipe_add_rule(o->open, MPT_RULE(.words = no_path, .n_words = 2)),
            "words[1].path is NULL");
}

static void wrong_set_model(objects *o) {
    BARE(mpt_recipe_set_model(NULL, "m", "s", build_tiny, NULL));
    refused(o, mpt_recipe_set_model(o->open, NULL, "s", build_tiny, NULL), "name is NULL");
    refused(o, mpt_recipe_set_model(o->open, "m", NULL, build_tiny, NULL), "size is NULL");
    refused(o, mpt_recipe_set_model(o->open, "m", "s", NULL, NULL), "build is NULL");
}

static void wrong_set_proxy(objects *o) {
    BARE(mpt_recipe_set_proxy(NULL, "m", "s"));
    refused(o, mpt_recipe_set_proxy(o->open, NULL, "s"), "name is NULL");
    refused(o, mpt_recipe_set_proxy(o->open, "m", NULL), "size is NULL");
    refused(o, mpt_recipe_set_proxy(o->recipe, "m", "s"), "proxy: the recipe was compiled");
    BARE(mpt_recipe_add_file(NULL, "a.txt", 1));
    refused(o, mpt_recipe_add_file(o->open, NULL, 1), "path is NULL");
}

static void wrong_allow(objects *o) {
    BARE(mpt_recipe_allow(NULL, "no-clip"));
    refused(o, mpt_recipe_allow(o->open, NULL), "name is NULL");
    refused(o, mpt_recipe_allow(o->open, "no-clp"), "no warning 'no-clp'");
    refused(o, mpt_recipe_allow(o->recipe, "no-clip"), "allow: the recipe was compiled");
}

static void wrong_annotations(objects *o) {
    BARE(mpt_recipe_annotations(NULL, write_nothing, NULL));
    refused(o, mpt_recipe_annotations(o->ctx, NULL, NULL), "write is NULL");
}

static void compile_refused(objects *o, mpt_compile_options options, const char *named) {
    mpt_program *out = NULL;
    refused(o, mpt_compile(o->open, &options, &out), named);
    assert_null(out);
}

#define COMPILE(...) ((mpt_compile_options){.size = sizeof(mpt_compile_options), __VA_ARGS__})

static void wrong_compile(objects *o) {
    mpt_program *out = NULL;
    BARE(mpt_compile(NULL, NULL, &out));
    refused(o, mpt_compile(o->open, NULL, NULL), "out is NULL");
    compile_refused(o, (mpt_compile_options){.size = 0}, "the options have size 0");
    compile_refused(o, COMPILE(.model = (mpt_model_choice)3), "options.model is 3");
    compile_refused(o, COMPILE(.model = (mpt_model_choice)-1), "options.model is -1");
    compile_refused(o, COMPILE(.device = (mpt_device)3), "options.device is 3");
    compile_refused(o, COMPILE(.device = (mpt_device)-1), "options.device is -1");
    compile_refused(o, COMPILE(.n_threads = -1), "options.n_threads is -1");
    compile_refused(o, COMPILE(.n_threads = 4097), "options.n_threads is 4097");
}

static void wrong_print(objects *o) {
    BARE(mpt_program_print(NULL, MPT_PRINT_PLAN, NULL, write_nothing, NULL));
    refused(o, mpt_program_print(o->program, MPT_PRINT_PLAN, NULL, NULL, NULL),
            "write is NULL");
    refused(o, mpt_program_print(o->program, (mpt_print)9, NULL, write_nothing, NULL),
            "no text of kind 9");
    refused(o, mpt_program_print(o->program, MPT_PRINT_STAGE, NULL, write_nothing, NULL),
            "no stage ''");
}

static void wrong_explain(objects *o) {
    mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
    BARE(mpt_program_explain(NULL, "linear", NULL, write_nothing, NULL));
    refused(o, mpt_program_explain(o->program, NULL, NULL, write_nothing, NULL),
            "layer is NULL");
    refused(o, mpt_program_explain(o->program, "*", NULL, NULL, NULL), "write is NULL");
    refused(o, mpt_program_explain(o->program, "nothing", NULL, write_nothing, NULL),
            "no layer 'nothing'");
    options.phase = "nothing";
    refused(o, mpt_program_explain(o->program, "*", &options, write_nothing, NULL),
            "no phase 'nothing'");
    options.size = 0;
    refused(o, mpt_program_explain(o->program, "*", &options, write_nothing, NULL),
            "the options have size 0");
}

static void wrong_diff(objects *o) {
    mpt_diff_options options = MPT_DIFF_OPTIONS_INIT;
    BARE(mpt_program_diff(NULL, o->program, NULL, write_nothing, NULL));
    refused(o, mpt_program_diff(o->program, NULL, NULL, write_nothing, NULL), "b is NULL");
    refused(o, mpt_program_diff(o->program, o->program, NULL, NULL, NULL), "write is NULL");
    options.size = 0;
    refused(o, mpt_program_diff(o->program, o->program, &options, write_nothing, NULL),
            "the options have size 0");
}

static void wrong_list(objects *o) {
    BARE(mpt_list(NULL, MPT_LIST_OPS, write_nothing, NULL));
    refused(o, mpt_list(o->ctx, MPT_LIST_OPS, NULL, NULL), "write is NULL");
    refused(o, mpt_list(o->ctx, (mpt_listing)7, write_nothing, NULL), "no list of kind 7");
}

static void wrong_reference(objects *o) {
    BARE(mpt_recipe_reference(NULL, NULL, write_nothing, NULL));
    refused(o, mpt_recipe_reference(o->ctx, NULL, NULL, NULL), "write is NULL");
}

static void wrong_trainer_create(objects *o) {
    mpt_trainer *out = NULL;
    BARE(mpt_trainer_create(NULL, NULL, &out));
    refused(o, mpt_trainer_create(o->program, NULL, NULL), "out is NULL");
    refused(o, mpt_trainer_create(o->program, &(mpt_trainer_options){.size = 1}, &out),
            "the options have size 1");
    assert_null(out);
}

static void wrong_trainer_calls(objects *o) {
    double loss;
    mpt_step_result step;
    BARE(mpt_trainer_step(NULL, NULL, &step));
    BARE(mpt_trainer_eval(NULL, 0, &loss));
    BARE(mpt_trainer_finish(NULL));
    refused(o, mpt_trainer_step(o->trainer, NULL, NULL), "out is NULL");
    refused(o, mpt_trainer_eval(o->trainer, 0, NULL), "out_loss is NULL");
    refused(o, mpt_trainer_eval(o->trainer, -1, &loss), "max_windows is -1");
}

static void wrong_trainer_weights(objects *o) {
    BARE(mpt_trainer_load_weights(NULL, "w"));
    BARE(mpt_trainer_save_weights(NULL, "w", NULL));
    refused(o, mpt_trainer_load_weights(o->trainer, NULL), "path is NULL");
    refused(o, mpt_trainer_save_weights(o->trainer, NULL, NULL), "path is NULL");
    mpt_save_options small = {.size = 1};
    refused(o, mpt_trainer_save_weights(o->trainer, "w", &small), "the options have size 1");
    mpt_save_options wrong = {.size = sizeof wrong, .type = MPT_WEIGHT_TYPE_COUNT};
    refused(o, mpt_trainer_save_weights(o->trainer, "w", &wrong), "no type of weights 3");
}

static void wrong_export_weights(objects *o) {
    BARE(mpt_program_export_weights(NULL, NULL, "w", NULL));
    refused(o, mpt_program_export_weights(o->program, NULL, NULL, NULL), "to is NULL");
    mpt_save_options small = {.size = 1};
    refused(o, mpt_program_export_weights(o->program, NULL, "w", &small), "have size 1");
}

static void wrong_trainer_forward(objects *o) {
    mpt_forward_options options = MPT_FORWARD_OPTIONS_INIT, half = {.size = 4};
    BARE(mpt_trainer_forward(NULL, &options, NULL, NULL));
    refused(o, mpt_trainer_forward(o->trainer, NULL, NULL, NULL), "options is NULL");
    refused(o, mpt_trainer_forward(o->trainer, &half, NULL, NULL), "the options have size 4");
    refused(o, mpt_trainer_forward(o->trainer, &options, NULL, NULL), "tokens is NULL");
}

static void wrong_eval(objects *o) {
    mpt_eval_options options = MPT_EVAL_OPTIONS_INIT, half = {.size = 4};
    int64_t n;
    BARE(mpt_tokens_shape(NULL, "t", &n, &n));
    refused(o, mpt_tokens_shape(o->ctx, NULL, &n, &n), "path is NULL");
    refused(o, mpt_tokens_shape(o->ctx, "t", NULL, &n), "out_batch is NULL");
    refused(o, mpt_tokens_shape(o->ctx, "t", &n, NULL), "out_sequence is NULL");
    BARE(mpt_trainer_eval_file(NULL, &options, NULL));
    refused(o, mpt_trainer_eval_file(o->trainer, NULL, NULL), "options is NULL");
    refused(o, mpt_trainer_eval_file(o->trainer, &half, NULL), "the options have size 4");
    refused(o, mpt_trainer_eval_file(o->trainer, &options, NULL), "o.tokens is NULL");
    options.tokens = "t";
    refused(o, mpt_trainer_eval_file(o->trainer, &options, NULL), "o.out is NULL");
    BARE(mpt_trainer_measure(NULL, NULL, NULL, NULL));
    refused(o, mpt_trainer_measure(o->trainer, NULL, NULL, NULL), "out is NULL");
}

static void wrong_quantize_file(objects *o) {
    mpt_quantize_options options = MPT_QUANTIZE_OPTIONS_INIT, half = {.size = 4};
    BARE(mpt_quantize_file(NULL, "e4m3", "a", "b", NULL, NULL));
    refused(o, mpt_quantize_file(o->ctx, NULL, "a", "b", NULL, NULL), "quantizer is NULL");
    refused(o, mpt_quantize_file(o->ctx, "e4m3", NULL, "b", NULL, NULL), "in is NULL");
    refused(o, mpt_quantize_file(o->ctx, "e4m3", "a", NULL, NULL, NULL), "out is NULL");
    refused(o, mpt_quantize_file(o->ctx, "e4m3", "a", "b", &half, NULL),
            "the options have size 4");
    options.n_threads = -1;
    refused(o, mpt_quantize_file(o->ctx, "e4m3", "a", "b", &options, NULL),
            "options.n_threads is -1");
    options.n_threads = 0;
    options.device = (mpt_device)3;
    refused(o, mpt_quantize_file(o->ctx, "e4m3", "a", "b", &options, NULL),
            "options.device is 3");
}

static void wrong_probe_file(objects *o) {
    mpt_probe_options options = MPT_PROBE_OPTIONS_INIT;
    BARE(mpt_probe_file(NULL, "a", NULL, write_nothing, NULL));
    refused(o, mpt_probe_file(o->ctx, NULL, NULL, write_nothing, NULL), "weights is NULL");
    refused(o, mpt_probe_file(o->ctx, "a", NULL, NULL, NULL), "write is NULL");
    options.n_threads = 4097;
    refused(o, mpt_probe_file(o->ctx, "a", &options, write_nothing, NULL),
            "options.n_threads is 4097");
    options.n_threads = 0;
    options.width = -1;
    refused(o, mpt_probe_file(o->ctx, "a", &options, write_nothing, NULL),
            "options.width is -1");
    options.width = 0;
    options.formats = "e4m3,";
    refused(o, mpt_probe_file(o->ctx, "a", &options, write_nothing, NULL),
            "there is no quantizer beside one of the commas");
}

static void wrong_bench(objects *o) {
    mpt_bench_options options = MPT_BENCH_OPTIONS_INIT;
    BARE(mpt_bench_quantizers(NULL, NULL, write_nothing, NULL));
    refused(o, mpt_bench_quantizers(o->ctx, NULL, NULL, NULL), "write is NULL");
    options.rows = -1;
    refused(o, mpt_bench_quantizers(o->ctx, &options, write_nothing, NULL),
            "options.rows and .cols are -1 and 0");
    options.rows = 0;
    options.cols = 1 << 21;
    refused(o, mpt_bench_quantizers(o->ctx, &options, write_nothing, NULL),
            "options.rows and .cols are 0 and 2097152");
    options.cols = 0;
    options.n_threads = -2;
    refused(o, mpt_bench_quantizers(o->ctx, &options, write_nothing, NULL),
            "options.n_threads is -2");
}

static void wrong_bench_program(objects *o) {
    mpt_bench_program_options options = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    BARE(mpt_bench_program(NULL, NULL, write_nothing, NULL));
    refused(o, mpt_bench_program(o->program, NULL, NULL, NULL), "write is NULL");
    options.steps = -1;
    refused(o, mpt_bench_program(o->program, &options, write_nothing, NULL),
            "options.steps is -1");
    options.steps = 4097;
    refused(o, mpt_bench_program(o->program, &options, write_nothing, NULL),
            "options.steps is 4097");
    options.steps = 0;
    options.peak_size = 16385;
    refused(o, mpt_bench_program(o->program, &options, write_nothing, NULL),
            "options.peak_size is 16385");
}

static void wrong_tokens(objects *o) {
    mpt_tokens_options options = MPT_TOKENS_OPTIONS_INIT;
    BARE(mpt_tokens_file(NULL, "in", NULL, NULL, write_nothing, NULL));
    refused(o, mpt_tokens_file(o->ctx, NULL, NULL, NULL, write_nothing, NULL), "in is NULL");
    refused(o, mpt_tokens_file(o->ctx, "in", NULL, NULL, NULL, NULL), "write is NULL");
    options.vocab = -1;
    refused(o, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file: options.vocab is no number of words");
    options.vocab = 0;
    options.from = "texts";
    refused(o, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file: options.from 'texts' is no format of token files");
    options = (mpt_tokens_options){.size = 0};
    refused(o, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file");
}

static void wrong_sample(objects *o) {
    mpt_sample_options options = MPT_SAMPLE_OPTIONS_INIT;
    BARE(mpt_sample(NULL, &options, write_nothing, NULL));
    refused(o, mpt_sample(o->trainer, &options, NULL, NULL), "write is NULL");
    options.size = 4;
    refused(o, mpt_sample(o->trainer, &options, write_nothing, NULL),
            "the options have size 4");
}

typedef struct row {
    const char *calls; /* separated by spaces */
    void (*check)(objects *o);
} row;

static const row rows[] = {
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
    {"mpt_program_print", wrong_print},
    {"mpt_program_explain", wrong_explain},
    {"mpt_program_diff", wrong_diff},
    {"mpt_list", wrong_list},
    {"mpt_recipe_reference", wrong_reference},
    {"mpt_recipe_annotations", wrong_annotations},
    {"mpt_trainer_create", wrong_trainer_create},
    {"mpt_trainer_step mpt_trainer_eval mpt_trainer_finish", wrong_trainer_calls},
    {"mpt_trainer_forward", wrong_trainer_forward},
    {"mpt_sample", wrong_sample},
    {"mpt_tokens_shape mpt_trainer_eval_file mpt_trainer_measure", wrong_eval},
    {"mpt_trainer_load_weights mpt_trainer_save_weights", wrong_trainer_weights},
    {"mpt_program_export_weights", wrong_export_weights},
    {"mpt_quantize_file", wrong_quantize_file},
    {"mpt_probe_file", wrong_probe_file},
    {"mpt_bench_quantizers", wrong_bench},
    {"mpt_bench_program", wrong_bench_program},
    {"mpt_tokens_file", wrong_tokens},
};

static void test_call_when_arguments_are_wrong_then_they_are_named(void **state) {
    (void)state;
    objects o;
    open_objects(&o);
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        rows[i].check(&o);
    close_objects(&o);
}

/* ---- model.h ---- */

typedef struct drawing_case {
    const char *call;
    void (*draw)(mpt_nn *nn); /* one wrong call; a builder of NULL is another */
    const char *named;
} drawing_case;

#define DRAW(name, expression)                                                                 \
    static void name(mpt_nn *nn) {                                                             \
        mpt_model_value x = mpt_model_tokens(nn), ids[8] = {0};                                \
        (void)x, (void)ids;                                                                    \
        (void)(expression);                                                                    \
    }
DRAW(draw_prefix, mpt_model_prefix(nn, NULL))
DRAW(draw_prefix_open, mpt_model_prefix(nn, "model"))
DRAW(draw_block, mpt_model_block(nn, NULL, 0))
DRAW(draw_end_block, mpt_model_end_block(nn))
DRAW(draw_embedding, mpt_model_embedding(nn, NULL, x, 0, 8))
DRAW(draw_embedding_of_none, mpt_model_embedding(nn, "e", -1, 0, 8))
DRAW(draw_linear, mpt_model_linear(nn, NULL, x, NULL))
DRAW(draw_linear_size, mpt_model_linear(nn, "l", x, &(mpt_linear){.size = 0}))
DRAW(draw_linear_parts, mpt_model_linear(nn, "l", x, MPT_LINEAR(.out = 4, .n_parts = 2)))
DRAW(draw_linear_part, mpt_model_linear(nn, "l", x,
                                        MPT_LINEAR(.out = 4, .n_parts = 2,
                                                   .parts = (const char *const[]){"a", NULL})))
DRAW(draw_rmsnorm, mpt_model_rmsnorm(nn, NULL, x, 0))
DRAW(draw_layernorm, mpt_model_layernorm(nn, NULL, x, 0, true))
DRAW(draw_gated, mpt_model_gated_rmsnorm(nn, "n", NULL, 1, 0))
DRAW(draw_attention, mpt_model_attention(nn, "a", NULL, 1, 1))
DRAW(draw_conv1d, mpt_model_conv1d(nn, NULL, x, 4, true))
DRAW(draw_scan, mpt_model_ssm_scan(nn, "s", NULL, 1, 1))
DRAW(draw_activation, mpt_model_activation(nn, NULL, x))
DRAW(draw_rope, mpt_model_rope(nn, -1, MPT_ROPE(.heads = 1)))
DRAW(draw_rope_size, mpt_model_rope(nn, x, &(mpt_rope_options){.size = 0}))
DRAW(draw_rope_kind, mpt_model_rope(nn, x, MPT_ROPE(.heads = 1, .kind = (mpt_rope_kind)3)))
DRAW(draw_scale, mpt_model_scale(nn, -1, 2))
DRAW(draw_swiglu, mpt_model_swiglu(nn, x, -1))
DRAW(draw_dropout, mpt_model_dropout(nn, NULL, x, 0.5f))
DRAW(draw_dropout_of_ids, mpt_model_dropout(nn, "d", x, 0))
DRAW(draw_add, mpt_model_add(nn, x, 99))
DRAW(draw_mul, mpt_model_mul(nn, -7, x))
DRAW(draw_split, mpt_model_split(nn, x, NULL, 2, ids))
DRAW(draw_split_out, mpt_model_split(nn, x, (const int64_t[]){4, 4}, 2, NULL))
DRAW(draw_split_none, mpt_model_split(nn, x, (const int64_t[]){4}, -1, ids))
DRAW(draw_concat, mpt_model_concat(nn, NULL, 2))
DRAW(draw_concat_none, mpt_model_concat(nn, ids, -1))
DRAW(draw_concat_many, mpt_model_concat(nn, ids, 9))
DRAW(draw_end, mpt_model_cross_entropy(nn, -1) == MPT_OK)

static void draw_nothing(mpt_nn *nn) {
    (void)mpt_model_positions(nn);
    (void)mpt_model_vocabulary(nn);
    (void)mpt_model_sequence(nn);
    mpt_model_at(nn, NULL, 0);
}

static const drawing_case drawings[] = {
    {"mpt_model_prefix", draw_prefix, "mpt_model_prefix: prefix is NULL"},
    {"mpt_model_prefix", draw_prefix_open, "'model' does not end in a dot"},
    {"mpt_model_block", draw_block, "mpt_model_block: root is NULL"},
    {"mpt_model_end_block", draw_end_block, "no block is open"},
    {"mpt_model_embedding", draw_embedding, "needs a name"},
    {"mpt_model_embedding", draw_embedding_of_none, "is no value"},
    {"mpt_model_linear", draw_linear, "needs a name"},
    {"mpt_model_linear", draw_linear_size, "the options have size 0"},
    {"mpt_model_linear", draw_linear_parts, "2 parts, but the array is NULL"},
    {"mpt_model_linear", draw_linear_part, "parts[1] is NULL"},
    {"mpt_model_rmsnorm", draw_rmsnorm, "needs a name"},
    {"mpt_model_layernorm", draw_layernorm, "needs a name"},
    {"mpt_model_gated_rmsnorm", draw_gated, "x_z is NULL"},
    {"mpt_model_attention", draw_attention, "q_k_v is NULL"},
    {"mpt_model_conv1d", draw_conv1d, "needs a name"},
    {"mpt_model_ssm_scan", draw_scan, "x_b_c_dt is NULL"},
    {"mpt_model_activation", draw_activation, "kind is NULL"},
    {"mpt_model_rope", draw_rope, "is no value"},
    {"mpt_model_rope", draw_rope_size, "the options have size 0"},
    {"mpt_model_rope", draw_rope_kind, "options.kind is 3"},
    {"mpt_model_scale", draw_scale, "is no value"},
    {"mpt_model_swiglu", draw_swiglu, "is no value"},
    {"mpt_model_dropout", draw_dropout, "needs a name"},
    {"mpt_model_dropout", draw_dropout_of_ids, "expected a floating format"},
    {"mpt_model_add", draw_add, "is no value"},
    {"mpt_model_mul", draw_mul, "is no value"},
    {"mpt_model_split", draw_split, "widths is NULL"},
    {"mpt_model_split", draw_split_out, "out_parts is NULL"},
    {"mpt_model_split", draw_split_none, ""},
    {"mpt_model_concat", draw_concat, "parts is NULL"},
    {"mpt_model_concat", draw_concat_none, "-1 inputs"},
    {"mpt_model_concat", draw_concat_many, "9 inputs"},
    {"mpt_model_cross_entropy", draw_end, "is no value"},
    {"mpt_model_tokens mpt_model_positions mpt_model_vocabulary mpt_model_sequence "
     "mpt_model_at",
     draw_nothing, "has no loss"},
};

/* What the build function of a test gives back, after one wrong call or none. */
typedef struct wish {
    void (*draw)(mpt_nn *nn);
    int status;
} wish;

static mpt_status build_wish(void *ud, mpt_nn *nn, bool proxy) {
    const wish *w = ud;
    (void)proxy;
    if (w->draw)
        w->draw(nn);
    return (mpt_status)w->status;
}

static void expect_build(wish w, mpt_status expected, const char *named) {
    mpt_program *program = NULL;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = make_recipe(ctx, build_tiny);
    assert_mpt_ok(ctx, mpt_recipe_set_model(recipe, "tiny", "8", build_wish, &w));
    mpt_status status = mpt_compile(recipe, NULL, &program);
    if (status != expected || !strstr(mpt_ctx_error(ctx)->message, named))
        fail_msg("expected '%s', got %s: %s", named, mpt_status_name(status),
                 mpt_ctx_error(ctx)->message);
    assert_int_equal(mpt_ctx_error(ctx)->code, expected);
    assert_null(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
}

/* The build function hides the failure, so the builder itself must have kept it. */
static void test_drawing_when_arguments_are_wrong_then_compiling_names_them(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(drawings); i++) {
        drawings[i].draw(NULL);
        expect_build((wish){drawings[i].draw, MPT_OK}, MPT_INVALID, drawings[i].named);
    }
}

static void test_build_when_its_status_says_nothing_then_that_is_said(void **state) {
    (void)state;
    expect_build((wish){NULL, 77}, MPT_INVALID,
                 "the model's build function returned 77, which is no status");
    expect_build((wish){NULL, -1}, MPT_INVALID, "returned -1, which is no status");
    expect_build((wish){NULL, MPT_IO}, MPT_IO, "returned MPT_IO and named no fault");
    expect_build((wish){draw_activation, 77}, MPT_INVALID, "which is no status");
}

/* ---- every public call has a row ---- */

static bool has_row(const char *name) {
    size_t n = strlen(name), i;
    for (i = 0; i < MPT_COUNT(rows) + MPT_COUNT(drawings); i++) {
        const char *at =
            i < MPT_COUNT(rows) ? rows[i].calls : drawings[i - MPT_COUNT(rows)].call;
        for (; (at = strstr(at, name)); at += n)
            if (at[n] == 0 || at[n] == ' ')
                return true;
    }
    return false;
}

/* Calls `MPT_API ... name(` of a header that have no row; gives how many calls it has. */
static int check_header(const char *path) {
    static char text[64 * 1024];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    int n = 0;
    for (char *p = text; (p = strstr(p, "\nMPT_API ")); n++) {
        char *end = strchr(p, '(');
        assert_non_null(end);
        *end = 0;
        const char *name = end;
        while (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= 'z'))
            name--;
        if (!has_row(name))
            fail_msg("%s has no row in this test", name);
        p = end + 1;
    }
    return n;
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **state) {
    (void)state;
    assert_in_range(check_header(MPT_SOURCE_DIR "/runtime/include/mpt/mpt.h"), 31, 200);
    assert_in_range(check_header(MPT_SOURCE_DIR "/runtime/include/mpt/model.h"), 20, 200);
    assert_in_range(check_header(MPT_SOURCE_DIR "/runtime/include/mpt/eval.h"), 3, 200);
    assert_in_range(check_header(MPT_SOURCE_DIR "/runtime/include/mpt/tools.h"), 3, 200);
    assert_false(has_row("mpt_recipe"));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_drawing_when_arguments_are_wrong_then_compiling_names_them),
    cmocka_unit_test(test_build_when_its_status_says_nothing_then_that_is_said),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};
MPT_TEST_MAIN(cases)
