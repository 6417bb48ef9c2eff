/* Data of drawings as JSON inside the page, thinned to what a screen can show. */
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Stretches that a long series, or the columns of a heat map, are cut into. */
enum { SERIES_STRETCHES = 500, HEAT_COLUMNS = 240 };

/* ---- JSON ---- */

static void put(mpt_page *page, const char *json) {
    mpt_str_append(&page->html, json, strlen(json));
}

/* JSON inside a script element: no text may end it. Bytes over 127 stay. */
static void put_text(mpt_page *page, const char *text) {
    put(page, "\"");
    for (; text && *text; text++) {
        if (*text == '"' || *text == '\\' || *text == '<' || *text == '>' || *text == '&' ||
            (unsigned char)*text < 0x20)
            mpt_str_printf(&page->html, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            mpt_str_append(&page->html, text, 1);
    }
    put(page, "\"");
}

static void put_number(mpt_page *page, double value, int digits) {
    char text[40] = "null";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.*g", digits, value);
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.'; /* the host's locale is not JSON's */
    put(page, text);
}

static void put_key(mpt_page *page, const char *key, const char *text) {
    mpt_str_printf(&page->html, "\"%s\":", key);
    put_text(page, text);
    put(page, ",");
}

static void begin_drawing(mpt_page *page, const char *kind, const char *title, bool wide) {
    mpt_str_printf(&page->html,
                   "<figure class=\"drawing%s\"><script type=\"application/json\" "
                   "data-kind=\"%s\" id=\"drawing-%d\">{",
                   wide ? " wide" : "", kind, ++page->n_drawings);
    put_key(page, "title", title);
}

static void end_drawing(mpt_page *page) {
    put(page, "}</script></figure>\n");
}

/* ---- series ---- */

/* The points of a series that are shown, by index in rising order. */
typedef struct picks {
    int64_t at[3 * SERIES_STRETCHES + 2];
    int n;
} picks;

static void pick(picks *p, int64_t i) {
    if (p->n == 0 || p->at[p->n - 1] < i)
        p->at[p->n++] = i;
}

static void sort3(int64_t at[3]) {
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2 - i; k++)
            if (at[k] > at[k + 1]) {
                int64_t kept = at[k];
                at[k] = at[k + 1];
                at[k + 1] = kept;
            }
}

/* The lowest and the highest point of a stretch, and the first gap. */
static void pick_stretch(picks *p, const double *y, int64_t from, int64_t to) {
    int64_t found[3] = {-1, -1, -1};
    for (int64_t i = from; i < to; i++) {
        if (!isfinite(y[i]))
            found[2] = found[2] < 0 ? i : found[2];
        else if (found[0] < 0)
            found[0] = found[1] = i;
        else if (y[i] < y[found[0]])
            found[0] = i;
        else if (y[i] > y[found[1]])
            found[1] = i;
    }
    sort3(found);
    for (int i = 0; i < 3; i++)
        if (found[i] >= 0)
            pick(p, found[i]);
}

static void pick_points(picks *p, const mpt_series *s) {
    int64_t n = s->n;
    int stretches = n <= 2 * SERIES_STRETCHES ? (int)n : SERIES_STRETCHES;
    p->n = 0;
    if (n <= 0)
        return;
    pick(p, 0);
    for (int b = 0; b < stretches; b++)
        pick_stretch(p, s->y, n * b / stretches, n * (b + 1) / stretches);
    pick(p, n - 1);
}

static void put_picked(mpt_page *page, const char *key, const double *values, const picks *p,
                       int digits) {
    mpt_str_printf(&page->html, ",\"%s\":[", key);
    for (int i = 0; i < p->n; i++) {
        put(page, i ? "," : "");
        put_number(page, values[p->at[i]], digits);
    }
    put(page, "]");
}

static void put_series(mpt_page *page, const mpt_series *s) {
    picks p;
    pick_points(&p, s);
    put(page, "{\"name\":");
    put_text(page, s->name);
    put(page, s->dots ? ",\"dots\":true" : "");
    put(page, s->faint ? ",\"faint\":true" : "");
    put(page, s->aside ? ",\"aside\":true" : "");
    put_picked(page, "x", s->x, &p, 12);
    put_picked(page, "y", s->y, &p, 6);
    if (s->low && s->high) {
        put_picked(page, "low", s->low, &p, 6);
        put_picked(page, "high", s->high, &p, 6);
    }
    put(page, "}");
}

