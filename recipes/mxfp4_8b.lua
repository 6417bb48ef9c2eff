-- recipes/mxfp4_8b.lua
-- The MXFP4 run that arXiv 2509.25149 sets against nvfp4_8b: blocks of 32 under scales rounded up
-- to powers of two, rotations of 32. Squares of 32x32 for weights are our reading of its "2D".
local four_bit = gemm {
  weight     = mxfp4 { block = {32, 32}, scale_rule = "up" },
  activation = mxfp4 { scale_rule = "up" },
  gradient   = mxfp4 { scale_rule = "up", rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 32, signs = "fixed" } },
}

return derive(require "recipes.nvfp4_8b", {
  name = "mxfp4_8b",
  precision = {
    rules = replace {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(8), use = bf16 },
    },
  },
})
