/* `mptrun bench --quantizers`: how fast each quantizer is on this machine.
 *
 * Every line runs on the same matrix and writes packed codes and scales, as a file holds them.
 * Plain copies of the matrix are made in between, so that both see the same machine: the
 * fraction is the median of those of each run to the copies before and after it. */
#include "tools/bench.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "io/system.h"
#include "kernels/cpu/quantize.h"
#include "recipe/schema.h"
#include "tools/matrix.h"

/* ---- the lines ---- */

/* A quantizer by its preset and what differs, and how it is run. */
typedef struct bench_row {
    const char *name, *preset;
    mpt_rounding rounding;
    mpt_scale_rule_kind rule; /* NEAREST: the preset's */
    int32_t hadamard;
    int32_t square; /* blocks of so many rows and columns; 0: the preset's */
    bool by_row;    /* outer = "row" */
    bool fixed;     /* scale = static(1) */
    bool column;    /* the column copy */
    bool both;      /* the row copy without what is said here, and the column copy with it */
    bool bf16_in;   /* reads a BF16 matrix */
} bench_row;

#define SR .rounding = MPT_ROUNDING_STOCHASTIC
static const bench_row rows[] = {
    {.name = "bf16", .preset = "bf16"},
    {.name = "e4m3", .preset = "e4m3"},
    {.name = "e4m3_static", .preset = "e4m3", .fixed = true},
    {.name = "e4m3_sr", .preset = "e4m3", SR},
    {.name = "e4m3_bf16_in", .preset = "e4m3", .bf16_in = true},
    {.name = "e5m2", .preset = "e5m2"},
    {.name = "nvfp4", .preset = "nvfp4"},
    {.name = "nvfp4_sr", .preset = "nvfp4", SR},
    {.name = "nvfp4_2d", .preset = "nvfp4", .square = 16},
    {.name = "nvfp4_row", .preset = "nvfp4", .by_row = true},
    {.name = "nvfp4_4over6", .preset = "nvfp4", .rule = MPT_RULE_FOUR_OVER_SIX},
    {.name = "nvfp4_rht", .preset = "nvfp4", .hadamard = 16, .column = true},
    {.name = "nvfp4_rht_sr", .preset = "nvfp4", SR, .hadamard = 16, .column = true},
    {.name = "nvfp4_both", .preset = "nvfp4", SR, .hadamard = 16, .both = true},
    {.name = "nvfp4_bf16_in", .preset = "nvfp4", .bf16_in = true},
    {.name = "nvfp4_rht_sr_bf16_in",
     .preset = "nvfp4",
     SR,
     .hadamard = 16,
     .column = true,
     .bf16_in = true},
    {.name = "nvfp4_both_bf16_in",
     .preset = "nvfp4",
     SR,
     .hadamard = 16,
     .both = true,
     .bf16_in = true},
    {.name = "mxfp8", .preset = "mxfp8"},
    {.name = "mxfp8_2d", .preset = "mxfp8", .square = 32},
    {.name = "mxfp8_bf16_in", .preset = "mxfp8", .bf16_in = true},
    {.name = "mxfp6", .preset = "mxfp6"},
    {.name = "mxfp4", .preset = "mxfp4"},
    {.name = "fp8_block", .preset = "fp8_block"},
    {.name = "fp8_block_2d", .preset = "fp8_block", .square = 128},
    {.name = "e5m6", .preset = "e5m6"},
    {.name = "e3m2", .preset = "e3m2"},
    {.name = "e2m3", .preset = "e2m3"},
    {.name = "e2m1", .preset = "e2m1"},
    {.name = "int8", .preset = "int8"},
};
#undef SR
enum {
    N_ROWS = sizeof rows / sizeof rows[0],
    MOST_REPEATS = 31,
    LEAST_REPEATS = 3,
    FEW_ROWS = 32
};

static const double row_seconds = 0.6;    /* the repeats of one line, copies included */
static const double least_seconds = 3e-5; /* of what is timed at once */
static const double run_seconds = 0.1;    /* a run that takes longer is cut to fewer rows */

