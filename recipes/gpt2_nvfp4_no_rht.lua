-- recipes/gpt2_nvfp4_no_rht.lua
-- An ablation of NVFP4 pretraining (arXiv 2509.25149): no Hadamard rotation in wgrad.
return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_no_rht",
  precision = { rules = { rule { "linear", use = gemm { wgrad = { hadamard = "none" } } } } },
})
