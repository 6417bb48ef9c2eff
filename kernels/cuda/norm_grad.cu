/* The gradients of rmsnorm, layernorm and gated_rmsnorm.
 *
 * A team takes one slice of a piece of the rows, so that the sums for weight and bias over them
 * stay in registers too; fold.h adds the pieces up. Bound by memory. */
#include "kernels/cuda/fold.h"
#include "kernels/cuda/norm.h"

/* One slice of one row: the kept inputs, and what was summed up over it. Not all fit in the
 * registers: a gated norm's three are read again, and a layernorm's dy where a block is large.
 */
template <norm_kind KIND, int THREADS, int VECTORS> struct norm_row {
    static const bool KEPT = VECTORS > 0 && KIND != NORM_GATED;
    norm_slice<VECTORS, KEPT> x, z;
    norm_slice<VECTORS, KEPT && (KIND == NORM_RMS || THREADS < 512)> dy;
    float mean, r;
    float shift, dot; /* means of dy w and of dy w unit(x), as dx loses them */
};

template <norm_kind KIND, int THREADS, int VECTORS>
static __device__ __forceinline__ void norm_measure(const norm_job &k, int64_t at,
                                                    int64_t feature,
                                                    norm_row<KIND, THREADS, VECTORS> *row) {
    float squares = 0, shift = 0, dot = 0, none = 0, n = (float)k.n;
    row->mean = KIND == NORM_LAYER ? norm_mean<THREADS>(k, at, &row->x) : 0;
    NORM_EACH(j, c) {
        int64_t left = k.n - c;
        gpu_vector v = KIND == NORM_LAYER ? row->x.again(k.x, j, at + c, left)
                                          : row->x.first(k.x, j, at + c, left);
        gpu_vector w = norm_load<VECTORS>(k.w, feature + c, left);
        gpu_vector dy = row->dy.first(k.dy, j, at + c, left);
        if (KIND == NORM_GATED)
            norm_gate(&v, row->z.first(k.z, j, at + c, left));
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++) {
            float d = i < left ? v.v[i] - row->mean : 0, g = dy.v[i] * w.v[i];
            squares += d * d;
            dot += g * d;
            shift += g;
        }
    }
    gpu_team<THREADS>::sum(&squares, &dot);
    if (KIND == NORM_LAYER)
        gpu_team<THREADS>::sum(&shift, &none);
    row->r = 1.0f / sqrtf(squares / n + k.eps);
    row->shift = KIND == NORM_LAYER ? shift / n : 0;
    row->dot = dot * row->r / n;
}

/* The gradient of a gated product from that of the product. */
template <int VECTORS>
static __device__ __forceinline__ void norm_ungate(const norm_job &k, int64_t at, int64_t left,
                                                   const gpu_vector &x, const gpu_vector &z,
                                                   gpu_vector *dv) {
    gpu_vector dz;
    GPU_UNROLL
    for (int i = 0; i < GPU_VECTOR; i++) {
        float s = sigmoid(z.v[i]);
        dz.v[i] = dv->v[i] * x.v[i] * (s * (1.0f + z.v[i] * (1.0f - s)));
        dv->v[i] *= z.v[i] * s;
    }
    norm_store<VECTORS>(k.dz, at, left, dz);
}

/* Adds into the team's partial sums, where they are not kept in registers. */
static __device__ __forceinline__ void norm_add(float *to, const gpu_vector &x, int64_t left) {
    for (int i = 0; i < GPU_VECTOR && i < left; i++)
        to[i] += x.v[i];
}

template <norm_kind KIND, int THREADS, int VECTORS>
static __device__ __forceinline__ void
norm_row_grad(const norm_job &k, int64_t at, int64_t feature,
              norm_row<KIND, THREADS, VECTORS> *row, gpu_vector *dw, gpu_vector *db) {
    NORM_EACH(j, c) {
        int64_t left = k.n - c;
        gpu_vector x = row->x.again(k.x, j, at + c, left), v = x, z, unit;
        gpu_vector dy = row->dy.again(k.dy, j, at + c, left);
        gpu_vector w = norm_load<VECTORS>(k.w, feature + c, left);
        if (KIND == NORM_GATED) {
            z = row->z.again(k.z, j, at + c, left);
            norm_gate(&v, z);
        }
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++) {
            unit.v[i] = (v.v[i] - row->mean) * row->r;
            v.v[i] = row->r * (dy.v[i] * w.v[i] - row->shift - unit.v[i] * row->dot);
            unit.v[i] *= dy.v[i];
            if (VECTORS)
                dw[j].v[i] += unit.v[i];
            if (VECTORS && KIND == NORM_LAYER)
                db[j].v[i] += dy.v[i];
        }
        if (!VECTORS && left > 0)
            norm_add(k.dw + feature + c, unit, left);
        if (!VECTORS && left > 0 && k.db)
            norm_add(k.db + feature + c, dy, left);
        if (KIND == NORM_GATED)
            norm_ungate<VECTORS>(k, at + c, left, x, z, &v);
        norm_store<VECTORS>(k.dx, at + c, left, v);
    }
}

