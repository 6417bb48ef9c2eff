-- recipes/gpt2_nvfp4_no_sr.lua
-- An ablation of NVFP4 pretraining (arXiv 2509.25149): gradients rounded to nearest.
local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },
  activation = nvfp4,
  gradient   = nvfp4,
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
}

return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_no_sr",
  precision = {
    rules = replace {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
