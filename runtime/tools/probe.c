/* `mptrun probe`: what each format would do to each weight matrix of a checkpoint.
 *
 * A matrix is read twice, in strips of rows, so that memory does not grow with it: first for
 * its largest magnitude, then each strip is quantized once a format with no output but the
 * counts of the quantizer itself. Next: probe_judge.c, then probe_text.c or probe_json.c. */
#include "tools/probe.h"

#include <math.h>
#include <string.h>

typedef struct probing {
    mpt_probe p;
    const mpt_probe_options *options;
    float *room, *scratch;  /* for the largest strip */
    mpt_tool_values values; /* of the strip at hand */
    mpt_tool_seen seen;     /* of the matrix at hand */
    uint64_t bytes;         /* of all matrices */
} probing;

/* ---- which tensors ---- */

static const char *plain_name(mpt_arena *arena, const char *name) {
    size_t size = mpt_size_add(mpt_size_mul(4, strlen(name)), 8);
    char *plain = mpt_arena_alloc(arena, size);
    if (plain)
        mpt_plain(plain, size, name);
    return plain;
}

static mpt_status add_line(probing *z, const mpt_stored_tensor *tensor) {
    mpt_probe_line *line = &z->p.lines[z->p.n_lines++];
    line->tensor = tensor;
    z->bytes += tensor->bytes;
    line->cells =
        mpt_arena_alloc(&z->p.arena, mpt_size_mul((size_t)z->p.n_formats, sizeof *line->cells));
    line->name = plain_name(&z->p.arena, tensor->name);
    return line->cells && line->name ? MPT_OK : MPT_OUT_OF_MEMORY; /* the arena has said so */
}

static mpt_status choose(probing *z, const char *path) {
    int n = mpt_safetensors_count(z->p.file);
    z->p.lines = mpt_arena_alloc(&z->p.arena, mpt_size_mul((size_t)n + 1, sizeof *z->p.lines));
    if (!z->p.lines)
        return MPT_OUT_OF_MEMORY; /* the arena has said so */
    for (int i = 0; i < n; i++) {
        const mpt_stored_tensor *tensor = mpt_safetensors_at(z->p.file, i);
        if (!mpt_tool_takes(tensor))
            z->p.n_others++;
        else if (tensor->rank < 2)
            z->p.n_vectors++;
        else
            MPT_TRY(add_line(z, tensor));
    }
    if (z->p.n_lines > 0)
        return MPT_OK;
    return MPT_FAIL(z->p.ctx, MPT_DATA, ((mpt_where){path, 0}),
                    "none of the %d tensors is a matrix of a floating type", n);
}

/* ---- measuring ---- */

static mpt_quantize_job job_of(const probing *z, const mpt_quantizer *q,
                               const mpt_stored_tensor *tensor) {
    return mpt_tool_job(q, tensor, &(mpt_tool_key){.seed = z->options->seed});
}

/* Rows first to first + rows - 1 of a matrix. */
typedef struct strip {
    int64_t first, rows;
} strip;

enum {
    STRIP = 1 << 20,  /* values */
    STRIP_ROWS = 128, /* no block is cut: theirs divide it */
};

/* Whether a format makes of a strip what it makes of those rows of the whole matrix, once it is
 * told the largest magnitude. Random bits are counted from the first row, rotated values have a
 * magnitude of their own, and one block may be all there is. */
static bool goes_by_strips(const mpt_quantizer *q) {
    bool whole_block = q->block_rows == 0 && !mpt_quantizer_is_one_scale(q);
    bool of_tensor = mpt_quantizer_is_one_scale(q) || q->outer == MPT_OUTER_TENSOR;
    return q->rounding != MPT_ROUNDING_STOCHASTIC && !(q->hadamard.size && of_tensor) &&
           !(q->scale.kind != MPT_SCALING_NONE && whole_block);
}

/* Rows of a strip of the tensor: as many as there are where a format does not go by strips. */
static int64_t strip_rows(const probing *z, const mpt_stored_tensor *tensor) {
    mpt_quantize_job job = job_of(z, &z->p.formats[0].q, tensor);
    int64_t rows = STRIP / job.cols / STRIP_ROWS * STRIP_ROWS;
    rows = rows > STRIP_ROWS ? rows : STRIP_ROWS;
    for (int f = 0; f < z->p.n_formats; f++)
        if (!goes_by_strips(&z->p.formats[f].q))
            return job.rows;
    return rows < job.rows ? rows : job.rows;
}

