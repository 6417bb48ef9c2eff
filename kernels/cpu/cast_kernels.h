/* Casts over the words of lanes_*.h: ref_cast.c a vector at a time. Formats without NaN, which
 * no cast of a graph has, go one by one. */
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

/* Formats of 8 and 12 bits: the largest magnitude is where they end. */
LANE vf v_round_narrow(lane_format f, mpt_dtype dtype, vf x) {
    lane_kind kind = {dtype, MPT_ROUNDING_NEAREST};
    return v_keep_nan(x, v_value(f, kind, x, v_set(0), v_set(0)));
}

LANE size_t narrow_loop(mpt_dtype dtype, const float *x, float *y, size_t n) {
    mpt_format m = mpt_format_of(dtype);
    lane_format f = {m.max, m.mantissa_bits, m.exponent_bits + m.mantissa_bits,
                     (uint32_t)(128 - m.bias) << 23, false};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(y + i, v_round_narrow(f, dtype, v_load(x + i)));
    return i;
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
    else if (dtype == MPT_DTYPE_E4M3)
        i = narrow_loop(MPT_DTYPE_E4M3, x, y, n);
    else if (dtype == MPT_DTYPE_E5M2)
        i = narrow_loop(MPT_DTYPE_E5M2, x, y, n);
    else if (dtype == MPT_DTYPE_E5M6)
        i = narrow_loop(MPT_DTYPE_E5M6, x, y, n);
    for (; i < n; i++)
        y[i] = mpt_round(dtype, x[i]);
}

#endif
