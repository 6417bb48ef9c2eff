/* A GPU's memory and stream over CUDA's runtime library. A recording is a graph captured from
 * the stream, a mark an event. Host memory is pageable: such a copy has left it when the call
 * is back. */
#include "kernels/cuda/runtime.h"

#include "kernels/cuda/capability.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

/* The first fault stays. */
static bool passed(mpt_gpu *gpu, cudaError_t status) {
    if (status != cudaSuccess && !gpu->error)
        gpu->error = cudaGetErrorString(status);
    return !gpu->error;
}

static cudaStream_t stream_of(const mpt_gpu *gpu) {
    return (cudaStream_t)gpu->stream;
}

/* ---- life ---- */

static bool read_properties(mpt_gpu *gpu) {
    struct cudaDeviceProp p;
    int device = 0;
    if (!passed(gpu, cudaGetDevice(&device)) ||
        !passed(gpu, cudaGetDeviceProperties(&p, device)))
        return false;
    gpu->capability = 10 * p.major + p.minor;
    gpu->target = mpt_cuda_target(p.major, p.minor);
    gpu->workspace_bytes = (size_t)(p.major >= 9 ? 32 : 4) << 20; /* as NVIDIA advises */
    gpu->n_multiprocessors = p.multiProcessorCount;
    snprintf(gpu->name, sizeof gpu->name, "%.63s", p.name);
    return passed(gpu, cudaMemGetInfo(&gpu->free_bytes, &gpu->memory_bytes));
}

bool mpt_gpu_open(mpt_gpu *gpu) {
    cudaStream_t stream = NULL;
    if (!read_properties(gpu) ||
        !passed(gpu, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)))
        return false;
    gpu->stream = stream;
    return true;
}

void mpt_gpu_close(mpt_gpu *gpu) {
    if (gpu->stream)
        (void)cudaStreamDestroy(stream_of(gpu));
    gpu->stream = NULL;
}

/* ---- memory ---- */

void *mpt_gpu_alloc(mpt_gpu *gpu, size_t bytes) {
    void *memory = NULL;
    cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaSuccess)
        return memory;
    if (status == cudaErrorMemoryAllocation)
        (void)cudaGetLastError(); /* else the next call that asks would find it */
    else
        (void)passed(gpu, status);
    return NULL;
}

void mpt_gpu_free(mpt_gpu *gpu, void *memory) {
    if (memory)
        (void)passed(gpu, cudaFree(memory));
}

bool mpt_gpu_zero(mpt_gpu *gpu, void *at, size_t bytes) {
    return !gpu->error && passed(gpu, cudaMemsetAsync(at, 0, bytes, stream_of(gpu)));
}

bool mpt_gpu_write(mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    return !gpu->error && passed(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice,
                                                      stream_of(gpu)));
}

bool mpt_gpu_read(mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    return !gpu->error &&
           passed(gpu,
                  cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(gpu))) &&
           mpt_gpu_wait(gpu);
}

/* A launch that was refused shows here as well: its own call gives nothing. */
bool mpt_gpu_wait(mpt_gpu *gpu) {
    return !gpu->error && passed(gpu, cudaGetLastError()) &&
           passed(gpu, cudaStreamSynchronize(stream_of(gpu)));
}

/* ---- recordings ---- */

bool mpt_gpu_record(mpt_gpu *gpu) {
    return !gpu->error && passed(gpu, cudaStreamBeginCapture(stream_of(gpu),
                                                             cudaStreamCaptureModeThreadLocal));
}

void *mpt_gpu_recorded(mpt_gpu *gpu) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t recording = NULL;
    bool ended = passed(gpu, cudaStreamEndCapture(stream_of(gpu), &graph));
    if (ended && passed(gpu, cudaGetLastError()))
        (void)passed(gpu, cudaGraphInstantiate(&recording, graph, 0));
    if (graph)
        (void)cudaGraphDestroy(graph);
    return recording;
}

bool mpt_gpu_replay(mpt_gpu *gpu, void *recording) {
    return !gpu->error &&
           passed(gpu, cudaGraphLaunch((cudaGraphExec_t)recording, stream_of(gpu)));
}

void mpt_gpu_forget(mpt_gpu *gpu, void *recording) {
    (void)gpu;
    if (recording)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)recording);
}

/* ---- marks ---- */

void *mpt_gpu_mark_create(mpt_gpu *gpu) {
    cudaEvent_t mark = NULL;
    return !gpu->error && passed(gpu, cudaEventCreate(&mark)) ? mark : NULL;
}

bool mpt_gpu_mark(mpt_gpu *gpu, void *mark) {
    return !gpu->error && passed(gpu, cudaEventRecord((cudaEvent_t)mark, stream_of(gpu)));
}

bool mpt_gpu_between(mpt_gpu *gpu, void *from, void *to, double *out_seconds) {
    float milliseconds = 0;
    bool is =
        !gpu->error && passed(gpu, cudaEventSynchronize((cudaEvent_t)to)) &&
        passed(gpu, cudaEventElapsedTime(&milliseconds, (cudaEvent_t)from, (cudaEvent_t)to));
    *out_seconds = is ? (double)milliseconds * 1e-3 : 0;
    return is;
}

void mpt_gpu_mark_destroy(mpt_gpu *gpu, void *mark) {
    (void)gpu;
    if (mark)
        (void)cudaEventDestroy((cudaEvent_t)mark);
}
