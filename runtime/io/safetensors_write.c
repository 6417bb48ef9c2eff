/* Writing a safetensors file: its layout, over a file that is whole or not at all
 * (file_write.c). */
#include "io/safetensors.h"

#include <string.h>

#include "io/file_write.h"
#include "io/safetensors_layout.h"
#include "io/safetensors_read.h"

struct mpt_safetensors_writer {
    mpt_ctx *ctx;
    mpt_file_writer *file;
    mpt_safetensors_layout layout;
};

/* Whether it starts as a safetensors file does. */
static bool is_safetensors(const char *path, const unsigned char *start, size_t n) {
    uint64_t length = 0;
    (void)path;
    for (int i = 7; i >= 0 && n == 9; i--)
        length = length << 8 | start[i];
    return n == 9 && length <= MPT_SAFETENSORS_HEADER_MAX && start[8] == '{';
}

static const mpt_file_kind kind = {"safetensors file", 9, is_safetensors};

static mpt_status create_file(mpt_safetensors_writer *w, const char *path) {
    MPT_TRY(mpt_file_create(w->ctx, path, w->layout.size, &kind, &w->file));
    memcpy(mpt_file_bytes(w->file), w->layout.header.data, w->layout.header.len);
    return MPT_OK;
}

mpt_status mpt_safetensors_create(mpt_ctx *ctx, const char *path, const mpt_tensor_spec *specs,
                                  int n_specs, const char *const *metadata,
                                  mpt_safetensors_writer **out) {
    *out = NULL;
    mpt_safetensors_writer *w = mpt_alloc(ctx, sizeof *w);
    if (!w)
        return mpt_fail_memory(ctx, sizeof *w);
    w->ctx = ctx;
    mpt_status status =
        mpt_safetensors_layout_make(ctx, path, specs, n_specs, metadata, &w->layout);
    if (status == MPT_OK)
        status = create_file(w, path);
    if (status == MPT_OK)
        *out = w;
    else
        mpt_safetensors_abandon(w);
    return status;
}

void *mpt_safetensors_data(mpt_safetensors_writer *writer, int index) {
    unsigned char *bytes = mpt_file_bytes(writer->file);
    return bytes + writer->layout.offsets[index];
}

mpt_status mpt_safetensors_commit(mpt_safetensors_writer *writer) {
    mpt_status status = mpt_file_commit(writer->file);
    writer->file = NULL;
    mpt_safetensors_abandon(writer);
    return status;
}

void mpt_safetensors_abandon(mpt_safetensors_writer *writer) {
    if (!writer)
        return;
    mpt_ctx *ctx = writer->ctx;
    mpt_file_abandon(writer->file);
    mpt_safetensors_layout_deinit(ctx, &writer->layout);
    mpt_free(ctx, writer);
}
