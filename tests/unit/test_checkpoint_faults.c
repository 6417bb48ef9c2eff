/* Checkpoints while the system or the allocator refuses: each call that could fail fails in
 * turn, and at any moment there is a whole checkpoint, a message, and no half of one under a
 * name.
 *
 * The program's own definitions of the system's calls stand before those of the C library. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint_case.h"

/* ---- calls that fail when asked to ---- */

static int calls, fail_at; /* the one of that number fails; 0: none */
static int fault = ENOSPC;

static bool fails(void) {
    if (fail_at == 0 || ++calls != fail_at)
        return false;
    errno = fault;
    return true;
}

int fsync(int fd) {
    return fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    return fails() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    return fails() ? -1 : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    return fails() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rmdir(const char *path) {
    return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int unlink(const char *path) {
    return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
    return fails() ? -1 : (int)syscall(SYS_linkat, a, from, b, to, flags);
}

int msync(void *at, size_t bytes, int flags) {
    return fails() ? -1 : (int)syscall(SYS_msync, at, bytes, flags);
}

/* What a write to a full disk is, where files are mapped: their space is taken first. */
int posix_fallocate(int fd, off_t at, off_t bytes) {
    return fails() ? fault : ftruncate(fd, at + bytes);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

DIR *opendir(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* which may fail */
    return fd < 0 ? NULL : fdopendir(fd);
}

/* ---- saving ---- */

/* A folder with a whole step-4 and its trainer at step 8. */
static void begin_at_8(checkpoint_case *c, const checkpoints *f) {
    checkpoint_begin_set(c, CHECKPOINT_DELAYED, "train.checkpoint.keep", "1");
    checkpoint_train(c, 8, 0);
    assert_mpt_ok(c->ctx, mpt_trainer_set_checkpoints(c->trainer, f->path));
}

static void put_4(checkpoint_case *c, const checkpoints *f) {
    mpt_arena arena;
    mpt_arena_init(&arena, c->ctx);
    mpt_dir_names names = checkpoints_list(&arena, f->path);
    for (int i = 0; i < names.n; i++) {
        const char *path = mpt_arena_printf(&arena, "%s/%s", f->path, names.names[i]);
        assert_mpt_ok(c->ctx, mpt_dir_remove(c->ctx, path, path));
    }
    mpt_arena_deinit(&arena);
    c->trainer->attempted = 4;
    assert_mpt_ok(c->ctx, mpt_trainer_save_checkpoint(c->trainer, f->path));
    c->trainer->attempted = 8;
    c->trainer->saved_at = c->trainer->told_at = 4;
    c->trainer->swept = false;
    c->trainer->owns = true; /* as if step 4 had been saved by mpt_trainer_checkpoint */
}

/* Everything called step-N is whole, and one is there; it is the new one if saving said so. */
static void expect_whole(checkpoint_case *c, const checkpoints *f, bool saved, int at) {
    mpt_checkpoint_info info;
    mpt_arena arena;
    int n = 0;
    mpt_arena_init(&arena, c->ctx);
    mpt_dir_names names = checkpoints_list(&arena, f->path);
    for (int i = 0; i < names.n; i++) {
        if (mpt_checkpoint_step(names.names[i]) < 0)
            continue;
        const char *path = mpt_arena_printf(&arena, "%s/%s", f->path, names.names[i]);
        if (mpt_checkpoint_read(c->ctx, path, &info) != MPT_OK)
            fail_msg("call %d: %s", at, mpt_ctx_error(c->ctx)->message);
        n++;
    }
    if (n == 0)
        fail_msg("call %d: no checkpoint is left", at);
    mpt_arena_deinit(&arena);
    assert_mpt_ok(c->ctx, mpt_checkpoint_find(c->ctx, f->path, &info));
    if (saved)
        assert_int_equal(info.step, 8);
}

/* Gives whether the call of that number came. */
static bool save_with_fault(checkpoint_case *c, const checkpoints *f, int at) {
    put_4(c, f);
    size_t told = c->n_bytes;
    calls = 0;
    fail_at = at;
    mpt_status status = mpt_trainer_checkpoint(c->trainer, false);
    bool came = calls >= at;
    fail_at = 0;
    if (status != MPT_OK && (status != MPT_IO || !*mpt_ctx_error(c->ctx)->hint))
        fail_msg("call %d: %s: %s", at, mpt_status_name(status),
                 mpt_ctx_error(c->ctx)->message);
    assert_int_equal(c->n_bytes > told, status == MPT_OK); /* told if and only if saved */
    expect_whole(c, f, status == MPT_OK, at);
    /* With the disk mended the same run saves. */
    assert_mpt_ok(c->ctx, mpt_trainer_checkpoint(c->trainer, false));
    expect_whole(c, f, true, at);
    return came;
}

static void save_with_each(int error) {
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    int at = 1;
    fault = error;
    begin_at_8(&c, &f);
    while (save_with_fault(&c, &f, at))
        at++;
    assert_true(at > 20); /* or the calls are no longer those that are counted here */
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static void test_save_when_each_call_meets_a_full_disk_then_nothing_is_lost(void **s) {
    (void)s;
    save_with_each(ENOSPC);
}

static void test_save_when_each_call_meets_a_bad_disk_then_nothing_is_lost(void **s) {
    (void)s;
    save_with_each(EIO);
}

static void test_save_when_nothing_is_permitted_then_nothing_is_lost(void **s) {
    (void)s;
    save_with_each(EACCES);
}

/* A file system that cannot exchange two names: what stood there is removed first. */
static void test_save_when_names_cannot_be_exchanged_then_replaced_all_the_same(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    mpt_checkpoint_info info;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1);
    for (int i = 0; i < 2; i++)
        assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
    fault = EINVAL;
    for (fail_at = 1; fail_at < 100; fail_at++) {
        calls = 0;
        mpt_status status = mpt_trainer_save_checkpoint(c.trainer, f.path);
        int kept = fail_at;
        fail_at = 0;
        if (status == MPT_OK)
            assert_mpt_ok(c.ctx, mpt_checkpoint_find(c.ctx, f.path, &info));
        else
            assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
        if (calls < kept)
            break;
        fail_at = kept;
    }
    fail_at = 0;
    assert_checkpoints(f.path, "step-0");
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* ---- reading ---- */

/* Opening a file is all that reading asks of the system before it maps. */
static void test_load_when_each_call_fails_then_said_and_nothing_has_changed(void **s) {
    (void)s;
    checkpoints f = checkpoints_make(), before = checkpoints_make(), after = checkpoints_make();
    checkpoint_case c;
    int at = 1;
    mpt_status status = MPT_IO;
    checkpoint_begin(&c, CHECKPOINT_DELAYED, 1);
    checkpoint_save_after(&c, 2, f.path);
    checkpoint_save_after(&c, 2, before.path);
    checkpoint_path path = checkpoint_at(f.path, 2);
    fault = EIO;
    for (; status != MPT_OK; at++) {
        calls = 0;
        fail_at = at;
        status = mpt_trainer_load_checkpoint(c.trainer, path.text, NULL);
        bool came = calls >= at;
        fail_at = 0;
        if (came && status != MPT_IO)
            fail_msg("call %d: %s", at, mpt_status_name(status));
        if (status == MPT_OK)
            break;
        assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, after.path));
        assert_same_checkpoint(before.path, after.path, 4);
    }
    assert_true(at > 4);
    assert_int_equal(c.trainer->attempted, 2);
    checkpoint_end(&c);
    checkpoints_remove(&f);
    checkpoints_remove(&before);
    checkpoints_remove(&after);
}

/* ---- memory ---- */

/* An allocator that refuses the call of a number. */
typedef struct refusing {
    int n, refuse_at; /* 0: none */
} refusing;

static void *refuse_one(void *ud, void *ptr, size_t old_size, size_t new_size) {
    refusing *r = ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    if (r->refuse_at > 0 && ++r->n == r->refuse_at)
        return NULL;
    return realloc(ptr, new_size);
}

static void begin_refusing(checkpoint_case *c, refusing *r) {
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    options.alloc = refuse_one;
    options.alloc_ud = r;
    *c = (checkpoint_case){.ctx = NULL};
    assert_int_equal(mpt_ctx_create(&options, &c->ctx), MPT_OK);
    assert_mpt_ok(c->ctx, checkpoint_make(c, CHECKPOINT_DELAYED, 1, NULL, 0));
}

static void test_save_when_each_allocation_fails_then_said_and_nothing_is_left(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    refusing r = {0, 0};
    checkpoint_case c;
    mpt_status status = MPT_OUT_OF_MEMORY;
    int at = 1;
    begin_refusing(&c, &r);
    size_t live = mpt_ctx_memory(c.ctx).live_bytes;
    for (; status != MPT_OK; at++) {
        r = (refusing){0, at};
        status = mpt_trainer_save_checkpoint(c.trainer, f.path);
        r.refuse_at = 0;
        assert_int_equal(mpt_ctx_memory(c.ctx).live_bytes, live);
        if (status == MPT_OK)
            break;
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
        mpt_checkpoint_info info;
        assert_int_equal(mpt_checkpoint_find(c.ctx, f.path, &info), MPT_NOT_FOUND);
    }
    assert_true(at > 10);
    assert_checkpoints(f.path, "step-0");
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static void test_load_when_each_allocation_fails_then_said_and_nothing_has_changed(void **s) {
    (void)s;
    checkpoints f = checkpoints_make(), before = checkpoints_make(), after = checkpoints_make();
    refusing r = {0, 0};
    checkpoint_case c;
    mpt_status status = MPT_OUT_OF_MEMORY;
    int at = 1;
    begin_refusing(&c, &r);
    checkpoint_save_after(&c, 2, f.path);
    checkpoint_save_after(&c, 2, before.path);
    checkpoint_path path = checkpoint_at(f.path, 2);
    size_t live = mpt_ctx_memory(c.ctx).live_bytes;
    for (; status != MPT_OK; at++) {
        r = (refusing){0, at};
        status = mpt_trainer_load_checkpoint(c.trainer, path.text, NULL);
        r.refuse_at = 0;
        if (status == MPT_OK) /* and the trainer keeps where it was read */
            break;
        assert_int_equal(mpt_ctx_memory(c.ctx).live_bytes, live);
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
        assert_int_equal(c.trainer->attempted, 4);
    }
    assert_true(at > 10);
    assert_int_equal(c.trainer->attempted, 2);
    checkpoint_save_after(&c, 2, after.path);
    assert_same_checkpoint(before.path, after.path, 4);
    checkpoint_end(&c);
    checkpoints_remove(&f);
    checkpoints_remove(&before);
    checkpoints_remove(&after);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_save_when_each_call_meets_a_full_disk_then_nothing_is_lost),
    cmocka_unit_test(test_save_when_each_call_meets_a_bad_disk_then_nothing_is_lost),
    cmocka_unit_test(test_save_when_nothing_is_permitted_then_nothing_is_lost),
    cmocka_unit_test(test_save_when_names_cannot_be_exchanged_then_replaced_all_the_same),
    cmocka_unit_test(test_load_when_each_call_fails_then_said_and_nothing_has_changed),
    cmocka_unit_test(test_save_when_each_allocation_fails_then_said_and_nothing_is_left),
    cmocka_unit_test(test_load_when_each_allocation_fails_then_said_and_nothing_has_changed),
};
MPT_TEST_MAIN(cases)
