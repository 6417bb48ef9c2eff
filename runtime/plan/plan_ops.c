/* The part of the text plan that speaks of the other operations: which of the autocast table's
 * classes each op of this model belongs to, and what the recipe changes in the table. */
#include "plan/plan.h"

#include <string.h>

#include "plan/text.h"

/* Whether the model draws an op. */
static bool has_op(const mpt_graph *graph, const char *name) {
    mpt_op op = mpt_op_by_name(name);
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == op && graph->nodes[i].pass == MPT_PASS_FORWARD)
            return true;
    return false;
}

/* "low bf16: linear, attention": the ops of one class that the model has. Softmax is part of
 * attention and has no node. */
static void add_class(mpt_words *text, const mpt_plan *plan, mpt_ops_class class) {
    int n, n_printed = 0;
    const mpt_ops_row *rows = mpt_ops_rows(&n);
    const mpt_recipe *recipe = plan->program->recipe;
    for (int i = 0; i < n; i++) {
        if (rows[i].kind != class || !has_op(plan->graph, rows[i].op))
            continue;
        if (n_printed++ == 0) {
            mpt_words_add(text, "%s%s", text->len ? "; " : "", mpt_ops_class_name(class));
            if (class == MPT_OPS_CLASS_LOW)
                mpt_words_add(text, " %s", mpt_dtype_name(mpt_stored_format(recipe->base)));
            mpt_words_add(text, ": ");
            if (class == MPT_OPS_CLASS_FP32 && has_op(plan->graph, "attention"))
                mpt_words_add(text, "softmax, ");
        }
        mpt_words_add(text, "%s%s", n_printed > 1 ? ", " : "", rows[i].op);
    }
}

static void add_change(mpt_words *text, const char *word, mpt_dtype format, mpt_where where) {
    const char *slash = where.file ? strrchr(where.file, '/') : NULL;
    mpt_words_add(text, "%s%s %s", text->len ? ", " : "", word, mpt_dtype_name(format));
    if (where.file && where.line > 0)
        mpt_words_add(text, " (%s:%d)", slash ? slash + 1 : where.file, where.line);
}

void mpt_plan_print_ops(const mpt_plan *plan, mpt_str *out) {
    const mpt_recipe *recipe = plan->program->recipe;
    mpt_words table = {.len = 0}, changed = {.len = 0};
    add_class(&table, plan, MPT_OPS_CLASS_LOW);
    add_class(&table, plan, MPT_OPS_CLASS_FP32);
    add_class(&table, plan, MPT_OPS_CLASS_WIDEST);
    mpt_text_line(out, "operations", table.data);
    for (int i = 0; i < MPT_OPS_COUNT; i++)
        if (recipe->ops[i].format != MPT_DTYPE_COUNT)
            add_change(&changed, mpt_ops_word_name((mpt_ops_word)i), recipe->ops[i].format,
                       recipe->ops[i].where);
    if (recipe->activation != MPT_DTYPE_COUNT)
        add_change(&changed, "saved activations", recipe->activation, recipe->activation_where);
    if (changed.len)
        mpt_text_line(out, "  changed", changed.data);
}
