/* How values lie in a device's memory: which take two bytes, which are packed, and which of
 * those are kept turned round for products that read them across. */
#include "mpt_test.h"

#include "train_rig.h"

/* What is quantized: the slots from `first` to `last` take `format`, the others BF16. */
typedef struct choice {
    const char *format;
    mpt_slot first, last;
} choice;

static void choose(const void *ud, const mpt_graph *graph, int phase, mpt_policy *policies) {
    const choice *c = ud;
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++)
        for (int s = (int)c->first; s <= (int)c->last; s++)
            assert_true(mpt_quantizer_by_name(c->format, &policies[i].slot[s]));
}

static const mpt_device_ops never_opened = {.open = NULL};
static const mpt_kernel *const tables[] = {mpt_kernels_ref, NULL};
static const mpt_backend device = {
    .api = MPT_BACKEND_API, .name = "device", .tables = tables, .device = &never_opened};

/* Copies of the program that are packed, and of those the ones kept turned round. */
typedef struct packing {
    int n, n_turned;
    size_t bytes, elements;
} packing;

static packing packing_of(const choice *c) {
    rig r;
    rig_options o = rig_defaults();
    packing p = {0};
    o.choose = choose;
    o.choose_ud = c;
    o.backend = &device;
    rig_compile(&r, mpt_test_ctx(), &o);
    const mpt_phase_program *program = r.phases[0];
    for (int v = 0; v < program->graph->n_values; v++) {
        if (program->storage[v] != MPT_STORAGE_PACKED || program->placement[v].last < 0)
            continue;
        assert_int_equal(program->placement[v].bytes, program->packed[v].bytes);
        p.n++;
        p.n_turned += program->packed[v].turned != 0;
        p.bytes += program->packed[v].bytes;
        p.elements += (size_t)mpt_value_elements(&program->graph->values[v]);
    }
    rig_deinit(&r);
    return p;
}

static void test_storage_when_one_scale_then_turned_where_read_across(void **state) {
    (void)state;
    static const struct {
        choice choice;
        bool turned;
    } rows[] = {
        {{"e4m3", MPT_SLOT_FPROP_X, MPT_SLOT_FPROP_W}, false}, /* fprop reads along alone */
        {{"e4m3", MPT_SLOT_FPROP_X, MPT_SLOT_WGRAD_X}, true},  /* dgrad w, wgrad both across */
        {{"e5m2", MPT_SLOT_DGRAD_DY, MPT_SLOT_DGRAD_DY}, false},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        packing p = packing_of(&rows[i].choice);
        assert_true(p.n > 0);
        assert_int_equal(p.n_turned, rows[i].turned ? p.n : 0);
    }
}

static void test_storage_when_in_blocks_then_both_copies_and_none_turned(void **state) {
    (void)state;
    const choice nvfp4 = {"nvfp4", MPT_SLOT_FPROP_X, MPT_SLOT_WGRAD_X};
    packing p = packing_of(&nvfp4);
    assert_true(p.n > 0);
    assert_int_equal(p.n_turned, 0);
    assert_true(p.bytes < 4 * p.elements); /* a small scale tile is padded to 512 bytes */
}

static void test_storage_when_on_the_host_then_none_and_four_bytes(void **state) {
    (void)state;
    rig r;
    rig_options o = rig_defaults();
    const choice nvfp4 = {"nvfp4", MPT_SLOT_FPROP_X, MPT_SLOT_WGRAD_X};
    o.choose = choose;
    o.choose_ud = &nvfp4;
    rig_compile(&r, mpt_test_ctx(), &o);
    const mpt_phase_program *program = r.phases[0];
    assert_null(program->storage);
    for (int v = 0; v < program->graph->n_values; v++)
        assert_int_equal(program->placement[v].bytes,
                         4 * mpt_value_elements(&program->graph->values[v]));
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_storage_when_one_scale_then_turned_where_read_across),
    cmocka_unit_test(test_storage_when_in_blocks_then_both_copies_and_none_turned),
    cmocka_unit_test(test_storage_when_on_the_host_then_none_and_four_bytes),
};

MPT_TEST_MAIN(cases)
