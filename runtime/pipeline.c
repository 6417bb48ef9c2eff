/* The table of contents of the runtime: ten stages from a recipe file to a falling loss.
 *
 * Each row is one folder, and one value that --dump=STAGE shows. mpt_compile
 * (pipeline_compile.c) runs stages 2 to 8; stage 1 is lua/bind or a host's calls, 9 is exec/,
 * 10 is train/. */
#include "pipeline.h"

#include <string.h>

#include "exec/backend.h"
#include "pipeline_stages.h"
#include "plan/plan.h"
#include "recipe/target.h"
#include "recipe/use.h"

typedef struct stage {
    const char *name;
    const char *summary; /* where it is, and what comes out */
    mpt_status (*dump)(const mpt_program *program, mpt_str *out);
    bool of_kernels; /* shows which they are, or what they compute */
} stage;

static const stage stages[] = {
    {"load", "lua/: declarations and the model's forward graph", mpt_dump_load, false},
    {"freeze", "runtime/recipe: the recipe IR, its rules resolved to layers", mpt_dump_freeze,
     false},
    {"check", "runtime/recipe: warnings", mpt_dump_check, false},
    {"grad", "runtime/graph: backward pass and optimizer", mpt_dump_grad, false},
    {"precise", "runtime/graph: casts, one quantize node a tensor", mpt_dump_precise, false},
    {"select", "runtime/sched: a kernel for each node", mpt_dump_select, true},
    {"order", "runtime/sched: the flat list of steps", mpt_dump_order, false},
    {"plan", "runtime/sched: offsets in one block", mpt_dump_plan, false},
    {"run", "runtime/exec: every tensor of the first micro-batch", mpt_dump_run, true},
    {"train", "runtime/train: metrics of the first steps", mpt_dump_train, true},
};

const char *mpt_stage_name(int index) {
    return index >= 0 && (size_t)index < MPT_COUNT(stages) ? stages[index].name : NULL;
}

static mpt_status fail_no_stage(mpt_ctx *ctx, const char *name) {
    const char *names[MPT_COUNT(stages)];
    for (size_t i = 0; i < MPT_COUNT(stages); i++)
        names[i] = stages[i].name;
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "no stage '%s'", name ? name : "");
    const char *near = name ? mpt_nearest(name, names, (int)MPT_COUNT(stages)) : NULL;
    if (near)
        mpt_hint(ctx, "did you mean '%s'?", near);
    else
        mpt_hint(ctx, "the stages are load, freeze, check, grad, precise, select, order, plan, "
                      "run and train");
    return status;
}

/* The plan of a GPU that is not here names it as what computes; kernels are here of this
 * machine only, and to list those would say another thing. */
static mpt_status check_kernels(const mpt_program *program, const char *name) {
    if (program->target == MPT_TARGET_HOST || program->device == MPT_DEVICE_CUDA)
        return MPT_OK;
    mpt_status status = MPT_FAIL(program->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "stage '%s' is of kernels, and those of %s are not here", name,
                                 mpt_target_name(program->target));
    mpt_hint(program->ctx, "leave --target out for those of this machine");
    return status;
}

mpt_status mpt_pipeline_dump(const mpt_program *program, const char *name, mpt_str *out) {
    for (size_t i = 0; i < MPT_COUNT(stages); i++) {
        if (!name || strcmp(stages[i].name, name) != 0)
            continue;
        if (stages[i].of_kernels)
            MPT_TRY(check_kernels(program, name));
        mpt_str_printf(out, "# stage %zu, %s: %s\n", i + 1, name, stages[i].summary);
        MPT_TRY(stages[i].dump(program, out));
        return out->failed ? MPT_OUT_OF_MEMORY : MPT_OK;
    }
    return fail_no_stage(program->ctx, name);
}

/* ---- what a host asks of a program ---- */

void mpt_program_destroy(mpt_program *program) {
    if (!program)
        return;
    mpt_ctx *ctx = program->ctx;
    for (int p = 0; p < program->n_phases; p++)
        mpt_phase_program_destroy(program->phases[p]);
    for (int p = 0; p < program->n_evals; p++)
        mpt_phase_program_destroy(program->evals[p]);
    mpt_data_close(program->data);
    mpt_arena_deinit(&program->arena);
    mpt_free(ctx, program);
}

uint64_t mpt_phase_program_bytes(const mpt_phase_program *program) {
    size_t total = 0;
    for (int c = 0; c < MPT_MEMORY_CLASS_COUNT; c++)
        total = mpt_size_add(total, program->bytes[c]);
    return total;
}

