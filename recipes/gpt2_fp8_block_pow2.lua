-- recipes/gpt2_fp8_block_pow2.lua
-- Float8BlockScaling of Transformer Engine as it comes: E4M3, 1x128 blocks for activations and
-- gradients, 128x128 for weights, scales held in FP32 with the values of powers of two.
local pow2 = fp8_block { scale_format = "pow2" }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8_block_pow2",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = fp8_block { block = {128, 128}, scale_format = "pow2" },
        activation = pow2,
        gradient   = pow2,
      } },
    },
  },
})