typedef struct bench {
    mpt_ctx *ctx;
    int64_t n_rows, n_cols;
    float *x, *y; /* the matrix, and where copies of it go */
    uint16_t *bf16;
    uint8_t *codes[2], *scales[2];
    float *scratch[2];
    const bench_row *row;
    int64_t part;       /* how many rows its runs take */
    mpt_quantizer q[2]; /* the row copy and the column copy, or one of them */
    mpt_quantize_job job[2];
    mpt_bench_line lines[N_ROWS + 1]; /* the copy first */
    double copies[N_ROWS * MOST_REPEATS];
    int n_copies;
} bench;

static size_t elements(const bench *b) {
    return (size_t)b->n_rows * (size_t)b->n_cols;
}

static double copy_bytes(const bench *b) {
    return 2.0 * sizeof(float) * (double)elements(b);
}

/* ---- the matrix ---- */

/* Values much like those of a layer: sums of random bytes, without end points in sight. */
static void fill_group(float *x, uint64_t group) {
    const mpt_random_key key = {.seed = 1};
    uint8_t bytes[4][MPT_RANDOM_GROUP];
    for (uint64_t i = 0; i < 4; i++)
        mpt_random_bytes(&key, 4 * group + i, 0, bytes[i]);
    for (int i = 0; i < MPT_RANDOM_GROUP; i++)
        x[i] = (float)(bytes[0][i] + bytes[1][i] + bytes[2][i] + bytes[3][i] - 510) * 0x1p-10f;
}

static void fill(bench *b) {
    int64_t n = (int64_t)elements(b), groups = (n + MPT_RANDOM_GROUP - 1) / MPT_RANDOM_GROUP;
#pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < groups; g++) {
        float group[MPT_RANDOM_GROUP];
        int64_t first = g * MPT_RANDOM_GROUP;
        fill_group(group, (uint64_t)g);
        for (int64_t i = first; i < n && i < first + MPT_RANDOM_GROUP; i++) {
            b->x[i] = group[i - first];
            b->bf16[i] = (uint16_t)mpt_encode(MPT_DTYPE_BF16, b->x[i]);
        }
    }
}

/* With plain stores, by all threads: what any pass over the matrix could do at best. */
static void copy(const bench *b) {
    enum { PIECE = 1 << 16 };
    int64_t n = (int64_t)(elements(b) * sizeof(float));
#pragma omp parallel for schedule(static) if (n > PIECE)
    for (int64_t at = 0; at < n; at += PIECE)
        memcpy((char *)b->y + at, (const char *)b->x + at,
               (size_t)(n - at < PIECE ? n - at : PIECE));
}

/* ---- one line ---- */

static mpt_status make_quantizer(mpt_ctx *ctx, const bench_row *row, bool plain,
                                 mpt_quantizer *q) {
    if (!mpt_quantizer_by_name(row->preset, q))
        return MPT_FAIL(ctx, MPT_INTERNAL, MPT_NOWHERE, "no quantizer '%s'", row->preset);
    if (plain)
        return MPT_OK;
    q->rounding = row->rounding;
    q->hadamard = (mpt_hadamard){.size = row->hadamard, .seed = -1};
    if (row->rule != MPT_RULE_NEAREST)
        q->scale_rule = (mpt_scale_rule){row->rule, MPT_ERROR_MAE, 256};
    if (row->square)
        q->block_rows = q->block_cols = row->square;
    if (row->by_row)
        q->outer = MPT_OUTER_ROW;
    if (row->fixed)
        q->scale = (mpt_scale_source){.kind = MPT_SCALING_STATIC, .value = 1};
    return MPT_OK;
}

static void make_job(bench *b, int i) {
    b->job[i] = (mpt_quantize_job){.q = &b->q[i],
                                   .x = b->row->bf16_in ? NULL : b->x,
                                   .x_bf16 = b->row->bf16_in ? b->bf16 : NULL,
                                   .rows = b->part,
                                   .cols = b->n_cols,
                                   .column = i == 1,
                                   .bf16 = b->row->bf16_in,
                                   .key = {.seed = 1},
                                   .codes = b->codes[i],
                                   .scales = b->scales[i]};
}

