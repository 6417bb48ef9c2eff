-- recipes/nvfp4_8b.lua
-- NVFP4 pretraining of an 8B hybrid Mamba-Transformer (arXiv 2509.25149): the run that the paper
-- compares with MXFP4. The last 8 of 52 blocks stay in BF16, the first do not.
local nemotron_h = require "models.nemotron_h"

local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },
  activation = nvfp4,
  gradient   = nvfp4 { rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
}

return recipe {
  version = 1,
  name    = "nvfp4_8b",
  model   = nemotron_h "8b",
  proxy   = nemotron_h "8b_proxy",

  precision = {
    rules = {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(8), use = bf16 },
    },
  },

  train = {
    tokens = 1e12, batch = 768, sequence = 8192,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = wsd { peak = 8e-4, final = 8e-6, warmup = 8e9, decay = 0.15 },
    clip = 1.0,
    proxy = { steps = 200, batch = 8, sequence = 128,
      lr = wsd { peak = 3e-3, final = 3e-5, warmup = 20, decay = 0.15 } },
  },
}
