-- recipes/gpt2_fp8.lua
-- FP8 with one current scale a tensor: E4M3 forward, E5M2 for gradients (arXiv 2209.05433;
-- Float8CurrentScaling with the HYBRID format in Transformer Engine).
return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8",
  precision = {
    rules = {
      rule { "linear", use = gemm { weight = e4m3, activation = e4m3, gradient = e5m2 } },
    },
  },
})
