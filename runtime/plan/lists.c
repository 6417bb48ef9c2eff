/* What this build has: `mptrun --list-ops` and `--list-formats`, made from the tables that the
 * compiler itself reads. */
#include "plan/plan.h"

#include "base/table.h"
#include "exec/backend.h"
#include "recipe/schema.h"

/* Appends the names of the kernels a table has for an op. */
static void add_kernels(mpt_str *names, const mpt_kernel *table, mpt_op op) {
    for (; table->run; table++)
        if (table->op == op)
            mpt_str_printf(names, "%s%s", names->len ? " " : "", table->name);
}

static void list_ops(mpt_str *out) {
    mpt_table table;
    mpt_table_init(&table, out->ctx, "op|kernels, best first|what it does");
    for (int op = 0; op < MPT_OP_COUNT; op++) {
        const mpt_op_row *row = mpt_op_get((mpt_op)op);
        const mpt_kernel *const *tables = mpt_backend_get(MPT_DEVICE_AUTO)->tables;
        mpt_str names;
        mpt_str_init(&names, out->ctx);
        for (; *tables; tables++)
            add_kernels(&names, *tables, (mpt_op)op);
        mpt_table_cell(&table, "%s", row->name);
        mpt_table_cell(&table, "%s", names.len ? names.data : "-");
        mpt_table_cell(&table, "%s", row->summary);
        out->failed |= names.failed;
        mpt_str_deinit(&names);
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

static void list_formats(mpt_str *out) {
    int n;
    const char *const *names = mpt_format_names(&n);
    mpt_table table;
    mpt_table_init(&table, out->ctx, "format|>bits|block|scale|scale_format|outer");
    for (int i = 0; i < n; i++) {
        mpt_quantizer q;
        if (!mpt_quantizer_by_name(names[i], &q))
            continue;
        mpt_table_cell(&table, "%s", names[i]);
        mpt_table_cell(&table, "%d", mpt_dtype_bits(q.format));
        if (q.scale.kind == MPT_SCALING_NONE)
            mpt_table_cell(&table, "none");
        else if (q.block_rows == 0 && q.block_cols == 0)
            mpt_table_cell(&table, "tensor");
        else
            mpt_table_cell(&table, "%dx%d", (int)q.block_rows, (int)q.block_cols);
        mpt_table_cell(&table, "%s", mpt_plan_scale(&q));
        mpt_table_cell(&table, "%s", mpt_plan_scale_format(&q));
        mpt_table_cell(&table, "%s", mpt_plan_outer(&q));
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

mpt_status mpt_list(mpt_ctx *ctx, mpt_listing what, mpt_write_fn write, void *ud) {
    mpt_str text;
    mpt_status status = MPT_OK;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, write);
    if (what != MPT_LIST_OPS && what != MPT_LIST_FORMATS)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: no list of kind %d", __func__,
                        (int)what);
    mpt_str_init(&text, ctx);
    if (what == MPT_LIST_OPS)
        list_ops(&text);
    else
        list_formats(&text);
    if (text.failed)
        status = mpt_fail_memory(ctx, text.cap);
    else if (!write(ud, text.data, text.len))
        status = MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "the list could not be written");
    mpt_str_deinit(&text);
    return status;
}
