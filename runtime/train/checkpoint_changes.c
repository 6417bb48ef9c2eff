/* What differs between the run that wrote a checkpoint and the one that goes on: fields of the
 * recipe by their canonical text, one a line, then schedules and data. */
#include "train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 3, FIELD = 100, VALUE = 48 };

/* ---- lines of the canonical text ---- */

/* "train.lr.peak = 0.01": the field, and what it is. A line without " = " is all field. */
typedef struct line {
    const char *text, *value;
    int n_field, n_value;
} line;

/* The line at `text`, and where the next begins; false at the end. */
static bool next_line(const char **text, line *out) {
    if (!**text)
        return false;
    int n = (int)strcspn(*text, "\n"), field = 0;
    while (field < n && strncmp(*text + field, " = ", 3) != 0)
        field++;
    int value = field < n ? field + 3 : n;
    *out = (line){*text, *text + value, field, n - value};
    *text += (*text)[n] ? n + 1 : n;
    return true;
}

static bool find_line(const char *text, const line *wanted, line *out) {
    while (next_line(&text, out))
        if (out->n_field == wanted->n_field &&
            memcmp(out->text, wanted->text, (size_t)wanted->n_field) == 0)
            return true;
    return false;
}

static bool same_value(const line *a, const line *b) {
    return a->n_value == b->n_value && memcmp(a->value, b->value, (size_t)a->n_value) == 0;
}

/* ---- the list ---- */

static const char *begin_item(int *n) {
    (*n)++;
    if (*n <= SHOWN)
        return *n > 1 ? "; " : "";
    return NULL;
}

/* How much of a value is shown: what is long ends behind a word. */
static int shown_of(const line *of) {
    int n = of->n_value;
    if (n <= VALUE)
        return n;
    for (n = VALUE; n > 1 && of->value[n] != ' ';)
        n--;
    return n > 1 ? n : VALUE;
}

/* As a person writes it: the canonical text has all digits of a number. */
static void add_value(mpt_str *out, const line *of) {
    char value[VALUE + 1], *end;
    snprintf(value, sizeof value, "%.*s", shown_of(of), of->value);
    double number = strtod(value, &end);
    if (*value && !*end)
        mpt_str_printf(out, "%.15g", number);
    else
        mpt_str_printf(out, "%s%s", value, shown_of(of) < of->n_value ? " ..." : "");
}

/* One field; `now` or `was` NULL where only the other recipe has it. */
static void add_field(mpt_str *out, int *n, const line *now, const line *was) {
    const char *lead = begin_item(n);
    const line *any = now ? now : was;
    if (!lead)
        return;
    mpt_str_printf(out, "%s%.*s: ", lead, any->n_field < FIELD ? any->n_field : FIELD,
                   any->text);
    if (now)
        add_value(out, now);
    mpt_str_printf(out, "%s",
                   !now  ? "no longer said, was "
                   : was ? ", was "
                         : ", was not said");
    if (was)
        add_value(out, was);
}

static void add_texts(mpt_str *out, int *n, const char *what, const char *now,
                      const char *was) {
    const char *lead = strcmp(now, was) != 0 ? begin_item(n) : NULL;
    if (lead)
        mpt_str_printf(out, "%s%s: %.*s, was %.*s", lead, what, FIELD, now, FIELD, was);
}

static void compare_recipes(const char *was, const char *now, mpt_str *out, int *n) {
    line mine, other;
    for (const char *at = now; next_line(&at, &mine);) {
        bool there = find_line(was, &mine, &other);
        if (!there || !same_value(&mine, &other))
            add_field(out, n, &mine, there ? &other : NULL);
    }
    for (const char *at = was; next_line(&at, &mine);)
        if (!find_line(now, &mine, &other))
            add_field(out, n, NULL, &mine);
}

/* Schedules follow from the recipe, so they are told only where no field of it tells them: the
 * function of a rule gave another answer, or another mpt has compiled it. */
