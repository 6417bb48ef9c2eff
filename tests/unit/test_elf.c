/* io/elf and io/shared: a library's header, spoilt in each place that the loader trusts, and
 * where a library is found by its bare name. The libraries are tests/module/fake.c and what is
 * written here. */
#include "mpt_test.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/elf.h"
#include "io/shared.h"

enum { FILE_BYTES = 4096, N_SEGMENTS = 3 };

/* The least that passes: a header, three segments, and bytes for them. */
typedef struct library {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[N_SEGMENTS];
    unsigned char rest[FILE_BYTES - sizeof(ElfW(Ehdr)) - N_SEGMENTS * sizeof(ElfW(Phdr))];
} library;

typedef struct fixture {
    char folder[64], path[96];
    library it;
    size_t bytes; /* that are written of it */
} fixture;

/* Class, byte order and machine are those of a library that was built here. */
static void setup(fixture *f) {
    FILE *own = fopen(MPT_TEST_MODULES "/fake_module.so", "rb");
    memset(f, 0, sizeof *f);
    strcpy(f->folder, "/tmp/mpt-elf-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/library.so", f->folder);
    assert_non_null(own);
    assert_int_equal(fread(&f->it.header, sizeof f->it.header, 1, own), 1);
    assert_int_equal(fclose(own), 0);
    f->it.header.e_phoff = sizeof f->it.header;
    f->it.header.e_phnum = N_SEGMENTS;
    f->it.segments[0] =
        (ElfW(Phdr)){.p_type = PT_LOAD, .p_filesz = FILE_BYTES, .p_memsz = 2 * FILE_BYTES};
    f->it.segments[1] = (ElfW(Phdr)){
        .p_type = PT_DYNAMIC, .p_offset = FILE_BYTES - 64, .p_filesz = 64, .p_memsz = 64};
    f->it.segments[2] = (ElfW(Phdr)){.p_type = PT_NOTE, .p_offset = 64, .p_filesz = 8};
    f->bytes = sizeof f->it;
}

static mpt_elf check(const fixture *f, const char *want) {
    char why[128];
    FILE *file = fopen(f->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&f->it, 1, f->bytes, file), f->bytes);
    assert_int_equal(fclose(file), 0);
    mpt_elf found = mpt_elf_check(f->path, why, sizeof why);
    assert_string_equal(why, want);
    assert_int_equal(unlink(f->path), 0);
    return found;
}

static void teardown(fixture *f) {
    assert_int_equal(rmdir(f->folder), 0);
}

static void test_check_when_a_library_was_built_here_then_sound(void **state) {
    (void)state;
    char why[128] = "nothing";
    fixture f;
    assert_int_equal(mpt_elf_check(MPT_TEST_MODULES "/fake_module.so", why, sizeof why),
                     MPT_ELF_SOUND);
    assert_string_equal(why, "");
    setup(&f);
    assert_int_equal(check(&f, ""), MPT_ELF_SOUND);
    teardown(&f);
}

/* Wherever the file ends: it is told, and only the whole one is sound. */
static void test_check_when_cut_off_anywhere_then_broken(void **state) {
    (void)state;
    fixture f;
    char cut[96];
    setup(&f);
    const size_t header = sizeof f.it.header, table = header + sizeof f.it.segments;
    for (size_t n = 0; n < sizeof f.it; n += n < table ? 1 : 97) {
        snprintf(cut, sizeof cut, "is cut off: it has %zu bytes, and its header speaks of more",
                 n);
        f.bytes = n;
        assert_int_equal(check(&f, n == 0          ? "is empty"
                                   : n < EI_NIDENT ? "is no shared library"
                                   : n < header + sizeof f.it.segments[0]
                                       ? "is cut off inside its header"
                                       : cut),
                         MPT_ELF_BROKEN);
    }
    f.bytes = sizeof f.it - 1;
    assert_int_equal(check(&f, "is cut off: it has 4095 bytes, and its header speaks of more"),
                     MPT_ELF_BROKEN);
    teardown(&f);
}

