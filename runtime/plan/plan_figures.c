/* The part of the text plan that counts: memory by class and format, FLOPs by pass, what tensor
 * cores make of the mix, which products a GPU has to emulate. */
#include "plan/plan.h"

#include <string.h>

#include "exec/backend.h"
#include "plan/text.h"

enum { MOST_SHARES = 4, MOST_REASONS = 6 };

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

/* ---- memory ---- */

/* "nvfp4 30.12, bf16 3.10"; the format alone where there is one and all is said of it. Shares
 * come in order, so that what is too small to read in two digits ends the list. */
static void add_shares(mpt_words *text, const mpt_plan_shares *shares, double unit,
                       bool alone) {
    double rest = 0;
    if (alone &&
        (shares->n == 1 || (shares->n > 1 && (double)shares->of[1].bytes < unit * 0.05))) {
        mpt_words_add(text, "%s", shares->of[0].format);
        return;
    }
    for (int i = 0, said = 0; i < shares->n; i++) {
        double bytes = (double)shares->of[i].bytes / unit;
        if (bytes < 0.05 && i > 0)
            break;
        if (said == MOST_SHARES)
            rest += bytes;
        else
            mpt_words_add(text, "%s%s %.2f", said++ ? ", " : "", shares->of[i].format, bytes);
    }
    if (rest > 0)
        mpt_words_add(text, ", others %.2f", rest);
}

static void print_class(mpt_table *table, const char *name, double part, double whole,
                        const char *holds) {
    mpt_words plain = {.len = 0};
    mpt_words_add(&plain, "%s", name);
    for (char *p = plain.data; *p; p++)
        if (*p == '_')
            *p = ' ';
    mpt_table_cell(table, "%s", plain.data);
    mpt_table_cell(table, "%.2f", part);
    mpt_table_cell(table, "%.1f %%", percent(part, whole));
    mpt_table_cell(table, "%s", holds);
}

/* Below the working weights in the layout of their masters, those that are turned round. */
static void print_columns(mpt_table *table, const mpt_plan_shares *columns, double unit) {
    mpt_words holds = {.len = 0};
    mpt_words_add(&holds, "columns: ");
    add_shares(&holds, columns, unit, false);
    for (int i = 0; i < 3; i++)
        mpt_table_cell(table, "%s", "");
    mpt_table_cell(table, "%s", holds.data);
}

/* Bytes in a unit that leaves digits to read: a proxy's memory is no zero GB. */
static void print_memory(const mpt_plan *plan, mpt_str *out) {
    const mpt_plan_bytes *bytes = &plan->bytes;
    bool large = bytes->total >= 1000000000, host = plan->program->target == MPT_TARGET_HOST;
    double unit = large ? 1e9 : 1e6, total = (double)bytes->total / unit;
    const char *device =
        host ? plan->program->phases[0]->backend->name : mpt_target_name(plan->program->target);
    mpt_table table;
    mpt_str_printf(out, "\nmemory on %s in %s, %s%s%s\n", device, large ? "GB" : "MB",
                   host ? "each number in 4 bytes" : "operands packed",
                   plan->n_phases > 1 ? "; the phase that needs most is " : "",
                   plan->n_phases > 1 ? bytes->phase : "");
    mpt_table_init(&table, out->ctx, "class|>bytes|>share|what it holds");
    for (int c = 0; c < MPT_MEMORY_CLASS_COUNT; c++) {
        bool turned = c == MPT_MEMORY_WORKING_WEIGHTS && bytes->columns.n > 0;
        mpt_words holds = {.len = 0};
        if (turned && bytes->shares[c].n > 0)
            mpt_words_add(&holds, "rows: ");
        add_shares(&holds, &bytes->shares[c], unit, !turned);
        print_class(&table, mpt_memory_class_name((mpt_memory_class)c),
                    (double)bytes->of[c] / unit, total, holds.data);
        if (turned)
            print_columns(&table, &bytes->columns, unit);
    }
    print_class(&table, "total", total, total, "");
    mpt_text_table(out, &table);
}

/* What recomputation costs in work stands among the FLOPs. */
static void print_recompute(const mpt_plan *plan, mpt_str *out) {
    bool large = plan->bytes.total >= 1000000000;
    double unit = large ? 1e9 : 1e6;
    mpt_words text = {.len = 0};
    if (plan->graph->n_blocks == 0)
        return;
    if (plan->program->train.recompute.every == 0) {
        mpt_words_add(&text, "none; with \"block\", activations would take %.2f",
                      (double)plan->activations_recomputed / unit);
    } else {
        mpt_words_things(&text, plan->recompute, "block");
        mpt_words_add(&text, " at a time; kept, activations would take %.2f",
                      (double)plan->activations_kept / unit);
    }
    mpt_words_add(&text, " %s", large ? "GB" : "MB");
    mpt_text_line(out, "recompute", text.data);
}

/* ---- FLOPs ---- */

