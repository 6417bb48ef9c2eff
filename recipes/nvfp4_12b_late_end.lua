-- recipes/nvfp4_12b_late_end.lua
-- The latest switch of arXiv 2509.25149, appendix D: everything in BF16 for less than the last
-- hundredth of the run, for most of the gain of an early switch at next to none of its cost.
return derive(require "recipes.nvfp4_12b", {
  name = "nvfp4_12b_late_end",
  phases = replace {
    phase { "four_bit" },
    phase { "settle", from = 0.992, rules = { rule { "linear", use = bf16 } } },
  },
})
