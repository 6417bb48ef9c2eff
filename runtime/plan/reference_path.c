/* From a path such as "precision.rules.use.wgrad.dy.rounding" to the rows it can mean. */
#include "plan/reference.h"

#include <string.h>

#include "recipe/schema_store.h"

static bool is(const char *name, const char *at, size_t length) {
    return strlen(name) == length && memcmp(name, at, length) == 0;
}

/* Operands, and a rule's use, hold quantizers. */
static bool holds_quantizer(const mpt_field *field) {
    static const char *const names[] = {"use", "weight", "activation", "gradient",
                                        "x",   "w",      "dy"};
    for (size_t i = 0; field->type == MPT_FIELD_SPECIAL && i < MPT_COUNT(names); i++)
        if (strcmp(names[i], field->name) == 0)
            return true;
    return false;
}

/* Whether a field holds the record: by its row, or by its name where it is a special one
 * ("rules" hold a rule, "wgrad" of gemm a wgrad). The proxy's fields are those of train. */
static bool leads_to(const mpt_field *field, const mpt_record *record) {
    for (int i = 0; field->variants && field->variants[i]; i++)
        if (field->variants[i] == record)
            return true;
    if (record == &mpt_record_train && field == mpt_record_lookup(record, "proxy"))
        return true;
    if (record == &mpt_record_quantizer && holds_quantizer(field))
        return true;
    if (record == &mpt_record_gemm && field->type == MPT_FIELD_SPECIAL)
        return strcmp(field->name, "use") == 0;
    return field->record == record ||
           (field->type == MPT_FIELD_SPECIAL &&
            strncmp(field->name, record->name, strlen(record->name)) == 0);
}

/* A path that begins with the record: by its name, or for quantizers by that of a format. */
static bool begins(const mpt_record *record, const char *name, size_t length) {
    int n;
    const char *const *formats = mpt_format_names(&n);
    for (int i = 0; record == &mpt_record_quantizer && i < n; i++)
        if (is(formats[i], name, length))
            return true;
    return is(record->name, name, length);
}

bool mpt_reference_leads(const mpt_record *record, const char *word, size_t length) {
    const char *name = word + length;
    while (name > word && name[-1] != '.')
        name--;
    size_t tail = (size_t)(word + length - name), before = (size_t)(name - word);
    before -= before > 0; /* the dot */
    bool own = begins(record, name, tail);
    if (own && (name == word || strncmp(word, "recipe.", 7) == 0))
        return true;
    /* "scale.delayed": the word that a field holds is named after the field. */
    if (own && before && mpt_reference_leads(record, word, before))
        return true;
    int n;
    const mpt_record *const *records = mpt_record_all(&n);
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < records[i]->n_fields; f++) {
            const mpt_field *field = &records[i]->fields[f];
            if (!leads_to(field, record) || !is(field->name, name, tail))
                continue;
            if (name == word || mpt_reference_leads(records[i], word, before))
                return true;
        }
    }
    return false;
}