template <norm_kind KIND, int THREADS, int VECTORS>
static __global__ void __launch_bounds__(gpu_team<THREADS>::BLOCK, 1)
    norm_grad_kernel(norm_job k) {
    int64_t team = gpu_team<THREADS>::index();
    if (team >= k.n_pieces * k.n_groups)
        return;
    int64_t group = team % k.n_groups, piece = team / k.n_groups, feature = group * k.n;
    int64_t end = gpu_piece(k.n_rows, k.n_pieces, piece + 1);
    gpu_vector dw[VECTORS ? VECTORS : 1] = {}, db[VECTORS ? VECTORS : 1] = {};
    k.dw += piece * k.stride;
    k.db = KIND == NORM_LAYER && k.db ? k.db + piece * k.stride : NULL;
    gpu_tensor to = gpu_scratch(k.dw), to_bias = gpu_scratch(k.db);
    if (!VECTORS)
        NORM_EACH(j, c) {
            norm_store<VECTORS>(to, feature + c, k.n - c, dw[0]);
            if (k.db)
                norm_store<VECTORS>(to_bias, feature + c, k.n - c, db[0]);
        }
    for (int64_t t = gpu_piece(k.n_rows, k.n_pieces, piece); t < end; t++) {
        int64_t at = (t * k.n_groups + group) * k.n;
        norm_row<KIND, THREADS, VECTORS> row;
        norm_measure<KIND, THREADS>(k, at, feature, &row);
        norm_row_grad<KIND, THREADS>(k, at, feature, &row, dw, db);
    }
    if (VECTORS)
        NORM_EACH(j, c) {
            norm_store<VECTORS>(to, feature + c, k.n - c, dw[j]);
            if (k.db)
                norm_store<VECTORS>(to_bias, feature + c, k.n - c, db[j]);
        }
}

/* ---- launches ---- */

struct norm_backward {
    template <norm_kind KIND, int THREADS, int VECTORS>
    static void launch(const mpt_gpu *gpu, const norm_job &k) {
        typedef gpu_team<THREADS> team;
        auto kernel = norm_grad_kernel<KIND, THREADS, VECTORS>;
        GPU_LAUNCH(kernel, team::blocks(k.n_pieces * k.n_groups), team::BLOCK, 0, gpu, k);
    }
};

/* Teams enough for every GPU, and few enough that the fold costs little. */
static int64_t norm_pieces(int64_t n_rows, int64_t groups, int64_t n) {
    int64_t most = (n <= NORM_WARP ? 2048 : 512) / groups;
    most = most < 32 ? 32 : most;
    return n_rows < most ? n_rows : most;
}

static int64_t norm_stride(int64_t width) {
    return gpu_vectors(width) * GPU_VECTOR;
}

static size_t norm_scratch(const mpt_graph *graph, const mpt_node *node, int64_t groups,
                           int sums) {
    const mpt_value *x = &graph->values[node->in[0]];
    int64_t width = x->dims[x->rank - 1], n_rows = 1;
    for (int i = 0; i + 1 < x->rank; i++)
        n_rows *= x->dims[i];
    return (size_t)(norm_pieces(n_rows, groups, width / groups) * sums * norm_stride(width)) *
           sizeof(float);
}

/* The gradients of weight and bias are added to out[first] and the one behind it. */
template <norm_kind KIND>
static void norm_run_grad(const mpt_kernel_args *args, norm_job k, int first) {
    gpu_tensor dw = gpu_out(args, first), db = gpu_tensor{};
    if (KIND == NORM_LAYER)
        db = gpu_out(args, first + 1);
    k.dx = gpu_out(args, 0);
    k.stride = norm_stride(k.n * k.n_groups);
    k.n_pieces = norm_pieces(k.n_rows, k.n_groups, k.n);
    k.dw = (float *)args->scratch;
    k.db = db.data ? k.dw + k.n_pieces * k.stride : NULL;
    norm_run<norm_backward, KIND>(args->gpu, k);
    gpu_fold(args->gpu, k.dw, k.n_pieces, k.stride, dw);
    if (db.data)
        gpu_fold(args->gpu, k.db, k.n_pieces, k.stride, db);
}

extern "C" size_t mpt_cuda_rmsnorm_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                                int n_threads) {
    (void)n_threads;
    return norm_scratch(graph, node, 1, 1);
}

extern "C" void mpt_cuda_rmsnorm_grad(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.w = gpu_in(args, 1);
    k.dy = gpu_in(args, 2);
    norm_run_grad<NORM_RMS>(args, k, 1);
}

extern "C" size_t mpt_cuda_layernorm_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                                  int n_threads) {
    (void)n_threads;
    return norm_scratch(graph, node, 1, 2);
}

extern "C" void mpt_cuda_layernorm_grad(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.w = gpu_in(args, 1);
    k.dy = gpu_in(args, 2);
    norm_run_grad<NORM_LAYER>(args, k, 1);
}

extern "C" size_t mpt_cuda_gated_rmsnorm_grad_scratch(const mpt_graph *graph,
                                                      const mpt_node *node, int n_threads) {
    (void)n_threads;
    return norm_scratch(graph, node, node->attrs.groups, 1);
}

extern "C" void mpt_cuda_gated_rmsnorm_grad(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.z = gpu_in(args, 1);
    k.w = gpu_in(args, 2);
    k.dy = gpu_in(args, 3);
    k.dz = gpu_out(args, 1);
    norm_run_grad<NORM_GATED>(args, k, 2);
}
