/* The runtime over a device's memory, in the simulator. With kernels that are the definition's
 * (toy_device.h) every bit must be that of ref: storage, recordings, the state's copy and what
 * the host looks at change no number. */
#include "mpt_test.h"

#include <math.h>

#include "toy_device.h"
#include "train_rig.h"

enum { STEPS = 5 };

/* BF16 all over, with a gradient and a moment in BF16: values and state in two bytes. */
static void choose_bf16(const void *ud, const mpt_graph *graph, int phase,
                        mpt_policy *policies) {
    (void)ud;
    (void)graph;
    (void)phase;
    (void)policies;
}

static rig_options small_options(void) {
    rig_options o = rig_defaults();
    o.micro_batch = 2;
    o.ref = true;
    return o;
}

static rig_options bf16_options(void) {
    rig_options o = small_options();
    o.choose = choose_bf16;
    o.state.gradient = MPT_DTYPE_BF16;
    o.state.adam_m.format = MPT_DTYPE_BF16;
    return o;
}

typedef struct pair {
    rig ref, device;
    toy_device toy;
} pair;

static void pair_init(pair *p, rig_options o, const char *const *inject, int n_inject) {
    toy_make(&p->toy);
    rig_compile(&p->ref, mpt_test_ctx(), &o);
    o.backend = &p->toy.backend;
    rig_compile(&p->device, mpt_test_ctx(), &o);
    p->ref.inject = p->device.inject = inject;
    p->ref.n_inject = p->device.n_inject = n_inject;
    assert_mpt_ok(p->ref.ctx, rig_create_trainer(&p->ref));
    assert_mpt_ok(p->device.ctx, rig_create_trainer(&p->device));
}

static void pair_deinit(pair *p) {
    rig_deinit(&p->ref);
    rig_deinit(&p->device);
}

static void pair_step(pair *p, int n) {
    for (int i = 0; i < n; i++) {
        mpt_step_result a = rig_step(&p->ref), b = rig_step(&p->device);
        assert_true(memcmp(&a.loss, &b.loss, sizeof a.loss) == 0);
        assert_true(memcmp(&a.grad_norm, &b.grad_norm, sizeof a.loss) == 0);
    }
}

/* Weights, moments, and all that was said of the steps. */
static void assert_alike(pair *p) {
    assert_int_equal(rig_state_hash(&p->ref), rig_state_hash(&p->device));
    assert_string_equal(p->ref.lines, p->device.lines);
}

/* ---- steps ---- */

static void test_train_when_on_a_device_then_the_bits_of_ref(void **state) {
    (void)state;
    const rig_options rows[] = {small_options(), bf16_options()};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        pair p;
        pair_init(&p, rows[i], NULL, 0);
        pair_step(&p, STEPS);
        assert_alike(&p);
        pair_deinit(&p);
    }
}

/* A mpt_step_fn. */
static void count_steps(void *ud, int step) {
    *(int *)ud += step >= 0;
}

/* The first step runs kernel by kernel, the second is recorded, later ones are replayed. */
static void test_train_when_steps_are_replayed_then_as_step_by_step(void **state) {
    (void)state;
    rig replayed, looked_on;
    toy_device toy;
    rig_options o = bf16_options();
    toy_make(&toy);
    o.backend = &toy.backend;
    rig_init(&replayed, &o);
    rig_init(&looked_on, &o);
    int told = 0;
    for (int i = 0; i < STEPS; i++) {
        mpt_executor_watch(looked_on.trainer->executors[0], count_steps, &told);
        mpt_step_result a = rig_step(&replayed), b = rig_step(&looked_on);
        assert_true(a.loss == b.loss);
    }
    assert_true(told > STEPS * looked_on.phases[0]->n_steps);
    assert_int_equal(rig_state_hash(&replayed), rig_state_hash(&looked_on));
    rig_deinit(&replayed);
    rig_deinit(&looked_on);
}

static void test_train_when_phases_switch_then_the_bits_of_ref(void **state) {
    (void)state;
    pair p;
    rig_options o = small_options();
    o.switch_at = 2;
    o.switch_again = 4;
    pair_init(&p, o, NULL, 0);
    pair_step(&p, STEPS + 1);
    assert_alike(&p);
    pair_deinit(&p);
}

static void test_train_when_evaluated_between_then_loss_and_steps_are_refs(void **state) {
    (void)state;
    pair p;
    double a, b;
    pair_init(&p, bf16_options(), NULL, 0);
    for (int i = 0; i < 3; i++) {
        pair_step(&p, 1);
        assert_mpt_ok(p.ref.ctx, mpt_trainer_eval(p.ref.trainer, 4, &a));
        assert_mpt_ok(p.device.ctx, mpt_trainer_eval(p.device.trainer, 4, &b));
        assert_true(a == b);
    }
    assert_alike(&p);
    pair_deinit(&p);
}

