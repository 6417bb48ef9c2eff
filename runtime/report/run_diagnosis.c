/* Why a run stopped itself, on its page: the members of the event `diagnosis`, in words. */
#include "report/run.h"

#include <math.h>
#include <string.h>

#include "io/file.h"

const char *mpt_run_reason(const mpt_run_data *data) {
    static const struct {
        const char *name, *words;
    } reasons[] = {{"max_skips", "too many steps in a row were skipped"},
                   {"nonfinite", "a gradient was not finite"},
                   {"rollbacks", "after a rollback the same spike was there again"},
                   {"diverged", "too many steps were skipped"}};
    const char *text = mpt_json_string(data->diagnosis, "text");
    if (!data->diagnosis || text)
        return text;
    const char *reason = mpt_json_string(data->diagnosis, "reason");
    for (size_t i = 0; reason && i < MPT_COUNT(reasons); i++)
        if (strcmp(reason, reasons[i].name) == 0)
            return reasons[i].words;
    return reason ? reason : "it stopped itself";
}

static const char *text_of(const mpt_run_data *data, const char *key) {
    const char *text = mpt_json_string(data->diagnosis, key);
    return text ? text : "?";
}

static double number_of(const mpt_run_data *data, const char *key) {
    return mpt_json_double(data->diagnosis, key);
}

static void put_first(mpt_page *page, const mpt_run_data *data) {
    bool weights = strcmp(text_of(data, "op"), "weights") == 0;
    bool backward = strcmp(text_of(data, "pass"), "backward") == 0;
    if (!mpt_json_string(data->diagnosis, "tensor"))
        return;
    mpt_page_cell(page, "first bad tensor");
    if (weights)
        mpt_page_cell(page, "%s in the weights %s", text_of(data, "fault"),
                      text_of(data, "tensor"));
    else
        mpt_page_cell(page, "%s in %s (%s, %s)%s", text_of(data, "fault"),
                      text_of(data, "tensor"), text_of(data, "op"), text_of(data, "format"),
                      backward ? ", in the backward pass" : "");
    mpt_page_cell(page, "its elements");
    mpt_page_cell(page, "%.0f of %.0f NaN, %.0f Inf; amax of the others %.4g",
                  number_of(data, "nan"), number_of(data, "elements"), number_of(data, "inf"),
                  number_of(data, "amax"));
    if (!isfinite(number_of(data, "input_amax")))
        return;
    mpt_page_cell(page, "amax of what it was made from");
    mpt_page_cell(page, "%.4g", number_of(data, "input_amax"));
}

static void put_gradient(mpt_page *page, const mpt_run_data *data) {
    double amax = number_of(data, "gradient_amax");
    if (!mpt_json_string(data->diagnosis, "gradient"))
        return;
    mpt_page_cell(page, "first bad gradient");
    if (isnan(amax))
        mpt_page_cell(page, "%s in %s", text_of(data, "gradient_fault"),
                      text_of(data, "gradient"));
    else
        mpt_page_cell(page, "%s in %s; amax of its finite elements %.4g",
                      text_of(data, "gradient_fault"), text_of(data, "gradient"), amax);
}

/* "65536 from step 0, 32768 from step 7" */
static void put_scales(mpt_page *page, const mpt_run_data *data) {
    const json_t *scales = json_object_get(data->diagnosis, "loss_scales");
    mpt_str text;
    if (json_array_size(scales) == 0)
        return;
    mpt_str_init(&text, data->ctx);
    for (size_t i = 0; i < json_array_size(scales); i++) {
        const json_t *pair = json_array_get(scales, i);
        mpt_str_printf(&text, "%s%g from step %.0f", i ? ", " : "",
                       json_number_value(json_array_get(pair, 1)),
                       json_number_value(json_array_get(pair, 0)));
    }
    mpt_page_cell(page, "loss scale");
    mpt_page_cell(page, "%s", text.data ? text.data : "");
    page->html.failed |= text.failed;
    mpt_str_deinit(&text);
}

/* A state that was saved at the stop has the step behind the last one; no good one has. */
static void put_saved(mpt_page *page, const mpt_run_data *data) {
    char path[4200];
    double step = data->step.n > 0 ? data->step.at[data->step.n - 1] + 1 : 0;
    int n = snprintf(path, sizeof path, "%s/checkpoints/step-%.0f", data->folder, step);
    if (n < 0 || (size_t)n >= sizeof path || !mpt_file_is_folder(path))
        return;
    mpt_page_cell(page, "state at the stop");
    mpt_page_cell(page, "checkpoints/step-%.0f, which is no good checkpoint", step);
}

void mpt_run_put_diagnosis(mpt_page *page, const mpt_run_data *data) {
    static const mpt_page_column columns[] = {{"", false}, {"", false}};
    const char *advice = mpt_json_string(data->diagnosis, "advice");
    double loss = number_of(data, "loss");
    if (!data->diagnosis)
        return;
    mpt_page_section(page, "Why it stopped");
    if (advice && *advice)
        mpt_page_note(page, MPT_PAGE_BAD, "What to try: %s.", advice);
    mpt_page_begin_table(page, NULL, columns, (int)MPT_COUNT(columns));
    mpt_page_cell(page, "stopped");
    mpt_page_cell(page, "at step %.0f: %s", number_of(data, "step"), mpt_run_reason(data));
    put_first(page, data);
    put_gradient(page, data);
    mpt_page_cell(page, "training loss of that step");
    if (isnan(loss))
        mpt_page_cell(page, "not finite");
    else
        mpt_page_cell(page, "%.6g", loss);
    put_scales(page, data);
    put_saved(page, data);
    mpt_page_end_table(page);
    mpt_page_note(page, MPT_PAGE_PLAIN, "The same as text: diagnosis.txt.");
}
