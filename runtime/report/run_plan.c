/* The plan on the page: what was computed in which format, memory, phases, warnings, hashes.
 * It is read from plan.json, of which nothing need be there. */
#include "report/run.h"

#include <math.h>
#include <string.h>

static const char *or_dash(const char *text) {
    return text ? text : "-";
}

static const char *text_of(const json_t *object, const char *key) {
    return or_dash(mpt_json_string(object, key));
}

static void put_size(mpt_page *page, double bytes) {
    if (bytes >= 1e9)
        mpt_page_cell(page, "%.2f GB", bytes * 1e-9);
    else if (bytes >= 1e6)
        mpt_page_cell(page, "%.2f MB", bytes * 1e-6);
    else
        mpt_page_cell(page, "%.2f kB", bytes * 1e-3);
}

static void put_coverage(mpt_page *page, const json_t *plan) {
    static const mpt_page_column columns[] = {
        {"format", false}, {"linear layers", true}, {"weights", true}};
    const json_t *layers = json_object_get(plan, "coverage");
    const json_t *weights = json_object_get(plan, "coverage_parameters");
    const char *format;
    json_t *count;
    if (json_object_size(layers) == 0)
        return;
    mpt_page_begin_table(page, "Linear layers by format", columns, (int)MPT_COUNT(columns));
    json_object_foreach((json_t *)layers, format, count) {
        mpt_page_cell(page, "%s", format);
        mpt_page_cell(page, "%.0f", json_number_value(count));
        mpt_page_cell(page, "%.0f", json_number_value(json_object_get(weights, format)));
    }
    mpt_page_end_table(page);
}

static void put_memory(mpt_page *page, const json_t *plan) {
    static const mpt_page_column columns[] = {{"memory", false}, {"", true}};
    const json_t *bytes = json_object_get(plan, "bytes");
    const char *name;
    json_t *value;
    if (json_object_size(bytes) == 0)
        return;
    mpt_page_begin_table(page, "Memory by class", columns, (int)MPT_COUNT(columns));
    json_object_foreach((json_t *)bytes, name, value) {
        mpt_page_cell(page, "%s", name);
        put_size(page, json_number_value(value));
    }
    mpt_page_end_table(page);
}

static void put_phases(mpt_page *page, const json_t *plan) {
    static const mpt_page_column columns[] = {{"phase", false},
                                              {"from step", true},
                                              {"steps", true},
                                              {"layers changed", true},
                                              {"schedule hash", false}};
    const json_t *phases = json_object_get(plan, "phases");
    size_t i;
    json_t *phase;
    if (json_array_size(phases) == 0)
        return;
    mpt_page_begin_table(page, "Phases", columns, (int)MPT_COUNT(columns));
    json_array_foreach((json_t *)phases, i, phase) {
        mpt_page_cell(page, "%s", text_of(phase, "name"));
        mpt_page_cell(page, "%.0f", mpt_json_double(phase, "from"));
        mpt_page_cell(page, "%.0f", mpt_json_double(phase, "steps"));
        mpt_page_cell(page, "%.0f", mpt_json_double(phase, "layers_changed"));
        mpt_page_cell(page, "%s", text_of(phase, "schedule_hash"));
    }
    mpt_page_end_table(page);
}

static void put_warnings(mpt_page *page, const json_t *plan) {
    const json_t *warnings = json_object_get(plan, "warnings");
    size_t i;
    json_t *warning;
    json_array_foreach((json_t *)warnings, i, warning) {
        const char *where = mpt_json_string(warning, "where");
        mpt_page_note(page, MPT_PAGE_BAD, "%s%s%s: %s", where ? where : "", where ? ": " : "",
                      text_of(warning, "name"), text_of(warning, "text"));
    }
}

/* ---- the formats of products ---- */

/* The operands of a product: "x nvfp4 [1, 16], w nvfp4 [16, 16]". */
static void put_operands(mpt_page *page, const json_t *layer, const char *gemm,
                         const char *const names[2]) {
    const json_t *product = json_object_get(layer, gemm);
    mpt_page_cell(page, "%s", text_of(json_object_get(product, names[0]), "format"));
    mpt_page_cell(page, "%s", text_of(json_object_get(product, names[1]), "format"));
}

