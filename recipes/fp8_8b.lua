-- recipes/fp8_8b.lua
-- FP8 as in Nemotron-H (arXiv 2504.03624, where it trained 56B): one current scale a tensor, E4M3
-- forward and E5M2 for gradients; the first and the last four products, two blocks at each end,
-- stay in BF16.
return derive(require "recipes.nvfp4_8b", {
  name = "fp8_8b",
  precision = {
    rules = replace {
      rule { "linear", use = gemm { weight = e4m3, activation = e4m3, gradient = e5m2 } },
      rule { "linear", blocks = first(2), use = bf16 },
      rule { "linear", blocks = last(2),  use = bf16 },
    },
  },
})
