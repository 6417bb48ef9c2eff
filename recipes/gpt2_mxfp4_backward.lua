-- recipes/gpt2_mxfp4_backward.lua
-- Training LLMs with MXFP4 (arXiv 2502.20586): the forward product in BF16, both backward products
-- in MXFP4, rotated 64 elements at a time with random signs and rounded stochastically. Its code
-- multiplies the values by 3/4, so that none saturates and rounding stays unbiased, and the
-- product by 16/9; here the headroom goes into the scale.
local four_bit = mxfp4 {
  scale_rule = "floor", headroom = 3/4, rounding = "stochastic",
  hadamard = hadamard { size = 64, signs = "random" },
}

return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp4_backward",
  precision = {
    rules = { rule { "linear", gemms = {"dgrad", "wgrad"}, use = four_bit } },
  },
  allow = { "all-fp4" },                           -- as published: every block, to the last
})
