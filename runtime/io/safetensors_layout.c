/* The layout of a new safetensors file: order, offsets and the text of the header.
 *
 * Order and text are those of the reference writer, byte for byte, so that a file does not tell
 * who wrote it. Wrong specs are the caller's fault and are named before any file exists. */
#include "io/safetensors_layout.h"

#include <stdlib.h>
#include <string.h>

#include "io/safetensors_read.h"

/* A spec on its way through the two sorts. */
typedef struct slot {
    const mpt_tensor_spec *spec;
    size_t bytes;
} slot;

static int by_name(const void *a, const void *b) {
    const slot *x = a, *y = b;
    return strcmp(x->spec->name, y->spec->name);
}

static int by_place(const void *a, const void *b) {
    const slot *x = a, *y = b;
    if (x->spec->type != y->spec->type)
        return x->spec->type > y->spec->type ? -1 : 1;
    return by_name(a, b);
}

/* ---- what is asked for ---- */

static mpt_status check_spec(mpt_ctx *ctx, const char *path, const mpt_tensor_spec *spec,
                             slot *out) {
    int64_t elements;
    const char *why = NULL;
    if (!spec->name || strcmp(spec->name, "__metadata__") == 0)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: no tensor can be named '%s'", path,
                        spec->name ? spec->name : "(NULL)");
    if ((unsigned)spec->type >= MPT_TENSOR_TYPE_COUNT)
        why = "no such type";
    else if (spec->rank < 0 || spec->rank > MPT_TENSOR_MAX_RANK)
        why = "its rank is not 0 to 16";
    for (int i = 0; !why && i < spec->rank; i++)
        why = spec->dims[i] < 0 ? "a dimension is negative" : NULL;
    if (!why)
        why = mpt_tensor_size(spec->type, spec->dims, spec->rank, &elements, &out->bytes);
    if (why)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: tensor '%s': %s", path,
                        mpt_brief_name(spec->name).text, why);
    out->spec = spec;
    return MPT_OK;
}

static mpt_status sort_slots(mpt_ctx *ctx, const char *path, slot *slots, int n) {
    if (n == 0)
        return MPT_OK;
    qsort(slots, (size_t)n, sizeof *slots, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(slots[i - 1].spec->name, slots[i].spec->name) == 0)
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: two tensors are named '%s'",
                            path, mpt_brief_name(slots[i].spec->name).text);
    qsort(slots, (size_t)n, sizeof *slots, by_place);
    return MPT_OK;
}

/* ---- the header's text ---- */

static int append(const char *text, size_t length, void *out) {
    mpt_str_append(out, text, length);
    return ((mpt_str *)out)->failed ? -1 : 0;
}

/* A JSON string. Text that is no UTF-8 cannot be written. */
static mpt_status put_string(mpt_str *out, const char *path, const char *text) {
    json_t *json = json_string_nocheck(text);
    if (!json)
        return mpt_fail_memory(out->ctx, strlen(text));
    int failed = json_dump_callback(json, append, out, JSON_ENCODE_ANY);
    json_decref(json);
    if (out->failed)
        return MPT_OUT_OF_MEMORY;
    if (failed)
        return MPT_FAIL(out->ctx, MPT_INVALID, MPT_NOWHERE, "%s: the name '%s' is no UTF-8",
                        path, mpt_brief_name(text).text);
    return MPT_OK;
}

static mpt_status put_metadata(mpt_str *out, const char *path, const char *const *metadata) {
    mpt_str_printf(out, "\"__metadata__\":{");
    for (int i = 0; metadata[i]; i += 2) {
        for (int j = 0; j < i; j += 2)
            if (strcmp(metadata[j], metadata[i]) == 0)
                return MPT_FAIL(out->ctx, MPT_INVALID, MPT_NOWHERE,
                                "%s: __metadata__ has two values of '%s'", path, metadata[i]);
        mpt_str_append(out, ",", i ? 1 : 0);
        MPT_TRY(put_string(out, path, metadata[i]));
        mpt_str_append(out, ":", 1);
        MPT_TRY(put_string(out, path, metadata[i + 1]));
    }
    mpt_str_append(out, "}", 1);
    return MPT_OK;
}

