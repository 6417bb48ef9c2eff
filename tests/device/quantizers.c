/* The quantizers that recipes and presets are made of, by name. */
#include "rig.h"

#define FP8(f)            .format = MPT_DTYPE_##f, .scale.kind = MPT_SCALING_CURRENT
#define BLOCK(rows, cols) .block_rows = (rows), .block_cols = (cols)
#define MX(f, rule)                                                                            \
    FP8(f), BLOCK(1, 32), .scale_format = MPT_SCALE_E8M0, .scale_rule.kind = MPT_RULE_##rule
#define NVFP4 FP8(E2M1), .scale_format = MPT_SCALE_E4M3, .outer = MPT_OUTER_TENSOR
#define RHT   .hadamard = {.size = 16, .signs = MPT_SIGNS_RANDOM, .seed = -1}
#define SR    .rounding = MPT_ROUNDING_STOCHASTIC
#define UNIT  .scale = {.kind = MPT_SCALING_STATIC, .value = 1}, .scale_format = MPT_SCALE_FP32

static const mpt_quantizer quantizers[] = {
    {.name = "e4m3 as it is", .format = MPT_DTYPE_E4M3, UNIT},
    {.name = "e5m2 as it is", .format = MPT_DTYPE_E5M2, UNIT},
    {.name = "e5m6 as it is", .format = MPT_DTYPE_E5M6, UNIT},
    {.name = "e3m2 as it is", .format = MPT_DTYPE_E3M2, UNIT},
    {.name = "e2m3 as it is", .format = MPT_DTYPE_E2M3, UNIT},
    {.name = "e2m1 as it is", .format = MPT_DTYPE_E2M1, UNIT},
    {.name = "int8 as it is", .format = MPT_DTYPE_INT8, UNIT},
    {.name = "e4m3 by chance", .format = MPT_DTYPE_E4M3, UNIT, SR},
    {.name = "e2m1 by chance", .format = MPT_DTYPE_E2M1, UNIT, SR},
    {.name = "fp8 tensor e4m3", FP8(E4M3)},
    {.name = "fp8 tensor e5m2", FP8(E5M2)},
    {.name = "fp8 rows", FP8(E4M3), BLOCK(1, 0)},
    {.name = "fp8 1x128", FP8(E4M3), BLOCK(1, 128)},
    {.name = "fp8 1x128 pow2",
     FP8(E4M3),
     BLOCK(1, 128),
     .scale_format = MPT_SCALE_POW2,
     .scale_rule.kind = MPT_RULE_UP},
    {.name = "fp8 128x128", FP8(E4M3), BLOCK(128, 128)},
    {.name = "mxfp8 up", MX(E4M3, UP)},
    {.name = "mxfp8 floor", MX(E5M2, FLOOR)},
    {.name = "mxfp6 e2m3", MX(E2M3, UP)},
    {.name = "mxfp6 e3m2", MX(E3M2, UP)},
    {.name = "mxfp4", MX(E2M1, FLOOR)},
    {.name = "mxfp4 hadamard, by chance", MX(E2M1, FLOOR), RHT, SR},
    {.name = "nvfp4 1x16", NVFP4, BLOCK(1, 16)},
    {.name = "nvfp4 16x16", NVFP4, BLOCK(16, 16)},
    {.name = "nvfp4 hadamard", NVFP4, BLOCK(1, 16), RHT},
    {.name = "nvfp4 hadamard, by chance", NVFP4, BLOCK(1, 16), RHT, SR},
    {.name = "nvfp4 four over six",
     NVFP4,
     BLOCK(1, 16),
     .scale_rule = {.kind = MPT_RULE_FOUR_OVER_SIX, .bound = 256}},
    {.name = "nvfp4 rows",
     FP8(E2M1),
     BLOCK(1, 16),
     .scale_format = MPT_SCALE_E4M3,
     .outer = MPT_OUTER_ROW},
};

bool rig_quantizer(int i, mpt_quantizer *out) {
    if (i >= (int)MPT_COUNT(quantizers))
        return false;
    *out = quantizers[i];
    return true;
}
