-- recipes/gpt2_nvfp4_1x16.lua
-- An ablation of NVFP4 pretraining (arXiv 2509.25149): weights in blocks of 1x16, so that fprop
-- and dgrad see different weights.
local four_bit = gemm {
  weight     = nvfp4,
  activation = nvfp4,
  gradient   = nvfp4 { rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
}

return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_1x16",
  precision = {
    rules = replace {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
