/* The result of `mptrun bench RECIPE.lua`, as text or as JSON. */
#include <string.h>

#include "base/table.h"
#include "plan/json.h"
#include "plan/text.h"
#include "tools/bench_program.h"

/* ---- classes ---- */

typedef struct class_time {
    mpt_op_class class;
    double seconds;
} class_time;

/* The classes that took time, those that took most first; their seconds sum up to the step's.
 */
static int classes_of(const mpt_program_bench *b, class_time out[MPT_OP_CLASS_COUNT]) {
    double seconds[MPT_OP_CLASS_COUNT] = {0}, in_ops = 0;
    int n = 0;
    for (int op = 0; op < MPT_OP_COUNT; op++) {
        seconds[mpt_op_class_of((mpt_op)op)] += b->ops[op].seconds;
        in_ops += b->ops[op].seconds;
    }
    seconds[MPT_OP_CLASS_DATA] += b->told > in_ops ? b->told - in_ops : 0;
    for (int c = 0; c < MPT_OP_CLASS_COUNT; c++) {
        int at = n;
        if (seconds[c] <= 0)
            continue;
        for (; at > 0 && out[at - 1].seconds < seconds[c]; at--)
            out[at] = out[at - 1];
        out[at] = (class_time){(mpt_op_class)c, seconds[c]};
        n++;
    }
    return n;
}

/* The op of a class that took most among those after `last`, the one told before it; -1: none
 * is left. */
static int next_op(const mpt_program_bench *b, mpt_op_class class, int last) {
    int best = -1;
    for (int op = 0; op < MPT_OP_COUNT; op++) {
        double s = b->ops[op].seconds;
        bool told = last >= 0 &&
                    (s > b->ops[last].seconds || (s == b->ops[last].seconds && op <= last));
        if (b->ops[op].calls == 0 || told || mpt_op_class_of((mpt_op)op) != class)
            continue;
        if (best < 0 || s > b->ops[best].seconds)
            best = op;
    }
    return best;
}

static double tokens_per_s(const mpt_program_bench *b) {
    const mpt_train *train = &b->program->train;
    return (double)train->batch * (double)train->sequence / b->median;
}

static double rate(double flops, double seconds) {
    return seconds > 0 ? flops / seconds * 1e-9 : 0;
}

/* ---- text ---- */

static void print_head(const mpt_program_bench *b, mpt_str *out) {
    mpt_program_info info = mpt_program_get_info(b->program);
    mpt_words parameters = {.len = 0}, threads = {.len = 0}, steps = {.len = 0};
    mpt_words_count(&parameters, info.parameters);
    mpt_words_things(&threads, b->program->n_threads, "thread");
    mpt_words_things(&steps, b->steps, "step");
    mpt_str_printf(out, "%s: %s %s, %s parameters\n\n", info.recipe, info.model, info.size_name,
                   parameters.data);
    mpt_text_linef(out, "measured", "%s of %lld x %lld tokens after %d of warm-up, %s, %s",
                   steps.data, (long long)info.batch, (long long)info.sequence, b->warm_up,
                   info.device, threads.data);
    if (b->n_skipped)
        mpt_text_linef(out, "skipped",
                       "%d of them: their gradients were not finite, and the optimizer did "
                       "nothing",
                       b->n_skipped);
}

static void print_figures(const mpt_program_bench *b, mpt_str *out) {
    double gemm = rate(b->gemm_flops, b->gemm_seconds), peak = b->peak * 1e-9;
    double step = rate(b->gemm_flops, b->fastest);
    mpt_text_linef(out, "step", "fastest %.2f ms, median %.2f ms: %.0f tokens/s",
                   b->fastest * 1e3, b->median * 1e3, tokens_per_s(b));
    mpt_text_linef(out, "gemm",
                   "%.1f GFLOP/s in the GEMMs of linear layers, %.1f over the step; the "
                   "peak is %.1f, of %s: %.2f and %.2f of it",
                   gemm, step, peak,
                   b->on_device ? "the best GEMM seen"
                                : "the library on large matrices or of the best GEMM seen",
                   gemm / peak, step / peak);
    if (b->bytes && b->planned)
        mpt_text_linef(out, "memory", "%.2f MB taken%s, %.2f MB planned: %.2f of the plan",
                       (double)b->bytes / 1e6, b->on_device ? " on the device" : "",
                       (double)b->planned / 1e6, (double)b->bytes / (double)b->planned);
}

