/* `mptrun quantize`: every floating tensor of a file, quantized into another file.
 *
 * First the whole output is laid out (which tensors, their types and shapes) and created at its
 * full size; then one tensor after the other is decoded, quantized straight into the mapped
 * output, and decoded again from its codes. Memory holds one tensor at a time. The output gets
 * its name at the end. */
#include <string.h>

#include "tools/losses.h"

enum { OUTPUTS = 4 }; /* of one tensor, at most */

/* One tensor of the input and where its results go: indices of specs, -1 where it has none. */
typedef struct item {
    const mpt_stored_tensor *tensor;
    mpt_quantizer q;
    mpt_tool_layout layout;
    int codes, scales, amax, dequantized;
} item;

typedef struct quantizing {
    mpt_ctx *ctx;
    const mpt_tool_format *format;
    const mpt_quantize_options *options;
    mpt_tool_key key;
    mpt_arena arena; /* items, specs and their names */
    mpt_safetensors *in;
    mpt_safetensors_writer *writer;
    item *items;
    int n_items;
    mpt_tensor_spec *specs;
    int n_specs;
    float *room, *scratch, *row_scratch, *factor; /* for the largest tensor */
    mpt_quantize_counts counts;
    double packed_bits; /* of all elements: codes without gaps, scales and amax */
    mpt_quantize_summary summary;
} quantizing;

static bool is_wide(const item *it) {
    return it->q.scale.kind == MPT_SCALING_NONE;
}

/* The column copy of a column copy's own row copy: source = "dequantized". */
static bool goes_through_rows(const item *it, const mpt_tool_key *key) {
    return key->column && it->q.source == MPT_SOURCE_DEQUANTIZED && !is_wide(it);
}

/* ---- the layout of the output ---- */

/* The next spec, "TENSOR.suffix"; its index, or -1 without memory for the name. */
static int add_spec(quantizing *z, const mpt_stored_tensor *tensor, const char *suffix,
                    mpt_tensor_type type) {
    mpt_tensor_spec *spec = &z->specs[z->n_specs];
    *spec = (mpt_tensor_spec){.type = type};
    spec->name = mpt_arena_printf(&z->arena, "%s.%s", tensor->name, suffix);
    return spec->name ? z->n_specs++ : -1;
}

static void set_dims(quantizing *z, int spec, int rank, int64_t first, int64_t second) {
    if (spec < 0)
        return;
    z->specs[spec].rank = rank;
    z->specs[spec].dims[0] = first;
    z->specs[spec].dims[1] = second;
}

/* Lays out the results of one tensor. */
static mpt_status add_outputs(quantizing *z, item *it) {
    const mpt_tool_layout *l = &it->layout;
    const mpt_stored_tensor *t = it->tensor;
    bool two_bytes = l->row_bytes > l->k;
    it->codes = it->scales = it->amax = -1;
    int before = z->n_specs, wanted = 1;
    if (!is_wide(it)) {
        it->codes = add_spec(z, t, "codes", two_bytes ? MPT_TENSOR_U16 : MPT_TENSOR_U8);
        set_dims(z, it->codes, 2, l->rows, two_bytes ? l->k : l->row_bytes);
        it->scales =
            add_spec(z, t, "scales", l->scale_bytes == 1 ? MPT_TENSOR_U8 : MPT_TENSOR_F32);
        set_dims(z, it->scales, 2, l->scale_rows, l->scale_cols);
        wanted += 2;
    }
    if (l->n_amax > 0) {
        it->amax = add_spec(z, t, "amax", MPT_TENSOR_F32);
        set_dims(z, it->amax, 1, l->n_amax, 0);
        wanted++;
    }
    it->dequantized = add_spec(z, t, "dequantized", MPT_TENSOR_F32);
    if (z->n_specs != before + wanted)
        return MPT_OUT_OF_MEMORY; /* the arena has said so */
    z->specs[it->dequantized].rank = t->rank;
    memcpy(z->specs[it->dequantized].dims, t->dims, sizeof t->dims);
    return MPT_OK;
}

static uint64_t output_bytes(const item *it) {
    const mpt_tool_layout *l = &it->layout;
    if (is_wide(it))
        return (uint64_t)it->tensor->elements * (uint64_t)mpt_dtype_bits(it->q.format) / 8;
    return (uint64_t)(l->rows * l->row_bytes + l->scale_rows * l->scale_cols * l->scale_bytes +
                      l->n_amax * (int64_t)sizeof(float));
}