static void test_check_when_a_real_library_is_cut_off_then_broken(void **state) {
    (void)state;
    static const size_t ends[] = {100, 1000, 4000, 8000};
    static unsigned char bytes[8000];
    FILE *own = fopen(MPT_TEST_MODULES "/fake_module.so", "rb");
    fixture f;
    char why[128];
    setup(&f);
    assert_non_null(own);
    assert_int_equal(fread(bytes, 1, sizeof bytes, own), sizeof bytes);
    assert_int_equal(fclose(own), 0);
    for (size_t i = 0; i < MPT_COUNT(ends); i++) {
        FILE *file = fopen(f.path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, ends[i], file), ends[i]);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(mpt_elf_check(f.path, why, sizeof why), MPT_ELF_BROKEN);
    }
    assert_int_equal(unlink(f.path), 0);
    teardown(&f);
}

static const char none[] = "is no shared library", inside[] = "is cut off inside its header",
                  beyond[] = "is cut off: it has 4096 bytes, and its header speaks of more";
static const ElfW(Off) far = (ElfW(Off)) - 1;
enum { HEADER_FAULTS = 10, SEGMENT_FAULTS = 5 };

/* Spoils one member of the header; gives what is said of it. */
static const char *spoil_header(fixture *f, int fault) {
    ElfW(Ehdr) *h = &f->it.header;
    switch (fault) {
    case 0:
        h->e_ident[EI_MAG0] = 'x';
        return none;
    case 1:
        h->e_ident[EI_VERSION] = 9;
        return none;
    case 2:
        h->e_type = ET_REL;
        return none;
    case 3:
        h->e_phentsize = 8;
        return none;
    case 4:
        h->e_phnum = 0;
        return none;
    case 5:
        h->e_phnum = PN_XNUM;
        return none;
    case 6:
        h->e_phnum = 200;
        memset(f->it.rest, 0, sizeof f->it.rest);
        return inside;
    case 7:
        h->e_phoff = FILE_BYTES;
        return inside;
    case 8:
        h->e_phoff = far;
        return inside;
    default:
        h->e_phoff = far - 2 * sizeof f->it.segments[0];
        return inside;
    }
}

/* The same of a segment. */
static const char *spoil_segment(fixture *f, int fault) {
    ElfW(Phdr) *load = &f->it.segments[0], *note = &f->it.segments[2];
    switch (fault) {
    case 0:
        note->p_offset = far;
        return beyond;
    case 1:
        note->p_filesz = far;
        return beyond;
    case 2:
        note->p_offset = FILE_BYTES - 7;
        return beyond;
    case 3:
        load->p_memsz = FILE_BYTES - 1;
        return "is no shared library: its header contradicts itself";
    default:
        f->it.segments[1].p_type = PT_NULL;
        return none;
    }
}

static void test_check_when_the_header_is_malformed_then_broken(void **state) {
    (void)state;
    for (int i = 0; i < HEADER_FAULTS + SEGMENT_FAULTS; i++) {
        fixture f;
        setup(&f);
        const char *want =
            i < HEADER_FAULTS ? spoil_header(&f, i) : spoil_segment(&f, i - HEADER_FAULTS);
        assert_int_equal(check(&f, want), MPT_ELF_BROKEN);
        teardown(&f);
    }
}

static void test_check_when_of_another_processor_then_foreign(void **state) {
    (void)state;
    static const char other[] = "is a library for another kind of processor";
    for (int i = 0; i < 3; i++) {
        fixture f;
        setup(&f);
        if (i == 0)
            f.it.header.e_ident[EI_CLASS] = 3 - f.it.header.e_ident[EI_CLASS];
        else if (i == 1)
            f.it.header.e_ident[EI_DATA] = 3 - f.it.header.e_ident[EI_DATA];
        else
            f.it.header.e_machine = EM_S390;
        assert_int_equal(check(&f, other), MPT_ELF_FOREIGN);
        teardown(&f);
    }
}

