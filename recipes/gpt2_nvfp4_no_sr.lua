-- recipes/gpt2_nvfp4_no_sr.lua
-- An ablation of NVFP4 pretraining (arXiv 2509.25149): gradients rounded to nearest.
return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_no_sr",
  precision = { rules = { rule { "linear", use = gemm { gradient = { rounding = "nearest" } } } } },
})
