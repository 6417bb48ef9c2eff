/* The list of what a checkpoint holds. See saved.h; checkpoint.c writes and reads it. */
#include "train/saved.h"

#include <string.h>

void mpt_saved_init(mpt_saved *list, mpt_ctx *ctx) {
    *list = (mpt_saved){.ctx = ctx};
    mpt_arena_init(&list->arena, ctx);
}

void mpt_saved_deinit(mpt_saved *list) {
    mpt_arena_deinit(&list->arena);
}

mpt_status mpt_saved_add(mpt_saved *list, const char *name, mpt_tensor_type type, int rank,
                         const int64_t *dims, void *data) {
    mpt_saved_row *rows =
        mpt_arena_grow(&list->arena, list->rows, sizeof *rows, list->n, &list->cap);
    if (!rows)
        return MPT_OUT_OF_MEMORY;
    list->rows = rows;
    mpt_saved_row *row = &rows[list->n];
    *row = (mpt_saved_row){.type = type, .kind = list->kind, .rank = rank, .data = data};
    row->name = mpt_arena_strdup(&list->arena, name);
    if (!row->name)
        return MPT_OUT_OF_MEMORY;
    size_t elements = 1; /* of memory that is there, so no product is too large */
    for (int i = 0; i < rank; i++) {
        row->dims[i] = dims[i];
        elements *= (size_t)dims[i];
    }
    row->bytes = elements * (size_t)mpt_tensor_type_bits(type) / 8;
    list->n++;
    return MPT_OK;
}

mpt_status mpt_saved_add_i64(mpt_saved *list, const char *name, int64_t *value) {
    return mpt_saved_add(list, name, MPT_TENSOR_I64, 0, NULL, value);
}

mpt_status mpt_saved_add_i32(mpt_saved *list, const char *name, int32_t *value) {
    return mpt_saved_add(list, name, MPT_TENSOR_I32, 0, NULL, value);
}

mpt_status mpt_saved_add_f64(mpt_saved *list, const char *name, double *value) {
    return mpt_saved_add(list, name, MPT_TENSOR_F64, 0, NULL, value);
}
