-- recipes/nvfp4_12b.lua
-- NVFP4 pretraining of a 12B hybrid Mamba-Transformer (arXiv 2509.25149).
local nemotron_h = require "models.nemotron_h"

local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },         -- W and its transpose hold the same values
  activation = nvfp4,                              -- 1x16 along the dot product
  gradient   = nvfp4 { rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },  -- both operands of wgrad only
}

return recipe {
  version = 1,
  name    = "nvfp4_12b",
  model   = nemotron_h "12b",
  proxy   = nemotron_h "12b_proxy",                -- the same 62 blocks, narrow: what a laptop trains

  precision = {
    rules = {
      rule { "linear",                    use = four_bit },
      rule { "linear", blocks = first(2), use = bf16 },
      rule { "linear", blocks = last(8),  use = bf16 },
    },
    state = { master = fp32, gradient = fp32, reduce = fp32, adam_m = fp32, adam_v = fp32 },
  },

  phases = {                                       -- optional: precision over time
    phase { "four_bit" },
    phase { "settle", from = 0.82, rules = { rule { "linear", gemms = {"fprop"}, use = bf16 } } },
  },

  train = {
    tokens = 10e12, batch = 736, sequence = 8192,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = wsd { peak = 4.5e-4, final = 4.5e-6, warmup = 8e9, decay = 0.2 },
    clip = 1.0,
    proxy = { steps = 200, batch = 8, sequence = 128, lr = wsd { peak = 3e-3, final = 3e-5, warmup = 20, decay = 0.2 } },
  },
}
