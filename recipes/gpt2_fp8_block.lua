-- recipes/gpt2_fp8_block.lua
-- FP8 with a scale a block, in the manner of DeepSeek-V3 (arXiv 2412.19437): E4M3 everywhere,
-- 128 elements along the dot product for activations and gradients, squares for weights.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8_block",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = fp8_block { block = {128, 128} },
        activation = fp8_block,
        gradient   = fp8_block,
      } },
    },
  },
})