static void compare_schedules(const json_t *was, const json_t *now, mpt_str *out, int *n) {
    size_t n_now = json_array_size(now), n_was = json_array_size(was);
    for (size_t p = 0; p < n_now || p < n_was; p++) {
        const json_t *mine = json_array_get(now, p), *other = json_array_get(was, p);
        char what[160];
        snprintf(what, sizeof what, "schedule of phase '%.100s'",
                 mpt_manifest_text(mine ? mine : other, "name"));
        add_texts(out, n, what, mpt_manifest_text(mine, "schedule_hash"),
                  mpt_manifest_text(other, "schedule_hash"));
    }
}

/* Where no field of the recipe says it: rows that it draws have other tokens. */
static void compare_data(const json_t *was, const json_t *now, mpt_str *out, int *n) {
    if (strcmp(mpt_manifest_text(was, "data_xxh3"), mpt_manifest_text(now, "data_xxh3")) == 0)
        return;
    const char *lead = begin_item(n);
    mpt_str_printf(out, "%sdata: other tokens, from %.*s, was %.*s", lead ? lead : "", FIELD,
                   mpt_manifest_text(now, "data"), FIELD, mpt_manifest_text(was, "data"));
}

mpt_status mpt_manifest_changes(const json_t *saved, const json_t *now, mpt_str *out,
                                int *out_n) {
    int n = 0;
    bool same = strcmp(mpt_manifest_text(saved, "recipe_hash"),
                       mpt_manifest_text(now, "recipe_hash")) == 0;
    if (!same)
        compare_recipes(mpt_manifest_text(saved, "recipe"), mpt_manifest_text(now, "recipe"),
                        out, &n);
    if (n == 0)
        compare_schedules(json_object_get(saved, "phases"), json_object_get(now, "phases"), out,
                          &n);
    if (n == 0)
        compare_data(saved, now, out, &n);
    if (n == 0 && !same)
        add_texts(out, &n, "recipe hash", mpt_manifest_text(now, "recipe_hash"),
                  mpt_manifest_text(saved, "recipe_hash"));
    if (n > SHOWN)
        mpt_str_printf(out, "; and %d more", n - SHOWN);
    *out_n = n;
    return out->failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}

/* ---- what must be the same in any case ---- */

/* The first parameter that only one of the two has, or has otherwise. */
static mpt_status check_params(mpt_ctx *ctx, const char *path, const json_t *was,
                               const json_t *now) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)now, name, value) {
        const char *saved = mpt_manifest_text(was, name);
        if (!*saved)
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: has no parameter %.120s", path,
                            name);
        if (strcmp(saved, json_string_value(value)) != 0)
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                            "%s: parameter %.120s is %s in it, and %s in the recipe", path,
                            name, saved, json_string_value(value));
    }
    json_object_foreach((json_t *)was, name, value) {
        if (!json_object_get(now, name))
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                            "%s: has the parameter %.120s, which the recipe's model lacks",
                            path, name);
    }
    return MPT_OK;
}

mpt_status mpt_manifest_check_state(mpt_ctx *ctx, const char *path, const json_t *saved,
                                    const json_t *now) {
    static const char hint[] = "a checkpoint goes on with its own model, optimizer and formats "
                               "of precision.state; from its weights alone another run starts "
                               "with --weights";
    mpt_status status = MPT_OK;
    if (strcmp(mpt_manifest_text(saved, "optimizer"), mpt_manifest_text(now, "optimizer")) != 0)
        status = MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                          "%s: was made with the optimizer %s, and the recipe has %s", path,
                          mpt_manifest_text(saved, "optimizer"),
                          mpt_manifest_text(now, "optimizer"));
    else
        status = check_params(ctx, path, json_object_get(saved, "parameters"),
                              json_object_get(now, "parameters"));
    if (status == MPT_INVALID)
        mpt_hint(ctx, "%s", hint);
    return status;
}
