/* The simulator's stand-in for cuBLASLt: the same description of a product, run from the very
 * bytes that the library would read.
 *
 * Addresses of codes and scales are worked out here from the library's documentation, not with
 * kernels/packed.c, so that a layout which is wrong gives wrong numbers in a test. Refuses what
 * the library would. Sums are made in double and rounded to FP32 once. */
#include "kernels/cuda/gpu.h"
extern "C" {
#include "base/base.h"
#include "kernels/cuda/lt.h"
#include "recipe/target.h"
}

struct mpt_lt {
    mpt_ctx *ctx;
    bool failed;
    char fault[MPT_LT_WHY + 64];
};

extern "C" mpt_status mpt_lt_create(mpt_ctx *ctx, mpt_lt **out) {
    *out = (mpt_lt *)mpt_alloc(ctx, sizeof **out);
    if (!*out)
        return mpt_fail_memory(ctx, sizeof **out);
    **out = mpt_lt{ctx, false, ""};
    return MPT_OK;
}

extern "C" void mpt_lt_destroy(mpt_lt *lt) {
    if (lt)
        mpt_free(lt->ctx, lt);
}

extern "C" const char *mpt_lt_fault(const mpt_lt *lt) {
    return lt->failed ? lt->fault : nullptr;
}

/* No algorithm is chosen here. */
extern "C" bool mpt_lt_choice_at(const mpt_lt *, int, mpt_lt_choice *) {
    return false;
}

extern "C" size_t mpt_lt_version(void) {
    return 0;
}

/* ---- bytes ---- */

static uint32_t code_of(const mpt_gemm_side &s, int64_t at) {
    const uint8_t *bytes = (const uint8_t *)s.data;
    if (s.as.format == MPT_DTYPE_E2M1)
        return at % 2 ? bytes[at / 2] >> 4 : bytes[at / 2] & 15;
    if (s.as.format == MPT_DTYPE_E4M3 || s.as.format == MPT_DTYPE_E5M2)
        return bytes[at];
    if (s.as.format == MPT_DTYPE_BF16 || s.as.format == MPT_DTYPE_FP16)
        return ((const uint16_t *)bytes)[at];
    return ((const uint32_t *)bytes)[at];
}

/* Bytes of scales lie in tiles of 128 by 4, tiles of one 128 side by side; in a tile rows 32
 * apart are neighbours. */
static uint8_t tiled(const void *scales, int64_t outer, int64_t inner, int64_t n_inner) {
    int64_t tiles = (n_inner + 3) / 4, tile = outer / 128 * tiles + inner / 4;
    int64_t in_tile = (outer % 32) * 16 + (outer % 128 / 32) * 4 + inner % 4;
    return ((const uint8_t *)scales)[tile * 512 + in_tile];
}

static double scale_of(const mpt_gemm_side &s, int64_t i, int64_t k, int64_t outer, int64_t n) {
    const float *f = (const float *)s.scales;
    switch (s.as.scaling) {
    case MPT_LT_ROWS:
        return f[i];
    case MPT_LT_1X128:
        return f[k / 128 * outer + i];
    case MPT_LT_128X128:
        return f[i / 128 * (((n + 127) / 128 + 3) / 4 * 4) + k / 128];
    case MPT_LT_MX:
        return mpt_decode(MPT_DTYPE_E8M0, tiled(s.scales, i, k / 32, (n + 31) / 32));
    case MPT_LT_NVFP4: /* the sign of a scale is not looked at */
        return mpt_decode(MPT_DTYPE_E4M3, tiled(s.scales, i, k / 16, (n + 15) / 16) & 0x7Fu);
    default:
        return s.scales ? *f : 1.0;
    }
}

/* TF32 lies as FP32 and is cut to its bits. */
static double element(const mpt_gemm_side &s, int64_t i, int64_t k, int64_t outer, int64_t n) {
    uint32_t code = code_of(s, s.as.across ? k * s.as.ld + i : i * s.as.ld + k);
    if (s.as.format == MPT_DTYPE_TF32)
        return (double)mpt_bits_float(code & 0xFFFFE000u);
    return (double)mpt_decode(s.as.format, code) * scale_of(s, i, k, outer, n);
}

static float stored(const void *data, mpt_dtype format, int64_t at) {
    return format == MPT_DTYPE_FP32 ? ((const float *)data)[at]
                                    : mpt_decode(format, ((const uint16_t *)data)[at]);
}

static void multiply(mpt_gpu_gemm g) {
    float alpha = g.scalars ? g.scalars[0] : g.alpha, beta = g.scalars ? g.scalars[1] : g.beta;
    int64_t i = blockIdx.x;
    for (int64_t j = 0; j < g.cols; j++) {
        double sum = 0;
        for (int64_t k = 0; k < g.k; k++)
            sum += element(g.a, i, k, g.rows, g.k) * element(g.b, j, k, g.cols, g.k);
        int64_t at = i * g.cols + j;
        float y = alpha * (float)sum;
        if (beta != 0)
            y += beta * stored(g.d, g.d_format, at);
        if (g.bias)
            y += stored(g.bias, g.bias_format, j);
        if (g.d_format == MPT_DTYPE_FP32)
            ((float *)g.d)[at] = y;
        else
            ((uint16_t *)g.d)[at] = (uint16_t)mpt_encode(g.d_format, y);
    }
}

/* ---- the call ---- */

static bool is_aligned(const mpt_gpu_gemm &g) {
    uintptr_t all = (uintptr_t)g.a.data | (uintptr_t)g.b.data | (uintptr_t)g.d |
                    (uintptr_t)g.a.scales | (uintptr_t)g.b.scales;
    return all % 16 == 0;
}

static bool misses_scales(const mpt_gemm_side &s) {
    return s.as.scaling > MPT_LT_TENSOR && !s.scales;
}

extern "C" void mpt_gemm_run(const mpt_gpu *gpu, const mpt_gpu_gemm *gemm) {
    char why[MPT_LT_WHY];
    mpt_lt *lt = gpu->lt;
    mpt_lt_query query = mpt_gemm_query(gemm, mpt_target_capability(gpu->target));
    bool yes = mpt_lt_supported(&query, why);
    if (yes && !is_aligned(*gemm) && !mpt_is_wide(gemm->a.as.format))
        yes = (snprintf(why, sizeof why, "a pointer is no multiple of 16"), false);
    if (yes && (misses_scales(gemm->a) || misses_scales(gemm->b)))
        yes = (snprintf(why, sizeof why, "scales are missing"), false);
    if (lt && lt->failed)
        return;
    if (yes) {
        mpt_gpu_gemm g = *gemm;
        GPU_LAUNCH(multiply, (unsigned)g.rows, 1, 0, gpu, g);
    } else if (lt) {
        lt->failed = true;
        snprintf(lt->fault, sizeof lt->fault, "cuBLASLt: %s", why);
    }
}
