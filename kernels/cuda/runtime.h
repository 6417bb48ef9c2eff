/* A GPU's memory and its one stream, as C: what the runtime asks of a device
 * (mpt_device_ops), twice. runtime_cuda.c is it over CUDA's runtime library;
 * sim/runtime_sim.cpp over the host's memory, for tests. The words are those of
 * kernels/backend.h. */
#ifndef MPT_KERNELS_CUDA_RUNTIME_H
#define MPT_KERNELS_CUDA_RUNTIME_H

#include "kernels/cuda/device.h"

/* Opens the device that is current (the first, where nobody chose), with a stream;
 * workspace_bytes is then what its products want. */
bool mpt_gpu_open(mpt_gpu *gpu);
void mpt_gpu_close(mpt_gpu *gpu);

void *mpt_gpu_alloc(mpt_gpu *gpu, size_t bytes);
void mpt_gpu_free(mpt_gpu *gpu, void *memory);
bool mpt_gpu_zero(mpt_gpu *gpu, void *at, size_t bytes);
bool mpt_gpu_write(mpt_gpu *gpu, void *to, const void *from, size_t bytes);
bool mpt_gpu_read(mpt_gpu *gpu, void *to, const void *from, size_t bytes);
bool mpt_gpu_wait(mpt_gpu *gpu);

bool mpt_gpu_record(mpt_gpu *gpu);
void *mpt_gpu_recorded(mpt_gpu *gpu);
bool mpt_gpu_replay(mpt_gpu *gpu, void *recording);
void mpt_gpu_forget(mpt_gpu *gpu, void *recording);

void *mpt_gpu_mark_create(mpt_gpu *gpu);
bool mpt_gpu_mark(mpt_gpu *gpu, void *mark);
bool mpt_gpu_between(mpt_gpu *gpu, void *from, void *to, double *out_seconds);
void mpt_gpu_mark_destroy(mpt_gpu *gpu, void *mark);

#endif
