-- recipes/gpt2_nvfp4_no_rht.lua
-- An ablation of NVFP4 pretraining (arXiv 2509.25149): no Hadamard rotation in wgrad.
local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },
  activation = nvfp4,
  gradient   = nvfp4 { rounding = "stochastic" },
}

return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_no_rht",
  precision = {
    rules = replace {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
