/* One product for the tensor cores, described so that whoever runs it needs nothing else:
 * cuBLASLt on a GPU (lt.c), its stand-in in the simulator (sim/lt_sim.cpp).
 *
 * d [rows, cols] = alpha * a b^T + beta * d + bias, row-major; a is [rows, k], b [cols, k], or
 * where they lie across [k, rows] and [k, cols]. Codes and scales lie as kernels/packed.h says.
 * Pointers are the device's. */
#ifndef MPT_KERNELS_CUDA_GEMM_H
#define MPT_KERNELS_CUDA_GEMM_H

#include "kernels/cuda/device.h"
#include "recipe/lt_support.h"

typedef struct mpt_gemm_side {
    const void *data;
    const void *scales; /* of rows or blocks; NULL where there are none */
    mpt_lt_operand as;  /* format, scaling, layout; ld is said */
} mpt_gemm_side;

typedef struct mpt_gpu_gemm {
    int64_t rows, cols, k;
    mpt_gemm_side a, b;
    void *d;
    mpt_dtype d_format;
    const void *bias; /* [cols]; NULL: none */
    mpt_dtype bias_format;
    float alpha, beta;
    const float *scalars; /* alpha and beta in the device's memory instead; or NULL */
} mpt_gpu_gemm;

/* The question whether the library takes it. */
static inline mpt_lt_query mpt_gemm_query(const mpt_gpu_gemm *g, int capability) {
    mpt_lt_query q;
    q.capability = capability;
    q.rows = g->rows;
    q.cols = g->cols;
    q.k = g->k;
    q.batch = 1;
    q.a = g->a.as;
    q.b = g->b.as;
    q.d = g->d_format;
    q.ldd = g->cols;
    q.has_bias = g->bias != NULL;
    q.bias = g->bias_format;
    q.aligned = 16;
    return q;
}

/* Runs it on gpu's stream. A fault is kept by gpu->lt (mpt_lt_fault), and d is not written. */
void mpt_gemm_run(const mpt_gpu *gpu, const mpt_gpu_gemm *gemm);

#endif