/* Whether the scales need the largest element of all, which takes a pass of its own. */
static bool takes_two_passes(const mpt_quantizer *q) {
    return q->outer == MPT_OUTER_TENSOR ||
           (q->scale.kind == MPT_SCALING_CURRENT && mpt_quantizer_is_one_scale(q));
}

static double written_bytes(const mpt_quantize_job *job) {
    mpt_tool_layout l = mpt_tool_layout_of(job);
    return (double)l.rows * (double)l.row_bytes +
           (double)l.scale_rows * (double)l.scale_cols * l.scale_bytes;
}

static double line_bytes(const bench *b, int from, int to) {
    double n = (double)b->part * (double)b->n_cols;
    if (mpt_quantizer_is_cast(&b->q[from]))
        return 2 * n * sizeof(float);
    double bytes = n * (b->row->bf16_in ? sizeof(uint16_t) : sizeof(float));
    bytes *= takes_two_passes(&b->q[from]) ? 2 : 1;
    for (int i = from; i <= to; i++)
        bytes += written_bytes(&b->job[i]);
    return bytes;
}

static void run(const bench *b) {
    const bench_row *row = b->row;
    if (row->both)
        mpt_quantize_both(&b->job[0], &b->job[1]);
    else if (mpt_quantizer_is_cast(&b->q[row->column]))
        mpt_round_copy(b->q[0].format, b->x, b->y, (size_t)b->part * (size_t)b->n_cols);
    else
        mpt_quantize_operand(&b->job[row->column]);
}

static mpt_bench_line *line_of(bench *b) {
    return &b->lines[1 + (b->row - rows)];
}

/* Makes the jobs of a line over the first `part` rows. */
static mpt_status prepare(bench *b, const bench_row *row, int64_t part) {
    int from = row->both ? 0 : row->column, to = row->both ? 1 : row->column;
    b->row = row;
    b->part = part;
    for (int i = from; i <= to; i++) {
        MPT_TRY(make_quantizer(b->ctx, row, row->both && i == 0, &b->q[i]));
        make_job(b, i);
    }
    for (int i = from; i <= to; i++) {
        size_t bytes = row->both && i == 1 ? mpt_quantize_both_scratch(&b->job[0], &b->job[1])
                                           : mpt_quantize_scratch(&b->job[i]);
        mpt_free(b->ctx, b->scratch[i]);
        b->scratch[i] = mpt_alloc(b->ctx, bytes + 1);
        if (!b->scratch[i])
            return mpt_fail_memory(b->ctx, bytes);
        b->job[i].scratch = b->scratch[i];
    }
    *line_of(b) = (mpt_bench_line){.name = row->name,
                                   .elements = (double)part * (double)b->n_cols,
                                   .bytes = line_bytes(b, from, to)};
    return MPT_OK;
}

/* ---- timing ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

/* Seconds of one call. What takes less than the clock can tell well is repeated. */
static double timed(const bench *b, void (*what)(const bench *b)) {
    double start = omp_get_wtime(), spent;
    int n = 0;
    do {
        what(b);
        n++;
        spent = omp_get_wtime() - start;
    } while (spent < least_seconds);
    return spent / n;
}

/* Copies and runs in turn, a copy last. The first of each finds cold caches and does not count.
 * What slows the machine for a while slows a run and the copies beside it alike. */
static void measure(bench *b) {
    mpt_bench_line *line = line_of(b);
    double own[MOST_REPEATS], fractions[MOST_REPEATS], spent = 0;
    int n = 0;
    run(b);
    copy(b);
    double before = timed(b, copy);
    while (n < MOST_REPEATS && (spent < row_seconds || n < LEAST_REPEATS)) {
        own[n] = timed(b, run);
        double after = timed(b, copy);
        double of_bytes = (before + after) / 2 * line->bytes / copy_bytes(b);
        fractions[n] = of_bytes / own[n];
        b->copies[b->n_copies++] = before = after;
        spent += own[n] + after;
        n++;
    }
    line->seconds = median(own, n);
    line->of_copy = median(fractions, n);
}

