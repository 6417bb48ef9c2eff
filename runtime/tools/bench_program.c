/* `mptrun bench RECIPE.lua`: where the time of a step goes.
 *
 * Steps are taken as in training, by a trainer of its own. The executor tells before each op,
 * so the time from one to the next is that op's, its rounding included, and no kernel knows of
 * it. What no op takes is the step's data: drawing the batch, and the walk itself. The
 * library's peak is measured before and after the timed steps, because machines differ from
 * minute to minute; the best of both counts, and is compared with the fastest step.
 *
 * A device runs ops after they are launched, and whole steps out of recordings, which nobody
 * can look into. There the timed steps are left alone, and some more are taken op by op with
 * marks of the device between them. */
#include "tools/bench_program.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "exec/executor.h"
#include "exec/stream.h"
#include "io/system.h"
#include "kernels/cpu/cpu.h"
#include "tools/matrix.h"
#include "train/trainer.h"

enum { WARM_UP = 2, USUAL_STEPS = 5, MOST_STEPS = 4096, MARKED_STEPS = 3 };
enum { USUAL_PEAK = 2048, MOST_PEAK = 16384, PEAK_REPEATS = 5 };
static const double PEAK_SECONDS = 0.3; /* at least, of its repeats together */

/* The time of a phase's ops, one number each; a phase is what one executor runs. */
typedef struct watched {
    struct bench *bench;
    const mpt_phase_program *phase;
    mpt_step_time *now, *best; /* in the step that runs, and in the fastest so far */
} watched;

typedef struct bench {
    mpt_ctx *ctx;
    mpt_arena arena;
    mpt_trainer *trainer;
    int n_parts;
    watched *parts;
    double *seconds;        /* of each timed step */
    bool counting;          /* the warm-up is over */
    mpt_step_time *running; /* whose op it is that runs; NULL: none */
    double since;
    mpt_stream *stream; /* NULL: the host */
    void **marks;       /* on a device: before each op of a range, and at its end */
    int *marked;        /* the steps that the first n_marked of them stand before */
    int n_marks, n_marked;
    int64_t peak_size;
    mpt_program_bench result;
} bench;

/* ---- ops ---- */

/* A mpt_step_fn: ends the op before, and begins the next. */
static void watch(void *ud, int step) {
    watched *w = ud;
    bench *b = w->bench;
    double now = omp_get_wtime();
    if (b->running) {
        b->running->seconds += now - b->since;
        b->running->calls++;
    }
    b->running = step >= 0 && b->counting ? &w->now[step] : NULL;
    b->since = now;
}

/* The same on a device: marks are placed, and read where the range ends. A device that fails
 * is told by the trainer's step. */
static void watch_device(void *ud, int step) {
    watched *w = ud;
    bench *b = w->bench;
    const mpt_device_ops *ops = b->stream->ops;
    (void)ops->mark(&b->stream->gpu, b->marks[b->n_marked]);
    if (step >= 0) {
        b->marked[b->n_marked++] = step;
        return;
    }
    for (int i = 0; i < b->n_marked; i++) {
        double seconds;
        (void)ops->between(&b->stream->gpu, b->marks[i], b->marks[i + 1], &seconds);
        w->now[b->marked[i]].seconds += seconds;
        w->now[b->marked[i]].calls++;
    }
    b->n_marked = 0;
}

static mpt_status create_marks(bench *b) {
    int n = 0;
    for (int i = 0; i < b->n_parts; i++)
        if (b->parts[i].phase->n_steps > n)
            n = b->parts[i].phase->n_steps;
    b->marks = mpt_arena_alloc(&b->arena, mpt_size_mul((size_t)n + 1, sizeof *b->marks));
    b->marked = mpt_arena_alloc(&b->arena, mpt_size_mul((size_t)n + 1, sizeof *b->marked));
    if (!b->marks || !b->marked)
        return MPT_OUT_OF_MEMORY;
    for (; b->n_marks <= n; b->n_marks++) {
        b->marks[b->n_marks] = b->stream->ops->mark_create(&b->stream->gpu);
        if (!b->marks[b->n_marks]) {
            MPT_TRY(mpt_stream_status(b->stream));
            return mpt_fail_memory(b->ctx, sizeof *b->marks);
        }
    }
    return MPT_OK;
}

static void destroy_marks(bench *b) {
    for (int i = 0; i < b->n_marks; i++)
        b->stream->ops->mark_destroy(&b->stream->gpu, b->marks[i]);
    b->n_marks = 0;
}

static void look_on(bench *b) {
    for (int i = 0; i < b->n_parts; i++)
        mpt_executor_watch(b->trainer->executors[i], b->stream ? watch_device : watch,
                           &b->parts[i]);
}

