/* The calls of mpt/tools.h: they read the quantizers and check the options, then hand over to
 * runtime/tools, which knows no Lua. */
#include "mpt/tools.h"

#include "lua/bind/expression.h"
#include "tools/tools.h"

enum { MOST_THREADS = 4096, MOST_EXTENT = 1 << 20 };

static mpt_status check_threads(mpt_ctx *ctx, const char *call, int n_threads) {
    if (n_threads >= 0 && n_threads <= MOST_THREADS)
        return MPT_OK;
    return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                    "%s: options.n_threads is %d, expected 0 (all cores) to %d", call,
                    n_threads, MOST_THREADS);
}

/* The way out of a refusal of memory is another one than in training. */
static mpt_status with_way_out(mpt_ctx *ctx, mpt_status status, const char *way_out) {
    if (status == MPT_OUT_OF_MEMORY)
        mpt_hint(ctx, "%s", way_out);
    return status;
}

static const char one_tensor[] =
    "free memory, or use a machine with more: the largest tensor is held whole, with its codes";
static const char one_matrix[] = "free memory, or take a matrix of fewer rows or columns";

static mpt_status read_format(mpt_ctx *ctx, const char *text, mpt_tool_format *out) {
    out->text = text;
    return mpt_quantizer_from_text(ctx, text, &out->q);
}

mpt_status mpt_quantize_file(mpt_ctx *ctx, const char *quantizer, const char *in,
                             const char *out, const mpt_quantize_options *options,
                             mpt_quantize_summary *out_summary) {
    mpt_quantize_options o = MPT_QUANTIZE_OPTIONS_INIT;
    mpt_tool_format format;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, quantizer);
    MPT_REQUIRE(ctx, in);
    MPT_REQUIRE(ctx, out);
    MPT_TRY(mpt_options_read(ctx, __func__, options, &o, sizeof o));
    MPT_TRY(check_threads(ctx, __func__, o.n_threads));
    if ((unsigned)o.device > MPT_DEVICE_CPU)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: options.device is %d, which is no device", __func__,
                        (int)o.device);
    mpt_status status = read_format(ctx, quantizer, &format);
    if (status == MPT_OK)
        status = mpt_tool_quantize(ctx, &format, in, out, &o, out_summary);
    return with_way_out(ctx, status, one_tensor);
}

/* Hands a finished text to the host, and frees it. */
static mpt_status give(mpt_str *text, mpt_status status, mpt_write_fn write, void *ud) {
    if (status == MPT_OK && text->failed)
        status = mpt_fail_memory(text->ctx, text->cap);
    if (status == MPT_OK && !write(ud, text->data, text->len))
        status = MPT_FAIL(text->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(text);
    return status;
}

static mpt_status probe(mpt_arena *arena, const char *weights, const mpt_probe_options *o,
                        mpt_str *text) {
    const char *pieces[MPT_TOOL_FORMATS];
    mpt_tool_format formats[MPT_TOOL_FORMATS];
    int n;
    MPT_TRY(mpt_tool_split(arena, o->formats, pieces, &n));
    for (int i = 0; i < n; i++)
        MPT_TRY(read_format(arena->ctx, pieces[i], &formats[i]));
    return mpt_tool_probe(arena->ctx, formats, n, weights, o, text);
}

mpt_status mpt_probe_file(mpt_ctx *ctx, const char *weights, const mpt_probe_options *options,
                          mpt_write_fn write, void *ud) {
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    mpt_arena arena;
    mpt_str text;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, weights);
    MPT_REQUIRE(ctx, write);
    MPT_TRY(mpt_options_read(ctx, __func__, options, &o, sizeof o));
    MPT_TRY(check_threads(ctx, __func__, o.n_threads));
    if (o.width < 0)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: options.width is %d, expected 0 (no limit) or columns", __func__,
                        o.width);
    if (!o.formats)
        o.formats = "nvfp4,mxfp4,mxfp6,mxfp8,e4m3";
    mpt_arena_init(&arena, ctx);
    mpt_str_init(&text, ctx);
    mpt_status status = give(&text, probe(&arena, weights, &o, &text), write, ud);
    mpt_arena_deinit(&arena);
    return with_way_out(ctx, status, one_tensor);
}

mpt_status mpt_bench_quantizers(mpt_ctx *ctx, const mpt_bench_options *options,
                                mpt_write_fn write, void *ud) {
    mpt_bench_options o = MPT_BENCH_OPTIONS_INIT;
    mpt_str text;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, write);
    MPT_TRY(mpt_options_read(ctx, __func__, options, &o, sizeof o));
    MPT_TRY(check_threads(ctx, __func__, o.n_threads));
    if (o.rows < 0 || o.rows > MOST_EXTENT || o.cols < 0 || o.cols > MOST_EXTENT)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: options.rows and .cols are %lld and %lld, expected 0 (4096) to %d",
                        __func__, (long long)o.rows, (long long)o.cols, MOST_EXTENT);
    mpt_str_init(&text, ctx);
    mpt_status status = give(&text, mpt_tool_bench(ctx, &o, &text), write, ud);
    return with_way_out(ctx, status, one_matrix);
}
