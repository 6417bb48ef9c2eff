-- recipes/nvfp4_12b_late_all.lua
-- The late switch of arXiv 2509.25149, appendix D, in both directions: from 8.2 of 10 trillion
-- tokens on everything is BF16, which matched the loss of the FP8 run. nvfp4_12b itself switches
-- the forward product only.
return derive(require "recipes.nvfp4_12b", {
  name = "nvfp4_12b_late_all",
  phases = replace {
    phase { "four_bit" },
    phase { "settle", from = 0.82, rules = { rule { "linear", use = bf16 } } },
  },
})
