/* Which checkpoints a folder has, and which of them are whole. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dir.h"

mpt_status mpt_checkpoint_read(mpt_ctx *ctx, const char *path, mpt_checkpoint_info *out) {
    json_t *manifest;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, path);
    MPT_REQUIRE(ctx, out);
    MPT_TRY(mpt_manifest_read(ctx, path, &manifest));
    mpt_manifest_info(manifest, path, out);
    json_decref(manifest);
    return MPT_OK;
}

static int newest_first(const void *a, const void *b) {
    int64_t x = mpt_checkpoint_step(*(const char *const *)a);
    int64_t y = mpt_checkpoint_step(*(const char *const *)b);
    return (x < y) - (x > y);
}

/* Damage is said and passed over; what has nothing to do with it ends the search. */
static bool passes_over(mpt_ctx *ctx, mpt_status status, const char *name) {
    if (status == MPT_OUT_OF_MEMORY || status == MPT_UNSUPPORTED)
        return false;
    mpt_log(ctx, MPT_LOG_WARNING, "%s is not whole and is passed over: %s", name,
            mpt_ctx_error(ctx)->text);
    return true;
}

static mpt_status find(mpt_arena *arena, const char *folder, int64_t most,
                       mpt_checkpoint_info *out) {
    mpt_ctx *ctx = arena->ctx;
    mpt_dir_names names;
    int tried = 0;
    MPT_TRY(mpt_dir_list(arena, folder, &names));
    if (names.n > 1)
        qsort((void *)names.names, (size_t)names.n, sizeof *names.names, newest_first);
    for (int i = 0; i < names.n; i++) {
        int64_t step = mpt_checkpoint_step(names.names[i]);
        if (step < 0 || step > most)
            continue;
        const char *path = mpt_arena_printf(arena, "%s/%s", folder, names.names[i]);
        if (!path)
            return MPT_OUT_OF_MEMORY;
        mpt_status status = mpt_checkpoint_read(ctx, path, out);
        if (status == MPT_OK || !passes_over(ctx, status, path))
            return status;
        tried++;
    }
    if (tried == 0)
        return MPT_FAIL(ctx, MPT_NOT_FOUND, MPT_NOWHERE, "%s: has no checkpoint", folder);
    mpt_status status = MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE,
                                 "%s: none of its %d checkpoints is whole", folder, tried);
    mpt_hint(ctx, "remove them, and the run begins anew");
    return status;
}

mpt_status mpt_checkpoint_find_until(mpt_ctx *ctx, const char *folder, int64_t most,
                                     mpt_checkpoint_info *out) {
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    mpt_status status = find(&arena, folder, most, out);
    mpt_arena_deinit(&arena);
    return status;
}

mpt_status mpt_checkpoint_find(mpt_ctx *ctx, const char *folder, mpt_checkpoint_info *out) {
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, folder);
    MPT_REQUIRE(ctx, out);
    return mpt_checkpoint_find_until(ctx, folder, INT64_MAX, out);
}
