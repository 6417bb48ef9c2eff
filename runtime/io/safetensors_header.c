/* One safetensors file: mapped, and its header held against every rule of the format.
 *
 * Nothing of a tensor is used before it was checked: counts by multiplication with overflow
 * checks, offsets against the file's size, and all tensors together must tile the data. What
 * passes here can be read without further tests. */
#include "io/safetensors_read.h"

#include <stdlib.h>
#include <string.h>

#define HINT_DAMAGED "the file is damaged or was cut off: copy or download it again"
#define HINT_WRITER  "the program that wrote the file broke the format: write it anew"

typedef struct header_reader {
    mpt_ctx *ctx;
    mpt_arena *arena;
    mpt_shard *shard;
    const unsigned char *data; /* first byte after the header */
    size_t data_bytes;
} header_reader;

mpt_brief mpt_brief_name(const char *name) {
    mpt_brief brief;
    size_t n = strlen(name), room = sizeof brief.text - sizeof "...";
    bool cut = n > room;
    if (cut)
        for (n = room; n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80; n--)
            ; /* never inside a character */
    memcpy(brief.text, name, n);
    memcpy(brief.text + n, cut ? "..." : "", cut ? sizeof "..." : 1);
    return brief;
}

/* Fails with the text and one of the two ways out. */
#define FAIL_FILE(r, hint, fmt, ...)                                                           \
    fail_hinted(                                                                               \
        (r)->ctx, hint,                                                                        \
        MPT_FAIL((r)->ctx, MPT_DATA, MPT_NOWHERE, "%s: " fmt, (r)->shard->path, __VA_ARGS__))
#define FAIL_TENSOR(r, name, fmt, ...)                                                         \
    FAIL_FILE(r, HINT_WRITER, "tensor '%s': " fmt, mpt_brief_name(name).text, __VA_ARGS__)

static mpt_status fail_hinted(mpt_ctx *ctx, const char *hint, mpt_status status) {
    mpt_hint(ctx, "%s", hint);
    return status;
}

/* ---- the frame: length, JSON ---- */

/* Files that are often taken for safetensors, by their first bytes. */
static const char *foreign_file(const unsigned char *start) {
    static const struct {
        const char *magic, *hint;
    } kinds[] = {
        {"version ",
         "this is the pointer that Git LFS leaves: fetch the file by `git lfs pull`"},
        {"PK\3\4", "this is a zip file, as torch.save writes it: convert it to safetensors"},
        {"GGUF", "this is a GGUF file: take the model's safetensors files"},
    };
    for (size_t i = 0; i < MPT_COUNT(kinds); i++)
        if (memcmp(start, kinds[i].magic, strlen(kinds[i].magic)) == 0)
            return kinds[i].hint;
    return HINT_DAMAGED;
}

/* Sets the data's place; the header is then the bytes from 8 on up to it. */
static mpt_status check_frame(header_reader *r) {
    const mpt_file_map *map = &r->shard->map;
    if (map->size < 8)
        return FAIL_FILE(r, HINT_DAMAGED,
                         "has %zu bytes; the length of the header alone takes 8", map->size);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | map->data[i];
    if (n > MPT_SAFETENSORS_HEADER_MAX)
        return FAIL_FILE(r, foreign_file(map->data),
                         "no safetensors file: its header would have %llu bytes, and %d are "
                         "allowed",
                         (unsigned long long)n, MPT_SAFETENSORS_HEADER_MAX);
    if (n > map->size - 8)
        return FAIL_FILE(r, HINT_DAMAGED, "the header has %llu bytes, but only %zu follow",
                         (unsigned long long)n, map->size - 8);
    if (n == 0)
        return FAIL_FILE(r, HINT_WRITER, "the header is empty%s", "");
    if (map->data[8] != '{')
        return FAIL_FILE(r, HINT_WRITER, "the header starts with byte 0x%02x, not with '{'",
                         map->data[8]);
    r->data = map->data + 8 + n;
    r->data_bytes = map->size - 8 - (size_t)n;
    return MPT_OK;
}

