/* A quantizer as text: whole, for hashes and canonical texts, and in brief, for people.
 *
 * Both walk the rows of schema_quantizer.c, so that a new field is in all texts from its first
 * day. Fixed buffers: the hash of a schedule needs no memory. */
#include "recipe/schema_store.h"
#include "recipe/use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_TEXT = 256 };

/* A text being put together in a buffer of `size`; what does not fit is cut. */
typedef struct text {
    char *data;
    size_t size, len;
} text;

MPT_PRINTF(2, 3) static void add(text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->data + t->len, t->size - t->len, fmt, args);
    va_end(args);
    t->len += n > 0 ? (size_t)n : 0;
    if (t->len > t->size - 1)
        t->len = t->size - 1;
}

/* ---- values ---- */

/* A value that is no record: a word, or a number. */
static void add_value(text *t, const mpt_field *field, const void *member) {
    const char *word = field->choices ? mpt_field_word(field, member) : NULL;
    int32_t parts[2];
    int64_t integer;
    double number;
    bool yes;
    if (word) {
        add(t, "%s", word);
    } else if (field->type == MPT_FIELD_NUMBER) {
        memcpy(&number, member, sizeof number);
        add(t, "%.17g", number);
    } else if (field->type == MPT_FIELD_BOOL) {
        memcpy(&yes, member, sizeof yes);
        add(t, "%s", yes ? "true" : "false");
    } else if (field->bytes == sizeof integer && field->type == MPT_FIELD_INT) {
        memcpy(&integer, member, sizeof integer);
        add(t, "%" PRId64, integer);
    } else {
        memcpy(parts, member, field->bytes < sizeof parts ? field->bytes : sizeof parts);
        add(t, "%" PRId32, parts[0]);
        if (field->type == MPT_FIELD_BLOCK)
            add(t, "x%" PRId32, parts[1]);
    }
}

/* Whether a field of a record counts: a seed does so for random signs only. */
static bool counts(const mpt_record *record, const mpt_field *field, const void *object) {
    const mpt_hadamard *hadamard = object;
    return record != &mpt_record_hadamard || strcmp(field->name, "size") == 0 ||
           strcmp(field->name, "signs") == 0 || hadamard->signs == MPT_SIGNS_RANDOM;
}

/* " history=16 algo=max": fields of a record, each after `before`; where there are defaults,
 * those that differ. */
static void add_fields(text *t, const mpt_record *record, const void *object,
                       const void *defaults, const char *before) {
    for (int i = 0; i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        const char *member = (const char *)object + field->offset;
        if (!counts(record, field, object) ||
            (defaults &&
             memcmp(member, (const char *)defaults + field->offset, field->bytes) == 0))
            continue;
        add(t, "%s%s=", before, field->name);
        add_value(t, field, member);
    }
}

/* The text of one row, as it is typed: "block=1x16", "scale=delayed scale.history=16 ...". */
static void add_row(text *t, const mpt_field *field, const mpt_slot_use *use) {
    const void *member = (const char *)use + field->offset;
    char before[64];
    snprintf(before, sizeof before, " %s.", field->name);
    if (field->type != MPT_FIELD_RECORD) {
        add(t, "%s=", field->name);
        add_value(t, field, member);
        return;
    }
    const mpt_record *record = mpt_field_record(field, member);
    const char *word = mpt_field_word(field, member);
    if (word || field->variants) { /* a hadamard of some size is no word */
        add(t, "%s=%s", field->name, word ? word : "none");
        if (record && field->variants)
            add_fields(t, record, member, NULL, before);
    } else {
        size_t start = t->len;
        add_fields(t, record, member, NULL, before);
        memmove(t->data + start, t->data + start + 1, t->len - start); /* its first space */
        t->len -= t->len > start;
    }
}

/* ---- whole texts ---- */

void mpt_slot_use_text(const mpt_slot_use *use, char out[MPT_QUANTIZER_TEXT]) {
    text t = {out, MPT_QUANTIZER_TEXT, 0};
    out[0] = 0;
    if (use->has_format)
        add(&t, "%s", mpt_dtype_name(use->q.format));
    if (use->has_format && mpt_quantizer_is_cast(&use->q))
        return;
    /* The first row is the format, which stands in front already. */
    for (int i = use->has_format ? 1 : 0; i < mpt_record_quantizer.n_fields; i++) {
        if (!use->has_format && !(use->set >> i & 1))
            continue;
        add(&t, "%s", t.len ? " " : "");
        add_row(&t, &mpt_record_quantizer.fields[i], use);
    }
}

void mpt_quantizer_text(const mpt_quantizer *q, char out[MPT_QUANTIZER_TEXT]) {
    mpt_slot_use use = {.has_format = true, .q = *q};
    if (q->headroom == 0) /* never said: 1 */
        use.q.headroom = 1;
    if (q->scale.headroom == 0)
        use.q.scale.headroom = 1;
    mpt_slot_use_text(&use, out);
}

/* ---- brief texts ---- */

