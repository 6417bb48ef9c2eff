/* softmax: exp(x - largest) over its sum, row by row; dx = y (dy - sum of dy y).
 *
 * A warp takes a row of up to 512 elements, a block one of up to 4096; both keep it in
 * registers, so the row is read once and the kernels are bound by memory. What a row has beyond
 * that is read again for each pass. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/values.h"

enum { KEPT = 2, WARP_ROW = GPU_WARP * GPU_VECTOR * KEPT };

typedef gpu_floats<GPU_VECTOR> vector;

/* Threads that share a row. */
struct by_warp {
    static __device__ __forceinline__ unsigned size() { return GPU_WARP; }
    static __device__ __forceinline__ unsigned rank() { return gpu_lane(); }
    static __device__ __forceinline__ int64_t first() {
        return (int64_t)blockIdx.x * (blockDim.x / GPU_WARP) + gpu_warp_id();
    }
    static __device__ __forceinline__ int64_t stride() {
        return (int64_t)gridDim.x * (blockDim.x / GPU_WARP);
    }
    static __device__ __forceinline__ float sum(float v) { return gpu_warp_sum(v); }
    static __device__ __forceinline__ float max(float v) { return gpu_warp_max(v); }
};

struct by_block {
    static __device__ __forceinline__ unsigned size() { return blockDim.x; }
    static __device__ __forceinline__ unsigned rank() { return threadIdx.x; }
    static __device__ __forceinline__ int64_t first() { return blockIdx.x; }
    static __device__ __forceinline__ int64_t stride() { return gridDim.x; }
    static __device__ __forceinline__ float sum(float v) { return gpu_block_sum(v); }
    static __device__ __forceinline__ float max(float v) { return gpu_block_max(v); }
};

/* A row of a tensor, its first vectors in registers. Elements beyond its end are 0. */
template <class Team> struct row_reader {
    gpu_tensor t;
    int64_t begin, end;
    vector kept[KEPT];

    static __device__ __forceinline__ int64_t at(int k) {
        return ((int64_t)k * Team::size() + Team::rank()) * GPU_VECTOR;
    }
    __device__ __forceinline__ row_reader(const gpu_tensor &of, int64_t row, int64_t n)
        : t(of), begin(row * n), end(row * n + n) {
        GPU_UNROLL
        for (int k = 0; k < KEPT; k++)
            kept[k] = gpu_get_n<GPU_VECTOR>(t, begin + at(k), end);
    }
    __device__ __forceinline__ vector again(int64_t i) const {
        return gpu_get_n<GPU_VECTOR>(t, i, end);
    }
};

/* Calls f(k, i): vector k of this thread begins at element i of the tensor; k is KEPT for those
 * that are not in registers. */
template <class Team, class F>
static __device__ __forceinline__ void each_vector(int64_t begin, int64_t end, F f) {
    GPU_UNROLL
    for (int k = 0; k < KEPT; k++)
        if (begin + row_reader<Team>::at(k) < end)
            f(k, begin + row_reader<Team>::at(k));
    for (int64_t i = begin + row_reader<Team>::at(KEPT); i < end;
         i += (int64_t)Team::size() * GPU_VECTOR)
        f((int)KEPT, i);
}

template <class Team>
static __global__ void softmax_kernel(gpu_tensor x, gpu_tensor y, int64_t n_rows, int64_t n) {
    for (int64_t row = Team::first(); row < n_rows; row += Team::stride()) {
        row_reader<Team> r(x, row, n);
        float most = -INFINITY, sum = 0;
        each_vector<Team>(r.begin, r.end, [&](int k, int64_t i) {
            vector v = k < KEPT ? r.kept[k] : r.again(i);
            GPU_UNROLL
            for (int e = 0; e < GPU_VECTOR; e++)
                if (i + e < r.end)
                    most = fmaxf(most, v.v[e]);
        });
        most = Team::max(most);
        each_vector<Team>(r.begin, r.end, [&](int k, int64_t i) {
            vector v = k < KEPT ? r.kept[k] : r.again(i);
            GPU_UNROLL
            for (int e = 0; e < GPU_VECTOR; e++) {
                v.v[e] = expf(v.v[e] - most);
                sum += i + e < r.end ? v.v[e] : 0;
            }
            if (k < KEPT)
                r.kept[k] = v;
        });
        sum = Team::sum(sum);
        each_vector<Team>(r.begin, r.end, [&](int k, int64_t i) {
            vector v = k < KEPT ? r.kept[k] : r.again(i);
            GPU_UNROLL
            for (int e = 0; e < GPU_VECTOR; e++)
                v.v[e] = (k < KEPT ? v.v[e] : expf(v.v[e] - most)) / sum;
            gpu_put_n(y, i, r.end, v);
        });
    }
}

template <class Team>
static __global__ void softmax_grad_kernel(gpu_tensor y, gpu_tensor dy, gpu_tensor dx,
                                           int64_t n_rows, int64_t n) {
    for (int64_t row = Team::first(); row < n_rows; row += Team::stride()) {
        row_reader<Team> p(y, row, n), g(dy, row, n);
        float dot = 0;
        each_vector<Team>(p.begin, p.end, [&](int k, int64_t i) {
            vector a = k < KEPT ? p.kept[k] : p.again(i), b = k < KEPT ? g.kept[k] : g.again(i);
            GPU_UNROLL
            for (int e = 0; e < GPU_VECTOR; e++)
                dot += b.v[e] * a.v[e];
        });
        dot = Team::sum(dot);
        each_vector<Team>(p.begin, p.end, [&](int k, int64_t i) {
            vector a = k < KEPT ? p.kept[k] : p.again(i), b = k < KEPT ? g.kept[k] : g.again(i);
            GPU_UNROLL
            for (int e = 0; e < GPU_VECTOR; e++)
                a.v[e] *= b.v[e] - dot;
            gpu_put_n(dx, i, p.end, a);
        });
    }
}

/* One launch, by the width of a row. */
static unsigned row_blocks(int64_t n_rows, int64_t n) {
    return gpu_blocks(n <= WARP_ROW ? n_rows * GPU_WARP : n_rows * GPU_THREADS);
}

extern "C" void mpt_cuda_softmax(const mpt_kernel_args *args) {
    int64_t n_rows = gpu_rows(&args->in[0]), n = gpu_cols(&args->in[0]);
    gpu_tensor x = gpu_in(args, 0), y = gpu_out(args, 0);
    unsigned blocks = row_blocks(n_rows, n);
    if (n <= WARP_ROW)
        GPU_LAUNCH(softmax_kernel<by_warp>, blocks, GPU_THREADS, 0, args->gpu, x, y, n_rows, n);
    else
        GPU_LAUNCH(softmax_kernel<by_block>, blocks, GPU_THREADS, 0, args->gpu, x, y, n_rows,
                   n);
}

extern "C" void mpt_cuda_softmax_grad(const mpt_kernel_args *args) {
    int64_t n_rows = gpu_rows(&args->in[0]), n = gpu_cols(&args->in[0]);
    gpu_tensor y = gpu_in(args, 0), dy = gpu_in(args, 1), dx = gpu_out(args, 0);
    unsigned blocks = row_blocks(n_rows, n);
    if (n <= WARP_ROW)
        GPU_LAUNCH(softmax_grad_kernel<by_warp>, blocks, GPU_THREADS, 0, args->gpu, y, dy, dx,
                   n_rows, n);
    else
        GPU_LAUNCH(softmax_grad_kernel<by_block>, blocks, GPU_THREADS, 0, args->gpu, y, dy, dx,
                   n_rows, n);
}
