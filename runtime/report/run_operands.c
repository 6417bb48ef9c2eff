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

/* The last two words of an operand's name are its slot: where the layer's own name ends. */
static size_t layer_bytes(const char *name) {
    const char *slot = strrchr(name, '.');
    while (slot && slot > name && *--slot != '.')
        ;
    return slot ? (size_t)(slot - name) : strlen(name);
}

static int slot_rank(const char *slot) {
    static const char *const slots[] = {".fprop.x", ".fprop.w",  ".dgrad.dy",
                                        ".dgrad.w", ".wgrad.dy", ".wgrad.x"};
    int i = 0;
    while (i < (int)MPT_COUNT(slots) && strcmp(slot, slots[i]) != 0)
        i++;
    return i;
}

/* An operand in the map: its layer's place among the layers, and its slot's in the layer. */
typedef struct placed {
    const mpt_run_operand *operand;
    int layer, slot;
} placed;

static int by_place(const void *left, const void *right) {
    const placed *a = left, *b = right;
    return a->layer != b->layer ? a->layer - b->layer : a->slot - b->slot;
}

/* Layers stand in the order in which the telemetry first names them, which is the model's. */
static int layer_of(const mpt_run_data *data, const char *name) {
    size_t n = layer_bytes(name);
    for (int i = 0; i < data->n_operands; i++) {
        const char *other = data->operands[i].name;
        if (layer_bytes(other) == n && memcmp(other, name, n) == 0)
            return i;
    }
    return data->n_operands;
}

static mpt_status put_map(mpt_page *page, mpt_run_data *data, const placed *operands, int n) {
    int columns = data->telemetry_step.n;
    size_t cells = mpt_size_mul((size_t)n, (size_t)columns);
    double *values = mpt_arena_alloc(&data->arena, mpt_size_mul(cells, sizeof *values));
    const char **rows = mpt_arena_alloc(&data->arena, (size_t)n * sizeof *rows);
    if (!values || !rows)
        return MPT_OUT_OF_MEMORY;
    for (size_t i = 0; i < cells; i++)
        values[i] = NAN;
    for (int r = 0; r < n; r++) {
        rows[r] = operands[r].operand->name;
        for (int i = 0; i < operands[r].operand->sqnr.n; i++)
            values[(size_t)r * (size_t)columns + (size_t)operands[r].operand->column.at[i]] =
                operands[r].operand->sqnr.at[i];
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
    placed *map = mpt_arena_alloc(&data->arena, (size_t)rows * sizeof *map);
    if (!map)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < rows; i++) {
        const char *name = sorted[i]->name;
        map[i] = (placed){sorted[i], layer_of(data, name), slot_rank(name + layer_bytes(name))};
    }
    qsort(map, (size_t)rows, sizeof *map, by_place);
    MPT_TRY(put_map(page, data, map, rows));
    put_worst(page, sorted, n < TABLE_ROWS ? n : TABLE_ROWS);
    return MPT_OK;
}
