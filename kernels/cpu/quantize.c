/* cpu.quantize: chooses a path for each copy and shares its rows among the threads.
 *
 * Bytes do not depend on the threads: maxima are exact in any order, random bits are keyed by
 * the element, and no block is split. What no fast path takes (packed codes, counts, other
 * fields of a quantizer, a processor without AVX2) goes the definition's way, its pieces in
 * parallel. The fast pieces are in quantize_rows.c and quantize_tiles.c. */
#include "kernels/cpu/quantize.h"

#include "kernels/cpu/simd.h"

enum { SMALL = 16384, PIECE = 16384 }; /* values: below SMALL one thread is faster */

/* ---- the definition's steps, in parallel ---- */

static void general(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    bool parallel = s.rows * s.k > SMALL;
    if (job->q->hadamard.size) {
#pragma omp parallel for schedule(static) if (parallel)
        for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
            mpt_quantize_rotate_rows(job, mpt_quantize_piece(&s, i));
    }
    mpt_quantize_amax most = {0, false, false}, seen[MPT_QUANTIZE_PIECES] = {{0}};
    if (mpt_quantize_needs_amax(job)) {
#pragma omp parallel for schedule(static) if (parallel)
        for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
            seen[i] = mpt_quantize_amax_rows(job, mpt_quantize_piece(&s, i));
    }
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_amax_merge(&most, seen[i]);
    mpt_tensor_scale tensor = mpt_quantize_tensor_scale(job, most);
    mpt_quantize_put_tensor(job, &tensor);
    mpt_quantize_counts total = {.capped = tensor.capped}, part[MPT_QUANTIZE_PIECES] = {{0}};
#pragma omp parallel for schedule(static) if (parallel)
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_block_rows(job, &tensor, mpt_quantize_piece(&s, i), &part[i]);
    for (int i = 0; i < MPT_QUANTIZE_PIECES; i++)
        mpt_quantize_counts_add(&total, &part[i]);
    if (job->counts)
        *job->counts = total;
}

/* ---- the fast paths ---- */

/* The fields that no fast path reads have the values that all of them mean. */
static bool is_plain(const mpt_quantizer *q) {
    bool scaled = q->scale.kind == MPT_SCALING_NONE || q->scale.kind == MPT_SCALING_CURRENT;
    return scaled && mpt_effective_max(1.0f, q->headroom) == 1.0f &&
           q->nonfinite == MPT_NONFINITE_PROPAGATE && q->hadamard.signs != MPT_SIGNS_RANDOM;
}

/* Decoded values, amax and factor are all that the fast paths put out. */
static bool is_decode(const mpt_quantize_job *job) {
    return !job->x_bf16 && !job->codes && !job->scales && !job->counts && !job->amax_history &&
           !job->stands_for && job->decoded && job->decoded_k == mpt_quantize_shape_of(job).k;
}

static bool is_nvfp4(const mpt_quantizer *q, int32_t block_rows) {
    return q->scale.kind == MPT_SCALING_CURRENT && q->format == MPT_DTYPE_E2M1 &&
           q->scale_format == MPT_SCALE_E4M3 && q->scale_rule.kind == MPT_RULE_NEAREST &&
           q->outer == MPT_OUTER_TENSOR && q->block_rows == block_rows && q->block_cols == 16;
}

mpt_quantize_path mpt_quantize_choose(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    bool nearest = q->rounding == MPT_ROUNDING_NEAREST, plain = q->hadamard.size == 0;
    bool random = nearest || q->rounding == MPT_ROUNDING_STOCHASTIC;
    bool wide = q->format > MPT_DTYPE_FP32 && q->format <= MPT_DTYPE_FP16;
    bool fp8 = q->format == MPT_DTYPE_E4M3 || q->format == MPT_DTYPE_E5M2;
    if (!mpt_cpu_has_avx2() || !is_plain(q) || !is_decode(job))
        return MPT_QUANTIZE_GENERAL;
    if (q->scale.kind == MPT_SCALING_NONE && wide && nearest && plain && !job->amax)
        return MPT_QUANTIZE_CAST;
    if (fp8 && nearest && plain && q->scale.kind == MPT_SCALING_CURRENT &&
        mpt_quantizer_is_one_scale(q))
        return MPT_QUANTIZE_SCALED;
    if (is_nvfp4(q, 1) && random && plain && !job->column)
        return MPT_QUANTIZE_ROWS;
    if (is_nvfp4(q, 1) && random && (plain || q->hadamard.size == 16) && job->column)
        return MPT_QUANTIZE_COLUMNS;
    if (is_nvfp4(q, 16) && plain && nearest)
        return MPT_QUANTIZE_SQUARE;
    return MPT_QUANTIZE_GENERAL;
}

