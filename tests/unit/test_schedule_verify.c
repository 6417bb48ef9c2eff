/* sched/verify.c must find what it is there for: programs that are damaged in one place each.
 */
#include "mpt_test.h"

#include "train_rig.h"

typedef struct fixture {
    rig r;
    mpt_phase_program *program;
} fixture;

static void setup(fixture *f) {
    rig_options o = rig_defaults();
    rig_compile(&f->r, mpt_test_ctx(), &o);
    f->program = f->r.phases[0];
    assert_mpt_ok(f->r.ctx, mpt_schedule_verify(f->program));
}

static void expect_fault(fixture *f, const char *text) {
    assert_int_equal(mpt_schedule_verify(f->program), MPT_INTERNAL);
    if (!strstr(mpt_ctx_error(f->r.ctx)->message, text))
        fail_msg("'%s' is not in '%s'", text, mpt_ctx_error(f->r.ctx)->message);
    rig_deinit(&f->r);
}

static int step_of(const fixture *f, mpt_op op) {
    for (int s = 0; s < f->program->n_steps; s++)
        if (f->program->graph->nodes[f->program->steps[s].node].op == op)
            return s;
    fail_msg("no step of this op");
    return -1;
}

/* The place of what an op puts out. */
static mpt_placement *place_of(const fixture *f, mpt_op op) {
    int node = f->program->steps[step_of(f, op)].node;
    return &f->program->placement[f->program->graph->nodes[node].out[0]];
}

static void test_verify_when_two_steps_are_swapped_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    int s = step_of(&f, MPT_OP_relu2);
    mpt_step first = f.program->steps[s];
    f.program->steps[s] = f.program->steps[s - 1];
    f.program->steps[s - 1] = first;
    expect_fault(&f, "(relu2) reads layers.0.up before it is made");
}

static void test_verify_when_a_node_runs_twice_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    int s = step_of(&f, MPT_OP_relu2);
    f.program->steps[s] = f.program->steps[s - 1];
    expect_fault(&f, "(linear) runs node");
}

static void test_verify_when_a_segment_ends_early_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    f.program->segment[MPT_PASS_BACKWARD]--;
    expect_fault(&f, "(cross_entropy) stands in pass backward");
}

static void test_verify_when_a_step_is_missing_then_counted(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    f.program->n_steps--;
    expect_fault(&f, " nodes");
}

static void test_verify_when_the_kernel_is_of_another_op_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    f.program->steps[step_of(&f, MPT_OP_relu2)].kernel =
        f.program->steps[step_of(&f, MPT_OP_linear)].kernel;
    expect_fault(&f, "(relu2) has no kernel of its op");
}

/* The norm's output is kept for backward, and relu2's is made while it is. */
static void test_verify_when_two_that_live_share_a_byte_then_named(void **state) {
    (void)state;
    for (int side = 0; side < 2; side++) {
        fixture f;
        setup(&f);
        mpt_placement *norm = place_of(&f, MPT_OP_rmsnorm);
        mpt_placement *relu = place_of(&f, MPT_OP_relu2);
        assert_true(norm->bytes >= 128 && relu->bytes >= 128);
        if (side)
            norm->offset = relu->offset + relu->bytes - 64;
        else
            relu->offset = norm->offset + norm->bytes - 64;
        expect_fault(&f, "share memory at step");
    }
}

static void test_verify_when_a_place_is_not_aligned_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    place_of(&f, MPT_OP_relu2)->offset += 4;
    expect_fault(&f, "layers.0.relu2 has ");
}

static void test_verify_when_a_place_is_too_small_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    place_of(&f, MPT_OP_relu2)->bytes -= 4;
    expect_fault(&f, "layers.0.relu2 has ");
}

static void test_verify_when_a_place_reaches_past_the_scratch_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    place_of(&f, MPT_OP_relu2)->offset = f.program->scratch_offset;
    expect_fault(&f, "layers.0.relu2 reaches past the scratch");
}

static void test_verify_when_the_scratch_is_too_small_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    f.program->steps[0].scratch_bytes = f.program->arena_bytes;
    expect_fault(&f, "the scratch of step 0 reaches past the block");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_verify_when_two_steps_are_swapped_then_named),
    cmocka_unit_test(test_verify_when_a_node_runs_twice_then_named),
    cmocka_unit_test(test_verify_when_a_segment_ends_early_then_named),
    cmocka_unit_test(test_verify_when_a_step_is_missing_then_counted),
    cmocka_unit_test(test_verify_when_the_kernel_is_of_another_op_then_named),
    cmocka_unit_test(test_verify_when_two_that_live_share_a_byte_then_named),
    cmocka_unit_test(test_verify_when_a_place_is_not_aligned_then_named),
    cmocka_unit_test(test_verify_when_a_place_is_too_small_then_named),
    cmocka_unit_test(test_verify_when_a_place_reaches_past_the_scratch_then_named),
    cmocka_unit_test(test_verify_when_the_scratch_is_too_small_then_named),
};

MPT_TEST_MAIN(cases)