static void add_hadamard(text *t, const mpt_hadamard *h) {
    static const char *const signs[] = {"", " random signs", " no signs"};
    if (h->size == 0) {
        add(t, " no hadamard");
        return;
    }
    add(t, " hadamard %" PRId32 "%s", h->size, signs[h->signs]);
    mpt_hadamard defaults = *h;
    mpt_record_init(&mpt_record_hadamard, &defaults);
    defaults.size = h->size;
    defaults.signs = h->signs;
    add_fields(t, &mpt_record_hadamard, h, &defaults, " ");
}

/* "delayed history=16", "scale_rule=four_over_six bound=448". */
static void add_record(text *t, const mpt_field *field, const mpt_slot_use *use) {
    const void *member = (const char *)use + field->offset;
    const mpt_record *record = mpt_field_record(field, member);
    const char *word = mpt_field_word(field, member);
    double defaults[16] = {0}; /* aligned for all of them */
    if (strcmp(field->name, "scale") != 0)
        add(t, " %s=%s", field->name, word ? word : "none");
    else
        add(t, " %s", word ? word : "unscaled");
    if (record && record->bytes <= sizeof defaults) {
        mpt_record_init(record, defaults);
        add_fields(t, record, member, defaults, " ");
    }
}

static void add_difference(text *t, const mpt_field *field, const mpt_slot_use *use) {
    if (field->record == &mpt_record_hadamard) {
        add_hadamard(t, &use->q.hadamard);
    } else if (field->type == MPT_FIELD_RECORD) {
        add_record(t, field, use);
    } else {
        bool plain = strcmp(field->name, "rounding") == 0 || strcmp(field->name, "format") == 0;
        add(t, " %s%s", plain ? "" : field->name, plain ? "" : "=");
        add_value(t, field, (const char *)use + field->offset);
    }
}

static bool same_row(const mpt_field *field, const mpt_slot_use *a, const mpt_slot_use *b) {
    char left[FIELD_TEXT] = "", right[FIELD_TEXT] = "";
    text of_a = {left, FIELD_TEXT, 0}, of_b = {right, FIELD_TEXT, 0};
    add_row(&of_a, field, a);
    add_row(&of_b, field, b);
    return strcmp(left, right) == 0;
}

void mpt_quantizer_brief(const mpt_quantizer *q, char out[MPT_QUANTIZER_TEXT]) {
    text t = {out, MPT_QUANTIZER_TEXT, 0};
    const char *name = q->name ? q->name : mpt_dtype_name(q->format);
    mpt_slot_use use = {.has_format = true, .q = *q}, bare;
    out[0] = 0;
    add(&t, "%s", name);
    if (mpt_quantizer_is_cast(q) || !mpt_slot_use_by_name(name, &bare))
        return;
    if (q->headroom == 0)
        use.q.headroom = bare.q.headroom;
    mpt_scale_format scale_format = bare.q.scale_format;
    bare.q.scale_format = q->scale_format; /* what follows from it is no difference */
    mpt_slot_use_settle(&bare);
    bare.q.scale_format = scale_format;
    for (int i = 0; i < mpt_record_quantizer.n_fields; i++) {
        const mpt_field *field = &mpt_record_quantizer.fields[i];
        if (field->type == MPT_FIELD_BLOCK && q->scale.kind == MPT_SCALING_NONE) {
            continue; /* nothing shares a scale */
        } else if (field->type == MPT_FIELD_BLOCK) {
            add(&t, " ");
            add_value(&t, field, (const char *)&use + field->offset);
        } else if (!same_row(field, &use, &bare)) {
            add_difference(&t, field, &use);
        }
    }
}

/* ---- one field ---- */

/* What a format without scales has all the same. */
static bool is_of_cast(const char *name) {
    return strcmp(name, "format") == 0 || strcmp(name, "rounding") == 0 ||
           strcmp(name, "hadamard") == 0;
}

void mpt_quantizer_field_text(const mpt_quantizer *q, int row, char out[MPT_QUANTIZER_TEXT]) {
    text t = {out, MPT_QUANTIZER_TEXT, 0};
    const mpt_field *field = &mpt_record_quantizer.fields[row];
    mpt_slot_use use = {.q = *q};
    const void *member = (const char *)&use + field->offset;
    const char *element = mpt_dtype_name(q->format);
    out[0] = 0;
    if (q->headroom == 0)
        use.q.headroom = 1;
    if (strcmp(field->name, "format") == 0) {
        bool named = q->name && strcmp(q->name, element) != 0;
        add(&t, named ? "%s (%s)" : "%s", named ? q->name : element, element);
    } else if (q->scale.kind == MPT_SCALING_NONE && !is_of_cast(field->name)) {
        add(&t, "-");
    } else if (field->type != MPT_FIELD_RECORD) {
        add_value(&t, field, member);
    } else {
        const mpt_record *record = mpt_field_record(field, member);
        const char *word = mpt_field_word(field, member);
        add(&t, "%s", word ? word : "");
        if (record && (!word || field->variants))
            add_fields(&t, record, member, NULL, " ");
        if (!word) /* a rotation: its first space goes */
            memmove(out, out + 1, t.len);
    }
}