/* What is no regular file is neither read nor waited for. */
static void test_check_when_no_regular_file_then_broken_at_once(void **state) {
    (void)state;
    fixture f;
    char why[128];
    setup(&f);
    assert_int_equal(mpt_elf_check(f.path, why, sizeof why), MPT_ELF_BROKEN);
    assert_string_equal(why, "is not there");
    assert_int_equal(mpt_elf_check(f.folder, why, sizeof why), MPT_ELF_BROKEN);
    assert_string_equal(why, "is no regular file");
    assert_int_equal(mpt_elf_check("/dev/zero", why, sizeof why), MPT_ELF_BROKEN);
    assert_string_equal(why, "is no regular file");
    assert_int_equal(mkfifo(f.path, 0600), 0);
    assert_int_equal(mpt_elf_check(f.path, why, sizeof why), MPT_ELF_BROKEN);
    assert_string_equal(why, "is no regular file");
    assert_int_equal(unlink(f.path), 0);
    assert_int_equal(symlink("nowhere", f.path), 0);
    assert_int_equal(mpt_elf_check(f.path, why, sizeof why), MPT_ELF_BROKEN);
    assert_string_equal(why, "is a link that leads nowhere");
    assert_int_equal(unlink(f.path), 0);
    teardown(&f);
}

/* ---- by its bare name ---- */

static void test_locate_when_in_the_systems_folders_then_found(void **state) {
    (void)state;
    char path[4096], why[128];
    assert_true(mpt_shared_locate("libm.so.6", MPT_SHARED_CACHE, path, sizeof path));
    assert_int_equal(mpt_elf_check(path, why, sizeof why), MPT_ELF_SOUND);
    assert_false(mpt_shared_locate("libnone.so.1", MPT_SHARED_CACHE, path, sizeof path));
    assert_false(mpt_shared_locate("libm.so.6", MPT_SHARED_CACHE, path, 4));
}

/* A cache is strings among other bytes: a name that another ends in is not it, and what is not
 * there or of another processor is passed over. */
static void test_locate_when_in_the_cache_only_then_found(void **state) {
    (void)state;
    fixture f;
    char cache[96], foreign[96], path[4096];
    setup(&f);
    snprintf(cache, sizeof cache, "%s/cache", f.folder);
    snprintf(foreign, sizeof foreign, "%s/foreign.so", f.folder);
    FILE *file = fopen(foreign, "wb");
    assert_non_null(file);
    f.it.header.e_machine = EM_S390;
    assert_int_equal(fwrite(&f.it, 1, sizeof f.it, file), sizeof f.it);
    assert_int_equal(fclose(file), 0);
    static const char *const names[] = {"fake_module.so", "foreign.so", "module.so"};
    static const bool found[] = {true, false, false};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        file = fopen(cache, "wb");
        assert_non_null(file);
        fprintf(file, "%c%c%s%c/no/such/%s%c%s/%s%c%s/%s%c", 1, 0, names[i], 0, names[i], 0,
                f.folder, names[i], 0, MPT_TEST_MODULES, names[i], 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(mpt_shared_locate(names[i], cache, path, sizeof path), found[i]);
        if (found[i])
            assert_string_equal(path, MPT_TEST_MODULES "/fake_module.so");
    }
    assert_false(mpt_shared_locate("fake_module.so", "/no/such/cache", path, sizeof path));
    assert_int_equal(unlink(cache), 0);
    assert_int_equal(unlink(foreign), 0);
    teardown(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_check_when_a_library_was_built_here_then_sound),
    cmocka_unit_test(test_check_when_cut_off_anywhere_then_broken),
    cmocka_unit_test(test_check_when_a_real_library_is_cut_off_then_broken),
    cmocka_unit_test(test_check_when_the_header_is_malformed_then_broken),
    cmocka_unit_test(test_check_when_of_another_processor_then_foreign),
    cmocka_unit_test(test_check_when_no_regular_file_then_broken_at_once),
    cmocka_unit_test(test_locate_when_in_the_systems_folders_then_found),
    cmocka_unit_test(test_locate_when_in_the_cache_only_then_found),
};
MPT_TEST_MAIN(cases)