static mpt_status add_item(quantizing *z, const mpt_stored_tensor *tensor) {
    item *it = &z->items[z->n_items];
    it->tensor = tensor;
    MPT_TRY(mpt_tool_fit(z->ctx, z->format, tensor, z->key.column, &it->q));
    mpt_quantize_job job = mpt_tool_job(&it->q, tensor, &z->key);
    it->layout = mpt_tool_layout_of(&job);
    z->n_items++;
    z->summary.n_tensors++;
    z->summary.n_elements += tensor->elements;
    z->summary.bytes_in += tensor->bytes;
    z->summary.bytes_out += output_bytes(it);
    z->packed_bits += mpt_tool_bits(&job) * (double)tensor->elements;
    return add_outputs(z, it);
}

static mpt_status lay_out(quantizing *z, const char *path) {
    size_t n = (size_t)mpt_safetensors_count(z->in);
    z->items = mpt_arena_alloc(&z->arena, mpt_size_mul(n, sizeof *z->items));
    z->specs = mpt_arena_alloc(&z->arena, mpt_size_mul(n, OUTPUTS * sizeof *z->specs));
    if (!z->items || !z->specs)
        return MPT_OUT_OF_MEMORY; /* the arena has said so */
    for (int i = 0; i < (int)n; i++) {
        const mpt_stored_tensor *tensor = mpt_safetensors_at(z->in, i);
        if (mpt_tool_takes(tensor))
            MPT_TRY(add_item(z, tensor));
        else
            z->summary.n_skipped++;
    }
    if (z->n_items > 0)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(z->ctx, MPT_DATA, ((mpt_where){path, 0}),
                 n == 1 ? "its one tensor has no elements of a floating type"
                        : "none of the %zu tensors has elements of a floating type",
                 n);
    mpt_hint(z->ctx, "F64, F32, F16, BF16, F8_E4M3 and F8_E5M2 are quantized");
    return status;
}

/* Neither the file, an index, nor one of its shards is written over. */
static mpt_status check_output(const quantizing *z, const char *out) {
    if (!mpt_safetensors_reads(z->in, out))
        return MPT_OK;
    mpt_status status = MPT_FAIL(z->ctx, MPT_INVALID, ((mpt_where){out, 0}),
                                 "the output is the input, its index or a shard of it");
    mpt_hint(z->ctx, "name another output");
    return status;
}

static mpt_status create(quantizing *z, const char *out) {
    const char *metadata[] = {"format",     "mpt",
                              "quantizer",  z->format->text,
                              "columnwise", z->key.column ? "true" : "false",
                              NULL};
    return mpt_safetensors_create(z->ctx, out, z->specs, z->n_specs, metadata, &z->writer);
}

/* ---- the work ---- */

static size_t largest(size_t a, size_t b) {
    return a > b ? a : b;
}

/* What the job of an item's own row copy looks like, where the column copy is made from it. */
static mpt_quantize_job row_job(const quantizing *z, const item *it) {
    mpt_tool_key key = z->key;
    key.column = false;
    return mpt_tool_job(&it->q, it->tensor, &key);
}

static mpt_status allocate(quantizing *z) {
    size_t x = 1, scratch = 1, rows = 1, factor = 1; /* nothing of size 0 is asked for */
    for (int i = 0; i < z->n_items; i++) {
        const item *it = &z->items[i];
        mpt_quantize_job job = mpt_tool_job(&it->q, it->tensor, &z->key), row = row_job(z, it);
        x = largest(x, mpt_tool_room(it->tensor, it->tensor->elements));
        factor = largest(factor, (size_t)it->layout.rows * sizeof(float));
        if (goes_through_rows(it, &z->key)) {
            rows = largest(rows, mpt_quantize_scratch(&row));
            scratch = largest(scratch, mpt_quantize_both_scratch(&row, &job));
        } else {
            scratch = largest(scratch, mpt_quantize_scratch(&job));
        }
    }
    z->room = mpt_alloc(z->ctx, x);
    z->scratch = mpt_alloc(z->ctx, scratch);
    z->row_scratch = mpt_alloc(z->ctx, rows);
    z->factor = mpt_alloc(z->ctx, 2 * factor); /* and an amax that the file does not hold */
    if (z->room && z->scratch && z->row_scratch && z->factor)
        return MPT_OK;
    return mpt_fail_memory(z->ctx, mpt_size_add(mpt_size_add(x, scratch), rows));
}