static mpt_status make_parts(bench *b) {
    const mpt_program *program = b->result.program;
    b->n_parts = b->trainer->n_executors;
    b->parts = mpt_arena_alloc(&b->arena, (size_t)b->n_parts * sizeof *b->parts);
    if (!b->parts)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < b->n_parts; i++) {
        watched *w = &b->parts[i];
        *w = (watched){.bench = b, .phase = mpt_program_part(program, i)};
        size_t bytes = mpt_size_mul((size_t)w->phase->n_steps, sizeof *w->now);
        w->now = mpt_arena_alloc(&b->arena, bytes);
        w->best = mpt_arena_alloc(&b->arena, bytes);
        if (!w->now || !w->best)
            return MPT_OUT_OF_MEMORY;
    }
    b->stream = mpt_executor_stream(b->trainer->executors[0]);
    return b->stream ? create_marks(b) : MPT_OK;
}

/* Before a step. */
static void forget_ops(bench *b) {
    for (int i = 0; i < b->n_parts; i++)
        for (int s = 0; s < b->parts[i].phase->n_steps; s++)
            b->parts[i].now[s] = (mpt_step_time){.calls = 0};
}

/* The step that ran was the fastest so far. */
static void keep_ops(bench *b) {
    for (int i = 0; i < b->n_parts; i++) {
        mpt_step_time *spare = b->parts[i].best;
        b->parts[i].best = b->parts[i].now;
        b->parts[i].now = spare;
    }
}

static void sum_part(const watched *w, mpt_program_bench *result) {
    const mpt_graph *graph = w->phase->graph;
    for (int s = 0; s < w->phase->n_steps; s++) {
        const mpt_node *node = &graph->nodes[w->phase->steps[s].node];
        const mpt_op_def *def = mpt_op_get(node->op)->def;
        const mpt_step_time *best = &w->best[s];
        result->ops[node->op].seconds += best->seconds;
        result->ops[node->op].calls += best->calls;
        if (mpt_op_class_of(node->op) != MPT_OP_CLASS_GEMM)
            continue;
        result->gemm_seconds += best->seconds;
        double flops = def && def->cost ? def->cost(graph, node).flops : 0;
        flops *= (double)best->calls;
        result->gemm_flops += flops;
        if (best->seconds > 0)
            result->peak = fmax(result->peak, flops / best->seconds);
    }
}

/* ---- steps ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Keeps the ops of the fastest, and its time in `fastest`; NULL: none of them counts. */
static mpt_status take_steps(bench *b, int n, double *fastest) {
    mpt_program_bench *result = &b->result;
    b->counting = fastest != NULL;
    for (int i = 0; i < n; i++) {
        mpt_step_result step;
        forget_ops(b);
        double start = omp_get_wtime();
        MPT_TRY(mpt_trainer_step(b->trainer, NULL, &step));
        double seconds = omp_get_wtime() - start;
        if (!fastest)
            continue;
        if (fastest == &result->fastest) {
            b->seconds[i] = seconds;
            result->n_skipped += step.skipped;
        }
        if (i == 0 || seconds < *fastest) {
            *fastest = seconds;
            keep_ops(b);
        }
    }
    b->counting = false;
    return MPT_OK;
}

/* The steps that are timed, and where the time of one of them went. */
static mpt_status time_steps(bench *b) {
    mpt_program_bench *result = &b->result;
    if (!b->stream)
        look_on(b);
    MPT_TRY(take_steps(b, result->steps, &result->fastest));
    result->told = result->fastest;
    if (!b->stream)
        return MPT_OK;
    look_on(b);
    return take_steps(b, MARKED_STEPS, &result->told);
}

static void sum_up(bench *b) {
    mpt_program_bench *result = &b->result;
    qsort(b->seconds, (size_t)result->steps, sizeof *b->seconds, compare);
    result->median = b->seconds[result->steps / 2];
    for (int i = 0; i < b->n_parts; i++)
        sum_part(&b->parts[i], result);
}

/* ---- the library's peak ---- */

/* Called outside of a parallel region, so that the library shares the work out among threads of
 * its own as it likes best: that is what the blocks of gemm.c are to be compared with. */
