/* The dumps of stages 9 and 10, which need memory for the model: every tensor of the first
 * micro-batch, and the metrics of the first steps. */
#include <inttypes.h>
#include <math.h>

#include "base/table.h"
#include "io/system.h"
#include "kernels/tensor.h"
#include "pipeline_stages.h"
#include "train/state.h"

/* A model that cannot fit is refused here: the system might grant the memory and then end the
 * process that touches it. */
static mpt_status check_memory(const mpt_program *program) {
    uint64_t here = mpt_system_memory(), need = 0;
    for (int p = 0; p < program->n_phases; p++) {
        uint64_t bytes = mpt_phase_program_bytes(program->phases[p]);
        need = bytes > need ? bytes : need;
    }
    if (here == 0 || need <= here)
        return MPT_OK;
    mpt_status status = MPT_FAIL(program->ctx, MPT_OUT_OF_MEMORY, program->recipe->where,
                                 "this needs %.3g GB and the machine has %.3g GB",
                                 (double)need / 1e9, (double)here / 1e9);
    mpt_hint(program->ctx, "take the proxy, or a smaller batch or sequence");
    return status;
}

/* ---- stage 9 ---- */

typedef struct stats {
    double min, max, rms;
    int64_t nonfinite;
} stats;

static stats measure(const mpt_tensor *tensor) {
    stats s = {INFINITY, -INFINITY, 0, 0};
    int64_t n = mpt_tensor_elements(tensor);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        bool integer = tensor->dtype == MPT_DTYPE_I32;
        double x = integer ? ((const int32_t *)tensor->data)[i]
                           : (double)((const float *)tensor->data)[i];
        if (!isfinite(x)) {
            s.nonfinite++;
            continue;
        }
        s.min = fmin(s.min, x);
        s.max = fmax(s.max, x);
        sum += x * x;
    }
    s.rms = n > s.nonfinite ? sqrt(sum / (double)(n - s.nonfinite)) : NAN;
    return s;
}

static void add_row(mpt_table *table, const mpt_graph *graph, const mpt_node *node,
                    mpt_value_id v, const mpt_tensor *tensor) {
    stats s = measure(tensor);
    mpt_table_cell(table, "%s", mpt_pass_name(node->pass));
    mpt_table_cell(table, "%s", mpt_op_get(node->op)->name);
    mpt_table_cell(table, "%s", graph->values[v].name);
    mpt_table_cell(table, "%s", mpt_dtype_name(tensor->dtype));
    mpt_table_cell(table, "%.6g", s.min);
    mpt_table_cell(table, "%.6g", s.max);
    mpt_table_cell(table, "%.6g", s.rms);
    mpt_table_cell(table, "%" PRId64, s.nonfinite);
}

/* The inputs of the first micro-batch of step 0, as the trainer fills them. `row` has room for
 * three rows of the batch. */
static void fill_inputs(const mpt_program *program, const mpt_graph *graph,
                        mpt_executor *executor, int32_t *row) {
    int64_t n = program->train.sequence;
    int32_t *tokens = row, *targets = row + n, *positions = row + 2 * n;
    for (int64_t i = 0; i < n; i++)
        positions[i] = (int32_t)i;
    for (int64_t b = 0; b < graph->batch; b++) {
        mpt_data_train(program->data, program->train.seed, 0, b, tokens, targets);
        mpt_executor_write(executor, graph->tokens, b * n, n, tokens);
        mpt_executor_write(executor, graph->targets, b * n, n, targets);
        if (graph->positions >= 0)
            mpt_executor_write(executor, graph->positions, b * n, n, positions);
    }
}

static mpt_run_env first_env(const mpt_program *program) {
    double scale = mpt_loss_scale_first(&program->recipe->loss_scale);
    double targets = (double)program->train.batch * (double)program->train.sequence;
    return (mpt_run_env){.seed = program->train.seed,
                         .loss_seed = (float)(scale / targets),
                         .grad_unscale = (float)(1.0 / scale),
                         .n_threads = program->n_threads};
}

static void run_and_measure(const mpt_program *program, mpt_executor *executor,
                            mpt_table *table) {
    const mpt_phase_program *phase = program->phases[0];
    mpt_run_env env = first_env(program);
    for (int s = 0; s < phase->segment[MPT_PASS_UPDATE]; s++) {
        const mpt_node *node = &phase->graph->nodes[phase->steps[s].node];
        mpt_executor_run_step(executor, s, &env);
        for (int k = 0; node->op != MPT_OP_zero && k < node->n_out; k++)
            if (node->out[k] >= 0)
                add_row(table, phase->graph, node, node->out[k],
                        mpt_executor_fetch(executor, node->out[k]));
    }
}

/* A state, its executor, and the inputs; the caller ends the first two, also on failure. */
static mpt_status make_ready(const mpt_program *program, mpt_state **out_state,
                             mpt_executor **out_executor) {
    const mpt_phase_program *phase = program->phases[0];
    size_t bytes = 3 * (size_t)program->train.sequence * sizeof(int32_t);
    MPT_TRY(mpt_state_create((mpt_phase_list){program->phases, 1}, out_state));
    mpt_state_initialize(*out_state, phase->graph, program->train.seed, program->n_threads);
    MPT_TRY(mpt_executor_create(phase, out_executor));
    MPT_TRY(mpt_state_place(*out_state, phase, *out_executor));
    mpt_state_bind(*out_state, phase->graph, *out_executor);
    int32_t *row = mpt_alloc(program->ctx, bytes);
    if (!row)
        return mpt_fail_memory(program->ctx, bytes);
    fill_inputs(program, phase->graph, *out_executor, row);
    mpt_state_push(*out_state);
    mpt_free(program->ctx, row);
    return MPT_OK;
}

mpt_status mpt_dump_run(const mpt_program *program, mpt_str *out) {
    const mpt_graph *graph = program->phases[0]->graph;
    mpt_state *state = NULL;
    mpt_executor *executor = NULL;
    if (graph->own_tokens)
        return MPT_FAIL(program->ctx, MPT_INVALID, MPT_NOWHERE,
                        "run: the program was compiled with own_tokens, and has no data");
    MPT_TRY(check_memory(program));
    mpt_status status = make_ready(program, &state, &executor);
    if (status == MPT_OK) {
        mpt_table table;
        float loss;
        mpt_table_init(&table, program->ctx, "pass|op|value|format|>min|>max|>rms|>not finite");
        run_and_measure(program, executor, &table);
        mpt_table_print(&table, out);
        mpt_table_deinit(&table);
        mpt_executor_read(executor, graph->loss, 0, 1, &loss);
        mpt_str_printf(out, "\nloss %.6f\n", (double)loss);
        status = mpt_executor_status(executor);
    }
    mpt_executor_destroy(executor);
    mpt_state_destroy(state);
    return status;
}

/* ---- stage 10 ---- */

enum { FIRST_STEPS = 5 };

static bool add_line(void *ud, const char *text, size_t length) {
    mpt_str *out = ud;
    mpt_str_append(out, text, length);
    return !out->failed;
}

mpt_status mpt_dump_train(const mpt_program *program, mpt_str *out) {
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    mpt_trainer *trainer;
    mpt_step_result result;
    options.metrics = add_line;
    options.metrics_ud = out;
    MPT_TRY(mpt_trainer_create(program, &options, &trainer));
    mpt_status status = MPT_OK;
    for (int i = 0; status == MPT_OK && i < FIRST_STEPS && !mpt_trainer_done(trainer); i++)
        status = mpt_trainer_step(trainer, NULL, &result);
    mpt_trainer_destroy(trainer);
    return status;
}
