/* Wrong arguments to the calls of mpt/tools.h and mpt/eval.h: MPT_INVALID, the argument named,
 * no crash. */
#include "api_arguments.h"

#include "mpt/eval.h"
#include "mpt/tools.h"

static void wrong_eval(objects *o) {
    mpt_eval_options options = MPT_EVAL_OPTIONS_INIT, half = {.size = 4};
    int64_t n;
    BARE(mpt_tokens_shape(NULL, "t", &n, &n));
    refused(o->ctx, mpt_tokens_shape(o->ctx, NULL, &n, &n), "path is NULL");
    refused(o->ctx, mpt_tokens_shape(o->ctx, "t", NULL, &n), "out_batch is NULL");
    refused(o->ctx, mpt_tokens_shape(o->ctx, "t", &n, NULL), "out_sequence is NULL");
    BARE(mpt_trainer_eval_file(NULL, &options, NULL));
    refused(o->ctx, mpt_trainer_eval_file(o->trainer, NULL, NULL), "options is NULL");
    refused(o->ctx, mpt_trainer_eval_file(o->trainer, &half, NULL), "the options have size 4");
    refused(o->ctx, mpt_trainer_eval_file(o->trainer, &options, NULL), "o.tokens is NULL");
    options.tokens = "t";
    refused(o->ctx, mpt_trainer_eval_file(o->trainer, &options, NULL), "o.out is NULL");
    BARE(mpt_trainer_measure(NULL, NULL, NULL, NULL));
    refused(o->ctx, mpt_trainer_measure(o->trainer, NULL, NULL, NULL), "out is NULL");
}

static void wrong_quantize_file(objects *o) {
    mpt_quantize_options options = MPT_QUANTIZE_OPTIONS_INIT, half = {.size = 4};
    BARE(mpt_quantize_file(NULL, "e4m3", "a", "b", NULL, NULL));
    refused(o->ctx, mpt_quantize_file(o->ctx, NULL, "a", "b", NULL, NULL), "quantizer is NULL");
    refused(o->ctx, mpt_quantize_file(o->ctx, "e4m3", NULL, "b", NULL, NULL), "in is NULL");
    refused(o->ctx, mpt_quantize_file(o->ctx, "e4m3", "a", NULL, NULL, NULL), "out is NULL");
    refused(o->ctx, mpt_quantize_file(o->ctx, "e4m3", "a", "b", &half, NULL),
            "the options have size 4");
    options.n_threads = -1;
    refused(o->ctx, mpt_quantize_file(o->ctx, "e4m3", "a", "b", &options, NULL),
            "options.n_threads is -1");
    options.n_threads = 0;
    options.device = (mpt_device)3;
    refused(o->ctx, mpt_quantize_file(o->ctx, "e4m3", "a", "b", &options, NULL),
            "options.device is 3");
}

static void wrong_probe_file(objects *o) {
    mpt_probe_options options = MPT_PROBE_OPTIONS_INIT;
    BARE(mpt_probe_file(NULL, "a", NULL, write_nothing, NULL));
    refused(o->ctx, mpt_probe_file(o->ctx, NULL, NULL, write_nothing, NULL), "weights is NULL");
    refused(o->ctx, mpt_probe_file(o->ctx, "a", NULL, NULL, NULL), "write is NULL");
    options.n_threads = 4097;
    refused(o->ctx, mpt_probe_file(o->ctx, "a", &options, write_nothing, NULL),
            "options.n_threads is 4097");
    options.n_threads = 0;
    options.width = -1;
    refused(o->ctx, mpt_probe_file(o->ctx, "a", &options, write_nothing, NULL),
            "options.width is -1");
    options.width = 0;
    options.formats = "e4m3,";
    refused(o->ctx, mpt_probe_file(o->ctx, "a", &options, write_nothing, NULL),
            "there is no quantizer beside one of the commas");
}

