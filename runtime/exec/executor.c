/* Stage 9: walks the flat list of steps and calls one kernel a step.
 *
 * All memory is there before the first step: one block for what the program planned, the
 * trainer's buffers for state. A step gathers its tensors on the stack, runs, and rounds what
 * it put out to the format that stage 5 gave it. Stage 10 (train/) calls this. */
#include "exec/executor.h"

#include <omp.h>

#include "exec/backend.h"
#include "kernels/quantize.h"
#include "kernels/tensor.h"

struct mpt_executor {
    mpt_ctx *ctx;
    const mpt_phase_program *program;
    const mpt_backend *backend;
    char *block;
    bool owns_block;     /* else another phase's executor does */
    mpt_tensor *tensors; /* one a value */
    mpt_step_fn watch;   /* NULL: nobody looks on */
    void *watch_ud;
    mpt_step_fn look; /* the same, after each step */
    void *look_ud;
};

/* The tensor of a value: its place in the block, or no place until state is bound. */
static mpt_tensor tensor_of(const mpt_phase_program *program, char *block, int v) {
    const mpt_value *value = &program->graph->values[v];
    const mpt_placement *place = &program->placement[v];
    mpt_tensor tensor = {.dtype = value->dtype, .rank = value->rank};
    for (int i = 0; i < value->rank; i++)
        tensor.dims[i] = value->dims[i];
    if (!place->state && place->last >= 0)
        tensor.data = block + place->offset;
    return tensor;
}

/* An executor without a block. */
static mpt_status create_empty(const mpt_phase_program *program, mpt_executor **out) {
    mpt_ctx *ctx = program->ctx;
    const mpt_backend *backend =
        program->backend ? program->backend : mpt_backend_get(MPT_DEVICE_REF);
    size_t n = (size_t)program->graph->n_values;
    size_t bytes = mpt_size_add(sizeof(mpt_executor), mpt_size_mul(n, sizeof(mpt_tensor)));
    *out = NULL;
    if (backend->api != MPT_BACKEND_API)
        return MPT_FAIL(ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                        "backend %s was made for version %d of the interface, not %d",
                        backend->name, backend->api, MPT_BACKEND_API);
    mpt_executor *executor = mpt_alloc(ctx, bytes);
    if (!executor)
        return mpt_fail_memory(ctx, bytes);
    *executor = (mpt_executor){.ctx = ctx, .program = program, .backend = backend};
    executor->tensors = (mpt_tensor *)(executor + 1);
    *out = executor;
    return MPT_OK;
}

static void use_block(mpt_executor *executor, char *block, bool owned) {
    executor->block = block;
    executor->owns_block = owned;
    for (int v = 0; v < executor->program->graph->n_values; v++)
        executor->tensors[v] = tensor_of(executor->program, block, v);
}

mpt_status mpt_executor_create(const mpt_phase_program *program, mpt_executor **out) {
    MPT_TRY(create_empty(program, out));
    char *block = (*out)->backend->alloc(program->ctx, program->arena_bytes);
    if (!block) {
        mpt_executor_destroy(*out);
        *out = NULL;
        return mpt_fail_memory(program->ctx, program->arena_bytes);
    }
    use_block(*out, block, true);
    return MPT_OK;
}

mpt_status mpt_executor_create_within(const mpt_phase_program *program,
                                      const mpt_executor *owner, mpt_executor **out) {
    *out = NULL;
    if (program->arena_bytes > owner->program->arena_bytes ||
        program->backend != owner->program->backend)
        return MPT_FAIL(program->ctx, MPT_INTERNAL, MPT_NOWHERE,
                        "phase %s does not fit in the memory of phase %s", program->phase,
                        owner->program->phase);
    MPT_TRY(create_empty(program, out));
    use_block(*out, owner->block, false);
    return MPT_OK;
}

void mpt_executor_destroy(mpt_executor *executor) {
    if (!executor)
        return;
    if (executor->owns_block)
        executor->backend->free(executor->ctx, executor->block);
    mpt_free(executor->ctx, executor);
}

void mpt_executor_bind(mpt_executor *executor, mpt_value_id value, void *data) {
    executor->tensors[value].data = data;
}

const mpt_tensor *mpt_executor_tensor(const mpt_executor *executor, mpt_value_id value) {
    return &executor->tensors[value];
}

void mpt_executor_watch(mpt_executor *executor, mpt_step_fn watch, void *ud) {
    executor->watch = watch;
    executor->watch_ud = ud;
}

void mpt_executor_look(mpt_executor *executor, mpt_step_fn look, void *ud) {
    executor->look = look;
    executor->look_ud = ud;
}

/* ---- running ---- */

/* Brings an output to its format: in place, once, right behind the kernel that made it. */
static void round_outputs(const mpt_node *node, const mpt_tensor *out) {
    if (mpt_op_get(node->op)->flags & (MPT_OP_CAST | MPT_OP_UPDATE))
        return; /* these round as they write */
    for (int k = 0; k < node->n_out; k++)
        if (out[k].data && out[k].dtype != MPT_DTYPE_FP32 && mpt_is_wide(out[k].dtype))
            mpt_round_to(out[k].dtype, out[k].data, (size_t)mpt_tensor_elements(&out[k]));
}

static void run_step(const mpt_executor *executor, int step, const mpt_run_env *env) {
    const mpt_phase_program *program = executor->program;
    const mpt_step *s = &program->steps[step];
    const mpt_node *node = &program->graph->nodes[s->node];
    mpt_tensor in[MPT_MAX_IN], out[MPT_MAX_OUT];
    for (int i = 0; i < node->n_in; i++)
        in[i] = node->in[i] >= 0 ? executor->tensors[node->in[i]] : (mpt_tensor){.data = NULL};
    for (int k = 0; k < node->n_out; k++)
        out[k] =
            node->out[k] >= 0 ? executor->tensors[node->out[k]] : (mpt_tensor){.data = NULL};
    char *scratch = s->scratch_bytes ? executor->block + program->scratch_offset : NULL;
    s->kernel->run(&(mpt_kernel_args){node, in, out, scratch, env, NULL});
    round_outputs(node, out);
    if (env->tally && env->tally->of_step[step] >= 0)
        env->tally->runs[env->tally->of_step[step]]++;
}

static void run_steps(const mpt_executor *executor, int from, int to, const mpt_run_env *env) {
    const mpt_phase_program *program = executor->program;
    int before = omp_get_max_threads();
    mpt_run_env capped = *env;
    if (capped.n_threads < 1 || capped.n_threads > program->n_threads)
        capped.n_threads = program->n_threads;
    omp_set_num_threads(capped.n_threads); /* of this thread alone; the host's own comes back */
    for (int step = from; step < to; step++) {
        if (executor->watch)
            executor->watch(executor->watch_ud, step);
        run_step(executor, step, &capped);
        if (executor->look)
            executor->look(executor->look_ud, step);
    }
    if (executor->watch)
        executor->watch(executor->watch_ud, -1);
    omp_set_num_threads(before);
}

void mpt_executor_run(mpt_executor *executor, mpt_pass pass, const mpt_run_env *env) {
    const int *segment = executor->program->segment;
    run_steps(executor, segment[pass], segment[pass + 1], env);
}

void mpt_executor_run_range(mpt_executor *executor, int from, int to, const mpt_run_env *env) {
    run_steps(executor, from, to, env);
}

void mpt_executor_run_step(mpt_executor *executor, int step, const mpt_run_env *env) {
    run_steps(executor, step, step + 1, env);
}
