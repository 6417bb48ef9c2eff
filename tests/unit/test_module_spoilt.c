/* exec/module: files that the system's loader cannot be trusted with, as a module and as the
 * driver. The sound library that they are made of is tests/module/fake.c. */
#include "mpt_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "module_case.h"

/* This program again, for one case, in an environment of its own. */
static void run_again(const char *variables, const char *test) {
    char program[4096], command[5200];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
    program[n] = 0;
    snprintf(command, sizeof command, "%s timeout 20 '%s' %s >&2", variables, program, test);
    assert_int_equal(system(command), 0);
}

enum spoilt { CUT, EMPTY, GARBAGE, FOLDER, PIPE, DANGLING, N_SPOILT };

/* What stands where a library is looked for. A cut off one ends the process, and a pipe is
 * waited for without end, if the loader comes to see them. */
static void spoil(enum spoilt how, const char *path) {
    char bytes[2000];
    FILE *sound = fopen(MPT_TEST_MODULES "/fake_module.so", "rb"), *file = NULL;
    assert_non_null(sound);
    size_t n = how == CUT ? fread(bytes, 1, sizeof bytes, sound) : 0;
    assert_int_equal(fclose(sound), 0);
    switch (how) {
    case FOLDER:
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    case PIPE:
        assert_int_equal(mkfifo(path, 0600), 0);
        return;
    case DANGLING:
        assert_int_equal(symlink("/no/such/library", path), 0);
        return;
    default:
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, n, file), n);
        if (how == GARBAGE)
            fputs("no library at all", file);
        assert_int_equal(fclose(file), 0);
    }
}

static const char *const faults[N_SPOILT] = {
    [CUT] = "is cut off: it has 2000 bytes, and its header speaks of more",
    [EMPTY] = "is empty",
    [GARBAGE] = "is no shared library",
    [FOLDER] = "is no regular file",
    [PIPE] = "is no regular file",
    [DANGLING] = "is a link that leads nowhere"};

static void test_look_when_the_file_is_spoilt_then_never_opened(void **s) {
    (void)s;
    static const mpt_module_kind kind = {"spoilt.so", "mpt_none", NULL, driver_name};
    for (int how = 0; how < N_SPOILT; how++) {
        char folder[] = "/tmp/mpt-module-XXXXXX", path[64], want[256];
        mpt_module_answer answer;
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/spoilt.so", folder);
        spoil((enum spoilt)how, path);
        snprintf(want, sizeof want, "%s %s" WAY_OUT, path, faults[how]);
        mpt_module_look(&kind, folder, &answer);
        assert_true(answer.found);
        assert_null(answer.module);
        assert_string_equal(answer.why, want);
        assert_int_equal(remove(path), 0);
        assert_int_equal(rmdir(folder), 0);
    }
}

/* The driver is looked for by its bare name where the loader looks. In another process, whose
 * environment says where that is: this program, asked for one case. */
static void test_look_when_the_driver_is_spoilt_then_what_it_is_and_not_missing(void **s) {
    (void)s;
    static const mpt_module_kind kind = {"fake_module.so", "mpt_fake_sound", "libspoilt.so.1",
                                         driver_name};
    const char *said = getenv("MPT_TEST_SPOILT");
    mpt_module_answer answer;
    if (said) {
        assert_refused(&kind, said);
        return;
    }
    for (int how = 0; how < N_SPOILT; how++) {
        char folder[] = "/tmp/mpt-module-XXXXXX", path[64], variables[512];
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/libspoilt.so.1", folder);
        spoil((enum spoilt)how, path);
        /* The loader passes over a link that leads nowhere, and so does this. */
        char want[256] = "the abacus is not installed";
        if (how != DANGLING)
            snprintf(want, sizeof want, "the abacus is broken: %s %s", path, faults[how]);
        snprintf(variables, sizeof variables, "LD_LIBRARY_PATH=%s MPT_TEST_SPOILT='%s'", folder,
                 want);
        run_again(variables,
                  "test_look_when_the_driver_is_spoilt_then_what_it_is_and_not_missing");
        assert_int_equal(remove(path), 0);
        assert_int_equal(rmdir(folder), 0);
    }
    mpt_module_look(&kind, MPT_TEST_MODULES, &answer);
    assert_string_equal(answer.why, "the abacus is not installed");
}

/* A driver that is whole and lacks a library of its own: the loader says which. */
static void test_look_when_the_driver_does_not_open_then_the_loaders_words(void **s) {
    (void)s;
    static const mpt_module_kind kind = {"fake_module.so", "mpt_fake_sound", "fake_needs.so",
                                         driver_name};
    if (getenv("MPT_TEST_SPOILT")) {
        assert_refused(&kind, "the abacus cannot be opened: fake_needed.so: cannot open shared "
                              "object file: No such file or directory");
        return;
    }
    run_again("LD_LIBRARY_PATH=" MPT_TEST_MODULES " MPT_TEST_SPOILT=1",
              "test_look_when_the_driver_does_not_open_then_the_loaders_words");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_look_when_the_file_is_spoilt_then_never_opened),
    cmocka_unit_test(test_look_when_the_driver_is_spoilt_then_what_it_is_and_not_missing),
    cmocka_unit_test(test_look_when_the_driver_does_not_open_then_the_loaders_words),
};
MPT_TEST_MAIN(cases)
