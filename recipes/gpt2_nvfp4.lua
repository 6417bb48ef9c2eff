-- recipes/gpt2_nvfp4.lua
-- NVFP4 pretraining (arXiv 2509.25149): square blocks for weights, stochastic rounding of
-- gradients, a 16-point Hadamard rotation in wgrad; the last block stays in BF16.
local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },
  activation = nvfp4,
  gradient   = nvfp4 { rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
}

return derive(require "recipes.gpt2_base", {
  name = "gpt2_nvfp4",
  precision = {
    rules = {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
