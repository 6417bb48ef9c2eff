/* Stage 9: walks the steps of a program. The only place that calls kernels.
 *
 * An executor owns the program's arena block and a table of tensors bound to it; the trainer
 * binds state (masters, gradients, moments), which several executors share. After creation
 * nothing allocates. All of it may be a device's memory, which only mpt_executor_write, _read
 * and _fetch reach. */
#ifndef MPT_EXEC_EXECUTOR_H
#define MPT_EXEC_EXECUTOR_H

#include "sched/program.h"

typedef struct mpt_executor mpt_executor;

mpt_status mpt_executor_create(const mpt_phase_program *program, mpt_executor **out);

/* An executor of another phase of the same run, in the block of `owner`, whose program needs no
 * less of it. One of the two runs at a time; the values that the other left are lost. */
mpt_status mpt_executor_create_within(const mpt_phase_program *program,
                                      const mpt_executor *owner, mpt_executor **out);
void mpt_executor_destroy(mpt_executor *executor);

/* Binds the buffer of a state value (MASTER, GRADIENT, OPTIMIZER classes), in the memory that
 * the executor works in. */
void mpt_executor_bind(mpt_executor *executor, mpt_value_id value, void *data);

/* The tensor of any value, as kernels are given it: its data may be a device's. Valid until
 * destroyed. */
const mpt_tensor *mpt_executor_tensor(const mpt_executor *executor, mpt_value_id value);

/* Elements at ... at + n - 1 of a value, int32 for ids and else float32: inputs to fill, loss
 * and norms to read. A value without memory takes nothing. Reading waits for a device. */
void mpt_executor_write(mpt_executor *executor, mpt_value_id value, int64_t at, int64_t n,
                        const void *from);
void mpt_executor_read(const mpt_executor *executor, mpt_value_id value, int64_t at, int64_t n,
                       void *to);

/* The whole value in the host's memory, to be looked at: of a device a copy as float32, which
 * is there until the next call. */
const mpt_tensor *mpt_executor_fetch(const mpt_executor *executor, mpt_value_id value);

/* Where the device has failed, MPT_INTERNAL, and what was read since is void. Does not wait. */
mpt_status mpt_executor_status(const mpt_executor *executor);

/* The device that it works on; NULL: the host. */
struct mpt_stream *mpt_executor_stream(const mpt_executor *executor);

/* Runs the steps of one pass. Rounds each output to its dtype after its kernel. The threads of
 * env count for this call only, at most as many as the program was compiled for. */
void mpt_executor_run(mpt_executor *executor, mpt_pass pass, const mpt_run_env *env);

/* Part of a pass: the steps from `from` up to `to`, which is left out. */
void mpt_executor_run_range(mpt_executor *executor, int from, int to, const mpt_run_env *env);

/* Told of each step just before it runs, and of -1 where a call ends: for those who measure;
 * NULL: nobody. A device runs later what is launched now: its marks tell when
 * (kernels/backend.h). */
typedef void (*mpt_step_fn)(void *ud, int step);
void mpt_executor_watch(mpt_executor *executor, mpt_step_fn watch, void *ud);

/* Told of each step just after it ran, while its outputs are there and in the cache; NULL:
 * nobody. */
void mpt_executor_look(mpt_executor *executor, mpt_step_fn look, void *ud);

/* One step alone, for those who look at values on the way (--dump=run). */
void mpt_executor_run_step(mpt_executor *executor, int step, const mpt_run_env *env);

#endif