static mpt_status measure_peak(bench *b) {
    int64_t n = b->peak_size;
    size_t each = mpt_size_mul((size_t)n, (size_t)n), bytes = mpt_size_mul(each, sizeof(float));
    float *memory = mpt_alloc(b->ctx, mpt_size_mul(3, bytes));
    if (!memory)
        return mpt_fail_memory(b->ctx, mpt_size_mul(3, bytes));
    for (size_t i = 0; i < 2 * each; i++)
        memory[i] = (float)(i % 251) * 0x1p-8f;
    mpt_sgemm gemm = {.m = n, .n = n, .k = n, .alpha = 1, .a = memory, .lda = n};
    gemm.b = memory + each;
    gemm.c = memory + 2 * each;
    gemm.ldb = gemm.ldc = n;
    double begin = omp_get_wtime();
    for (int i = 0; i <= PEAK_REPEATS || omp_get_wtime() - begin < PEAK_SECONDS; i++) {
        double start = omp_get_wtime();
        mpt_cpu_sgemm(&gemm);
        double rate = 2 * (double)n * (double)n * (double)n / (omp_get_wtime() - start);
        if (i > 0 && rate > b->result.peak) /* the first finds cold memory */
            b->result.peak = rate;
    }
    mpt_free(b->ctx, memory);
    return MPT_OK;
}

/* ---- all of it ---- */

static mpt_status create(bench *b) {
    b->seconds = mpt_arena_alloc(&b->arena, (size_t)b->result.steps * sizeof *b->seconds);
    if (!b->seconds)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_trainer_create(b->result.program, NULL, &b->trainer));
    return make_parts(b);
}

/* What a device's run takes there is known; its library shows its rate in the GEMMs alone. */
static mpt_status measure_device(bench *b) {
    b->result.on_device = true;
    b->result.bytes = b->stream->bytes;
    MPT_TRY(take_steps(b, b->result.warm_up, NULL));
    MPT_TRY(time_steps(b));
    sum_up(b);
    return MPT_OK;
}

/* Memory is read before the peak's matrices come. Where the process held more at an earlier
 * time, the most of this run is not known, and what it holds now counts. */
static mpt_status measure(bench *b) {
    uint64_t most_before, most, before = mpt_system_resident(&most_before);
    b->result.planned = mpt_program_get_info(b->result.program).bytes_total;
    MPT_TRY(create(b));
    if (b->stream)
        return measure_device(b);
    MPT_TRY(take_steps(b, b->result.warm_up, NULL));
    uint64_t now = mpt_system_resident(&most);
    now = most > most_before ? most : now;
    b->result.bytes = now > before ? now - before : 0;
    MPT_TRY(measure_peak(b));
    MPT_TRY(time_steps(b));
    sum_up(b);
    return measure_peak(b);
}

static mpt_status run(const mpt_program *program, const mpt_bench_program_options *o,
                      mpt_str *out) {
    bench *b = mpt_alloc(program->ctx, sizeof *b);
    if (!b)
        return mpt_fail_memory(program->ctx, sizeof *b);
    *b = (bench){.ctx = program->ctx, .peak_size = o->peak_size ? o->peak_size : USUAL_PEAK};
    b->result = (mpt_program_bench){.program = program, .warm_up = WARM_UP};
    b->result.steps = o->steps ? o->steps : USUAL_STEPS;
    mpt_arena_init(&b->arena, program->ctx);
    int before = mpt_tool_set_threads(program->n_threads);
    mpt_status status = measure(b);
    mpt_tool_set_threads(before);
    if (status == MPT_OK)
        status = mpt_program_bench_print(program->ctx, &b->result, o->json, out);
    destroy_marks(b);
    mpt_trainer_destroy(b->trainer);
    mpt_arena_deinit(&b->arena);
    mpt_free(program->ctx, b);
    return status;
}

mpt_status mpt_bench_program(const mpt_program *program,
                             const mpt_bench_program_options *options, mpt_write_fn write,
                             void *ud) {
    mpt_bench_program_options o = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    mpt_str text;
    MPT_REQUIRE_OBJECT(program);
    MPT_REQUIRE(program->ctx, write);
    MPT_TRY(mpt_options_read(program->ctx, __func__, options, &o, sizeof o));
    if (o.steps < 0 || o.steps > MOST_STEPS)
        return MPT_FAIL(program->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: options.steps is %d, expected 0 (%d) to %d", __func__, o.steps,
                        USUAL_STEPS, MOST_STEPS);
    if (o.peak_size < 0 || o.peak_size > MOST_PEAK)
        return MPT_FAIL(program->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: options.peak_size is %lld, expected 0 (%d) to %d", __func__,
                        (long long)o.peak_size, USUAL_PEAK, MOST_PEAK);
    if (o.peak_size > 0 && program->device == MPT_DEVICE_CUDA)
        return MPT_FAIL(program->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: options.peak_size is %lld, and the program computes on a device, "
                        "where no square matrices are multiplied: expected 0",
                        __func__, (long long)o.peak_size);
    mpt_str_init(&text, program->ctx);
    mpt_status status = run(program, &o, &text);
    if (status == MPT_OK && text.failed)
        status = mpt_fail_memory(program->ctx, text.cap);
    if (status == MPT_OK && !write(ud, text.data, text.len))
        status = MPT_FAIL(program->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(&text);
    return status;
}