/* P01's drill, on a device: the host writes weights, gradients and values of a step that runs,
 * takes them back, and looks for the first tensor that is not finite. */
static void test_train_when_faults_are_injected_then_ref_says_the_same(void **state) {
    (void)state;
    static const char *const faults[] = {"grad:layers.0.up.weight=inf@1",
                                         "weight:layers.0.up.weight=7@2",
                                         "act:layers.0.up=nan@3"};
    pair p;
    rig_options o = small_options();
    o.watch.nonfinite = MPT_NONFINITE_SKIP;
    pair_init(&p, o, faults, MPT_COUNT(faults));
    pair_step(&p, STEPS);
    assert_alike(&p);
    pair_deinit(&p);
}

static void test_train_when_it_gives_up_then_the_first_bad_tensor_is_refs(void **state) {
    (void)state;
    static const char *const faults[] = {"act:layers.0.up=nan@2"};
    pair p;
    mpt_step_result result;
    rig_options o = bf16_options();
    o.watch.nonfinite = MPT_NONFINITE_STOP;
    pair_init(&p, o, faults, 1);
    pair_step(&p, 2);
    assert_int_equal(mpt_trainer_step(p.ref.trainer, NULL, &result), MPT_STOPPED);
    assert_int_equal(mpt_trainer_step(p.device.trainer, NULL, &result), MPT_STOPPED);
    assert_string_equal(mpt_ctx_error(p.ref.ctx)->message,
                        mpt_ctx_error(p.device.ctx)->message);
    assert_alike(&p);
    pair_deinit(&p);
}

/* Every eighth step is looked at while it runs. */
static void test_train_when_fp16_is_looked_at_then_ref_says_the_same(void **state) {
    (void)state;
    static const mpt_loss_scale scale = {
        .kind = MPT_LOSS_SCALE_DYNAMIC, .init = 1 << 24, .interval = 4, .hysteresis = 2};
    pair p;
    rig_options o = rig_fp16_options(&scale);
    o.ref = true;
    pair_init(&p, o, NULL, 0);
    pair_step(&p, STEPS + 4);
    assert_alike(&p);
    pair_deinit(&p);
}

/* ---- what a host looks at ---- */

static void test_forward_when_on_a_device_then_logits_and_gradients_are_refs(void **state) {
    (void)state;
    enum { TOKENS = 2 * 16 };
    int32_t tokens[TOKENS];
    float logits[2][TOKENS * RIG_VOCAB];
    double loss[2];
    pair p;
    rig_options options = bf16_options();
    options.loss_scale = 1024;
    pair_init(&p, options, NULL, 0);
    pair_step(&p, 2);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = i * 7 % RIG_VOCAB;
    mpt_forward_options o = MPT_FORWARD_OPTIONS_INIT;
    o.tokens = o.targets = tokens;
    o.gradients = true;
    assert_mpt_ok(p.ref.ctx, mpt_trainer_forward(p.ref.trainer, &o, logits[0], &loss[0]));
    assert_mpt_ok(p.device.ctx, mpt_trainer_forward(p.device.trainer, &o, logits[1], &loss[1]));
    assert_true(loss[0] == loss[1]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    mpt_param_view a, b;
    for (int i = 0; mpt_trainer_gradient(p.ref.trainer, i, &a); i++) {
        size_t n = 1;
        assert_true(mpt_trainer_gradient(p.device.trainer, i, &b));
        for (int d = 0; d < a.rank; d++)
            n *= (size_t)a.dims[d];
        assert_memory_equal(a.data, b.data, n * sizeof(float));
    }
    pair_step(&p, 2);
    assert_alike(&p);
    pair_deinit(&p);
}

/* ---- memory ---- */

static void test_plan_when_for_a_device_then_bf16_takes_two_bytes(void **state) {
    (void)state;
    pair p;
    pair_init(&p, bf16_options(), NULL, 0);
    const mpt_phase_program *host = p.ref.phases[0], *device = p.device.phases[0];
    const mpt_graph *graph = device->graph;
    assert_null(host->storage);
    for (int v = 0; v < graph->n_values; v++) {
        int64_t each = graph->values[v].dtype == MPT_DTYPE_BF16 ? 2 : 4;
        assert_int_equal(device->placement[v].bytes,
                         mpt_value_elements(&graph->values[v]) * each);
    }
    assert_true(device->bytes[MPT_MEMORY_GRADIENT] * 2 == host->bytes[MPT_MEMORY_GRADIENT]);
    assert_true(device->arena_bytes < host->arena_bytes);
    pair_deinit(&p);
}

/* Kernels of a device do not reach the other ranks (cases P13 and P14 would be back): refused
 * before anything is computed. */
static void test_step_when_there_are_two_ranks_then_refused_on_a_device(void **state) {
    (void)state;
    pair p;
    mpt_comm two = *mpt_comm_self();
    mpt_step_result result;
    two.count = 2;
    two.rank = 1;
    pair_init(&p, bf16_options(), NULL, 0);
    p.device.trainer->comm = &two;
    uint64_t before = rig_state_hash(&p.device);
    assert_int_equal(mpt_trainer_step(p.device.trainer, NULL, &result), MPT_UNSUPPORTED);
    assert_string_equal(mpt_ctx_error(p.device.ctx)->message,
                        "training on the device toy takes one rank, and this is rank 1 of 2; "
                        "train with one rank, or all ranks with --device cpu");
    assert_int_equal(p.device.trainer->attempted, 0);
    assert_true(rig_state_hash(&p.device) == before);
    pair_deinit(&p);
}

typedef struct refusing {
    mpt_device_ops ops;
    const mpt_device_ops *of;
    int left; /* calls until one is refused */
} refusing;

static refusing refused; /* ops have no memory of their own */

static void *alloc_some(struct mpt_gpu *gpu, size_t bytes) {
    return refused.left-- > 0 ? refused.of->alloc(gpu, bytes) : NULL;
}

static bool read_some(struct mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    if (refused.left-- > 0)
        return refused.of->read(gpu, to, from, bytes);
    gpu->error = "an illegal memory access was encountered";
    return false;
}

static rig_options refusing_options(toy_device *toy, int left) {
    rig_options o = small_options();
    toy_make(toy);
    refused = (refusing){*toy->backend.device, mpt_backend_cuda.device, left};
    toy->backend.device = &refused.ops;
    o.backend = &toy->backend;
    return o;
}

static void test_create_when_the_devices_memory_is_full_then_refused_and_given_back(void **s) {
    (void)s;
    mpt_status status = MPT_OUT_OF_MEMORY;
    int n = 0;
    for (; status != MPT_OK; n++) {
        rig r;
        toy_device toy;
        rig_options o = refusing_options(&toy, n);
        refused.ops.alloc = alloc_some;
        rig_compile(&r, mpt_test_ctx(), &o);
        status = rig_create_trainer(&r);
        if (status != MPT_OK) {
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
            assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "simulator: no 0.0"));
        }
        rig_deinit(&r);
    }
    assert_true(n > 3);
}