static void run(const quantizing *z, const item *it, const mpt_quantize_job *job) {
    bool ref = z->options->device == MPT_DEVICE_REF;
    if (goes_through_rows(it, &z->key)) {
        mpt_quantize_job row = row_job(z, it);
        row.x = job->x;
        row.x_bf16 = job->x_bf16;
        row.scratch = z->row_scratch;
        (ref ? mpt_ref_quantize_both : mpt_quantize_both)(&row, job);
    } else {
        (ref ? mpt_ref_quantize_operand : mpt_quantize_operand)(job);
    }
}

static void *data_of(const quantizing *z, int spec) {
    return spec < 0 ? NULL : mpt_safetensors_data(z->writer, spec);
}

static void quantize_one(quantizing *z, const item *it) {
    mpt_quantize_counts counts = {.elements = 0};
    mpt_quantize_job job = mpt_tool_job(&it->q, it->tensor, &z->key);
    float *dequantized = data_of(z, it->dequantized), *amax = data_of(z, it->amax);
    mpt_tool_values values = mpt_tool_load(it->tensor, 0, it->tensor->elements, z->room);
    job.x = values.x;
    job.x_bf16 = values.bf16;
    job.scratch = z->scratch;
    job.codes = data_of(z, it->codes);
    job.scales = data_of(z, it->scales);
    job.factor = z->factor;
    job.amax = amax ? amax : z->factor + it->layout.rows;
    job.counts = &counts;
    if (is_wide(it)) {
        job.decoded = dequantized;
        job.decoded_k = job.column ? job.rows : job.cols;
    }
    run(z, it, &job);
    if (!is_wide(it))
        mpt_dequantize(&job, dequantized);
    mpt_quantize_counts_add(&z->counts, &counts);
    mpt_tool_losses losses = mpt_tool_losses_of(it->tensor, &values, dequantized);
    mpt_tool_losses_note(z->ctx, it->tensor, &losses, counts.amax, !is_wide(it));
    z->summary.n_nonfinite += losses.nonfinite;
    z->summary.n_became_nonfinite += losses.became;
}

static mpt_status report(const quantizing *z, const char *tensor, uint64_t done) {
    const mpt_quantize_options *o = z->options;
    if (!o->progress || o->progress(o->progress_ud, tensor, done, z->summary.bytes_in))
        return MPT_OK;
    return MPT_FAIL(z->ctx, MPT_INTERRUPTED, MPT_NOWHERE, "stopped by the host");
}

static mpt_status quantize_all(quantizing *z) {
    uint64_t done = 0;
    MPT_TRY(allocate(z));
    for (int i = 0; i < z->n_items; i++) {
        MPT_TRY(report(z, z->items[i].tensor->name, done));
        quantize_one(z, &z->items[i]);
        done += z->items[i].tensor->bytes;
    }
    MPT_TRY(report(z, NULL, done));
    z->summary.sqnr = mpt_quantize_sqnr(&z->counts);
    z->summary.n_overflow = z->counts.overflow;
    z->summary.n_underflow = z->counts.underflow;
    z->summary.packed_bits = z->packed_bits / (double)z->summary.n_elements;
    return MPT_OK;
}

static mpt_status run_stages(quantizing *z, const char *in, const char *out) {
    MPT_TRY(mpt_safetensors_open(z->ctx, in, &z->in));
    MPT_TRY(check_output(z, out));
    MPT_TRY(lay_out(z, in));
    MPT_TRY(create(z, out));
    MPT_TRY(quantize_all(z));
    mpt_safetensors_writer *writer = z->writer;
    z->writer = NULL;
    return mpt_safetensors_commit(writer);
}

mpt_status mpt_tool_quantize(mpt_ctx *ctx, const mpt_tool_format *format, const char *in,
                             const char *out, const mpt_quantize_options *options,
                             mpt_quantize_summary *out_summary) {
    quantizing z = {.ctx = ctx, .format = format, .options = options};
    z.key = (mpt_tool_key){options->seed, options->step, options->columnwise};
    mpt_arena_init(&z.arena, ctx);
    int before = mpt_tool_set_threads(options->n_threads);
    mpt_status status = run_stages(&z, in, out);
    mpt_tool_set_threads(before);
    if (status == MPT_OK && out_summary)
        *out_summary = z.summary;
    mpt_safetensors_abandon(z.writer);
    mpt_safetensors_close(z.in);
    mpt_free(ctx, z.room);
    mpt_free(ctx, z.scratch);
    mpt_free(ctx, z.row_scratch);
    mpt_free(ctx, z.factor);
    mpt_arena_deinit(&z.arena);
    return status;
}