mpt_status mpt_safetensors_json(mpt_ctx *ctx, const char *path, const char *text, size_t bytes,
                                size_t at, json_t **out) {
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*out)
        return MPT_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return mpt_fail_memory(ctx, bytes);
    MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE, "%s: JSON at byte %zu: %s", path,
             at + (size_t)error.position, error.text);
    mpt_hint(ctx, "%s",
             json_error_code(&error) == json_error_duplicate_key ? HINT_WRITER : HINT_DAMAGED);
    return MPT_DATA;
}

/* ---- one tensor ---- */

static mpt_status read_type(header_reader *r, const char *name, const json_t *entry,
                            mpt_stored_tensor *t) {
    const json_t *dtype = json_object_get(entry, "dtype");
    if (!json_is_string(dtype))
        return FAIL_TENSOR(r, name, "dtype: is missing or no string%s", "");
    const char *text = json_string_value(dtype);
    t->type = mpt_tensor_type_by_name(text);
    if (t->type != MPT_TENSOR_TYPE_COUNT)
        return MPT_OK;
    const char *names[MPT_TENSOR_TYPE_COUNT];
    for (int i = 0; i < MPT_TENSOR_TYPE_COUNT; i++)
        names[i] = mpt_tensor_type_name((mpt_tensor_type)i);
    const char *nearest = mpt_nearest(text, names, MPT_TENSOR_TYPE_COUNT);
    (void)FAIL_TENSOR(r, name, "dtype: no type '%s'", mpt_brief_name(text).text);
    if (nearest)
        mpt_hint(r->ctx, "did you mean '%s'?", nearest);
    else
        mpt_hint(r->ctx,
                 "types are F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, F4, I64 ... "
                 "U8, BOOL");
    return MPT_DATA;
}

static mpt_status read_shape(header_reader *r, const char *name, const json_t *entry,
                             mpt_stored_tensor *t) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return FAIL_TENSOR(r, name, "shape: is missing or no array%s", "");
    if (json_array_size(shape) > MPT_TENSOR_MAX_RANK) {
        MPT_FAIL(r->ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                 "%s: tensor '%s': shape: %zu dimensions, and at most %d can be read",
                 r->shard->path, mpt_brief_name(name).text, json_array_size(shape),
                 MPT_TENSOR_MAX_RANK);
        mpt_hint(r->ctx, "save it with fewer dimensions");
        return MPT_UNSUPPORTED;
    }
    t->rank = (int)json_array_size(shape);
    for (int i = 0; i < t->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        if (!json_is_integer(dim))
            return FAIL_TENSOR(r, name, "shape[%d]: no whole number", i);
        t->dims[i] = (int64_t)json_integer_value(dim);
        if (t->dims[i] < 0)
            return FAIL_TENSOR(r, name, "shape[%d]: is %lld", i, (long long)t->dims[i]);
    }
    const char *why = mpt_tensor_size(t->type, t->dims, t->rank, &t->elements, &t->bytes);
    return why ? FAIL_TENSOR(r, name, "shape: %s", why) : MPT_OK;
}

static mpt_status read_offsets(header_reader *r, const char *name, const json_t *entry,
                               mpt_stored_tensor *t) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return FAIL_TENSOR(r, name, "data_offsets: is missing or not two whole numbers%s", "");
    long long begin = (long long)json_integer_value(first);
    long long end = (long long)json_integer_value(last);
    if (begin < 0 || end < begin)
        return FAIL_TENSOR(r, name, "data_offsets: from %lld to %lld is no range", begin, end);
    if ((unsigned long long)end > r->data_bytes)
        return FAIL_FILE(r, HINT_DAMAGED,
                         "tensor '%s': data_offsets: ends at %lld, but the data has %zu bytes",
                         mpt_brief_name(name).text, end, r->data_bytes);
    if ((size_t)(end - begin) != t->bytes)
        return FAIL_TENSOR(r, name,
                           "data_offsets: %lld bytes, but its shape and dtype %s take %zu",
                           end - begin, mpt_tensor_type_name(t->type), t->bytes);
    t->data = r->data + begin;
    return MPT_OK;
}

