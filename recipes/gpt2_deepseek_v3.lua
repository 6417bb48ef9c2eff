-- recipes/gpt2_deepseek_v3.lua
-- The FP8 training of DeepSeek-V3 (arXiv 2412.19437): E4M3 in all three products, tiles of 1x128
-- for activations and gradients and of 128x128 for weights, partial sums moved to FP32 every 128
-- products, Adam's moments in BF16. Not here: its experts, the E5M6 cache behind attention, and
-- FP8 between ranks.
local tile = fp8_block { block = {1, 128} }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_deepseek_v3",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = fp8_block { block = {128, 128} },
        activation = tile,
        gradient   = tile,
        accumulate = fp32,
        promote    = 128,
      } },
    },
    state = { adam_m = bf16, adam_v = bf16 },
  },
})
