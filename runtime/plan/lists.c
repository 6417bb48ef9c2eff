/* What this build and this machine have: `mptrun --list-ops`, `--list-formats` and
 * `--list-devices`, made from the tables that the compiler itself reads. */
#include "plan/plan.h"

#include "base/table.h"
#include "exec/backend.h"
#include "exec/module.h"
#include "kernels/numerics_cast.h"
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

/* "NaN, Inf", as the format's codes have them. */
static const char *specials(mpt_dtype dtype) {
    if (mpt_has_inf(dtype))
        return "NaN, Inf";
    return mpt_has_nan(dtype) ? "NaN" : "none";
}

/* What a value past the largest becomes. */
static const char *overflow(mpt_dtype dtype) {
    return dtype == MPT_DTYPE_E8M0 ? "-" : mpt_is_wide(dtype) ? "Inf" : "saturates";
}

/* The smallest positive values: with a full significand, and without. */
static void smallest_cells(mpt_table *table, mpt_dtype dtype) {
    mpt_format f = mpt_format_of(dtype);
    int normal = 1 - f.bias;
    if (dtype == MPT_DTYPE_INT8 || dtype == MPT_DTYPE_E8M0) { /* evenly spaced; powers of two */
        mpt_table_cell(table, dtype == MPT_DTYPE_INT8 ? "2^-6" : "2^-127");
        mpt_table_cell(table, "-");
        return;
    }
    mpt_table_cell(table, "2^%d", normal);
    mpt_table_cell(table, "2^%d", normal - f.mantissa_bits);
}

static void list_number_formats(mpt_str *out) {
    mpt_table table;
    mpt_table_init(&table, out->ctx,
                   "number format|>bits|>exponent|>mantissa|>largest|>smallest normal|"
                   ">subnormal|has|past the largest");
    for (int d = 0; d <= MPT_DTYPE_E8M0; d++) {
        mpt_dtype dtype = (mpt_dtype)d;
        mpt_format f = mpt_format_of(dtype);
        mpt_table_cell(&table, "%s", mpt_dtype_name(dtype));
        mpt_table_cell(&table, "%d", mpt_dtype_bits(dtype));
        mpt_table_cell(&table, "%d", f.exponent_bits);
        mpt_table_cell(&table, "%d", f.mantissa_bits);
        mpt_table_cell(&table, "%.9g", (double)f.max);
        smallest_cells(&table, dtype);
        mpt_table_cell(&table, "%s", specials(dtype));
        mpt_table_cell(&table, "%s", overflow(dtype));
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

/* What each word means as an operand. */
static void list_formats(mpt_str *out) {
    int n;
    const char *const *names = mpt_format_names(&n);
    mpt_table table;
    list_number_formats(out);
    mpt_str_printf(out, "\n");
    mpt_table_init(&table, out->ctx,
                   "word|>bits|elements|block|scale|scale_format|scale_rule|outer");
    for (int i = 0; i < n; i++) {
        mpt_quantizer q;
        char block[MPT_PLAN_LABEL];
        if (!mpt_quantizer_by_name(names[i], &q))
            continue;
        mpt_plan_block(&q, block);
        mpt_table_cell(&table, "%s", names[i]);
        mpt_table_cell(&table, "%d", mpt_dtype_bits(q.format));
        mpt_table_cell(&table, "%s", mpt_dtype_name(q.format));
        mpt_table_cell(&table, "%s", block);
        mpt_table_cell(&table, "%s", mpt_plan_scale(&q));
        mpt_table_cell(&table, "%s", mpt_plan_scale_format(&q));
        mpt_table_cell(&table, "%s", mpt_plan_scale_rule(&q));
        mpt_table_cell(&table, "%s", mpt_plan_outer(&q));
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

/* "NVIDIA H200, compute capability 9.0, 139 GB", or what it lacks. */
static void gpu_cell(mpt_table *table, const mpt_module_answer *gpu) {
    static const double giga = 1e9;
    const mpt_module_device *device = &gpu->device;
    if (gpu->module)
        mpt_table_cell(table, "%s, compute capability %d.%d, %.3g GB", device->name,
                       device->major, device->minor, (double)device->memory_bytes / giga);
    else
        mpt_table_cell(table, "none: %s", gpu->why);
}

static void list_devices(mpt_str *out) {
    static const mpt_device hosts[] = {MPT_DEVICE_REF, MPT_DEVICE_CPU};
    mpt_table table;
    mpt_module_answer gpu;
    mpt_module_look(&mpt_module_cuda, out->ctx->modules, &gpu);
    mpt_table_init(&table, out->ctx, "device|auto|what it is");
    for (size_t i = 0; i < MPT_COUNT(hosts); i++) {
        const mpt_backend *backend = mpt_backend_get(hosts[i]);
        bool is_auto = hosts[i] == MPT_DEVICE_CPU && !gpu.module;
        mpt_table_cell(&table, "%s", backend->name);
        mpt_table_cell(&table, "%s", is_auto ? "yes" : "-");
        mpt_table_cell(&table, "%s", backend->summary);
    }
    mpt_table_cell(&table, "cuda");
    mpt_table_cell(&table, "%s", gpu.module ? "yes" : "-");
    gpu_cell(&table, &gpu);
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

mpt_status mpt_list(mpt_ctx *ctx, mpt_listing what, mpt_write_fn write, void *ud) {
    mpt_str text;
    mpt_status status = MPT_OK;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, write);
    if ((unsigned)what > MPT_LIST_DEVICES)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: no list of kind %d", __func__,
                        (int)what);
    mpt_str_init(&text, ctx);
    if (what == MPT_LIST_OPS)
        list_ops(&text);
    else if (what == MPT_LIST_FORMATS)
        list_formats(&text);
    else
        list_devices(&text);
    if (text.failed)
        status = mpt_fail_memory(ctx, text.cap);
    else if (!write(ud, text.data, text.len))
        status = MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "the list could not be written");
    mpt_str_deinit(&text);
    return status;
}
