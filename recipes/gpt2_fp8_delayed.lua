-- recipes/gpt2_fp8_delayed.lua
-- FP8 with scales from the steps before: E4M3 forward, E5M2 for gradients (arXiv 2209.05433;
-- DelayedScaling with the HYBRID format in Transformer Engine, and its defaults).
local before = delayed { history = 1024, algo = "max", margin = 0 }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8_delayed",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = e4m3 { scale = before },
        activation = e4m3 { scale = before },
        gradient   = e5m2 { scale = before },
      } },
    },
  },
})
