-- recipes/gpt2_tetrajet.lua
-- TetraJet (arXiv 2502.20853): MXFP4 in all three products; the backward operands are quantized
-- again from the quantized forward ones, so that backward differentiates what forward computed;
-- scales rounded so that nothing saturates, stochastic rounding in backward. Not here: the moving
-- average that steadies oscillating weights (Q-EMA), and Q-Ramping.
local forward  = mxfp4 { scale_rule = "up" }
local backward = mxfp4 { scale_rule = "up", rounding = "stochastic" }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_tetrajet",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        fprop = { x = forward, w = forward },
        dgrad = { dy = backward, w = backward { source = "dequantized" } },
        wgrad = { dy = backward, x = backward { source = "dequantized" } },
      } },
    },
  },
  allow = { "all-fp4" },                           -- as published
})