/* How many rows a run may take: by the time of a few. */
static mpt_status choose_part(bench *b, const bench_row *row, int64_t *out) {
    int64_t few = b->n_rows < FEW_ROWS ? b->n_rows : FEW_ROWS;
    MPT_TRY(prepare(b, row, few));
    double whole = timed(b, run) * (double)b->n_rows / (double)few;
    *out = whole > run_seconds ? (int64_t)((double)b->n_rows * run_seconds / whole) : b->n_rows;
    *out = *out < few ? few : *out;
    return MPT_OK;
}

/* Refuses before touching anything: an allocator may promise more than there is, and then the
 * system ends the program. Scratch comes on top, and is small beside the rest. */
static mpt_status check_memory(const bench *b) {
    size_t each = 2 * sizeof(float) + sizeof(uint16_t) + 2 * (2 + 1); /* as allocate() has it */
    size_t need = mpt_size_mul(elements(b), each);
    uint64_t have = mpt_system_memory();
    if (have == 0 || need <= have)
        return MPT_OK;
    return MPT_FAIL(b->ctx, MPT_OUT_OF_MEMORY, MPT_NOWHERE,
                    "to measure a matrix of %lld x %lld takes %.1f GB of memory, and %.1f GB "
                    "are free",
                    (long long)b->n_rows, (long long)b->n_cols, (double)need / 1e9,
                    (double)have / 1e9);
}

static mpt_status allocate(bench *b) {
    size_t n = elements(b), codes = mpt_size_mul(n, 2), f32 = mpt_size_mul(n, sizeof(float));
    b->x = mpt_alloc(b->ctx, f32);
    b->y = mpt_alloc(b->ctx, f32);
    b->bf16 = mpt_alloc(b->ctx, codes);
    for (int i = 0; i < 2; i++) {
        /* Padding of a rotation, and at most a scale a block of 16. */
        b->codes[i] =
            mpt_alloc(b->ctx, mpt_size_add(codes, 64 * (size_t)(b->n_rows + b->n_cols)));
        b->scales[i] = mpt_alloc(b->ctx, mpt_size_add(n, 64 * (size_t)(b->n_rows + b->n_cols)));
        if (!b->codes[i] || !b->scales[i])
            return mpt_fail_memory(b->ctx, codes);
    }
    return b->x && b->y && b->bf16 ? MPT_OK : mpt_fail_memory(b->ctx, f32);
}

static void release(bench *b) {
    mpt_free(b->ctx, b->x);
    mpt_free(b->ctx, b->y);
    mpt_free(b->ctx, b->bf16);
    for (int i = 0; i < 2; i++) {
        mpt_free(b->ctx, b->codes[i]);
        mpt_free(b->ctx, b->scales[i]);
        mpt_free(b->ctx, b->scratch[i]);
    }
}

static mpt_status run_all(bench *b) {
    MPT_TRY(check_memory(b));
    MPT_TRY(allocate(b));
    fill(b);
    for (int i = 0; i < N_ROWS; i++) {
        int64_t part;
        MPT_TRY(choose_part(b, &rows[i], &part));
        MPT_TRY(prepare(b, &rows[i], part));
        measure(b);
    }
    b->lines[0] = (mpt_bench_line){"copy", (double)elements(b), copy_bytes(b),
                                   median(b->copies, b->n_copies), 1};
    return MPT_OK;
}

mpt_status mpt_tool_bench(mpt_ctx *ctx, const mpt_bench_options *options, mpt_str *out) {
    enum { USUAL = 4096 };
    bench *b = mpt_alloc(ctx, sizeof *b);
    if (!b)
        return mpt_fail_memory(ctx, sizeof *b);
    *b = (bench){.ctx = ctx,
                 .n_rows = options->rows ? options->rows : USUAL,
                 .n_cols = options->cols ? options->cols : USUAL};
    int before = mpt_tool_set_threads(options->n_threads);
    mpt_status status = run_all(b);
    if (status == MPT_OK) {
        mpt_bench_result result = {b->n_rows, b->n_cols, b->lines, N_ROWS + 1};
        status = mpt_tool_bench_print(ctx, &result, options->json, out);
    }
    mpt_tool_set_threads(before);
    release(b);
    mpt_free(ctx, b);
    return status;
}