static void print_flops_row(mpt_table *table, const char *name, const double *parts, size_t n,
                            double times) {
    mpt_table_cell(table, "%s", name);
    for (size_t i = 0; i < n; i++) {
        mpt_words number = {.len = 0};
        mpt_words_about(&number, parts[i] * times);
        mpt_table_cell(table, "%s", number.data);
    }
}

static void print_flops(const mpt_plan *plan, mpt_str *out) {
    enum { TOTAL = 6 };
    const mpt_plan_flops *f = &plan->flops;
    const mpt_train *train = &plan->program->train;
    double parts[] = {f->fprop, f->dgrad, f->wgrad, f->attention, f->recompute, f->other, 0};
    mpt_table table;
    for (int i = 0; i < TOTAL; i++)
        parts[TOTAL] += parts[i];
    mpt_str_printf(out, "\nFLOPs by pass\n");
    mpt_table_init(&table, out->ctx,
                   "per|>fprop|>dgrad|>wgrad|>attention|>recompute|>other|>total");
    print_flops_row(&table, "token", parts, MPT_COUNT(parts), 1);
    print_flops_row(&table, "step", parts, MPT_COUNT(parts),
                    (double)train->batch * (double)train->sequence);
    mpt_table_cell(&table, "share");
    for (int i = 0; i <= TOTAL; i++)
        mpt_table_cell(&table, "%.1f %%", percent(parts[i], parts[TOTAL]));
    mpt_text_table(out, &table);
}

/* ---- tensor cores ---- */

static void print_bound(const mpt_plan *plan, mpt_str *out) {
    mpt_target target = plan->program->target;
    mpt_str_append(out, "\n", 1);
    mpt_text_linef(
        out, "speed-up",
        "GEMMs at most %.2fx over bf16: FP8 2x, FP4 4x, each by its wider operand%s%s",
        plan->bound, target == MPT_TARGET_HOST ? "" : "; emulated ones at most 1x on ",
        target == MPT_TARGET_HOST ? "" : mpt_target_name(target));
}

static void print_devices(const mpt_plan *plan, mpt_str *out) {
    mpt_words text = {.len = 0};
    bool emulated = false;
    for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++)
        emulated = emulated || plan->n_native[t] < plan->n_gemms;
    for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++)
        mpt_words_add(&text, "%s%s %d", t > MPT_TARGET_SM80 ? ", " : "",
                      mpt_target_name((mpt_target)t), plan->n_native[t]);
    mpt_text_linef(out, "hardware", "native GEMMs out of %d: %s%s", plan->n_gemms, text.data,
                   emulated && plan->program->target == MPT_TARGET_HOST
                       ? "; --target tells of the others"
                       : "");
}

/* Whether a GEMM is emulated for the same reason as another, and in the same way. */
static bool same_reason(const mpt_plan_native *a, const mpt_plan_native *b) {
    return a->way == b->way && strcmp(a->why, b->why) == 0;
}

/* Each reason for emulating, with the number of layers that have it. */
static void print_reasons(const mpt_plan *plan, mpt_str *out) {
    const mpt_plan_native *reasons[MOST_REASONS];
    int counts[MOST_REASONS][MPT_GEMM_COUNT] = {{0}}, n = 0, more = 0;
    for (int i = 0; i < plan->graph->n_layers; i++)
        for (int g = 0; g < MPT_GEMM_COUNT; g++) {
            const mpt_plan_native *native = &plan->natives[i][g];
            const char *why = native->why;
            int r = 0;
            while (why && r < n && !same_reason(reasons[r], native))
                r++;
            if (why && r == n && n < MOST_REASONS)
                reasons[n++] = native;
            more += why && r == MOST_REASONS;
            if (why && r < n)
                counts[r][g]++;
        }
    if (n == 0)
        return;
    mpt_table table;
    mpt_str_printf(out, "\nemulated on %s%s%s\n", mpt_target_name(plan->program->target),
                   plan->n_phases > 1 ? ", in phase " : "",
                   plan->n_phases > 1 ? plan->phases[plan->first].name : "");
    mpt_table_init(&table, out->ctx, ">fprop|>dgrad|>wgrad|in|because");
    for (int r = 0; r < n; r++) {
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            mpt_table_cell(&table, "%d", counts[r][g]);
        mpt_table_cell(&table, "%s", mpt_way_name(reasons[r]->way));
        mpt_table_cell(&table, "%s", reasons[r]->why);
    }
    mpt_text_table(out, &table);
    if (more)
        mpt_str_printf(out, "  and %d more for other reasons: see --json\n", more);
}

void mpt_plan_print_figures(const mpt_plan *plan, mpt_str *out) {
    print_memory(plan, out);
    print_recompute(plan, out);
    print_flops(plan, out);
    print_bound(plan, out);
    print_devices(plan, out);
    if (plan->natives)
        print_reasons(plan, out);
}
