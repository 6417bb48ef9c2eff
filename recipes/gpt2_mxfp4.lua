-- recipes/gpt2_mxfp4.lua
-- MXFP4 backward over a BF16 forward, after arXiv 2502.20586: both operands of both backward
-- products are rotated 64 elements at a time with random signs and rounded stochastically. The
-- scales here are rounded up, so that no element saturates and no factor of 3/4 is needed.
local four_bit = mxfp4 {
  rounding = "stochastic",
  hadamard = hadamard { size = 64, signs = "random" },
}

return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp4",
  precision = {
    rules = {
      rule { "linear", use = bf16 },
      rule { "linear", gemms = {"dgrad", "wgrad"}, use = four_bit },
    },
  },
  allow = { "all-fp4" },                           -- as published: every block, to the last
})
