/* A reader of safetensors files for tests: header by jansson, tensors by name.
 *
 * The whole file stays in memory until golden_close; a missing file or tensor fails the test.
 */
#ifndef MPT_TESTS_SAFETENSORS_H
#define MPT_TESTS_SAFETENSORS_H

#include <jansson.h>
#include <stdlib.h>

#include "mpt_test.h"

typedef struct golden_file {
    char *bytes;
    const char *data;
    json_t *header;
} golden_file;

typedef struct golden_tensor {
    const void *data; /* NULL: not in the file */
    int64_t rows, cols;
    size_t bytes;
} golden_tensor;

/* Any file, by its path. */
static inline golden_file golden_open_path(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    rewind(file);
    golden_file g = {malloc(size), NULL, NULL};
    assert_non_null(g.bytes);
    assert_int_equal(fread(g.bytes, 1, size, file), size);
    fclose(file);
    uint64_t n = 0;
    memcpy(&n, g.bytes, 8);
    assert_true(n <= size - 8);
    g.header = json_loadb(g.bytes + 8, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(g.header);
    g.data = g.bytes + 8 + n;
    return g;
}

static inline golden_file golden_open(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/%s.safetensors", MPT_TESTS_DIR, name);
    return golden_open_path(path);
}

static inline void golden_close(golden_file *g) {
    json_decref(g->header);
    free(g->bytes);
}

/* "case/tensor", or no data where the file lacks it. */
static inline golden_tensor golden_find(const golden_file *g, const char *name,
                                        const char *tensor) {
    char key[256];
    golden_tensor t = {NULL, 0, 0, 0};
    snprintf(key, sizeof key, "%s/%s", name, tensor);
    json_t *entry = json_object_get(g->header, key);
    if (!entry)
        return t;
    json_t *shape = json_object_get(entry, "shape"),
           *at = json_object_get(entry, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(at, 0));
    t.rows = json_integer_value(json_array_get(shape, 0));
    t.cols = json_integer_value(json_array_get(shape, 1));
    t.bytes = (size_t)(json_integer_value(json_array_get(at, 1)) - begin);
    t.data = g->data + begin;
    return t;
}

static inline golden_tensor golden_get(const golden_file *g, const char *name,
                                       const char *tensor) {
    golden_tensor t = golden_find(g, name, tensor);
    if (!t.data)
        fail_msg("no tensor %s/%s", name, tensor);
    return t;
}

#endif