static mpt_status allocate(probing *z) {
    size_t x = 1, scratch = 1; /* nothing of size 0 is asked for */
    for (int i = 0; i < z->p.n_lines; i++) {
        const mpt_stored_tensor *tensor = z->p.lines[i].tensor;
        int64_t rows = strip_rows(z, tensor);
        for (int f = 0; f < z->p.n_formats; f++) {
            mpt_quantize_job job = job_of(z, &z->p.formats[f].q, tensor);
            job.rows = rows;
            size_t bytes = mpt_quantize_scratch(&job);
            scratch = bytes > scratch ? bytes : scratch;
            bytes = mpt_tool_room(tensor, rows * job.cols);
            x = bytes > x ? bytes : x;
        }
    }
    z->room = mpt_alloc(z->p.ctx, x);
    z->scratch = mpt_alloc(z->p.ctx, scratch);
    return z->room && z->scratch ? MPT_OK : mpt_fail_memory(z->p.ctx, mpt_size_add(x, scratch));
}

/* How many finite values of x a format turns into NaN or Inf: `counts` does not say. */
static mpt_status count_destroyed(const probing *z, mpt_quantize_job *job, uint64_t *out) {
    int64_t k = mpt_quantizer_extent(job->q, job->cols);
    size_t bytes = mpt_size_mul(mpt_size_mul((size_t)job->rows, (size_t)k), sizeof(float));
    const mpt_tool_values *x = &z->values;
    job->counts = NULL;
    job->stands_for = mpt_alloc(z->p.ctx, bytes);
    if (!job->stands_for)
        return mpt_fail_memory(z->p.ctx, bytes);
    mpt_quantize_operand(job);
    for (int64_t r = 0; r < job->rows; r++)
        for (int64_t i = 0; i < job->cols; i++)
            *out += !mpt_is_finite(job->stands_for[r * k + i]) &&
                    mpt_is_finite(mpt_tool_value(x, r * job->cols + i));
    mpt_free(z->p.ctx, job->stands_for);
    return MPT_OK;
}

static mpt_status measure(probing *z, const mpt_probe_line *line, int f, const strip *part) {
    mpt_probe_cell *cell = &line->cells[f];
    mpt_quantize_counts counts;
    mpt_quantizer q;
    MPT_TRY(mpt_tool_fit(z->p.ctx, &z->p.formats[f], line->tensor, false, &q));
    mpt_quantize_job job = job_of(z, &q, line->tensor);
    cell->bits = mpt_tool_bits(&job);
    job.whole = part->rows < job.rows ? &z->seen.most : NULL;
    job.rows = part->rows;
    job.x = z->values.x;
    job.x_bf16 = z->values.bf16;
    job.scratch = z->scratch;
    job.counts = &counts;
    mpt_quantize_operand(&job);
    mpt_quantize_counts_add(&cell->counts, &counts);
    if (line->nonfinite || counts.nonfinite || !isfinite(counts.noise))
        MPT_TRY(count_destroyed(z, &job, &cell->destroyed));
    return MPT_OK;
}

static mpt_status report(const probing *z, const char *tensor, uint64_t done) {
    const mpt_probe_options *o = z->options;
    if (!o->progress || o->progress(o->progress_ud, tensor, done, z->bytes))
        return MPT_OK;
    return MPT_FAIL(z->p.ctx, MPT_INTERRUPTED, MPT_NOWHERE, "stopped by the host");
}

static void load(probing *z, const mpt_stored_tensor *tensor, const strip *part) {
    int64_t cols = tensor->dims[tensor->rank - 1];
    z->values = mpt_tool_load(tensor, part->first * cols, part->rows * cols, z->room);
}

/* The strip from that row on; none is left where it has no rows. */
static strip strip_at(const mpt_stored_tensor *tensor, int64_t first, int64_t rows) {
    int64_t left = tensor->elements / tensor->dims[tensor->rank - 1] - first;
    return (strip){first, rows < left ? rows : left};
}

