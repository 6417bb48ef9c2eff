-- recipes/gpt2_mxfp4.lua
-- MXFP4 in all three products with scales rounded up, so that nothing saturates, as in the MXFP4
-- runs of arXiv 2509.25149 (appendix B); gradients are rounded stochastically.
return derive(require "recipes.gpt2_base", {
  name = "gpt2_mxfp4",
  precision = {
    rules = {
      rule { "linear",                   use = mxfp4 { scale_rule = "up" } },
      rule { "linear",                   use = gemm { gradient = { rounding = "stochastic" } } },
      rule { "linear", blocks = last(1), use = bf16 },
    },
  },
})
