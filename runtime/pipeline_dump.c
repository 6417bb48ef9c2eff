/* The dumps of stages 1 to 8: what a newcomer reads and golden tests compare.
 *
 * A program keeps only its last value, so the earlier ones are made again: drawing and growing
 * a graph takes milliseconds. Stages 9 and 10 are pipeline_run.c. */
#include <inttypes.h>

#include "base/table.h"
#include "pipeline_stages.h"

/* ---- stage 1 ---- */

static mpt_status redraw(const mpt_program *program, mpt_graph **out) {
    mpt_drawing drawing = {program->proxy, program->train.micro_batch, program->train.sequence,
                           mpt_data_vocab(program->data), false};
    return mpt_pipeline_draw(program->recipe, &drawing, program->phases[0]->graph->own_tokens,
                             out);
}

mpt_status mpt_dump_load(const mpt_program *program, mpt_str *out) {
    const mpt_recipe *recipe = program->recipe;
    const mpt_model_ref *model = program->proxy ? &recipe->proxy : &recipe->model;
    mpt_graph *graph;
    mpt_str_printf(out, "recipe %s from %s\nmodel %s %s%s\ndata %s\n%d rules, %d phases\n\n",
                   recipe->name, recipe->file ? recipe->file : "the host", model->name,
                   model->size ? model->size : "", program->proxy ? " (proxy)" : "",
                   mpt_data_describe(program->data), recipe->n_rules, recipe->n_phases);
    MPT_TRY(redraw(program, &graph));
    mpt_graph_print(graph, out);
    mpt_graph_destroy(graph);
    return MPT_OK;
}

/* ---- stages 2 and 3 ---- */

/* What stands for a layer's precision: six slots for a GEMM, else one format. */
static void add_policy_cells(mpt_table *table, const mpt_layer *layer,
                             const mpt_policy *policy) {
    bool gemm = mpt_layer_has_gemms(layer->kind);
    mpt_table_cell(table, "%s",
                   mpt_dtype_name(gemm ? policy->output[MPT_GEMM_FPROP] : policy->compute));
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        char text[MPT_QUANTIZER_TEXT] = "";
        if (gemm)
            mpt_quantizer_brief(&policy->slot[s], text);
        mpt_table_cell(table, "%s", text);
    }
}

static void print_policies(const mpt_phase_program *phase, mpt_str *out) {
    mpt_table table;
    mpt_table_init(&table, phase->ctx,
                   "layer|kind|output|fprop.x|fprop.w|dgrad.dy|dgrad.w|wgrad.dy|wgrad.x|rule");
    for (int i = 0; i < phase->graph->n_layers; i++) {
        const mpt_layer *layer = &phase->graph->layers[i];
        const mpt_policy *policy = &phase->policies[i];
        mpt_where where = policy->by_ops      ? policy->ops_where
                          : policy->n_decided ? policy->decided_by[policy->n_decided - 1]
                                              : MPT_NOWHERE;
        mpt_table_cell(&table, "%s", layer->path);
        mpt_table_cell(&table, "%s", mpt_layer_kind_name(layer->kind));
        add_policy_cells(&table, layer, policy);
        if (where.file)
            mpt_table_cell(&table, "%s:%d", where.file, where.line);
        else
            mpt_table_cell(&table, "default");
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

/* "phase settle from step 164, schedule 0123456789abcdef" and a blank line between two. */
static void print_phase(const mpt_program *program, int p, mpt_str *out) {
    mpt_str_printf(out, "%sphase %s ", p ? "\n" : "", program->phases[p]->phase);
    mpt_program_print_start(program, p, out);
    mpt_str_printf(out, ", schedule %s\n", program->phases[p]->schedule_hash);
}

/* "evaluation in phase settle: bf16, schedule 0123456789abcdef" */
static void print_eval(const mpt_program *program, int p, mpt_str *out) {
    mpt_str_printf(out, "\nevaluation in phase %s: ", program->phases[p]->phase);
    (void)mpt_program_eval_text(program, true, out);
    mpt_str_printf(out, ", schedule %s\n", program->evals[p]->schedule_hash);
}

mpt_status mpt_dump_freeze(const mpt_program *program, mpt_str *out) {
    mpt_str_printf(out, "%s\nrecipe hash %s\n\n", program->fields, program->recipe_hash);
    for (int p = 0; p < program->n_phases; p++) {
        print_phase(program, p, out);
        print_policies(program->phases[p], out);
    }
    return MPT_OK;
}

mpt_status mpt_dump_check(const mpt_program *program, mpt_str *out) {
    mpt_warning_view w;
    if (program->n_warnings == 0)
        mpt_str_printf(out, "no warnings\n");
    for (int i = 0; mpt_program_warning(program, i, &w); i++) {
        if (w.file && w.line > 0)
            mpt_str_printf(out, "%s:%d: ", w.file, w.line);
        else if (w.file)
            mpt_str_printf(out, "%s: ", w.file);
        mpt_str_printf(out, "%s: %s\n", w.name, w.text);
    }
    return MPT_OK;
}

/* ---- stages 4 to 8 ---- */

mpt_status mpt_dump_grad(const mpt_program *program, mpt_str *out) {
    mpt_graph *graph;
    MPT_TRY(redraw(program, &graph));
    mpt_status status = mpt_pipeline_grow(graph, &program->train);
    if (status == MPT_OK)
        mpt_graph_print(graph, out);
    mpt_graph_destroy(graph);
    return status;
}

/* One text a phase under its headline. */
static mpt_status each_phase(const mpt_program *program, mpt_str *out,
                             void (*print)(const mpt_phase_program *, mpt_str *)) {
    for (int p = 0; p < program->n_phases; p++) {
        print_phase(program, p, out);
        print(program->phases[p], out);
    }
    for (int p = 0; p < program->n_evals; p++) {
        print_eval(program, p, out);
        print(program->evals[p], out);
    }
    return MPT_OK;
}

static void print_graph(const mpt_phase_program *phase, mpt_str *out) {
    mpt_graph_print(phase->graph, out);
}

mpt_status mpt_dump_precise(const mpt_program *program, mpt_str *out) {
    return each_phase(program, out, print_graph);
}

mpt_status mpt_dump_select(const mpt_program *program, mpt_str *out) {
    return each_phase(program, out, mpt_schedule_print_selection);
}

mpt_status mpt_dump_order(const mpt_program *program, mpt_str *out) {
    return each_phase(program, out, mpt_schedule_print);
}

mpt_status mpt_dump_plan(const mpt_program *program, mpt_str *out) {
    return each_phase(program, out, mpt_schedule_print_memory);
}
