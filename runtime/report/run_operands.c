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

/* Where the columns stand on the axis of the curves; by steps where there are no curves. */
static mpt_status make_x(mpt_run_data *data, mpt_numbers *out) {
    bool exact;
    for (int i = 0; i < data->telemetry_step.n; i++) {
        double step = data->telemetry_step.at[i];
        MPT_TRY(mpt_numbers_add(
            data, out, data->step.n > 0 ? mpt_run_tokens_at(data, step, &exact) : step));
    }
    return MPT_OK;
}

static mpt_status put_heat(mpt_page *page, mpt_run_data *data, mpt_heat *heat) {
    mpt_numbers x = {0};
    mpt_run_marks marks = {0};
    int n = data->step.n;
    MPT_TRY(make_x(data, &x));
    if (n > 0) {
        MPT_TRY(mpt_run_make_marks(data, &marks));
        heat->x_low = data->tokens.at[0];
        heat->x_high = data->tokens.at[n - 1];
    }
    heat->title = "Signal to quantization noise by operand";
    heat->x_name = n > 0 ? "tokens" : "step";
    heat->value_name = "dB";
    heat->x = x.at;
    heat->marks = marks.at;
    heat->n_marks = marks.n;
    heat->low = heat->high = NAN;
    mpt_page_heat(page, heat);
    return MPT_OK;
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
    mpt_heat heat = {.rows = rows, .n_rows = n, .n_columns = columns, .values = values};
    return put_heat(page, data, &heat);
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

/* A run that quantized nothing is told so, lest the section seem to be lost. */
static void put_none(mpt_page *page, const mpt_run_data *data) {
    if (data->step.n == 0)
        return;
    mpt_page_section(page, "Operands");
    mpt_page_note(page, MPT_PAGE_PLAIN,
                  "There are no counts of operands: only those that a quantizer makes are "
                  "counted, and operands in BF16, FP16, TF32 or FP32 are cast, with no scale.");
}

mpt_status mpt_run_put_operands(mpt_page *page, mpt_run_data *data) {
    int n = data->n_operands, rows = n < MAP_ROWS ? n : MAP_ROWS;
    if (n == 0) {
        put_none(page, data);
        return MPT_OK;
    }
    const mpt_run_operand **sorted = mpt_arena_alloc(&data->arena, (size_t)n * sizeof *sorted);
    if (!sorted)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++)
        sorted[i] = &data->operands[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_lowest);
    mpt_page_section(page, "Operands");
    mpt_page_note(
        page, MPT_PAGE_PLAIN,
        "What quantizing did to each operand, counted at %d step%s of the run; shares "
        "are of its elements.",
        data->telemetry_step.n, data->telemetry_step.n == 1 ? "" : "s");
    if (rows < n)
        mpt_page_note(page, MPT_PAGE_PLAIN,
                      "The map has the %d noisiest of %d operands; telemetry.jsonl has all.",
                      rows, n);
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