/* Both passes over a matrix, with `done` bytes before it. */
static mpt_status measure_line(probing *z, mpt_probe_line *line, uint64_t done) {
    const mpt_stored_tensor *tensor = line->tensor;
    int64_t rows = strip_rows(z, tensor), cols = tensor->dims[tensor->rank - 1];
    uint64_t row_bytes = tensor->bytes / (uint64_t)(tensor->elements / cols);
    z->seen = (mpt_tool_seen){.nonfinite = 0};
    for (strip s = strip_at(tensor, 0, rows); s.rows > 0;
         s = strip_at(tensor, s.first + s.rows, rows)) {
        MPT_TRY(report(z, line->name, done));
        load(z, tensor, &s);
        mpt_tool_see(&z->values, s.rows * cols, &z->seen);
    }
    line->amax = mpt_bits_float(z->seen.most.finite);
    line->nonfinite = z->seen.nonfinite;
    for (strip s = strip_at(tensor, 0, rows); s.rows > 0;
         s = strip_at(tensor, s.first + s.rows, rows)) {
        if (s.first)
            MPT_TRY(report(z, line->name, done + row_bytes * (uint64_t)s.first));
        load(z, tensor, &s);
        for (int f = 0; f < z->p.n_formats; f++)
            MPT_TRY(measure(z, line, f, &s));
    }
    return MPT_OK;
}

static void add_to_total(mpt_probe_cell *total, const mpt_probe_cell *cell, double elements) {
    mpt_quantize_counts counts = cell->counts;
    if (!isfinite(counts.noise)) /* one matrix must not hide what the others are */
        counts.signal = counts.noise = 0;
    mpt_quantize_counts_add(&total->counts, &counts);
    total->bits += cell->bits * elements; /* divided at the end */
}

static mpt_status measure_all(probing *z) {
    uint64_t done = 0;
    double elements = 0;
    MPT_TRY(allocate(z));
    for (int i = 0; i < z->p.n_lines; i++) {
        mpt_probe_line *line = &z->p.lines[i];
        double n = (double)line->tensor->elements;
        MPT_TRY(measure_line(z, line, done));
        for (int f = 0; f < z->p.n_formats; f++) {
            mpt_probe_settle(line, &line->cells[f]);
            add_to_total(&z->p.total[f], &line->cells[f], n);
        }
        done += line->tensor->bytes;
        elements += n;
    }
    for (int f = 0; f < z->p.n_formats; f++) {
        z->p.total[f].sqnr = mpt_quantize_sqnr(&z->p.total[f].counts);
        z->p.total[f].bits /= elements;
    }
    return report(z, NULL, done);
}

static mpt_status run_stages(probing *z, const char *weights, mpt_str *out) {
    MPT_TRY(mpt_safetensors_open(z->p.ctx, weights, &z->p.file));
    MPT_TRY(choose(z, weights));
    MPT_TRY(measure_all(z));
    MPT_TRY(mpt_probe_judge(&z->p));
    if (z->options->json)
        return mpt_probe_json(&z->p, out);
    mpt_probe_text(&z->p, out);
    return MPT_OK;
}

mpt_status mpt_tool_probe(mpt_ctx *ctx, const mpt_tool_format *formats, int n_formats,
                          const char *weights, const mpt_probe_options *options, mpt_str *out) {
    probing *z = mpt_alloc(ctx, sizeof *z);
    if (!z)
        return mpt_fail_memory(ctx, sizeof *z);
    z->p.ctx = ctx;
    z->p.formats = formats;
    z->p.n_formats = n_formats;
    z->options = options;
    z->p.width = options->width;
    mpt_arena_init(&z->p.arena, ctx);
    int before = mpt_tool_set_threads(options->n_threads);
    mpt_status status = run_stages(z, weights, out);
    mpt_tool_set_threads(before);
    mpt_safetensors_close(z->p.file);
    mpt_free(ctx, z->room);
    mpt_free(ctx, z->scratch);
    mpt_arena_deinit(&z->p.arena);
    mpt_free(ctx, z);
    return status;
}