mpt_program_info mpt_program_get_info(const mpt_program *program) {
    if (!program)
        return (mpt_program_info){.recipe = NULL};
    const mpt_recipe *recipe = program->recipe;
    const mpt_graph *graph = program->phases[0]->graph;
    const mpt_model_ref *model = program->proxy ? &recipe->proxy : &recipe->model;
    const mpt_train *train = &program->train;
    mpt_program_info info = {.recipe = recipe->name,
                             .model = model->name,
                             .size_name = model->size,
                             .device = program->phases[0]->backend->name,
                             .proxy = program->proxy,
                             .why = program->why,
                             .no_device = program->no_device,
                             .n_blocks = graph->n_blocks,
                             .n_phases = program->n_phases,
                             .steps = train->steps,
                             .batch = train->batch,
                             .micro_batch = train->micro_batch,
                             .sequence = train->sequence,
                             .vocab = graph->vocab,
                             .n_ids = mpt_graph_n_ids(graph),
                             .n_logits = mpt_graph_n_logits(graph),
                             .floor = mpt_data_entropy(program->data),
                             .unigram = mpt_data_unigram_entropy(program->data),
                             .data = mpt_data_describe(program->data),
                             .seed = train->seed,
                             .eval_every = train->eval_every,
                             .eval_batches = train->eval_batches,
                             .eval_windows = mpt_data_n_windows(program->data),
                             .epochs = mpt_data_epochs(program->data),
                             .data_run = mpt_data_describe_run(program->data)};
    for (int i = 0; i < graph->n_params; i++)
        info.parameters += mpt_value_elements(&graph->values[graph->params[i].value]);
    for (int i = 0; i < graph->n_layers; i++)
        info.n_linear_layers += graph->layers[i].kind == MPT_LAYER_LINEAR;
    for (int p = 0; p < program->n_phases + program->n_evals; p++) {
        uint64_t bytes = mpt_phase_program_bytes(mpt_program_part(program, p));
        info.bytes_total = bytes > info.bytes_total ? bytes : info.bytes_total;
    }
    return info;
}

bool mpt_program_warning(const mpt_program *program, int index, mpt_warning_view *out) {
    if (!program || !out || index < 0 || index >= program->n_warnings)
        return false;
    const mpt_warning *warning = &program->warnings[index];
    *out = (mpt_warning_view){warning->name, warning->where.file, warning->where.line,
                              warning->text};
    return true;
}

void mpt_program_print_start(const mpt_program *program, int p, mpt_str *out) {
    mpt_str_printf(out, "from %sstep %lld", mpt_program_by_applied(program, p) ? "about " : "",
                   (long long)program->phase_start[p]);
}

/* What a use says of the whole product of fprop. */
static void print_eval_sums(const mpt_use *use, const char *before, mpt_str *out) {
    const int g = MPT_GEMM_FPROP;
    if (use->has_output[g]) {
        mpt_str_printf(out, "%soutput %s", before, mpt_dtype_name(use->output[g]));
        before = ", ";
    }
    if (use->has_accumulate[g]) {
        mpt_str_printf(out, "%saccumulate %s", before, mpt_dtype_name(use->accumulate[g]));
        before = ", ";
    }
    if (use->has_promote[g])
        mpt_str_printf(out, "%spromote %d", before, (int)use->promote[g]);
}

bool mpt_program_eval_text(const mpt_program *program, bool brief, mpt_str *out) {
    const mpt_rule *rule = program->train.eval_use;
    const char *before = "";
    char text[MPT_QUANTIZER_TEXT];
    if (!rule)
        return false;
    for (int s = MPT_SLOT_FPROP_X; s <= MPT_SLOT_FPROP_W; s++) {
        const mpt_slot_use *use = &rule->use.slot[s];
        if (!use->has_format && !use->set)
            continue;
        mpt_slot_use_text(use, text);
        if (use->has_format && brief)
            mpt_quantizer_brief(&use->q, text);
        if (rule->use.bare) {
            mpt_str_printf(out, "%s", text);
            return true;
        }
        mpt_str_printf(out, "%s%s %s", before, mpt_slot_name((mpt_slot)s), text);
        before = ", ";
    }
    print_eval_sums(&rule->use, before, out);
    return true;
}

static mpt_status print_schedule(const mpt_program *program, mpt_str *text) {
    for (int p = 0; p < program->n_phases; p++) {
        const mpt_phase_program *phase = program->phases[p];
        if (program->n_phases > 1) {
            mpt_str_printf(text, "%sphase %s ", p ? "\n" : "", phase->phase);
            mpt_program_print_start(program, p, text);
            mpt_str_printf(text, ", schedule %s\n", phase->schedule_hash);
        }
        mpt_schedule_print(phase, text);
    }
    return MPT_OK;
}

static mpt_status print_text(const mpt_program *program, mpt_print what, const char *arg,
                             mpt_str *text) {
    switch (what) {
    case MPT_PRINT_PLAN:
        return mpt_plan_print(program, text);
    case MPT_PRINT_JSON:
        return mpt_plan_json(program, text);
    case MPT_PRINT_SCHEDULE_JSON:
        return mpt_plan_schedule_json(program, text);
    case MPT_PRINT_SCHEDULE:
        return print_schedule(program, text);
    case MPT_PRINT_STAGE:
        return mpt_pipeline_dump(program, arg, text);
    default:
        return MPT_FAIL(program->ctx, MPT_INVALID, MPT_NOWHERE, "no text of kind %d",
                        (int)what);
    }
}

mpt_status mpt_program_print(const mpt_program *program, mpt_print what, const char *arg,
                             mpt_write_fn write, void *ud) {
    mpt_str text;
    MPT_REQUIRE_OBJECT(program);
    MPT_REQUIRE(program->ctx, write);
    mpt_str_init(&text, program->ctx);
    mpt_status status = print_text(program, what, arg, &text);
    if (status == MPT_OK && text.failed)
        status = mpt_fail_memory(program->ctx, text.cap);
    if (status == MPT_OK && text.len > 0 && !write(ud, text.data, text.len))
        status = MPT_FAIL(program->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(&text);
    return status;
}
