/* Stage 9: walks the flat list of steps and calls one kernel a step.
 *
 * All memory is there before the first step: one block for what the program planned, the
 * trainer's buffers for state. A step gathers its tensors on the stack, runs, and rounds what
 * it put out to the format that stage 5 gave it. Where the block is a device's, kernels round
 * as they store, and whole ranges of steps are recorded and replayed (replay.h), as long as
 * nobody looks on. Stage 10 (train/) calls this. */
#include "exec/executor.h"

#include <omp.h>

#include <string.h>

#include "exec/backend.h"
#include "exec/replay.h"
#include "exec/stream.h"
#include "kernels/quantize.h"
#include "kernels/tensor.h"
#include "recipe/target.h"

struct mpt_executor {
    mpt_ctx *ctx;
    const mpt_phase_program *program;
    const mpt_backend *backend;
    mpt_stream *stream; /* NULL: the host's memory */
    mpt_replay replay;  /* on a device */
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
    if (program->storage) {
        tensor.storage = program->storage[v];
        tensor.packed = tensor.storage == MPT_STORAGE_PACKED ? &program->packed[v] : NULL;
    }
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

/* What the largest value of a program takes, as the host has it and as it is packed. */
static mpt_status reserve(const mpt_executor *executor) {
    const mpt_phase_program *program = executor->program;
    size_t raw = 0, floats = 0;
    for (int v = 0; v < program->graph->n_values; v++) {
        size_t n = (size_t)mpt_value_elements(&program->graph->values[v]);
        size_t here = program->storage[v] == MPT_STORAGE_HOST ? 0 : program->placement[v].bytes;
        raw = here > raw ? here : raw;
        floats = n > floats ? n : floats;
    }
    return mpt_stream_reserve(executor->stream, program->graph->n_operands, raw,
                              mpt_size_mul(floats, sizeof(float)));
}

/* Kernels were chosen for one kind of GPU: on another they would not do their work. */
static mpt_status expect_target(const mpt_executor *executor) {
    mpt_target made_for = executor->program->graph->target, is = executor->stream->gpu.target;
    if (made_for == MPT_TARGET_HOST || made_for == is)
        return MPT_OK;
    mpt_status status = MPT_FAIL(executor->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "the program was compiled for %s, and this GPU is of the kind "
                                 "%s",
                                 mpt_target_name(made_for), mpt_target_name(is));
    mpt_hint(executor->ctx, "leave the target out of the options of mpt_compile to run it");
    return status;
}

static mpt_status create_on_device(mpt_executor *executor) {
    void *block = NULL;
    MPT_TRY(mpt_stream_open(executor->ctx, executor->backend, &executor->stream));
    MPT_TRY(expect_target(executor));
    MPT_TRY(reserve(executor));
    MPT_TRY(mpt_stream_alloc(executor->stream, "what a step works in",
                             executor->program->arena_bytes, &block));
    use_block(executor, block, true);
    return MPT_OK;
}

static mpt_status create_on_host(mpt_executor *executor) {
    char *block = executor->backend->alloc(executor->ctx, executor->program->arena_bytes);
    if (!block)
        return mpt_fail_memory(executor->ctx, executor->program->arena_bytes);
    use_block(executor, block, true);
    return MPT_OK;
}

mpt_status mpt_executor_create(const mpt_phase_program *program, mpt_executor **out) {
    mpt_executor *executor;
    *out = NULL;
    MPT_TRY(create_empty(program, &executor));
    mpt_status status =
        executor->backend->device ? create_on_device(executor) : create_on_host(executor);
    if (status != MPT_OK) {
        mpt_executor_destroy(executor);
        return status;
    }
    *out = executor;
    return MPT_OK;
}

mpt_status mpt_executor_create_within(const mpt_phase_program *program,
                                      const mpt_executor *owner, mpt_executor **out) {
    mpt_executor *executor;
    *out = NULL;
    if (program->arena_bytes > owner->program->arena_bytes ||
        program->backend != owner->program->backend)
        return MPT_FAIL(program->ctx, MPT_INTERNAL, MPT_NOWHERE,
                        "phase %s does not fit in the memory of phase %s", program->phase,
                        owner->program->phase);
    MPT_TRY(create_empty(program, &executor));
    executor->stream = mpt_stream_share(owner->stream);
    use_block(executor, owner->block, false);
    mpt_status status = executor->stream ? reserve(executor) : MPT_OK;
    if (status != MPT_OK) {
        mpt_executor_destroy(executor);
        return status;
    }
    *out = executor;
    return MPT_OK;
}

void mpt_executor_destroy(mpt_executor *executor) {
    if (!executor)
        return;
    if (executor->stream) {
        mpt_replay_forget(&executor->replay, executor->stream);
        if (executor->owns_block)
            mpt_stream_free(executor->stream, executor->block);
        mpt_stream_leave(executor->stream);
    } else if (executor->owns_block) {
        executor->backend->free(executor->ctx, executor->block);
    }
    mpt_free(executor->ctx, executor);
}

void mpt_executor_bind(mpt_executor *executor, mpt_value_id value, void *data) {
    executor->tensors[value].data = data;
    if (executor->stream) /* recordings name the place before */
        mpt_replay_forget(&executor->replay, executor->stream);
}

const mpt_tensor *mpt_executor_tensor(const mpt_executor *executor, mpt_value_id value) {
    return &executor->tensors[value];
}

mpt_stream *mpt_executor_stream(const mpt_executor *executor) {
    return executor->stream;
}

void mpt_executor_watch(mpt_executor *executor, mpt_step_fn watch, void *ud) {
    executor->watch = watch;
    executor->watch_ud = ud;
}

void mpt_executor_look(mpt_executor *executor, mpt_step_fn look, void *ud) {
    executor->look = look;
    executor->look_ud = ud;
}

/* ---- values ---- */

/* Every element of the host takes 4 bytes. */
static char *host_place(const mpt_tensor *t, int64_t at) {
    return (char *)t->data + (size_t)at * sizeof(float);
}

void mpt_executor_write(mpt_executor *executor, mpt_value_id value, int64_t at, int64_t n,
                        const void *from) {
    const mpt_tensor *t = &executor->tensors[value];
    if (executor->stream)
        mpt_stream_write(executor->stream, t, at, n, from);
    else if (t->data)
        memcpy(host_place(t, at), from, (size_t)n * sizeof(float));
}

void mpt_executor_read(const mpt_executor *executor, mpt_value_id value, int64_t at, int64_t n,
                       void *to) {
    const mpt_tensor *t = &executor->tensors[value];
    if (executor->stream)
        mpt_stream_read(executor->stream, t, at, n, to);
    else if (t->data)
        memcpy(to, host_place(t, at), (size_t)n * sizeof(float));
}

const mpt_tensor *mpt_executor_fetch(const mpt_executor *executor, mpt_value_id value) {
    const mpt_tensor *t = &executor->tensors[value];
    return executor->stream ? mpt_stream_fetch(executor->stream, t) : t;
}

mpt_status mpt_executor_status(const mpt_executor *executor) {
    return executor->stream ? mpt_stream_status(executor->stream) : MPT_OK;
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
    mpt_gpu *gpu = executor->stream ? &executor->stream->gpu : NULL;
    s->kernel->run(&(mpt_kernel_args){node, in, out, scratch, env, gpu});
    if (!gpu)
        round_outputs(node, out);
}

static void add_tally(const mpt_run_tally *tally, int from, int to) {
    for (int step = from; tally && step < to; step++)
        if (tally->of_step[step] >= 0)
            tally->runs[tally->of_step[step]]++;
}

/* One step after the other, as those who look on hear of them. */
static void walk(const mpt_executor *executor, int from, int to, const mpt_run_env *env) {
    for (int step = from; step < to; step++) {
        if (executor->watch)
            executor->watch(executor->watch_ud, step);
        run_step(executor, step, env);
        if (executor->look)
            executor->look(executor->look_ud, step);
    }
    if (executor->watch)
        executor->watch(executor->watch_ud, -1);
}

static void run_on_host(const mpt_executor *executor, int from, int to,
                        const mpt_run_env *env) {
    int before = omp_get_max_threads();
    mpt_run_env capped = *env;
    if (capped.n_threads < 1 || capped.n_threads > executor->program->n_threads)
        capped.n_threads = executor->program->n_threads;
    omp_set_num_threads(capped.n_threads); /* of this thread alone; the host's own comes back */
    walk(executor, from, to, &capped);
    omp_set_num_threads(before);
}

typedef struct launching {
    const mpt_executor *executor;
    const mpt_run_env *env;
} launching;

/* A mpt_launch_fn. */
static void launch(void *ud, int from, int to) {
    const launching *l = ud;
    walk(l->executor, from, to, l->env);
}

static void run_on_device(mpt_executor *executor, int from, int to, const mpt_run_env *env) {
    mpt_stream *stream = executor->stream;
    int n_operands = executor->program->graph->n_operands;
    launching l = {executor, env};
    mpt_stream_begin(stream, env, n_operands);
    mpt_recording range = {from, to, env->evaluating, stream->gpu.counting, NULL};
    if (executor->watch || executor->look || to - from < 2)
        walk(executor, from, to, env);
    else
        mpt_replay_run(&executor->replay, stream, &range, launch, &l);
    mpt_stream_end(stream, env, n_operands);
}

static void run_steps(mpt_executor *executor, int from, int to, const mpt_run_env *env) {
    if (executor->stream)
        run_on_device(executor, from, to, env);
    else
        run_on_host(executor, from, to, env);
    add_tally(env->tally, from, to);
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
