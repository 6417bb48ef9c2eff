/* The result of `mptrun bench --quantizers`, as a table or as JSON. */
#include "tools/bench.h"

#include <omp.h>

#include "base/table.h"
#include "kernels/cpu/quantize.h"
#include "plan/json.h"
#include "plan/text.h"

static double melem(const mpt_bench_line *line) {
    return line->elements / line->seconds * 1e-6;
}

static void print_line(const mpt_bench_line *line, mpt_table *table) {
    mpt_table_cell(table, "%s", line->name);
    mpt_table_cell(table, "%.0f", melem(line));
    mpt_table_cell(table, "%.1f", line->bytes / line->seconds * 1e-9);
    mpt_table_cell(table, "%.2f", line->of_copy);
}

/* What instructions the kernels were found to run with. */
static const char *level_name(void) {
    static const char *const names[MPT_LEVEL_COUNT] = {"portable C", "AVX2", "AVX-512"};
    return names[mpt_quantize_best_level()];
}

static void print_table(mpt_ctx *ctx, const mpt_bench_result *result, mpt_str *out) {
    mpt_table table;
    mpt_words threads = {.len = 0};
    mpt_words_things(&threads, omp_get_max_threads(), "thread");
    mpt_str_printf(out, "%lld x %lld float32, %s, %s kernels\n\n", (long long)result->rows,
                   (long long)result->cols, threads.data, level_name());
    mpt_table_init(&table, ctx, "quantizer|>Melem/s|>GB/s|>of copy");
    for (int i = 0; i < result->n_lines; i++)
        print_line(&result->line[i], &table);
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
    mpt_str_printf(out,
                   "\nGB/s is what is read and written; a quantizer that needs the amax of "
                   "the whole matrix reads it\ntwice. 'of copy' is against the copies made "
                   "just before and after each run.\n");
}

static json_t *json_line(const mpt_bench_line *line) {
    return json_pack("{s:s, s:f, s:f, s:f}", "name", line->name, "melem_per_s", melem(line),
                     "gb_per_s", line->bytes / line->seconds * 1e-9, "fraction_of_copy",
                     line->of_copy);
}

static mpt_status print_json(mpt_ctx *ctx, const mpt_bench_result *result, mpt_str *out) {
    json_t *list = json_array();
    int failed = 0;
    for (int i = 0; i < result->n_lines; i++)
        failed |= json_array_append_new(list, json_line(&result->line[i]));
    if (failed) {
        json_decref(list);
        list = NULL;
    }
    return mpt_json_print(ctx, list, out);
}

mpt_status mpt_tool_bench_print(mpt_ctx *ctx, const mpt_bench_result *result, bool json,
                                mpt_str *out) {
    if (json)
        return print_json(ctx, result, out);
    print_table(ctx, result, out);
    return MPT_OK;
}
