/* What quantizing cost each operand over the run: a map of the noise, and the worst of them. */
#include "report/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the map and of the table that a page has room for. */
enum { MAP_ROWS = 480, TABLE_ROWS = 24 };

/* Operands by their lowest SQNR; those without any last. */
static int by_lowest(const void *left, const void *right) {
    const mpt_run_operand *const *a = left, *const *b = right;
    double x = (*a)->lowest, y = (*b)->lowest;
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

/* In the order of the telemetry, which is the model's. */
static int by_place(const void *left, const void *right) {
    const mpt_run_operand *const *a = left, *const *b = right;
    return (*a > *b) - (*a < *b);
}

static mpt_status put_map(mpt_page *page, mpt_run_data *data,
                          const mpt_run_operand *const *operands, int n) {
    int columns = data->telemetry_step.n;
    size_t cells = mpt_size_mul((size_t)n, (size_t)columns);
    double *values = mpt_arena_alloc(&data->arena, mpt_size_mul(cells, sizeof *values));
    const char **rows = mpt_arena_alloc(&data->arena, (size_t)n * sizeof *rows);
    if (!values || !rows)
        return MPT_OUT_OF_MEMORY;
    for (size_t i = 0; i < cells; i++)
        values[i] = NAN;
    for (int r = 0; r < n; r++) {
        rows[r] = operands[r]->name;
        for (int i = 0; i < operands[r]->sqnr.n; i++)
            values[(size_t)r * (size_t)columns + (size_t)operands[r]->column.at[i]] =
                operands[r]->sqnr.at[i];
    }
    mpt_page_heat(page, &(mpt_heat){.title = "Signal to quantization noise by operand",
                                    .x_name = "step",
                                    .value_name = "dB",
                                    .rows = rows,
                                    .n_rows = n,
                                    .x = data->telemetry_step.at,
                                    .n_columns = columns,
                                    .values = values,
                                    .low = NAN,
                                    .high = NAN});
    return MPT_OK;
}

static void put_decibels(mpt_page *page, double sqnr) {
    if (isinf(sqnr))
        mpt_page_cell(page, "nothing lost");
    else if (isnan(sqnr))
        mpt_page_cell(page, "no signal");
    else
        mpt_page_cell(page, "%.1f", sqnr);
}

static void put_number(mpt_page *page, const char *fmt_percent, double value) {
    if (isnan(value))
        mpt_page_cell(page, "-");
    else if (fmt_percent)
        mpt_page_cell(page, "%.3g %%", 100 * value);
    else
        mpt_page_cell(page, "%.4g", value);
}

static void put_worst(mpt_page *page, const mpt_run_operand *const *operands, int n) {
    static const mpt_page_column columns[] = {
        {"operand", false}, {"format", false},  {"lowest SQNR, dB", true},
        {"last, dB", true}, {"overflow", true}, {"underflow", true},
        {"zeros", true},    {"amax", true},     {"scale", true}};
    mpt_page_begin_table(page, "Noisiest operands; the last count of each", columns,
                         (int)MPT_COUNT(columns));
    for (int i = 0; i < n; i++) {
        const mpt_run_operand *o = operands[i];
        mpt_page_cell(page, "%s", o->name);
        mpt_page_cell(page, "%s", o->format);
        put_decibels(page, o->lowest);
        put_decibels(page, o->sqnr.at[o->sqnr.n - 1]);
        put_number(page, "%", o->overflow);
        put_number(page, "%", o->underflow);
        put_number(page, "%", o->zeros);
        put_number(page, NULL, o->amax);
        put_number(page, NULL, o->scale);
    }
    mpt_page_end_table(page);
}

mpt_status mpt_run_put_operands(mpt_page *page, mpt_run_data *data) {
    int n = data->n_operands, rows = n < MAP_ROWS ? n : MAP_ROWS;
    if (n == 0)
        return MPT_OK;
    const mpt_run_operand **sorted = mpt_arena_alloc(&data->arena, (size_t)n * sizeof *sorted);
    if (!sorted)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++)
        sorted[i] = &data->operands[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_lowest);
    mpt_page_section(page, "Operands");
    mpt_page_note(page, MPT_PAGE_PLAIN,
                  "What quantizing did to each operand, counted at %d steps of the run; shares "
                  "are of its elements.",
                  data->telemetry_step.n);
    if (rows < n)
        mpt_page_note(page, MPT_PAGE_PLAIN, "The %d noisiest of %d operands.", rows, n);
    const mpt_run_operand **placed =
        mpt_arena_alloc(&data->arena, (size_t)rows * sizeof *placed);
    if (!placed)
        return MPT_OUT_OF_MEMORY;
    memcpy(placed, sorted, (size_t)rows * sizeof *placed);
    qsort(placed, (size_t)rows, sizeof *placed, by_place);
    MPT_TRY(put_map(page, data, placed, rows));
    put_worst(page, sorted, n < TABLE_ROWS ? n : TABLE_ROWS);
    return MPT_OK;
}
