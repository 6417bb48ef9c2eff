/* The probe as JSON: an array of matrices, each with what every format does to it. */
#include <math.h>

#include "plan/json.h"
#include "tools/probe.h"

/* JSON has no infinity and no NaN. */
static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static const char *state_name(mpt_probe_state state) {
    static const char *const names[] = {[MPT_PROBE_OK] = "ok",
                                        [MPT_PROBE_EXACT] = "exact",
                                        [MPT_PROBE_ZERO] = "zero",
                                        [MPT_PROBE_NONFINITE] = "nonfinite"};
    return names[state];
}

static const char *damage_name(mpt_probe_damage damage) {
    static const char *const names[] = {[MPT_DAMAGE_NONE] = "none",
                                        [MPT_DAMAGE_NOISE] = "noise",
                                        [MPT_DAMAGE_LOST] = "lost",
                                        [MPT_DAMAGE_DESTROYED] = "destroyed",
                                        [MPT_DAMAGE_INPUT] = "input"};
    return names[damage];
}

static json_t *json_cell(const mpt_probe_line *line, const mpt_tool_format *format,
                         const mpt_probe_cell *cell) {
    const mpt_quantize_counts *c = &cell->counts;
    return json_pack("{s:o, s:s, s:s, s:o, s:f, s:f, s:f, s:I, s:I, s:f}", "format",
                     mpt_json_text(format->text), "state", state_name(cell->state), "damage",
                     damage_name(cell->damage), "sqnr_db", number(cell->sqnr), "zeros",
                     mpt_probe_share(cell, c->zeros), "underflow",
                     mpt_probe_share(cell, c->underflow), "saturated",
                     mpt_probe_share(cell, c->overflow), "nonfinite",
                     (json_int_t)line->nonfinite, "destroyed", (json_int_t)cell->destroyed,
                     "bits_per_weight", cell->bits);
}

static json_t *json_line(const mpt_probe *probe, const mpt_probe_line *line) {
    json_t *shape = json_array(), *formats = json_array();
    int failed = 0;
    for (int i = 0; i < line->tensor->rank; i++)
        failed |= json_array_append_new(shape, json_integer(line->tensor->dims[i]));
    for (int f = 0; f < probe->n_formats; f++)
        failed |= json_array_append_new(formats,
                                        json_cell(line, &probe->formats[f], &line->cells[f]));
    if (!failed)
        return json_pack("{s:o, s:o, s:o, s:o}", "tensor", mpt_json_text(line->tensor->name),
                         "shape", shape, "amax", number((double)line->amax), "formats",
                         formats);
    json_decref(shape);
    json_decref(formats);
    return NULL;
}

mpt_status mpt_probe_json(const mpt_probe *probe, mpt_str *out) {
    json_t *list = json_array();
    int failed = 0;
    for (int i = 0; i < probe->n_lines; i++)
        failed |= json_array_append_new(list, json_line(probe, &probe->lines[i]));
    if (failed) {
        json_decref(list);
        list = NULL;
    }
    return mpt_json_print(probe->ctx, list, out);
}