static void print_class(const mpt_program_bench *b, const class_time *c, mpt_table *table) {
    mpt_words ops = {.len = 0};
    mpt_table_cell(table, "%s", mpt_op_class_name(c->class));
    mpt_table_cell(table, "%.2f", c->seconds * 1e3);
    mpt_table_cell(table, "%.1f %%", c->seconds / b->told * 100);
    for (int op = next_op(b, c->class, -1); op >= 0; op = next_op(b, c->class, op))
        mpt_words_add(&ops, "%s%s %.2f", ops.len ? ", " : "", mpt_op_get((mpt_op)op)->name,
                      b->ops[op].seconds * 1e3);
    if (c->class == MPT_OP_CLASS_DATA)
        mpt_words_add(&ops, b->on_device
                                ? "the batch, and the device idle between ranges of ops"
                                : "the batch, and the walk from op to op");
    mpt_table_cell(table, "%s", ops.data);
}

static void print_text(mpt_ctx *ctx, const mpt_program_bench *b, mpt_str *out) {
    class_time classes[MPT_OP_CLASS_COUNT];
    mpt_table table;
    int n = classes_of(b, classes);
    print_head(b, out);
    print_figures(b, out);
    if (b->on_device)
        mpt_str_printf(out,
                       "\ntime by class of op, of a step of %.2f ms whose ops were launched "
                       "one by one\n",
                       b->told * 1e3);
    else
        mpt_str_printf(out, "\ntime of the fastest step by class of op\n");
    mpt_table_init(&table, ctx, "class|>ms|>share|ms by op");
    for (int i = 0; i < n; i++)
        print_class(b, &classes[i], &table);
    mpt_text_table(out, &table);
}

/* ---- JSON ---- */

static json_t *json_classes(const mpt_program_bench *b) {
    class_time classes[MPT_OP_CLASS_COUNT];
    json_t *list = json_array();
    int n = classes_of(b, classes), failed = 0;
    for (int i = 0; i < n; i++)
        failed |= json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "class",
                                                        mpt_op_class_name(classes[i].class),
                                                        "share", classes[i].seconds / b->told,
                                                        "ms", classes[i].seconds * 1e3));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* The single ops under the classes, in the order of the op table. */
static json_t *json_single(const mpt_program_bench *b) {
    json_t *list = json_array();
    int failed = 0;
    for (int op = 0; op < MPT_OP_COUNT; op++)
        if (b->ops[op].calls > 0)
            failed |= json_array_append_new(
                list, json_pack("{s:s, s:s, s:f, s:f, s:f}", "op", mpt_op_get((mpt_op)op)->name,
                                "class", mpt_op_class_name(mpt_op_class_of((mpt_op)op)),
                                "calls", (double)b->ops[op].calls, "share",
                                b->ops[op].seconds / b->told, "ms", b->ops[op].seconds * 1e3));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *json_bytes(uint64_t bytes) {
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static mpt_status print_json(mpt_ctx *ctx, const mpt_program_bench *b, mpt_str *out) {
    json_t *json =
        json_pack("{s:{s:f, s:f}, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:o, s:o, s:o, s:o}",
                  "step_ms", "min", b->fastest * 1e3, "median", b->median * 1e3, "tokens_per_s",
                  tokens_per_s(b), "gemm_gflops", rate(b->gemm_flops, b->gemm_seconds),
                  "step_gflops", rate(b->gemm_flops, b->fastest), "peak_gflops", b->peak * 1e-9,
                  "steps", b->steps, "skipped", b->n_skipped, "threads", b->program->n_threads,
                  "peak_bytes", json_bytes(b->bytes), "planned_bytes", json_bytes(b->planned),
                  "ops", json_classes(b), "single_ops", json_single(b));
    return mpt_json_print(ctx, json, out);
}

mpt_status mpt_program_bench_print(mpt_ctx *ctx, const mpt_program_bench *bench, bool json,
                                   mpt_str *out) {
    if (json)
        return print_json(ctx, bench, out);
    print_text(ctx, bench, out);
    return MPT_OK;
}
