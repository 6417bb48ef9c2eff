/* Rounding to a wide format, over the words of lanes_*.h: ref_cast.c a vector at a time. */
#ifndef MPT_KERNELS_CPU_CAST_KERNELS_H
#define MPT_KERNELS_CPU_CAST_KERNELS_H

#include "kernels/cpu/round_lanes.h"

/* FP16: its exponents have an end, past which is Inf, and subnormals below. */
LANE vf v_round_fp16(vf x) {
    vi a = v_bits(v_abs(x)), least = v_set(mpt_float_bits(0x1p-14f));
    vf magic = v_all(0x1p-1f); /* its last place is the subnormals' step */
    vi small = v_bits(v_sub(v_add(v_float(a), magic), magic));
    vi r = v_if_more(least, a, small, v_round_bits(a, 13));
    r = v_if_more(r, v_set(mpt_float_bits(65504.0f)), v_set(MPT_INF_BITS), r);
    return v_keep_nan(x, v_float(v_or(r, v_sign(x))));
}

LANE vf v_round_wide(mpt_dtype dtype, vf x) {
    if (dtype == MPT_DTYPE_BF16)
        return v_round_bf16(x);
    if (dtype == MPT_DTYPE_TF32)
        return v_keep_nan(x, v_float(v_round_bits(v_bits(x), 13)));
    return v_round_fp16(x);
}

LANE size_t round_loop(mpt_dtype dtype, const float *x, float *y, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(y + i, v_round_wide(dtype, v_load(x + i)));
    return i;
}

KERNEL static void round_values(mpt_dtype dtype, const float *x, float *y, size_t n) {
    size_t i = 0;
    if (dtype == MPT_DTYPE_BF16)
        i = round_loop(MPT_DTYPE_BF16, x, y, n);
    else if (dtype == MPT_DTYPE_TF32)
        i = round_loop(MPT_DTYPE_TF32, x, y, n);
    else if (dtype == MPT_DTYPE_FP16)
        i = round_loop(MPT_DTYPE_FP16, x, y, n);
    for (; i < n; i++)
        y[i] = mpt_round(dtype, x[i]);
}

#endif