static void test_step_when_the_device_fails_then_status_and_the_step_does_not_count(void **s) {
    (void)s;
    rig r;
    toy_device toy;
    mpt_step_result result;
    rig_options o = refusing_options(&toy, 6);
    refused.ops.read = read_some;
    rig_init(&r, &o);
    mpt_status status = MPT_OK;
    int64_t steps = 0;
    for (; status == MPT_OK; steps++)
        status = mpt_trainer_step(r.trainer, NULL, &result);
    assert_int_equal(status, MPT_INTERNAL);
    assert_string_equal(mpt_ctx_error(r.ctx)->text,
                        "the device simulator has failed: an illegal memory access was "
                        "encountered");
    assert_int_equal(r.trainer->applied, steps - 1);
    assert_int_equal(mpt_trainer_save_weights(r.trainer, "/nowhere/w", NULL), MPT_INTERNAL);
    rig_deinit(&r);
}

static void test_step_when_on_a_device_then_nothing_is_allocated(void **state) {
    (void)state;
    rig r;
    toy_device toy;
    rig_options o = bf16_options();
    toy_make(&toy);
    o.backend = &toy.backend;
    rig_init(&r, &o);
    uint64_t before = r.ctx->n_allocs;
    for (int i = 0; i < 3; i++)
        (void)rig_step(&r);
    assert_int_equal(r.ctx->n_allocs, before);
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_train_when_on_a_device_then_the_bits_of_ref),
    cmocka_unit_test(test_train_when_steps_are_replayed_then_as_step_by_step),
    cmocka_unit_test(test_train_when_phases_switch_then_the_bits_of_ref),
    cmocka_unit_test(test_train_when_evaluated_between_then_loss_and_steps_are_refs),
    cmocka_unit_test(test_train_when_faults_are_injected_then_ref_says_the_same),
    cmocka_unit_test(test_train_when_it_gives_up_then_the_first_bad_tensor_is_refs),
    cmocka_unit_test(test_train_when_fp16_is_looked_at_then_ref_says_the_same),
    cmocka_unit_test(test_forward_when_on_a_device_then_logits_and_gradients_are_refs),
    cmocka_unit_test(test_plan_when_for_a_device_then_bf16_takes_two_bytes),
    cmocka_unit_test(test_step_when_there_are_two_ranks_then_refused_on_a_device),
    cmocka_unit_test(test_create_when_the_devices_memory_is_full_then_refused_and_given_back),
    cmocka_unit_test(test_step_when_the_device_fails_then_status_and_the_step_does_not_count),
    cmocka_unit_test(test_step_when_on_a_device_then_nothing_is_allocated),
};

MPT_TEST_MAIN(cases)
