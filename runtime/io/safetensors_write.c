/* Writing a safetensors file: its layout, and a new file of that size (new_file.h). */
#include "io/safetensors.h"

#include <string.h>

#include "io/new_file.h"
#include "io/safetensors_layout.h"
#include "io/safetensors_read.h"

struct mpt_safetensors_writer {
    mpt_ctx *ctx;
    mpt_safetensors_layout layout;
    mpt_new_file *file;
};

/* Whether a file starts as safetensors do: with a possible length, and a brace. */
static bool starts(const unsigned char *start, size_t n) {
    uint64_t length = 0;
    for (int i = 7; i >= 0 && n > 8; i--)
        length = length << 8 | start[i];
    return n > 8 && length <= MPT_SAFETENSORS_HEADER_MAX && start[8] == '{';
}

static mpt_status prepare(mpt_safetensors_writer *w, const char *path,
                          const mpt_tensor_spec *specs, int n_specs,
                          const char *const *metadata) {
    static const mpt_file_kind kind = {"safetensors file", starts};
    MPT_TRY(mpt_safetensors_layout_make(w->ctx, path, specs, n_specs, metadata, &w->layout));
    MPT_TRY(mpt_new_file_create(w->ctx, path, &kind, w->layout.size, &w->file));
    memcpy(mpt_new_file_data(w->file), w->layout.header.data, w->layout.header.len);
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
    mpt_status status = prepare(w, path, specs, n_specs, metadata);
    if (status == MPT_OK)
        *out = w;
    else
        mpt_safetensors_abandon(w);
    return status;
}

void *mpt_safetensors_data(mpt_safetensors_writer *writer, int index) {
    return mpt_new_file_data(writer->file) + writer->layout.offsets[index];
}

mpt_status mpt_safetensors_commit(mpt_safetensors_writer *writer) {
    mpt_status status = mpt_new_file_commit(writer->file);
    writer->file = NULL;
    mpt_safetensors_abandon(writer);
    return status;
}

void mpt_safetensors_abandon(mpt_safetensors_writer *writer) {
    if (!writer)
        return;
    mpt_new_file_abandon(writer->file);
    mpt_safetensors_layout_deinit(writer->ctx, &writer->layout);
    mpt_free(writer->ctx, writer);
}
