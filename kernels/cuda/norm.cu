/* rmsnorm, layernorm and gated_rmsnorm over slices of rows, forward and backward.
 *
 * Formulas as in kernels/ref/ref_norm.c and ref_gated_rmsnorm.c; the first two have one slice a
 * row. A team of threads holds a slice in registers, so everything is read once; slices too
 * long for that are read again, from the cache. Backward, a team takes one slice of a piece of
 * the rows, and the sums for weight and bias over them stay in registers too. All of it is
 * bound by memory. */
#include "kernels/cuda/fold.h"

enum norm_kind { NORM_RMS, NORM_LAYER, NORM_GATED };

struct norm_job {
    gpu_tensor x, z, w, bias, dy; /* z: the gate */
    gpu_tensor y, dx, dz;
    float *dw, *db; /* partial sums: n_pieces rows of `stride`; db NULL: not wanted */
    int64_t n_rows, n_groups, n, n_pieces, stride;
    float eps;
};

/* The vectors of a slice that are this thread's: j-th, and from where on it is. */
#define NORM_EACH(j, c)                                                                        \
    GPU_UNROLL                                                                                 \
    for (int64_t j = 0, c = gpu_team<THREADS>::rank() * GPU_VECTOR;                            \
         VECTORS ? j < VECTORS : c < k.n; j++, c += (int64_t)THREADS * GPU_VECTOR)

/* Slices that are kept are whole vectors at aligned addresses, as the host sees to: no code is
 * made for others. */
template <int VECTORS>
static __device__ __forceinline__ gpu_vector norm_load(const gpu_tensor &t, int64_t at,
                                                       int64_t left) {
    if (!VECTORS)
        return gpu_load(t, at, left);
    if (left <= 0)
        return gpu_vector{};
    if (t.storage == MPT_STORAGE_HOST)
        return gpu_get_floats<GPU_VECTOR>((const float *)t.data + at, GPU_VECTOR, true);
    return gpu_get_codes<GPU_VECTOR>((const uint16_t *)t.data + at, GPU_VECTOR, true,
                                     t.storage == MPT_STORAGE_FP16);
}

template <int VECTORS>
static __device__ __forceinline__ void norm_store(const gpu_tensor &t, int64_t at, int64_t left,
                                                  const gpu_vector &x) {
    if (!VECTORS || (t.storage == MPT_STORAGE_HOST && t.dtype != MPT_DTYPE_FP32))
        gpu_store(t, at, left, x);
    else if (left > 0 && t.storage == MPT_STORAGE_HOST)
        gpu_put_floats<GPU_VECTOR>((float *)t.data + at, GPU_VECTOR, true, x);
    else if (left > 0)
        gpu_put_codes<GPU_VECTOR>((uint16_t *)t.data + at, GPU_VECTOR, true,
                                  t.storage == MPT_STORAGE_FP16, x);
}

/* What this thread has of one slice of one tensor; of no VECTORS, nothing is kept. */
template <int VECTORS, bool KEPT = (VECTORS > 0)> struct norm_slice {
    gpu_vector kept[KEPT ? VECTORS : 1];

    __device__ __forceinline__ gpu_vector first(const gpu_tensor &t, int64_t j, int64_t at,
                                                int64_t left) {
        gpu_vector x = norm_load<VECTORS>(t, at, left);
        if (KEPT)
            kept[j] = x;
        return x;
    }

    __device__ __forceinline__ gpu_vector again(const gpu_tensor &t, int64_t j, int64_t at,
                                                int64_t left) const {
        return KEPT ? kept[j] : norm_load<VECTORS>(t, at, left);
    }
};

static __device__ __forceinline__ float sigmoid(float z) {
    return 1.0f / (1.0f + expf(-z));
}

/* x silu(z), as it is normalised. */
static __device__ __forceinline__ void norm_gate(gpu_vector *x, const gpu_vector &z) {
    GPU_UNROLL
    for (int i = 0; i < GPU_VECTOR; i++)
        x->v[i] = x->v[i] * (z.v[i] * sigmoid(z.v[i]));
}

/* ---- forward ---- */

/* The mean of a slice, which is kept in `x`. */
template <int THREADS, int VECTORS, bool KEPT>
static __device__ __forceinline__ float norm_mean(const norm_job &k, int64_t at,
                                                  norm_slice<VECTORS, KEPT> *x) {
    float sum = 0, none = 0;
    NORM_EACH(j, c) {
        gpu_vector v = x->first(k.x, j, at + c, k.n - c);
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++)
            sum += v.v[i];
    }
    gpu_team<THREADS>::sum(&sum, &none);
    return sum / (float)k.n;
}

/* 1 / sqrt(mean of squares + eps) of the numbers of `x` less their mean. */
template <norm_kind KIND, int THREADS, int VECTORS>
static __device__ __forceinline__ float norm_factor(const norm_job &k, int64_t at, float mean,
                                                    norm_slice<VECTORS> *x) {
    float squares = 0, none = 0;
    NORM_EACH(j, c) {
        gpu_vector v = KIND == NORM_LAYER ? x->again(k.x, j, at + c, k.n - c)
                                          : x->first(k.x, j, at + c, k.n - c);
        if (KIND == NORM_GATED) {
            norm_gate(&v, norm_load<VECTORS>(k.z, at + c, k.n - c));
            if (VECTORS)
                x->kept[j] = v;
        }
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++) {
            float d = c + i < k.n ? v.v[i] - mean : 0;
            squares += d * d;
        }
    }
    gpu_team<THREADS>::sum(&squares, &none);
    return 1.0f / sqrtf(squares / (float)k.n + k.eps);
}

