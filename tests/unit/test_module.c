/* exec/module: how a module of kernels is found, opened and checked, and how a compilation that
 * asks for its device is told what is missing. The modules are tests/module/fake.c. */
#include "mpt_test.h"

#include <stdlib.h>
#include <unistd.h>

#include "exec/backend.h"
#include "io/shared.h"
#include "kernels/cuda/capability.h"
#include "module_case.h"
#include "pipeline.h"

#define FAKE MPT_TEST_MODULES "/fake_module.so "

static mpt_module_kind fake(const char *symbol) {
    return (mpt_module_kind){"fake_module.so", symbol, NULL, driver_name};
}

static void test_look_when_a_module_fits_then_its_device_is_told(void **s) {
    (void)s;
    mpt_module_kind kind = fake("mpt_fake_sound");
    mpt_module_answer answer;
    for (int i = 0; i < 2; i++) { /* again: it stays loaded */
        mpt_module_look(&kind, MPT_TEST_MODULES, &answer);
        assert_string_equal(answer.why, "");
        assert_true(answer.found);
        assert_non_null(answer.module);
        assert_string_equal(answer.module->backend->name, "abacus");
        assert_string_equal(answer.device.name, "Abacus");
        assert_int_equal(answer.device.target, MPT_TARGET_SM90);
    }
}