static void wrong_bench(objects *o) {
    mpt_bench_options options = MPT_BENCH_OPTIONS_INIT;
    BARE(mpt_bench_quantizers(NULL, NULL, write_nothing, NULL));
    refused(o->ctx, mpt_bench_quantizers(o->ctx, NULL, NULL, NULL), "write is NULL");
    options.rows = -1;
    refused(o->ctx, mpt_bench_quantizers(o->ctx, &options, write_nothing, NULL),
            "options.rows and .cols are -1 and 0");
    options.rows = 0;
    options.cols = 1 << 21;
    refused(o->ctx, mpt_bench_quantizers(o->ctx, &options, write_nothing, NULL),
            "options.rows and .cols are 0 and 2097152");
    options.cols = 0;
    options.n_threads = -2;
    refused(o->ctx, mpt_bench_quantizers(o->ctx, &options, write_nothing, NULL),
            "options.n_threads is -2");
}

static void wrong_bench_program(objects *o) {
    mpt_bench_program_options options = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    BARE(mpt_bench_program(NULL, NULL, write_nothing, NULL));
    refused(o->ctx, mpt_bench_program(o->program, NULL, NULL, NULL), "write is NULL");
    options.steps = -1;
    refused(o->ctx, mpt_bench_program(o->program, &options, write_nothing, NULL),
            "options.steps is -1");
    options.steps = 4097;
    refused(o->ctx, mpt_bench_program(o->program, &options, write_nothing, NULL),
            "options.steps is 4097");
    options.steps = 0;
    options.peak_size = 16385;
    refused(o->ctx, mpt_bench_program(o->program, &options, write_nothing, NULL),
            "options.peak_size is 16385");
}

static void wrong_tokens(objects *o) {
    mpt_tokens_options options = MPT_TOKENS_OPTIONS_INIT;
    BARE(mpt_tokens_file(NULL, "in", NULL, NULL, write_nothing, NULL));
    refused(o->ctx, mpt_tokens_file(o->ctx, NULL, NULL, NULL, write_nothing, NULL),
            "in is NULL");
    refused(o->ctx, mpt_tokens_file(o->ctx, "in", NULL, NULL, NULL, NULL), "write is NULL");
    options.vocab = -1;
    refused(o->ctx, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file: options.vocab is no number of words");
    options.vocab = INT64_C(1) << 31;
    refused(o->ctx, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file: options.vocab is no number of words");
    options.vocab = 0;
    options.from = "texts";
    refused(o->ctx, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file: options.from 'texts' is no format of token files");
    options = (mpt_tokens_options){.size = 0};
    refused(o->ctx, mpt_tokens_file(o->ctx, "in", NULL, &options, write_nothing, NULL),
            "mpt_tokens_file");
}

static void wrong_sample(objects *o) {
    mpt_sample_options options = MPT_SAMPLE_OPTIONS_INIT;
    BARE(mpt_sample(NULL, &options, write_nothing, NULL));
    refused(o->ctx, mpt_sample(o->trainer, &options, NULL, NULL), "write is NULL");
    options.size = 4;
    refused(o->ctx, mpt_sample(o->trainer, &options, write_nothing, NULL),
            "the options have size 4");
}

static const api_row eval_rows[] = {
    {"mpt_tokens_shape mpt_trainer_eval_file mpt_trainer_measure", wrong_eval},
};

static const api_row tools_rows[] = {
    {"mpt_quantize_file", wrong_quantize_file}, {"mpt_probe_file", wrong_probe_file},
    {"mpt_bench_quantizers", wrong_bench},      {"mpt_bench_program", wrong_bench_program},
    {"mpt_tokens_file", wrong_tokens},          {"mpt_sample", wrong_sample},
};

static void test_call_when_arguments_are_wrong_then_they_are_named(void **state) {
    (void)state;
    check_rows(eval_rows, MPT_COUNT(eval_rows));
    check_rows(tools_rows, MPT_COUNT(tools_rows));
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **state) {
    (void)state;
    assert_header("eval.h", eval_rows);
    assert_header("tools.h", tools_rows);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};
MPT_TEST_MAIN(cases)
