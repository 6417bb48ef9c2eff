/* Any bytes as a token file: the reader must refuse or understand them, and what it understands
 * must hold.
 *
 * A target of libFuzzer (CMake option MPT_FUZZ); replay.c runs the same function over the seeds
 * in tokens/ and over mutations of them, as a unit test. The bytes are read as a file alone,
 * and as Megatron's index beside a file of ids. A broken promise aborts. What was read is
 * written again in each format and read back. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/tokens.h"

#define PROMISE(condition)                                                                     \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

enum { DATA_BYTES = 4096, MOST_IDS = 1 << 14 };

static char folder[64], file_path[96], index_path[96], data_path[96], copy_path[96],
    copy_index[96];

static void remove_folder(void) {
    const char *const paths[] = {file_path, index_path, data_path, copy_path, copy_index};
    for (size_t i = 0; i < MPT_COUNT(paths); i++)
        unlink(paths[i]);
    rmdir(folder);
}

static void write_bytes(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    PROMISE(file && fwrite(data, 1, size, file) == size);
    PROMISE(fclose(file) == 0);
}

/* The folder, once a run, in memory where the system has such a place, with a file of ids. */
static void make_folder(void) {
    static unsigned char ids[DATA_BYTES];
    struct stat st;
    if (*folder)
        return;
    snprintf(folder, sizeof folder, "%s/mpt_fuzz_XXXXXX",
             stat("/dev/shm", &st) == 0 ? "/dev/shm" : "/tmp");
    PROMISE(mkdtemp(folder));
    snprintf(file_path, sizeof file_path, "%s/alone", folder);
    snprintf(index_path, sizeof index_path, "%s/pair.idx", folder);
    snprintf(data_path, sizeof data_path, "%s/pair.bin", folder);
    snprintf(copy_path, sizeof copy_path, "%s/copy.bin", folder);
    snprintf(copy_index, sizeof copy_index, "%s/copy.idx", folder);
    for (size_t i = 0; i < sizeof ids; i += 8)
        ids[i] = (unsigned char)(i / 8);
    write_bytes(data_path, ids, sizeof ids);
    atexit(remove_folder);
}

/* ---- the promises ---- */

/* Writes the ids in a format, and reads the same ones. */
static void check_copy(mpt_ctx *ctx, const mpt_tokens *t, const int32_t *ids,
                       mpt_token_format format) {
    static int32_t back[MOST_IDS];
    mpt_token_spec spec = {.format = format, .n = t->n, .vocab = t->largest + 2};
    mpt_token_writer *w = NULL;
    mpt_tokens *copy = NULL;
    bool wide = format == MPT_TOKENS_LLMC32 || format == MPT_TOKENS_MEGATRON;
    PROMISE(mpt_tokens_create(ctx, copy_path, &spec, &w) == MPT_OK);
    mpt_status status = mpt_tokens_put(w, 0, t->n, ids);
    PROMISE(status == (wide || t->largest <= UINT16_MAX ? MPT_OK : MPT_DATA));
    if (status != MPT_OK) {
        mpt_tokens_abandon(w);
        PROMISE(access(copy_path, F_OK) != 0);
        return;
    }
    PROMISE(mpt_tokens_commit(w) == MPT_OK);
    status = mpt_tokens_open(ctx, MPT_NOWHERE, copy_path, MPT_TOKENS_NANOGPT, &copy);
    if (status == MPT_OK) { /* a text that was cut into pairs of bytes is refused, rightly */
        PROMISE(mpt_tokens_check(copy, 0) == MPT_OK);
        PROMISE(copy->n == t->n && copy->largest == t->largest);
        mpt_tokens_read(copy, 0, copy->n, back);
        PROMISE(memcmp(back, ids, (size_t)t->n * sizeof *ids) == 0);
        mpt_tokens_close(copy);
    } else {
        PROMISE(format == MPT_TOKENS_NANOGPT && status == MPT_DATA);
    }
    unlink(copy_path);
    unlink(copy_index);
}

static void check_tokens(mpt_ctx *ctx, const mpt_tokens *t) {
    static int32_t ids[MOST_IDS];
    int64_t largest = -1;
    PROMISE(t->n >= 0 && t->n <= MOST_IDS);
    PROMISE((size_t)(t->n * mpt_token_type_bytes(t->type)) <= t->map.size);
    mpt_tokens_read(t, 0, t->n, ids);
    for (int64_t i = 0; i < t->n; i++) {
        PROMISE(ids[i] >= 0);
        largest = ids[i] > largest ? ids[i] : largest;
    }
    PROMISE(largest == t->largest);
    for (mpt_token_format f = MPT_TOKENS_NANOGPT; f < MPT_TOKENS_FORMAT_COUNT; f++)
        check_copy(ctx, t, ids, f);
}

/* Opens the path; whatever comes of it, no memory is left and a refusal says why. */
static void check_path(const char *path, mpt_token_format headerless) {
    mpt_ctx *ctx = NULL;
    mpt_tokens *t = NULL;
    PROMISE(mpt_ctx_create(NULL, &ctx) == MPT_OK);
    mpt_status status = mpt_tokens_open(ctx, MPT_NOWHERE, path, headerless, &t);
    if (status == MPT_OK)
        status = mpt_tokens_check(t, 0);
    if (status == MPT_OK)
        check_tokens(ctx, t);
    else {
        PROMISE(status == MPT_DATA || status == MPT_UNSUPPORTED || status == MPT_NOT_FOUND);
        PROMISE(strncmp(mpt_ctx_error(ctx)->text, folder, strlen(folder)) == 0);
        PROMISE(*mpt_ctx_error(ctx)->hint);
    }
    mpt_tokens_close(t);
    PROMISE(mpt_ctx_memory(ctx).live_bytes == 0);
    mpt_ctx_destroy(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > MOST_IDS)
        return 0;
    make_folder();
    write_bytes(file_path, data, size);
    check_path(file_path, MPT_TOKENS_NANOGPT);
    check_path(file_path, MPT_TOKENS_TEXT);
    if (mpt_content_of(file_path) == MPT_CONTENT_TOKENS) {
        write_bytes(index_path, data, size);
        check_path(data_path, MPT_TOKENS_NANOGPT);
        unlink(index_path);
    }
    return 0;
}

/* Changes some bytes; half of the time the size is then set back, because most formats count
 * their bytes, and nothing else of such a file would be looked at. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size_t before = size;
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 2 == 0 || size >= before)
        return seed % 2 == 0 ? size : before;
    memset(data + size, 0, before - size);
    return before;
}