static void test_look_when_there_is_no_file_then_said(void **s) {
    (void)s;
    static const mpt_module_kind kind = {"libmpt_none.so", "mpt_none", NULL, driver_name};
    static const char why[] = "libmpt_none.so is not there (this mpt was built without it)";
    char deep[5000];
    const char *const folders[] = {MPT_TEST_MODULES, NULL, "", "/no/such/folder", deep};
    mpt_module_answer answer;
    memset(deep, 'a', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    for (size_t i = 0; i < MPT_COUNT(folders); i++) {
        mpt_module_look(&kind, folders[i], &answer);
        assert_false(answer.found);
        assert_null(answer.module);
        assert_string_equal(answer.why, why);
    }
}

/* The file that the code is in is this program, which lies beside itself. */
static void test_look_when_no_folder_is_given_then_beside_the_program(void **s) {
    (void)s;
    static const mpt_module_kind kind = {"test_module", "mpt_none", NULL, driver_name};
    char folder[4096];
    mpt_module_answer answer;
    assert_true(mpt_shared_own_folder(folder, sizeof folder));
    assert_false(mpt_shared_own_folder(folder, strlen(folder)));
    mpt_module_look(&kind, NULL, &answer);
    assert_true(answer.found);
    assert_null(answer.module);
    assert_non_null(strstr(answer.why, "/test_module ")); /* a program is no library */
    assert_true(strstr(answer.why, " is no shared library" WAY_OUT) ||
                strstr(answer.why, " cannot be opened: cannot dynamically load"));
}

static void test_look_when_there_is_no_driver_then_the_module_is_not_opened(void **s) {
    (void)s;
    /* The symbol is missing, too, which nobody comes to see. */
    static const mpt_module_kind kind = {"fake_module.so", "mpt_none", "libnone.so.1",
                                         driver_name};
    assert_refused(&kind, "the abacus is not installed");
    static const mpt_module_kind driven = {"fake_module.so", "mpt_none", "libm.so.6",
                                           driver_name};
    assert_refused(&driven, FAKE "is no module of mpt: it has no mpt_none" WAY_OUT);
}

static void test_look_when_a_library_it_needs_is_missing_then_named(void **s) {
    (void)s;
    static const mpt_module_kind kind = {"fake_needs.so", "mpt_fake_module", NULL, driver_name};
    assert_refused(&kind, MPT_TEST_MODULES
                   "/fake_needs.so cannot be opened: fake_needed.so: cannot open shared object "
                   "file: No such file or directory" WAY_OUT);
}

static void
test_look_when_the_module_is_of_another_build_then_the_difference_is_named(void **s) {
    (void)s;
    char newer[512];
    snprintf(newer, sizeof newer,
             FAKE "has a backend of version %d of that interface, and mpt " MPT_VERSION_STRING
                  " takes version %d" WAY_OUT,
             MPT_BACKEND_API + 1, MPT_BACKEND_API);
    const struct {
        const char *symbol, *why;
    } rows[] = {
        {"mpt_fake_nothing", FAKE "is no module of mpt: it has no mpt_fake_nothing" WAY_OUT},
        {"mpt_fake_none", FAKE "is no module of mpt: its mpt_fake_none gives no table" WAY_OUT},
        {"mpt_fake_version",
         FAKE "speaks version 2 of the interface to modules, and mpt " MPT_VERSION_STRING
              " version 1" WAY_OUT},
        {"mpt_fake_size",
         FAKE "was built from other sources (of mpt 9.9, this is " MPT_VERSION_STRING
              "): its mpt_ctx differs" WAY_OUT},
        {"mpt_fake_fewer",
         FAKE "was built from other sources (of mpt 9.9, this is " MPT_VERSION_STRING
              "): its mpt_ctx differs" WAY_OUT},
        {"mpt_fake_numbers",
         FAKE "was built from other sources (of mpt 9.9, this is " MPT_VERSION_STRING
              "): its list of ops and formats differs" WAY_OUT},
        {"mpt_fake_empty", FAKE "has no kernels" WAY_OUT},
        {"mpt_fake_probeless", FAKE "has no probe" WAY_OUT},
        {"mpt_fake_newer", newer},
        {"mpt_fake_away", "there is no abacus"},
        {"mpt_fake_mute", "fake_module.so has found no device"},
        {"mpt_fake_unkind", "fake_module.so does not say which kind of GPU it has found"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_module_kind kind = fake(rows[i].symbol);
        assert_refused(&kind, rows[i].why);
    }
}

/* The real one, asked without asking for the driver first: it fits, its libraries are found,
 * and whether there is a GPU, it says. */
static void test_look_when_the_module_is_that_of_cuda_then_it_fits_and_probes(void **s) {
    (void)s;
#ifdef MPT_TEST_CUDA
    mpt_module_kind kind = mpt_module_cuda;
    mpt_module_answer answer;
    kind.driver = NULL;
    mpt_module_look(&kind, MPT_TEST_CUDA, &answer);
    assert_true(answer.found);
    if (answer.module)
        assert_string_not_equal(answer.device.name, "");
    else if (strncmp(answer.why, "there is no GPU", strlen("there is no GPU")) != 0 &&
             strncmp(answer.why, "the GPU (", strlen("the GPU (")) != 0 &&
             strncmp(answer.why, "the NVIDIA driver ", strlen("the NVIDIA driver ")) != 0)
        fail_msg("the module says: %s", answer.why);
#else
    skip(); /* libmpt_cuda.so was not built */
#endif
}

/* The capabilities whose machine code the module holds. */
static void test_capability_when_code_is_there_then_a_target(void **s) {
    (void)s;
    static const struct {
        int major, minor;
        mpt_target target;
    } rows[] = {{7, 5, MPT_TARGET_HOST},  {8, 0, MPT_TARGET_SM80},   {8, 9, MPT_TARGET_SM80},
                {9, 0, MPT_TARGET_SM90},  {10, 0, MPT_TARGET_SM100}, {10, 3, MPT_TARGET_HOST},
                {12, 0, MPT_TARGET_HOST}, {0, 0, MPT_TARGET_HOST}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        assert_int_equal(mpt_cuda_target(rows[i].major, rows[i].minor), rows[i].target);
}

/* ---- compiling ---- */

static const char text[] = "local mlp = require 'models.mlp'\n"
                           "return recipe { version = 1, name = 'small', model = mlp 'tiny',\n"
                           "  train = { steps = 1, batch = 2, sequence = 16,\n"
                           "            lr = constant { peak = 1e-3 } } }\n";

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} fixture;

/* Nothing is beside this program, so what is in `modules` is all there is. */
static void setup(fixture *f, const char *modules) {
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    *f = (fixture){.ctx = NULL};
    options.modules = modules;
    assert_int_equal(mpt_ctx_create(&options, &f->ctx), MPT_OK);
    assert_mpt_ok(f->ctx, mpt_recipe_load_string(f->ctx, "small.lua", text, sizeof text - 1,
                                                 NULL, &f->recipe));
}

static mpt_status compile(fixture *f, mpt_device device) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.device = device;
    return mpt_compile(f->recipe, &options, &f->program);
}

static void teardown(fixture *f) {
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
    mpt_ctx_destroy(f->ctx);
}

static void test_compile_when_cuda_is_not_built_then_one_sentence_and_a_way_out(void **s) {
    (void)s;
    fixture f;
    setup(&f, NULL);
    assert_int_equal(compile(&f, MPT_DEVICE_CUDA), MPT_NO_DEVICE);
    assert_null(f.program);
    assert_string_equal(
        mpt_ctx_error(f.ctx)->message,
        "no CUDA device: libmpt_cuda.so is not there (this mpt was built without it); compute "
        "on the CPU with --device cpu, or with --device auto, which takes a GPU where there "
        "is one");
    teardown(&f);
}

static void test_compile_when_auto_and_cuda_is_not_built_then_the_cpu_without_a_word(void **s) {
    (void)s;
    fixture f;
    setup(&f, NULL);
    assert_mpt_ok(f.ctx, compile(&f, MPT_DEVICE_AUTO));
    assert_string_equal(mpt_program_get_info(f.program).device, "cpu");
    assert_string_equal(mpt_program_get_info(f.program).no_device, "");
    teardown(&f);
}

/* A folder with this file as libmpt_cuda.so, which is none: said where there is a driver, and
 * where there is none that is said first. */
static void test_compile_when_a_module_has_no_device_then_auto_says_why(void **s) {
    (void)s;
    char folder[] = "/tmp/mpt-module-XXXXXX", path[64];
    fixture f;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libmpt_cuda.so", folder);
    assert_int_equal(symlink(MPT_TEST_MODULES "/fake_module.so", path), 0);
    setup(&f, folder);
    assert_mpt_ok(f.ctx, compile(&f, MPT_DEVICE_AUTO));
    mpt_program_info info = mpt_program_get_info(f.program);
    assert_string_equal(info.device, "cpu");
    assert_true(strcmp(info.no_device, "the NVIDIA driver is not installed") == 0 ||
                strstr(info.no_device, "/libmpt_cuda.so is no module of mpt: it has no "
                                       "mpt_cuda_module" WAY_OUT));
    mpt_device_info gpu;
    assert_mpt_ok(f.ctx, mpt_device_find(f.ctx, MPT_DEVICE_CUDA, &gpu));
    assert_false(gpu.there);
    assert_string_equal(gpu.why, info.no_device);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    teardown(&f);
}

/* P87: the device is a field beside the recipe and changes nothing else of what is compiled. */
static void test_P87_compile_when_a_backend_is_given_then_the_same_program(void **s) {
    (void)s;
    fixture cpu, given;
    mpt_backend backend = *mpt_backend_get(MPT_DEVICE_CPU);
    backend.name = "abacus";
    setup(&cpu, NULL);
    setup(&given, NULL);
    given.ctx->device_backend = &backend;
    assert_mpt_ok(cpu.ctx, compile(&cpu, MPT_DEVICE_CPU));
    assert_mpt_ok(given.ctx, compile(&given, MPT_DEVICE_CUDA));
    assert_string_equal(mpt_program_get_info(given.program).device, "abacus");
    assert_int_equal(given.program->device, MPT_DEVICE_CUDA);
    assert_string_equal(cpu.program->recipe_hash, given.program->recipe_hash);
    assert_string_equal(cpu.program->phases[0]->schedule_hash,
                        given.program->phases[0]->schedule_hash);
    teardown(&cpu);
    teardown(&given);
}

static void test_find_device_when_of_the_host_then_there(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    static const mpt_device hosts[] = {MPT_DEVICE_AUTO, MPT_DEVICE_REF, MPT_DEVICE_CPU};
    for (size_t i = 0; i < MPT_COUNT(hosts); i++) {
        mpt_device_info info;
        assert_mpt_ok(ctx, mpt_device_find(ctx, hosts[i], &info));
        assert_true(info.there);
        assert_int_equal(info.target, MPT_TARGET_HOST);
        assert_string_equal(info.why, "");
    }
    mpt_ctx_destroy(ctx);
}

/* Serves so many requests for memory. */
static void *serve(void *ud, void *ptr, size_t old_size, size_t new_size) {
    (void)old_size;
    int *left = ud;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return (*left)-- > 0 ? realloc(ptr, new_size) : NULL;
}

static void test_create_when_there_is_no_memory_for_the_folder_then_no_context(void **s) {
    (void)s;
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    int left;
    options.alloc = serve;
    options.alloc_ud = &left;
    options.modules = "/usr/lib";
    for (int n = 0; n < 3; n++) {
        mpt_ctx *ctx = NULL;
        left = n;
        assert_int_equal(mpt_ctx_create(&options, &ctx), n < 2 ? MPT_OUT_OF_MEMORY : MPT_OK);
        assert_true((ctx != NULL) == (n == 2));
        mpt_ctx_destroy(ctx);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_look_when_a_module_fits_then_its_device_is_told),
    cmocka_unit_test(test_look_when_there_is_no_file_then_said),
    cmocka_unit_test(test_look_when_no_folder_is_given_then_beside_the_program),
    cmocka_unit_test(test_look_when_there_is_no_driver_then_the_module_is_not_opened),
    cmocka_unit_test(test_look_when_a_library_it_needs_is_missing_then_named),
    cmocka_unit_test(
        test_look_when_the_module_is_of_another_build_then_the_difference_is_named),
    cmocka_unit_test(test_look_when_the_module_is_that_of_cuda_then_it_fits_and_probes),
    cmocka_unit_test(test_capability_when_code_is_there_then_a_target),
    cmocka_unit_test(test_compile_when_cuda_is_not_built_then_one_sentence_and_a_way_out),
    cmocka_unit_test(test_compile_when_auto_and_cuda_is_not_built_then_the_cpu_without_a_word),
    cmocka_unit_test(test_compile_when_a_module_has_no_device_then_auto_says_why),
    cmocka_unit_test(test_P87_compile_when_a_backend_is_given_then_the_same_program),
    cmocka_unit_test(test_find_device_when_of_the_host_then_there),
    cmocka_unit_test(test_create_when_there_is_no_memory_for_the_folder_then_no_context),
};
MPT_TEST_MAIN(cases)
