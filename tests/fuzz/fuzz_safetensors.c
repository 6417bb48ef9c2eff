/* Any bytes as a safetensors file, and as the index of a sound shard: the reader must refuse or
 * understand them, and what it understands must hold.
 *
 * A target of libFuzzer (CMake option MPT_FUZZ); replay.c runs the same function over the seeds
 * in safetensors/ and over mutations of them, as a unit test. A broken promise aborts, as the
 * fuzzer wants it. What was read is written again and read back, so the writer is held to
 * everything that the reader lets through. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"

#define PROMISE(condition)                                                                     \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#define SHARD_HEADER "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

static char folder[64], file_path[96], copy_path[96], index_path[96], shard_path[96];

static void remove_folder(void) {
    const char *const paths[] = {file_path, copy_path, index_path, shard_path};
    for (size_t i = 0; i < MPT_COUNT(paths); i++)
        unlink(paths[i]);
    rmdir(folder);
}

static void write_bytes(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    PROMISE(file && fwrite(data, 1, size, file) == size);
    PROMISE(fclose(file) == 0);
}

/* The folder, once a run, in memory where the system has such a place. */
static void make_folder(void) {
    static const char shard[] = "\x35\0\0\0\0\0\0\0" SHARD_HEADER "x";
    _Static_assert(sizeof SHARD_HEADER - 1 == 0x35, "the length in front is the header's");
    struct stat st;
    if (*folder)
        return;
    snprintf(folder, sizeof folder, "%s/mpt_fuzz_XXXXXX",
             stat("/dev/shm", &st) == 0 ? "/dev/shm" : "/tmp");
    PROMISE(mkdtemp(folder));
    snprintf(file_path, sizeof file_path, "%s/in.safetensors", folder);
    snprintf(copy_path, sizeof copy_path, "%s/copy.safetensors", folder);
    snprintf(index_path, sizeof index_path, "%s/index.json", folder);
    snprintf(shard_path, sizeof shard_path, "%s/shard", folder);
    write_bytes(shard_path, shard, sizeof shard - 1);
    atexit(remove_folder);
}

/* ---- the promises ---- */

/* A tensor lies in its file, and all of it can be read. */
static void check_tensor(const mpt_safetensors *file, int index) {
    const mpt_stored_tensor *t = mpt_safetensors_at(file, index);
    const unsigned char *data = t->data;
    float values[16];
    int64_t elements = 1;
    unsigned sum = 0;
    PROMISE(mpt_safetensors_find(file, t->name) == t);
    PROMISE(index == 0 || strcmp(t[-1].name, t->name) < 0);
    PROMISE(t->rank >= 0 && t->rank <= MPT_TENSOR_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        PROMISE(t->dims[i] >= 0 && !__builtin_mul_overflow(elements, t->dims[i], &elements));
    PROMISE(elements == t->elements);
    PROMISE((size_t)elements * (size_t)mpt_tensor_type_bits(t->type) == t->bytes * 8);
    for (size_t i = 0; i < t->bytes; i++)
        sum += data[i];
    PROMISE(sum <= t->bytes * 255);
    mpt_stored_tensor_floats(t, 0, elements < 16 ? elements : 16, values);
}

/* The tensors of `from` as a new file, at copy_path. */
static void write_copy(mpt_ctx *ctx, const mpt_safetensors *from, mpt_tensor_spec *specs) {
    mpt_safetensors_writer *w = NULL;
    int n = mpt_safetensors_count(from);
    for (int i = 0; i < n; i++) {
        const mpt_stored_tensor *t = mpt_safetensors_at(from, i);
        specs[i] = (mpt_tensor_spec){.name = t->name, .type = t->type, .rank = t->rank};
        memcpy(specs[i].dims, t->dims, sizeof t->dims);
    }
    PROMISE(mpt_safetensors_create(ctx, copy_path, specs, n, NULL, &w) == MPT_OK);
    for (int i = 0; i < n; i++) {
        const mpt_stored_tensor *t = mpt_safetensors_at(from, i);
        memcpy(mpt_safetensors_data(w, i), t->data, t->bytes);
    }
    PROMISE(mpt_safetensors_commit(w) == MPT_OK);
}

static void check_copy(mpt_ctx *ctx, const mpt_safetensors *from) {
    mpt_safetensors *copy = NULL;
    int n = mpt_safetensors_count(from);
    mpt_tensor_spec *specs = calloc((size_t)n + 1, sizeof *specs);
    PROMISE(specs);
    write_copy(ctx, from, specs);
    PROMISE(mpt_safetensors_open(ctx, copy_path, &copy) == MPT_OK);
    PROMISE(mpt_safetensors_count(copy) == n);
    for (int i = 0; i < n; i++) {
        const mpt_stored_tensor *a = mpt_safetensors_at(from, i);
        const mpt_stored_tensor *b = mpt_safetensors_at(copy, i);
        PROMISE(strcmp(a->name, b->name) == 0 && a->type == b->type && a->rank == b->rank);
        PROMISE(memcmp(a->dims, b->dims, sizeof a->dims) == 0 && a->bytes == b->bytes);
        PROMISE(memcmp(a->data, b->data, a->bytes) == 0);
    }
    mpt_safetensors_close(copy);
    free(specs);
}

/* Opens the path; whatever comes of it, no memory is left and a refusal says why. */
static void check_path(const char *path) {
    mpt_ctx *ctx = NULL;
    mpt_safetensors *file = NULL;
    PROMISE(mpt_ctx_create(NULL, &ctx) == MPT_OK);
    mpt_status status = mpt_safetensors_open(ctx, path, &file);
    if (status == MPT_OK) {
        for (int i = 0; i < mpt_safetensors_count(file); i++)
            check_tensor(file, i);
        mpt_safetensors_metadata(file, "format");
        check_copy(ctx, file);
        mpt_safetensors_close(file);
    } else {
        PROMISE(status == MPT_DATA || status == MPT_UNSUPPORTED || status == MPT_NOT_FOUND);
        PROMISE(!file && strncmp(mpt_ctx_error(ctx)->text, folder, strlen(folder)) == 0);
        PROMISE(*mpt_ctx_error(ctx)->hint);
    }
    PROMISE(mpt_ctx_memory(ctx).live_bytes == 0);
    mpt_ctx_destroy(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    make_folder();
    write_bytes(file_path, data, size);
    check_path(file_path);
    if (size && data[0] == '{') {
        write_bytes(index_path, data, size);
        check_path(index_path);
    }
    return 0;
}

/* Changes some bytes; half of the time the header's length is then set to end with the last
 * brace, because most changed headers would otherwise never reach the parser whole. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 2 == 0 || size < 8)
        return size;
    size_t end = size;
    while (end > 8 && data[end - 1] != '}')
        end--;
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)((end - 8) >> (8 * i));
    return size;
}
