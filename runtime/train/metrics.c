/* Lines of metrics.jsonl. See metrics.h; trainer.c and eval.c say what is in them. */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Appends what fits. No line of ours comes near the limit: names are cut. */
static void append(mpt_metrics_line *line, const char *text) {
    size_t n = strlen(text);
    if (n > sizeof line->text - line->n)
        n = sizeof line->text - line->n;
    memcpy(line->text + line->n, text, n);
    line->n += n;
}

static void append_key(mpt_metrics_line *line, const char *key) {
    append(line, line->n > 1 ? ",\"" : "\"");
    append(line, key);
    append(line, "\":");
}

/* The text between quotes; bytes over 127 are UTF-8 and stay. */
static void append_escaped(mpt_metrics_line *line, const char *text) {
    for (size_t i = 0; text[i] && i < MPT_METRICS_NAME; i++) {
        unsigned char c = (unsigned char)text[i];
        char piece[8] = {(char)c, 0};
        if (c == '"' || c == '\\')
            snprintf(piece, sizeof piece, "\\%c", c);
        else if (c < 0x20)
            snprintf(piece, sizeof piece, "\\u%04x", c);
        append(line, piece);
    }
}

void mpt_metrics_open(mpt_metrics_line *line) {
    line->n = 0;
    append(line, "{");
}

void mpt_metrics_close(mpt_metrics_line *line) {
    append(line, "}\n");
}

void mpt_metrics_begin(mpt_metrics_line *line, const char *event) {
    mpt_metrics_open(line);
    append(line, "\"event\":\"");
    append(line, event);
    append(line, "\"");
}

void mpt_metrics_integer(mpt_metrics_line *line, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    append_key(line, key);
    append(line, text);
}

void mpt_metrics_number(mpt_metrics_line *line, const char *key, double value) {
    char text[40] = "null";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.9g", value);
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.'; /* the host's locale is not JSON's */
    append_key(line, key);
    append(line, text);
}

void mpt_metrics_boolean(mpt_metrics_line *line, const char *key, bool value) {
    append_key(line, key);
    append(line, value ? "true" : "false");
}

void mpt_metrics_string(mpt_metrics_line *line, const char *key, const char *value) {
    append_key(line, key);
    append(line, "\"");
    append_escaped(line, value);
    append(line, "\"");
}

mpt_status mpt_metrics_end(mpt_metrics_line *line, mpt_ctx *ctx, mpt_write_fn write, void *ud) {
    mpt_metrics_close(line);
    if (!write || write(ud, line->text, line->n))
        return MPT_OK;
    return MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "metrics: the writer took no more lines");
}