/* Fields that the format does not name are passed over, as the reference reader does. */
static mpt_status read_tensor(header_reader *r, const char *name, const json_t *entry,
                              mpt_stored_tensor *t) {
    if (!json_is_object(entry))
        return FAIL_TENSOR(r, name, "no object with dtype, shape and data_offsets%s", "");
    MPT_TRY(read_type(r, name, entry, t));
    MPT_TRY(read_shape(r, name, entry, t));
    MPT_TRY(read_offsets(r, name, entry, t));
    t->file = r->shard->path;
    t->name = mpt_arena_strdup(r->arena, name);
    return t->name ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* ---- all of them ---- */

static mpt_status read_metadata(header_reader *r, json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return FAIL_FILE(r, HINT_WRITER, "__metadata__: no object of strings%s", "");
    size_t n = json_object_size(metadata);
    r->shard->metadata = mpt_arena_alloc(r->arena, mpt_size_mul(n * 2, sizeof(char *)));
    if (!r->shard->metadata)
        return MPT_OUT_OF_MEMORY;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return FAIL_FILE(r, HINT_WRITER, "__metadata__: the value of '%s' is no string",
                             mpt_brief_name(key).text);
        const char **pair = &r->shard->metadata[2 * r->shard->n_metadata++];
        pair[0] = mpt_arena_strdup(r->arena, key);
        pair[1] = mpt_arena_strdup(r->arena, json_string_value(value));
        if (!pair[0] || !pair[1])
            return MPT_OUT_OF_MEMORY;
    }
    return MPT_OK;
}

/* Empty tensors come before the one that starts at the same place. */
static int by_data(const void *a, const void *b) {
    const mpt_stored_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Every byte of the data belongs to one tensor. */
static mpt_status check_tiling(header_reader *r) {
    mpt_shard *shard = r->shard;
    size_t at = 0;
    if (shard->n_tensors)
        qsort(shard->tensors, (size_t)shard->n_tensors, sizeof *shard->tensors, by_data);
    for (int i = 0; i < shard->n_tensors; i++) {
        const mpt_stored_tensor *t = &shard->tensors[i];
        size_t begin = (size_t)((const unsigned char *)t->data - r->data);
        if (begin < at)
            return FAIL_TENSOR(r, t->name,
                               "data_offsets: starts at %zu, inside of tensor '%s', which ends "
                               "at %zu",
                               begin, mpt_brief_name(t[-1].name).text, at);
        if (begin > at)
            return FAIL_TENSOR(r, t->name,
                               "data_offsets: starts at %zu, but the bytes from %zu on belong "
                               "to no tensor",
                               begin, at);
        at = begin + t->bytes;
    }
    if (at != r->data_bytes)
        return FAIL_FILE(r, HINT_DAMAGED, "the data has %zu bytes, but its tensors end at %zu",
                         r->data_bytes, at);
    return MPT_OK;
}

static mpt_status read_header(header_reader *r, json_t *header) {
    const char *name;
    json_t *entry;
    mpt_shard *shard = r->shard;
    shard->tensors = mpt_arena_alloc(
        r->arena, mpt_size_mul(json_object_size(header), sizeof *shard->tensors));
    if (!shard->tensors)
        return MPT_OUT_OF_MEMORY;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            MPT_TRY(read_metadata(r, entry));
        } else {
            MPT_TRY(read_tensor(r, name, entry, &shard->tensors[shard->n_tensors]));
            shard->n_tensors++;
        }
    }
    return check_tiling(r);
}

mpt_status mpt_shard_open(mpt_arena *arena, mpt_shard *shard) {
    header_reader r = {.ctx = arena->ctx, .arena = arena, .shard = shard};
    json_t *header;
    MPT_TRY(mpt_file_map_open(r.ctx, MPT_NOWHERE, shard->path, &shard->map));
    MPT_TRY(check_frame(&r));
    MPT_TRY(mpt_safetensors_json(r.ctx, shard->path, (const char *)shard->map.data + 8,
                                 shard->map.size - r.data_bytes - 8, 8, &header));
    mpt_status status = read_header(&r, header);
    json_decref(header);
    return status;
}
