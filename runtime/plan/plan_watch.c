/* What a run saves, watches and counts, with the values that hold: lines of the text plan, and
 * members of plan.json. None of it decides a number of the run, so none is in the recipe hash;
 * what was set and what is the default is told of each field by itself. */
#include "plan/plan_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mpt/evidence.h"
#include "plan/text.h"
#include "recipe/schema_store.h"

enum { MOST_FIELDS = 8 };

static const char *const nonfinites[] = {"skip", "stop"};
static const char *const actions[] = {"off", "warn", "skip", "rollback"};

/* Fields of a line, by the path below it. */
typedef struct field_values {
    int n;
    struct {
        const char *name;
        char value[32];
        bool set;
    } of[MOST_FIELDS];
} field_values;

MPT_PRINTF(5, 6)
static void add(field_values *list, const char *name, const mpt_record *record,
                const void *object, const char *fmt, ...) {
    va_list args;
    const char *dot = strrchr(name, '.');
    va_start(args, fmt);
    vsnprintf(list->of[list->n].value, sizeof list->of[list->n].value, fmt, args);
    va_end(args);
    list->of[list->n].name = name;
    list->of[list->n++].set =
        mpt_record_has(record, object, mpt_record_lookup(record, dot ? dot + 1 : name));
}

/* "every=7 (set), keep=2 (default)" */
static void say_fields(const field_values *list, mpt_words *out) {
    for (int set = 1, said = 0; set >= 0; set--) {
        int before = said;
        for (int i = 0; i < list->n; i++) {
            if (list->of[i].set != (set == 1))
                continue;
            mpt_words_add(out, "%s%s=%s",
                          said == 0        ? ""
                          : said == before ? ", "
                                           : " ",
                          list->of[i].name, list->of[i].value);
            said++;
        }
        if (said > before)
            mpt_words_add(out, " (%s)", set ? "set" : "default");
    }
}

static void print_checkpoints(const mpt_train *train, mpt_str *out) {
    const mpt_checkpoints *c = &train->checkpoint;
    field_values list = {.n = 0};
    mpt_words text = {.len = 0};
    int64_t n = c->every > 0 ? train->steps / c->every + (train->steps % c->every != 0) : 1;
    add(&list, "every", &mpt_record_checkpoint, c, "%" PRId64, c->every);
    add(&list, "keep", &mpt_record_checkpoint, c, "%" PRId64, c->keep);
    say_fields(&list, &text);
    mpt_words_add(&text, ": ");
    mpt_words_things(&text, n, "checkpoint");
    mpt_words_add(&text, ", %sat the end", n > 1 ? "the last " : "");
    mpt_text_line(out, "checkpoint", text.data);
}

static void print_watch(const mpt_watch *w, mpt_str *out) {
    field_values list = {.n = 0};
    mpt_words text = {.len = 0};
    add(&list, "nonfinite", &mpt_record_watch, w, "%s", nonfinites[w->nonfinite]);
    add(&list, "max_skips", &mpt_record_watch, w, "%" PRId64, w->max_skips);
    add(&list, "spike.action", &mpt_record_spike, &w->spike, "%s", actions[w->spike.action]);
    add(&list, "spike.window", &mpt_record_spike, &w->spike, "%" PRId64, w->spike.window);
    add(&list, "spike.z", &mpt_record_spike, &w->spike, "%g", w->spike.z);
    say_fields(&list, &text);
    mpt_text_line(out, "watch", text.data);
}

static int64_t times_counted(const mpt_train *train, int64_t every) {
    return train->steps / every + (train->steps % every != 0);
}

static void print_telemetry(const mpt_train *train, mpt_str *out) {
    field_values list = {.n = 0};
    mpt_words text = {.len = 0};
    int64_t every = mpt_telemetry_every(train->telemetry.every, train->steps);
    add(&list, "every", &mpt_record_telemetry, &train->telemetry, "%" PRId64,
        train->telemetry.every);
    say_fields(&list, &text);
    mpt_words_add(&text, ": operands are counted every ");
    mpt_words_things(&text, every, "step");
    mpt_words_add(&text, ", ");
    mpt_words_things(&text, times_counted(train, every), "time");
    mpt_text_line(out, "telemetry", text.data);
}

void mpt_plan_print_watch(const mpt_train *train, mpt_str *out) {
    print_checkpoints(train, out);
    print_watch(&train->watch, out);
    print_telemetry(train, out);
}

bool mpt_plan_watch_has(const char *path) {
    static const char *const starts[] = {"train.checkpoint.", "train.watch.",
                                         "train.telemetry."};
    for (size_t i = 0; i < MPT_COUNT(starts); i++)
        if (strncmp(path, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

json_t *mpt_plan_checkpoint_json(const mpt_train *train) {
    return json_pack("{s:I, s:I}", "every", (json_int_t)train->checkpoint.every, "keep",
                     (json_int_t)train->checkpoint.keep);
}

json_t *mpt_plan_watch_json(const mpt_train *train) {
    const mpt_watch *w = &train->watch;
    return json_pack("{s:s, s:I, s:{s:s, s:I, s:f}}", "nonfinite", nonfinites[w->nonfinite],
                     "max_skips", (json_int_t)w->max_skips, "spike", "action",
                     actions[w->spike.action], "window", (json_int_t)w->spike.window, "z",
                     w->spike.z);
}

json_t *mpt_plan_telemetry_json(const mpt_train *train) {
    int64_t every = mpt_telemetry_every(train->telemetry.every, train->steps);
    return json_pack("{s:I, s:I}", "every", (json_int_t)every, "times",
                     (json_int_t)times_counted(train, every));
}