#ifdef MPT_HAS_X86

static mpt_quantize_amax finite(uint32_t most) {
    return (mpt_quantize_amax){most, false, false};
}

static uint32_t amax_flat(const float *x, size_t n) {
    uint32_t most = 0;
#pragma omp parallel for schedule(static) reduction(max : most) if (n > SMALL)
    for (size_t at = 0; at < n; at += PIECE) {
        uint32_t a = mpt_avx2_amax(x + at, n - at < PIECE ? n - at : PIECE);
        most = a > most ? a : most;
    }
    return most;
}

static uint32_t amax_columns(const mpt_quantize_job *job) {
    uint32_t most = 0;
#pragma omp parallel for schedule(static) reduction(max                                        \
                                                    : most) if (job->rows * job->cols > SMALL)
    for (int64_t r = 0; r < job->rows; r += 16) {
        uint32_t a = mpt_avx2_columns_amax(job, r);
        most = a > most ? a : most;
    }
    return most;
}

static void scaled(const mpt_quantize_job *job, float scale) {
    size_t n = (size_t)job->rows * (size_t)job->cols;
#pragma omp parallel for schedule(static) if (n > SMALL)
    for (size_t at = 0; at < n; at += PIECE)
        mpt_avx2_scaled(job->q->format, job->x + at, job->decoded + at,
                        n - at < PIECE ? n - at : PIECE, scale);
}

static void fast(const mpt_quantize_job *job, mpt_quantize_path path) {
    int64_t n = job->rows * job->cols;
    bool rotated = path == MPT_QUANTIZE_COLUMNS && job->q->hadamard.size;
    uint32_t most = rotated ? amax_columns(job) : amax_flat(job->x, (size_t)n);
    mpt_tensor_scale tensor = mpt_quantize_tensor_scale(job, finite(most));
    mpt_quantize_put_tensor(job, &tensor);
    if (path == MPT_QUANTIZE_SCALED) {
        scaled(job, tensor.scale);
        return;
    }
    int64_t step = path == MPT_QUANTIZE_ROWS ? 1 : 16;
#pragma omp parallel for schedule(static) if (n > SMALL)
    for (int64_t r = 0; r < job->rows; r += step) {
        if (path == MPT_QUANTIZE_ROWS)
            mpt_avx2_row(job, &tensor.outer, r);
        else if (path == MPT_QUANTIZE_SQUARE)
            mpt_avx2_square(job, &tensor.outer, r);
        else
            mpt_avx2_columns(job, &tensor.outer, r);
    }
}
#endif

void mpt_quantize_operand(const mpt_quantize_job *job) {
    mpt_quantize_path path = mpt_quantize_choose(job);
    if (path == MPT_QUANTIZE_GENERAL) {
        general(job);
    } else if (path == MPT_QUANTIZE_CAST) {
        mpt_round_copy(job->q->format, job->x, job->decoded,
                       (size_t)job->rows * (size_t)job->cols);
        mpt_tensor_scale one = mpt_quantize_tensor_scale(job, (mpt_quantize_amax){0});
        mpt_quantize_put_tensor(job, &one);
    } else {
#ifdef MPT_HAS_X86
        fast(job, path);
#endif
    }
}

void mpt_quantize_both(const mpt_quantize_job *row, const mpt_quantize_job *col) {
    mpt_quantize_both_by(row, col, mpt_quantize_operand);
}

/* ---- the graph node ---- */

/* Only the general path keeps rotated values. */
static size_t scratch(const mpt_quantize_job *job) {
    mpt_quantize_job wanted = *job;
    float any;
    wanted.decoded = &any;
    wanted.decoded_k = mpt_quantize_shape_of(job).k;
    return mpt_quantize_choose(&wanted) == MPT_QUANTIZE_GENERAL ? mpt_quantize_scratch(job) : 0;
}

static const mpt_quantize_backend backend = {mpt_quantize_operand, mpt_quantize_both, scratch};

void mpt_cpu_quantize(const mpt_kernel_args *args) {
    mpt_quantize_node(args, &backend);
}

size_t mpt_cpu_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    return mpt_quantize_node_scratch(graph, node, &backend);
}
