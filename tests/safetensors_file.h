/* Folders and files for tests of safetensors: made, read back, removed with all that is in
 * them.
 */
#ifndef MPT_TESTS_SAFETENSORS_FILE_H
#define MPT_TESTS_SAFETENSORS_FILE_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "mpt_test.h"

/* A folder of its own, and the usual name in it. */
typedef struct folder {
    char path[64], file[128];
} folder;

static inline folder folder_make(void) {
    folder f = {"/tmp/mpt_safetensors_XXXXXX", ""};
    assert_non_null(mkdtemp(f.path));
    snprintf(f.file, sizeof f.file, "%s/model.safetensors", f.path);
    return f;
}

/* Counts the files in it, and removes them where asked to. */
static inline int folder_visit(const folder *f, bool remove_each) {
    DIR *dir = opendir(f->path);
    int n = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", f->path, entry->d_name);
        if (remove_each)
            assert_int_equal(unlink(path), 0);
        n++;
    }
    closedir(dir);
    return n;
}

static inline int folder_count(const folder *f) {
    return folder_visit(f, false);
}

static inline int folder_clear(const folder *f) {
    return folder_visit(f, true);
}

static inline void folder_remove(const folder *f) {
    folder_clear(f);
    assert_int_equal(rmdir(f->path), 0);
}

typedef struct file_bytes {
    unsigned char *data;
    size_t size;
} file_bytes;

static inline file_bytes bytes_read(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    file_bytes b = {NULL, (size_t)ftell(file)};
    rewind(file);
    b.data = malloc(b.size + 1);
    assert_non_null(b.data);
    assert_int_equal(fread(b.data, 1, b.size, file), b.size);
    fclose(file);
    return b;
}

static inline void bytes_free(file_bytes *b) {
    free(b->data);
}

static inline void bytes_write(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file)
        fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A file with this header and `data_bytes` bytes 0, 1, 2 ... behind it. */
static inline void header_write(const char *path, const char *header, size_t data_bytes) {
    size_t n = strlen(header);
    unsigned char *all = malloc(8 + n + data_bytes);
    assert_non_null(all);
    for (int i = 0; i < 8; i++)
        all[i] = (unsigned char)(n >> (8 * i));
    memcpy(all + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++)
        all[8 + n + i] = (unsigned char)i;
    bytes_write(path, all, 8 + n + data_bytes);
    free(all);
}

static const mpt_tensor_spec one_float = {
    .name = "x", .type = MPT_TENSOR_F32, .rank = 1, .dims = {1}};

/* Writes a file of one float. */
static inline mpt_status write_float(mpt_ctx *ctx, const char *path, float value) {
    mpt_safetensors_writer *w;
    MPT_TRY(mpt_safetensors_create(ctx, path, &one_float, 1, NULL, &w));
    memcpy(mpt_safetensors_data(w, 0), &value, sizeof value);
    return mpt_safetensors_commit(w);
}

#endif