template <norm_kind KIND, int THREADS, int VECTORS>
static __global__ void __launch_bounds__(gpu_team<THREADS>::BLOCK) norm_kernel(norm_job k) {
    int64_t slice = gpu_team<THREADS>::index();
    if (slice >= k.n_rows * k.n_groups)
        return;
    int64_t at = slice * k.n, feature = slice % k.n_groups * k.n;
    norm_slice<VECTORS> x;
    float mean = KIND == NORM_LAYER ? norm_mean<THREADS>(k, at, &x) : 0;
    float r = norm_factor<KIND, THREADS>(k, at, mean, &x);
    NORM_EACH(j, c) {
        int64_t left = k.n - c;
        gpu_vector v = x.again(k.x, j, at + c, left);
        gpu_vector w = norm_load<VECTORS>(k.w, feature + c, left), b = {};
        if (KIND == NORM_GATED && !VECTORS)
            norm_gate(&v, norm_load<VECTORS>(k.z, at + c, left));
        if (KIND == NORM_LAYER && k.bias.data)
            b = norm_load<VECTORS>(k.bias, feature + c, left);
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++) {
            v.v[i] = w.v[i] * ((v.v[i] - mean) * r);
            if (KIND == NORM_LAYER)
                v.v[i] += b.v[i];
        }
        norm_store<VECTORS>(k.y, at + c, left, v);
    }
}

/* ---- backward ---- */

/* One slice of one row: the kept inputs, and what was summed up over it. Three inputs and their
 * sums are too much for the registers: those of a gated norm are read again. */
template <norm_kind KIND, int VECTORS> struct norm_row {
    norm_slice<VECTORS, (VECTORS > 0) && KIND != NORM_GATED> x, z, dy;
    float mean, r;
    float shift, dot; /* means of dy w and of dy w unit(x), as dx loses them */
};

template <norm_kind KIND, int THREADS, int VECTORS>
static __device__ __forceinline__ void
norm_measure(const norm_job &k, int64_t at, int64_t feature, norm_row<KIND, VECTORS> *row) {
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
norm_row_grad(const norm_job &k, int64_t at, int64_t feature, norm_row<KIND, VECTORS> *row,
              gpu_vector *dw, gpu_vector *db) {
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
static __global__ void __launch_bounds__(gpu_team<THREADS>::BLOCK)
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
        norm_row<KIND, VECTORS> row;
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

enum { NORM_WARP = 1024, NORM_BLOCK = 4096, NORM_LONG = 8192 };

template <norm_kind KIND, int THREADS, int VECTORS>
static void norm_launch(const mpt_gpu *gpu, const norm_job &k, bool backward) {
    typedef gpu_team<THREADS> team;
    auto kernel = backward ? norm_grad_kernel<KIND, THREADS, VECTORS>
                           : norm_kernel<KIND, THREADS, VECTORS>;
    int64_t teams = (backward ? k.n_pieces : k.n_rows) * k.n_groups;
    GPU_LAUNCH(kernel, team::blocks(teams), team::BLOCK, 0, gpu, k);
}

/* Whether slices can be kept; what a node lacks has the address 0. */
static bool norm_is_whole(const norm_job &k) {
    const gpu_tensor *all[] = {&k.x, &k.z, &k.w, &k.bias, &k.dy, &k.y, &k.dx, &k.dz};
    uintptr_t bits = 0;
    for (const gpu_tensor *t : all)
        bits |= (uintptr_t)t->data;
    return k.n % GPU_VECTOR == 0 && k.n <= NORM_LONG && bits % 16 == 0;
}

template <norm_kind KIND>
static void norm_run(const mpt_gpu *gpu, const norm_job &k, bool backward) {
    if (!norm_is_whole(k))
        k.n <= NORM_WARP ? norm_launch<KIND, 32, 0>(gpu, k, backward)
                         : norm_launch<KIND, 256, 0>(gpu, k, backward);
    else if (k.n <= NORM_WARP)
        norm_launch<KIND, 32, 4>(gpu, k, backward);
    else if (k.n <= NORM_BLOCK)
        norm_launch<KIND, 256, 2>(gpu, k, backward);
    else
        norm_launch<KIND, 512, 2>(gpu, k, backward);
}

static norm_job norm_of(const mpt_kernel_args *args) {
    norm_job k = {};
    k.x = gpu_in(args, 0);
    k.n_rows = gpu_rows(&args->in[0]);
    k.n_groups =
        args->node->op == MPT_OP_gated_rmsnorm || args->node->op == MPT_OP_gated_rmsnorm_grad
            ? args->node->attrs.groups
            : 1;
    k.n = gpu_cols(&args->in[0]) / k.n_groups;
    k.eps = args->node->attrs.eps;
    return k;
}

extern "C" void mpt_cuda_rmsnorm(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.w = gpu_in(args, 1);
    k.y = gpu_out(args, 0);
    norm_run<NORM_RMS>(args->gpu, k, false);
}

extern "C" void mpt_cuda_layernorm(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.w = gpu_in(args, 1);
    k.bias = gpu_in(args, 2);
    k.y = gpu_out(args, 0);
    norm_run<NORM_LAYER>(args->gpu, k, false);
}

extern "C" void mpt_cuda_gated_rmsnorm(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.z = gpu_in(args, 1);
    k.w = gpu_in(args, 2);
    k.y = gpu_out(args, 0);
    norm_run<NORM_GATED>(args->gpu, k, false);
}

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
    norm_run<KIND>(args->gpu, k, true);
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