static const char *const gemms[] = {"fprop", "dgrad", "wgrad"};
static const char *const operands[][2] = {{"x", "w"}, {"dy", "w"}, {"dy", "x"}};

/* Whether two layers compute alike, as far as the table tells. */
static bool same_formats(const json_t *a, const json_t *b) {
    for (size_t g = 0; g < MPT_COUNT(gemms); g++)
        for (int o = 0; o < 2; o++) {
            const char *name = operands[g][o];
            const json_t *x = json_object_get(json_object_get(a, gemms[g]), name);
            const json_t *y = json_object_get(json_object_get(b, gemms[g]), name);
            if (strcmp(text_of(x, "format"), text_of(y, "format")) != 0)
                return false;
        }
    return true;
}

static void put_formats(mpt_page *page, const json_t *plan) {
    static const mpt_page_column columns[] = {
        {"layers", true},    {"such as", false}, {"fprop x", false},  {"fprop w", false},
        {"dgrad dy", false}, {"dgrad w", false}, {"wgrad dy", false}, {"wgrad x", false}};
    const json_t *layers = json_object_get(plan, "layers");
    size_t n = json_array_size(layers);
    if (n == 0)
        return;
    mpt_page_begin_table(page, "Operands of the products", columns, (int)MPT_COUNT(columns));
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_array_get(layers, i);
        size_t alike = 0, first = i;
        for (size_t k = 0; k < n; k++) {
            if (!same_formats(layer, json_array_get(layers, k)))
                continue;
            first = k < first ? k : first;
            alike++;
        }
        if (first < i)
            continue;
        mpt_page_cell(page, "%zu", alike);
        mpt_page_cell(page, "%s", text_of(layer, "path"));
        for (size_t g = 0; g < MPT_COUNT(gemms); g++)
            put_operands(page, layer, gemms[g], operands[g]);
    }
    mpt_page_end_table(page);
}

/* What ran, as the executor counted it, and not what was planned. */
static void put_ran(mpt_page *page, const mpt_run_data *data) {
    static const mpt_page_column columns[] = {
        {"product", false}, {"operand", false}, {"operand", false}, {"runs", true}};
    if (data->n_gemms == 0)
        return;
    mpt_page_begin_table(page, "Products that ran", columns, (int)MPT_COUNT(columns));
    for (int i = 0; i < data->n_gemms; i++) {
        mpt_page_cell(page, "%s", data->gemms[i].gemm);
        mpt_page_cell(page, "%s", data->gemms[i].a);
        mpt_page_cell(page, "%s", data->gemms[i].b);
        mpt_page_cell(page, "%.0f", data->gemms[i].runs);
    }
    mpt_page_end_table(page);
}

void mpt_run_put_plan(mpt_page *page, const mpt_run_data *data) {
    const json_t *plan = data->plan, *train = json_object_get(plan, "train");
    if (!plan)
        return;
    mpt_page_section(page, "Plan");
    mpt_page_begin_facts(page);
    mpt_page_fact(page, "recipe", "%s", text_of(plan, "recipe"));
    mpt_page_fact(page, "recipe hash", "%s", text_of(plan, "recipe_hash"));
    mpt_page_fact(page, "backend", "%s%s", text_of(plan, "backend"),
                  data->of_kind[MPT_RUN_DEVICE] ? " at the end, before it another: see events"
                                                : "");
    mpt_page_fact(page, "parameters", "%.0f", mpt_json_double(plan, "parameters"));
    mpt_page_fact(page, "blocks", "%.0f", mpt_json_double(plan, "blocks"));
    mpt_page_fact(page, "steps", "%.0f", mpt_json_double(train, "steps"));
    mpt_page_fact(page, "batch", "%.0f x %.0f tokens", mpt_json_double(train, "batch"),
                  mpt_json_double(train, "sequence"));
    mpt_page_fact(page, "seed", "%.0f", mpt_json_double(train, "seed"));
    mpt_page_end_facts(page);
    put_warnings(page, plan);
    put_coverage(page, plan);
    put_formats(page, plan);
    put_ran(page, data);
    put_phases(page, plan);
    put_memory(page, plan);
}
