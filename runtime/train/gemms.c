/* GEMMs that ran, by format. The rows and the map from steps to them are made with the trainer,
 * so that a step counts without looking anything up. See gemms.h. */
#include "train/gemms.h"

#include <stdio.h>
#include <string.h>

#include "train/trainer.h"

/* ---- what a step multiplies ---- */

/* The product that a node is; false where it is none of a linear layer. */
static bool product_of(const mpt_node *node, mpt_gemm *out) {
    switch (node->op) {
    case MPT_OP_linear:
        *out = MPT_GEMM_FPROP;
        return true;
    case MPT_OP_linear_dgrad:
        *out = MPT_GEMM_DGRAD;
        return true;
    case MPT_OP_linear_wgrad:
        *out = MPT_GEMM_WGRAD;
        return true;
    default:
        return false;
    }
}

/* What a value is, seen from who made it: a quantizer's copy, else numbers of its format. */
static const char *format_of(const mpt_graph *graph, mpt_value_id id, bool *quantized) {
    const mpt_value *value = &graph->values[id];
    const mpt_node *maker = value->producer >= 0 ? &graph->nodes[value->producer] : NULL;
    if (!maker || maker->op != MPT_OP_quantize)
        return mpt_dtype_name(value->dtype);
    const mpt_quantizer *q = maker->out[0] == id ? &maker->attrs.row : &maker->attrs.col;
    *quantized = true;
    return q->name ? q->name : mpt_dtype_name(q->format);
}

static bool same_row(const mpt_gemm_row *a, const mpt_gemm_row *b) {
    return a->gemm == b->gemm && strcmp(a->a, b->a) == 0 && strcmp(a->b, b->b) == 0;
}

/* The place of a row, which is added where it is new; -1: memory ran out. */
static int32_t place(mpt_gemms *gemms, const mpt_gemm_row *row) {
    for (int i = 0; i < gemms->n; i++)
        if (same_row(&gemms->rows[i], row))
            return i;
    mpt_gemm_row *grown =
        mpt_arena_grow(&gemms->arena, gemms->rows, sizeof *gemms->rows, gemms->n, &gemms->cap);
    if (!grown)
        return -1;
    gemms->rows = grown;
    gemms->rows[gemms->n] = *row;
    return gemms->n++;
}

static mpt_status find_phase(mpt_gemms *gemms, const mpt_phase_program *phase,
                             mpt_run_tally *out) {
    int32_t *of_step =
        mpt_arena_alloc(&gemms->arena, mpt_size_mul((size_t)phase->n_steps, sizeof *of_step));
    if (!of_step)
        return MPT_OUT_OF_MEMORY;
    for (int s = 0; s < phase->n_steps; s++) {
        const mpt_node *node = &phase->graph->nodes[phase->steps[s].node];
        mpt_gemm_row row = {.quantized = false};
        of_step[s] = -1;
        if (!product_of(node, &row.gemm))
            continue;
        row.a = format_of(phase->graph, node->in[0], &row.quantized);
        row.b = format_of(phase->graph, node->in[1], &row.quantized);
        if ((of_step[s] = place(gemms, &row)) < 0)
            return MPT_OUT_OF_MEMORY;
    }
    out->of_step = of_step;
    return MPT_OK;
}

mpt_status mpt_gemms_find(mpt_gemms *gemms, const mpt_program *program) {
    int n = program->n_phases;
    *gemms = (mpt_gemms){.ctx = program->ctx};
    mpt_arena_init(&gemms->arena, program->ctx);
    gemms->tally =
        mpt_arena_alloc(&gemms->arena, mpt_size_mul((size_t)n, sizeof *gemms->tally));
    if (!gemms->tally)
        return MPT_OUT_OF_MEMORY;
    for (int p = 0; p < n; p++)
        MPT_TRY(find_phase(gemms, program->phases[p], &gemms->tally[p]));
    size_t bytes = mpt_size_mul((size_t)(gemms->n + 1), sizeof *gemms->runs);
    gemms->runs = mpt_arena_alloc(&gemms->arena, bytes);
    for (int p = 0; gemms->runs && p < n; p++)
        gemms->tally[p].runs = gemms->runs;
    return gemms->runs ? MPT_OK : MPT_OUT_OF_MEMORY;
}

void mpt_gemms_free(mpt_gemms *gemms) {
    if (gemms->ctx)
        mpt_arena_deinit(&gemms->arena);
    *gemms = (mpt_gemms){.ctx = NULL};
}

const mpt_run_tally *mpt_gemms_tally(const mpt_gemms *gemms, int phase) {
    return &gemms->tally[phase];
}

/* ---- who asks ---- */

mpt_status mpt_gemms_saved(mpt_gemms *gemms, mpt_saved *list) {
    char name[128];
    list->kind = MPT_SAVED_OBSERVED;
    for (int i = 0; i < gemms->n; i++) {
        const mpt_gemm_row *row = &gemms->rows[i];
        snprintf(name, sizeof name, "gemms.%s.%s.%s", mpt_gemm_name(row->gemm), row->a, row->b);
        MPT_TRY(mpt_saved_add_i64(list, name, &gemms->runs[i]));
    }
    return MPT_OK;
}

bool mpt_trainer_gemm(const mpt_trainer *trainer, int index, mpt_gemm_view *out) {
    if (!trainer || !out || index < 0 || index >= trainer->gemms.n)
        return false;
    const mpt_gemm_row *row = &trainer->gemms.rows[index];
    *out = (mpt_gemm_view){mpt_gemm_name(row->gemm), row->a, row->b, row->quantized,
                           (uint64_t)trainer->gemms.runs[index]};
    return true;
}

mpt_status mpt_trainer_write_gemms(const mpt_trainer *trainer) {
    for (int i = 0; i < trainer->gemms.n; i++) {
        const mpt_gemm_row *row = &trainer->gemms.rows[i];
        mpt_metrics_line line;
        mpt_metrics_begin(&line, "gemms");
        mpt_metrics_string(&line, "gemm", mpt_gemm_name(row->gemm));
        mpt_metrics_string(&line, "a", row->a);
        mpt_metrics_string(&line, "b", row->b);
        mpt_metrics_boolean(&line, "quantized", row->quantized);
        mpt_metrics_integer(&line, "runs", trainer->gemms.runs[i]);
        MPT_TRY(mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud));
    }
    return MPT_OK;
}