static void put_marks(mpt_page *page, const mpt_mark *marks, int n) {
    static const char *const tones[] = {"plain", "good", "bad"};
    put(page, ",\"marks\":[");
    for (int i = 0; i < n; i++) {
        put(page, i ? ",{" : "{");
        put_key(page, "tone", tones[marks[i].tone]);
        if (marks[i].label)
            put_key(page, "label", marks[i].label);
        put(page, "\"x\":");
        put_number(page, marks[i].x, 12);
        put(page, "}");
    }
    put(page, "]");
}

void mpt_page_plot(mpt_page *page, const mpt_plot *plot) {
    begin_drawing(page, "plot", plot->title, plot->wide);
    put_key(page, "x_name", plot->x_name);
    put_key(page, "y_name", plot->y_name);
    mpt_str_printf(&page->html, "\"log\":%s,\"series\":[", plot->log_y ? "true" : "false");
    for (int i = 0; i < plot->n_series; i++) {
        put(page, i ? ",\n" : "");
        put_series(page, &plot->series[i]);
    }
    put(page, "]");
    put_marks(page, plot->marks, plot->n_marks);
    put(page, ",\"levels\":[");
    for (int i = 0; i < plot->n_levels; i++) {
        put(page, i ? ",{" : "{");
        put_key(page, "label", plot->levels[i].label);
        put(page, "\"y\":");
        put_number(page, plot->levels[i].y, 8);
        put(page, "}");
    }
    put(page, "]");
    end_drawing(page);
}

/* ---- heat maps ---- */

/* What stands for a stretch of columns: the lowest value, which is where something is lost. */
static double lowest(const double *row, int from, int to) {
    double low = NAN;
    for (int i = from; i < to; i++)
        if (!isnan(row[i]) && !(low <= row[i]))
            low = row[i];
    return low;
}

/* null where there is none; infinities as texts, which JSON has no numbers for. */
static void put_value(mpt_page *page, double value) {
    if (isinf(value))
        put(page, value > 0 ? "\"inf\"" : "\"-inf\"");
    else
        put_number(page, value, 4);
}

void mpt_page_heat(mpt_page *page, const mpt_heat *heat) {
    int n = heat->n_columns < HEAT_COLUMNS ? heat->n_columns : HEAT_COLUMNS;
    bool axis = heat->x_high > heat->x_low;
    begin_drawing(page, "heat", heat->title, true);
    put_key(page, "x_name", heat->x_name);
    put_key(page, "value", heat->value_name);
    put(page, "\"low\":");
    put_number(page, heat->low, 6);
    put(page, ",\"high\":");
    put_number(page, heat->high, 6);
    put(page, ",\"x_low\":");
    put_number(page, axis ? heat->x_low : (double)NAN, 12);
    put(page, ",\"x_high\":");
    put_number(page, axis ? heat->x_high : (double)NAN, 12);
    put_marks(page, heat->marks, heat->n_marks);
    put(page, ",\"x\":[");
    for (int c = 0; c < n; c++) {
        put(page, c ? "," : "");
        put_number(page, heat->x[(int64_t)heat->n_columns * c / n], 12);
    }
    put(page, "],\"rows\":[");
    for (int r = 0; r < heat->n_rows; r++) {
        const double *row = heat->values + (size_t)r * (size_t)heat->n_columns;
        put(page, r ? ",\n{" : "{");
        put_key(page, "name", heat->rows[r]);
        put(page, "\"v\":[");
        for (int c = 0; c < n; c++) {
            put(page, c ? "," : "");
            put_value(page, lowest(row, (int)((int64_t)heat->n_columns * c / n),
                                   (int)((int64_t)heat->n_columns * (c + 1) / n)));
        }
        put(page, "]}");
    }
    put(page, "]");
    end_drawing(page);
}