static mpt_status put_tensor(mpt_str *out, const char *path, const slot *s, size_t begin) {
    MPT_TRY(put_string(out, path, s->spec->name));
    mpt_str_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", mpt_tensor_type_name(s->spec->type));
    for (int i = 0; i < s->spec->rank; i++)
        mpt_str_printf(out, "%s%lld", i ? "," : "", (long long)s->spec->dims[i]);
    mpt_str_printf(out, "],\"data_offsets\":[%zu,%zu]}", begin, begin + s->bytes);
    return MPT_OK;
}

/* The length in front is written last, when it is known. */
static mpt_status put_header(mpt_str *out, const char *path, const slot *slots, int n,
                             const char *const *metadata) {
    size_t at = 0;
    bool first = true;
    mpt_str_append(out, "\0\0\0\0\0\0\0\0{", 9);
    if (metadata && metadata[0]) {
        MPT_TRY(put_metadata(out, path, metadata));
        first = false;
    }
    for (int i = 0; i < n; i++, first = false) {
        mpt_str_append(out, ",", first ? 0 : 1);
        MPT_TRY(put_tensor(out, path, &slots[i], at));
        at += slots[i].bytes;
    }
    mpt_str_append(out, "}", 1);
    mpt_str_append(out, "       ", (8 - out->len % 8) % 8);
    if (out->failed)
        return MPT_OUT_OF_MEMORY;
    size_t length = out->len - 8;
    if (length > MPT_SAFETENSORS_HEADER_MAX)
        return MPT_FAIL(out->ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                        "%s: a header of %zu bytes; the format allows %d", path, length,
                        MPT_SAFETENSORS_HEADER_MAX);
    for (int i = 0; i < 8; i++)
        out->data[i] = (char)(length >> (8 * i) & 0xFF);
    return MPT_OK;
}

/* ---- both together ---- */

static mpt_status place_data(mpt_ctx *ctx, const char *path, const mpt_tensor_spec *specs,
                             const slot *slots, int n, mpt_safetensors_layout *out) {
    size_t at = out->header.len;
    for (int i = 0; i < n; i++) {
        out->offsets[slots[i].spec - specs] = at;
        at = mpt_size_add(at, slots[i].bytes);
    }
    if (at > INT64_MAX)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: its tensors fit no file", path);
    out->size = at;
    return MPT_OK;
}

mpt_status mpt_safetensors_layout_make(mpt_ctx *ctx, const char *path,
                                       const mpt_tensor_spec *specs, int n_specs,
                                       const char *const *metadata,
                                       mpt_safetensors_layout *out) {
    mpt_status status = MPT_OK;
    mpt_str_init(&out->header, ctx);
    out->offsets = mpt_alloc(ctx, mpt_size_mul((size_t)n_specs, sizeof *out->offsets));
    slot *slots = mpt_alloc(ctx, mpt_size_mul((size_t)n_specs, sizeof *slots));
    if (!slots || !out->offsets)
        status = mpt_fail_memory(ctx, mpt_size_mul((size_t)n_specs, sizeof *slots));
    for (int i = 0; status == MPT_OK && i < n_specs; i++)
        status = check_spec(ctx, path, &specs[i], &slots[i]);
    if (status == MPT_OK)
        status = sort_slots(ctx, path, slots, n_specs);
    if (status == MPT_OK)
        status = put_header(&out->header, path, slots, n_specs, metadata);
    if (status == MPT_OK)
        status = place_data(ctx, path, specs, slots, n_specs, out);
    mpt_free(ctx, slots);
    return status;
}

void mpt_safetensors_layout_deinit(mpt_ctx *ctx, mpt_safetensors_layout *layout) {
    mpt_str_deinit(&layout->header);
    mpt_free(ctx, layout->offsets);
    layout->offsets = NULL;
}
