/* What the tests of the schema share: a context, an arena, and values on their way into fields.
 */
#ifndef MPT_SETTER_FIXTURE_H
#define MPT_SETTER_FIXTURE_H

#include "recipe_fixture.h"

typedef struct setter {
    mpt_ctx *ctx;
    mpt_arena arena;
} setter;

static inline void setter_open(setter *s) {
    s->ctx = mpt_test_ctx();
    mpt_arena_init(&s->arena, s->ctx);
}

static inline void setter_close(setter *s) {
    mpt_arena_deinit(&s->arena);
    assert_int_equal(mpt_ctx_memory(s->ctx).live_bytes, 0);
    mpt_ctx_destroy(s->ctx);
}

static const mpt_where setter_at = {"nvfp4.lua", 14};

static inline mpt_status setter_set(setter *s, const char *record, void *object,
                                    const char *path, const char *name, mpt_setting value) {
    return mpt_record_set(s->ctx, &s->arena, mpt_record_find(record), object, path, name,
                          &value, setter_at);
}

static inline mpt_setting setter_text(const char *string) {
    return (mpt_setting){.kind = MPT_SETTING_STRING, .string = string};
}

static inline mpt_setting setter_number(double value) {
    return (mpt_setting){.kind = MPT_SETTING_NUMBER, .number = value};
}

static inline mpt_setting setter_integer(int64_t value) {
    return (mpt_setting){.kind = MPT_SETTING_INT, .integer = value, .number = (double)value};
}

static inline mpt_setting setter_numbers(double a, double b) {
    return (mpt_setting){
        .kind = MPT_SETTING_NUMBERS, .n = 2, .numbers = {a, b}, .integral = true};
}

#endif
