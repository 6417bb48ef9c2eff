/* See planted.h. */
#include "kernels/cuda/tile.h"
#include "planted.h"

static mpt_gpu no_stream;
static int last_seen;

/* ---- order ---- */

static __global__ void rotate_kernel(const float *x, float *y, bool with_barrier) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    if (with_barrier)
        __syncthreads();
    y[threadIdx.x] = s[(threadIdx.x + 255) % 256];
}

void planted_rotate(const float *x, float *y, bool with_barrier) {
    GPU_LAUNCH(rotate_kernel, 1, 256, 0, &no_stream, x, y, with_barrier);
}

/* ---- faults ---- */

static __global__ void divergent_barrier_kernel(int *seen) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    *seen = 1;
}

void planted_divergent_barrier(void) {
    GPU_LAUNCH(divergent_barrier_kernel, 1, 64, 0, &no_stream, &last_seen);
}

static __global__ void lost_lane_kernel(int *seen) {
    if (threadIdx.x == 5)
        return;
    __syncwarp();
    *seen = 1;
}

void planted_lost_lane(void) {
    GPU_LAUNCH(lost_lane_kernel, dim3(2, 3), 32, 0, &no_stream, &last_seen);
}

static __global__ void half_at_barrier_kernel(int *seen) {
    if (threadIdx.x < 33)
        __syncthreads();
    else
        __syncwarp();
    *seen = 1;
}

void planted_half_at_barrier(void) {
    GPU_LAUNCH(half_at_barrier_kernel, 1, 64, 0, &no_stream, &last_seen);
}

static __global__ void wrong_mask_kernel(int *seen) {
    __syncwarp(0x0000FFFFu);
    *seen = 1;
}

void planted_wrong_mask(void) {
    GPU_LAUNCH(wrong_mask_kernel, 1, 32, 0, &no_stream, &last_seen);
}

static __global__ void shared_overrun_kernel(int *seen) {
    __shared__ int array[64];
    int *volatile hidden = array; /* so that the red zone alone can find the overrun */
    int *s = hidden;
    s[threadIdx.x + 1] = (int)threadIdx.x;
    *seen += s[threadIdx.x];
}

void planted_shared_overrun(void) {
    GPU_LAUNCH(shared_overrun_kernel, 1, 64, 0, &no_stream, &last_seen);
}

static __global__ void dynamic_overrun_kernel(int *seen) {
    GPU_DYNAMIC_SHARED(int, s);
    s[threadIdx.x + 1] = (int)threadIdx.x;
    *seen += s[threadIdx.x];
}

void planted_dynamic_overrun(void) {
    GPU_LAUNCH(dynamic_overrun_kernel, 1, 64, 64 * sizeof(int), &no_stream, &last_seen);
}

void planted_too_many_threads(void) {
    GPU_LAUNCH(wrong_mask_kernel, 1, 1025, 0, &no_stream, &last_seen);
}

template <int WIDTH> static __global__ void much_shared_kernel(size_t n) {
    GPU_DYNAMIC_SHARED(unsigned char, shared);
    shared[n - 1] = (unsigned char)WIDTH;
}

template <int WIDTH> static const char *much_shared(size_t bytes, bool asked) {
    mpt_gpu gpu = {};
    auto kernel = much_shared_kernel<WIDTH>;
    if (!asked || tile_allow_shared(&gpu, kernel, bytes))
        GPU_LAUNCH(kernel, 1, 1, bytes, &gpu, bytes);
    return gpu.error;
}

/* Two kernels: what one was allowed is not the other's. */
const char *planted_much_shared(size_t bytes, bool asked) {
    return asked ? much_shared<1>(bytes, true) : much_shared<2>(bytes, false);
}

/* ---- sound kernels ---- */

static __global__ void early_return_kernel(int *y) {
    if (threadIdx.x >= 40)
        return;
    y[threadIdx.x] = __syncthreads_count(threadIdx.x % 2 == 0);
}

void planted_early_return(int *y) {
    GPU_LAUNCH(early_return_kernel, 1, 64, 0, &no_stream, y);
}

/* The sum of what four shuffles bring, weighted so that each shows. */
static __global__ void shuffles_kernel(int *y) {
    int lane = (int)threadIdx.x;
    int up = __shfl_up_sync(0xFFFFFFFFu, lane, 3, 8);
    int down = __shfl_down_sync(0xFFFFFFFFu, lane, 3, 8);
    int with = __shfl_xor_sync(0xFFFFFFFFu, lane, 5);
    int from = __shfl_sync(0xFFFFFFFFu, lane, 9, 16);
    y[threadIdx.x] = up + 100 * down + 10000 * with + 1000000 * from;
}

void planted_shuffles(int *y) {
    GPU_LAUNCH(shuffles_kernel, 1, 64, 0, &no_stream, y);
}

static __global__ void votes_kernel(unsigned *y) {
    unsigned lane = threadIdx.x % 32, all = 0xFFFFFFFFu;
    unsigned odd = __ballot_sync(all, lane % 2), third = __match_any_sync(all, lane % 3);
    bool some = __any_sync(all, lane == 7) && !__all_sync(all, lane == 7);
    unsigned most = __reduce_max_sync(all, threadIdx.x);
    bool block = __syncthreads_or(threadIdx.x == 3) && !__syncthreads_and(threadIdx.x == 3);
    y[threadIdx.x] = some && block && most == (threadIdx.x | 31u) ? odd ^ third : 0;
}

void planted_votes(unsigned *y) {
    GPU_LAUNCH(votes_kernel, 1, 64, 0, &no_stream, y);
}

static __global__ void masks_kernel(int *y) {
    unsigned lane = threadIdx.x % 32, mask = lane < 16 ? 0x0000FFFFu : 0xFFFF0000u;
    int sum = (int)threadIdx.x;
    for (int round = lane < 16 ? 0 : 2; round < 3; round++)
        for (int with = 8; with > 0; with /= 2)
            sum += __shfl_xor_sync(mask, sum, with);
    y[threadIdx.x] = sum;
}

void planted_masks(int *y) {
    GPU_LAUNCH(masks_kernel, 1, 64, 0, &no_stream, y);
}

/* ---- launches ---- */

static __global__ void add_one_kernel(float *x, int n) {
    GPU_EACH(i, n)
    x[i] += 1;
}

void planted_add_one(float *x, int n, int recorded) {
    std::vector<cusim::launch_record> records;
    cusim::stream stream;
    mpt_gpu gpu = {};
    gpu.stream = &stream;
    stream.recording = recorded ? &records : nullptr;
    GPU_LAUNCH(add_one_kernel, gpu_blocks(n), GPU_THREADS, 0, &gpu, x, n);
    for (int i = 0; i < recorded; i++)
        for (const cusim::launch_record &record : records)
            cusim::run(record);
}

static __global__ void copy_kernel(gpu_tensor x, gpu_tensor y) {
    GPU_EACH(i, y.n)
    gpu_put(y, i, gpu_get(x, i));
}

void planted_copy(const mpt_tensor *x, const mpt_tensor *y) {
    gpu_tensor from = gpu_tensor_of(x), to = gpu_tensor_of(y);
    GPU_LAUNCH(copy_kernel, gpu_blocks(to.n), GPU_THREADS, 0, &no_stream, from, to);
}
