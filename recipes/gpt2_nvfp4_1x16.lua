-- recipes/gpt2_nvfp4_1x16.lua
-- An ablation of NVFP4 pretraining (arXiv 2509.25149): weights in blocks of 1x16, so that fprop
-- and dgrad see different weights.
return derive(require "recipes.gpt2_nvfp4", {
  name = "gpt2_nvfp4_1x16",
  precision = {
    rules = { rule { "linear", blocks = range(0, 2), use = gemm { weight = { block = {1, 16} } } } },
  },
})
