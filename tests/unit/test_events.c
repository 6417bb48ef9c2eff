/* TensorBoard's event files: check sums, records byte for byte, a file that only ever holds
 * whole records. */
#include "mpt_test.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allowance.h"
#include "io/crc32c.h"
#include "io/events.h"
#include "mpt/evidence.h"
#include "safetensors_file.h"

/* ---- check sums ---- */

/* Vectors of RFC 3720, B.4, and the usual check value. */
static void test_crc32c_when_of_known_data_then_the_known_sums(void **s) {
    (void)s;
    unsigned char bytes[32];
    assert_int_equal(mpt_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(mpt_crc32c_masked("123456789", 9), 0xc78ab0e5);
    assert_int_equal(mpt_crc32c("", 0), 0);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(mpt_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(mpt_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(mpt_crc32c(bytes, sizeof bytes), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(mpt_crc32c(bytes, sizeof bytes), 0x113fdb5c);
}

/* ---- records ---- */

static void assert_record(const mpt_event_record *record, const char *hex) {
    char text[2 * MPT_EVENT_RECORD + 1];
    for (size_t i = 0; i < record->n; i++)
        snprintf(text + 2 * i, 3, "%02x", record->bytes[i]);
    assert_string_equal(text, hex);
}

/* Bytes that TensorBoard's own loader has read. */
static void test_record_when_made_then_these_bytes(void **s) {
    (void)s;
    mpt_event_record record;
    mpt_event_version(&record, 1.0);
    assert_record(&record, "1800000000000000a37f4b22"
                           "09000000000000f03f1a0d627261696e2e4576656e743a32"
                           "86bf577a");
    mpt_event_scalar(&record, 2.0, 7, "train/loss", 2.5f);
    assert_record(&record, "200000000000000029eda950"
                           "09000000000000004010072a130a110a0a747261696e2f6c6f73731500002040"
                           "9f7ba4f7");
}

/* The data of a record: between 12 bytes before it and 4 behind it. */
static void test_record_when_a_run_goes_on_then_a_session_starts(void **s) {
    (void)s;
    static const unsigned char data[] = {0x09, 0,    0,    0,    0,    0, 0, 0,
                                         0x40, 0x10, 0xac, 0x02, 0x3a, 2, 8, 1};
    mpt_event_record record;
    mpt_event_restart(&record, 2.0, 300);
    assert_int_equal(record.n, 12 + sizeof data + 4);
    assert_memory_equal(record.bytes + 12, data, sizeof data);
}

static void test_scalar_when_not_finite_then_it_is_kept(void **s) {
    (void)s;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    mpt_event_record record;
    for (size_t i = 0; i < MPT_COUNT(values); i++) {
        mpt_event_scalar(&record, 0, 1, "x", values[i]);
        assert_memory_equal(record.bytes + record.n - 8, &values[i], 4);
    }
}

/* Lengths over 127 take two bytes, at each of three depths; a tag that is too long is cut. */
static void test_scalar_when_the_tag_is_long_then_lengths_still_fit(void **s) {
    (void)s;
    char tag[1000];
    mpt_event_record record;
    for (size_t n = 90; n < sizeof tag; n += 7) {
        size_t kept = n < MPT_EVENT_TAG ? n : MPT_EVENT_TAG;
        memset(tag, 'a', n);
        tag[n] = 0;
        mpt_event_scalar(&record, 0, INT64_MAX, tag, 1);
        const unsigned char *at = record.bytes + 12 + 9;
        assert_int_equal(*at, 0x10); /* step */
        at += 10;
        for (int depth = 0; depth < 3; depth++) {
            size_t length = 0;
            int shift = 0;
            assert_int_equal(*at++, depth == 0 ? 0x2a : 0x0a);
            do
                length |= (size_t)(*at & 0x7f) << shift;
            while (shift += 7, *at++ & 0x80);
            size_t left = (size_t)(record.bytes + record.n - 4 - at);
            assert_int_equal(length, depth < 2 ? left : kept);
        }
    }
}

/* ---- the file ---- */

/* The one file of a folder, "" where there is none. */
static char *only_file(const folder *f, char out[512]) {
    DIR *dir = opendir(f->path);
    out[0] = 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.')
            snprintf(out, 512, "%s/%s", f->path, e->d_name);
    closedir(dir);
    return out;
}

/* How many records a file holds; fails where one is not whole. */
static int count_records(const char *path) {
    file_bytes b = bytes_read(path);
    int n = 0;
    for (size_t at = 0; at < b.size; n++) {
        uint32_t sum;
        assert_true(b.size - at >= 16);
        size_t length = (size_t)b.data[at] | (size_t)b.data[at + 1] << 8;
        assert_true(b.size - at >= 16 + length);
        memcpy(&sum, b.data + at + 8, 4);
        assert_int_equal(sum, mpt_crc32c_masked(b.data + at, 8));
        memcpy(&sum, b.data + at + 12 + length, 4);
        assert_int_equal(sum, mpt_crc32c_masked(b.data + at + 12, length));
        at += 16 + length;
    }
    free(b.data);
    return n;
}

/* loss, lr, grad_norm, loss_scale, skipped */
enum { STEP_RECORDS = 5 };

static void test_events_when_a_step_is_written_then_the_file_holds_it_at_once(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_events *events;
    char path[512];
    const mpt_step_result step = {.loss = 2, .lr = 1e-3, .grad_norm = 1, .loss_scale = 1};
    assert_mpt_ok(ctx, mpt_events_create(ctx, f.path, &events));
    assert_non_null(strstr(only_file(&f, path), "/events.out.tfevents."));
    assert_int_equal(count_records(path), 1);
    uint64_t before = mpt_ctx_memory(ctx).n_allocs;
    assert_mpt_ok(ctx, mpt_events_step(events, &step));
    assert_int_equal(count_records(path), 1 + STEP_RECORDS);
    assert_mpt_ok(ctx, mpt_events_eval(events, 1, 2.5));
    assert_int_equal(count_records(path), 1 + STEP_RECORDS + 1);
    assert_mpt_ok(ctx, mpt_events_scalar(events, "mine", 1, 1)); /* gathers */
    assert_true(mpt_ctx_memory(ctx).n_allocs == before);
    mpt_events_destroy(events);
    assert_int_equal(count_records(path), 1 + STEP_RECORDS + 1 + 1);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_events_when_two_are_made_then_each_has_a_file(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_events *events[3];
    for (int i = 0; i < 3; i++)
        assert_mpt_ok(ctx, mpt_events_create(ctx, f.path, &events[i]));
    assert_int_equal(folder_count(&f), 3);
    for (int i = 0; i < 3; i++)
        mpt_events_destroy(events[i]);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_events_when_they_begin_past_step_0_then_the_file_says_so(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_events *events;
    char path[512];
    mpt_step_result step = {.step = 40};
    assert_mpt_ok(ctx, mpt_events_create(ctx, f.path, &events));
    assert_mpt_ok(ctx, mpt_events_step(events, &step));
    step.step++;
    assert_mpt_ok(ctx, mpt_events_step(events, &step));
    assert_int_equal(count_records(only_file(&f, path)), 1 + 1 + 2 * STEP_RECORDS);
    mpt_events_destroy(events);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_events_when_the_folder_is_missing_then_it_is_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_events *events;
    assert_int_equal(mpt_events_create(ctx, "/no/such/folder", &events), MPT_NOT_FOUND);
    assert_non_null(
        strstr(mpt_ctx_error(ctx)->message, "/no/such/folder/events.out.tfevents."));
    assert_null(events);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* A limit on the size of files stands in for a full disk: writing fails in the midst of a
 * record. */
static void test_events_when_the_disk_is_full_then_the_file_ends_with_a_whole_record(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_events *events;
    char path[512];
    struct rlimit before, small;
    mpt_status status = MPT_OK;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_mpt_ok(ctx, mpt_events_create(ctx, f.path, &events));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){1000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int written = 0;
    for (mpt_step_result step = {0}; status == MPT_OK; step.step++, written++)
        status = mpt_events_step(events, &step);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, MPT_IO);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, only_file(&f, path)));
    assert_int_equal(count_records(path), 1 + STEP_RECORDS * (written - 1));
    assert_int_equal(mpt_events_eval(events, 1, 1), MPT_IO); /* room again, but a gap */
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "an earlier write failed"));
    mpt_events_destroy(events);
    assert_int_equal(count_records(path), 1 + STEP_RECORDS * (written - 1));
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_events_when_an_allocation_fails_then_no_file_and_no_memory_is_left(void **s) {
    (void)s;
    allowance a;
    folder f = folder_make();
    mpt_ctx *ctx = allowance_context(&a, -1);
    mpt_events *events;
    long n = 0;
    for (mpt_status status = MPT_IO; status != MPT_OK; n++) {
        long live = a.live;
        a.left = n;
        status = mpt_events_create(ctx, f.path, &events);
        a.left = -1;
        assert_true(status == MPT_OK || status == MPT_OUT_OF_MEMORY);
        if (status != MPT_OK)
            assert_int_equal(a.live, live);
        assert_int_equal(folder_count(&f), status == MPT_OK);
    }
    assert_true(n > 1);
    mpt_events_destroy(events);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_crc32c_when_of_known_data_then_the_known_sums),
    cmocka_unit_test(test_record_when_made_then_these_bytes),
    cmocka_unit_test(test_record_when_a_run_goes_on_then_a_session_starts),
    cmocka_unit_test(test_scalar_when_not_finite_then_it_is_kept),
    cmocka_unit_test(test_scalar_when_the_tag_is_long_then_lengths_still_fit),
    cmocka_unit_test(test_events_when_a_step_is_written_then_the_file_holds_it_at_once),
    cmocka_unit_test(test_events_when_two_are_made_then_each_has_a_file),
    cmocka_unit_test(test_events_when_they_begin_past_step_0_then_the_file_says_so),
    cmocka_unit_test(test_events_when_the_folder_is_missing_then_it_is_named),
    cmocka_unit_test(test_events_when_the_disk_is_full_then_the_file_ends_with_a_whole_record),
    cmocka_unit_test(test_events_when_an_allocation_fails_then_no_file_and_no_memory_is_left),
};

MPT_TEST_MAIN(cases)
