-- recipes/nvfp4_1b2.lua
-- NVFP4 on the 1.2B Transformer on which the paper tries its parts one by one (arXiv 2509.25149,
-- appendix E): the last 4 of 20 blocks in BF16. What it does not print is that of its 8B run.
local transformer = require "models.transformer"

local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },
  activation = nvfp4,
  gradient   = nvfp4 { rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
}

return recipe {
  version = 1,
  name    = "nvfp4_1b2",
  model   = transformer "1.2b",
  proxy   = transformer "1.2b_proxy",

  precision = {
    rules = {
      rule { "linear",                   use = four_bit },
      rule { "linear", blocks = last(4), use = bf16 },
    },
  },

  train = {
    tokens = 1e12, batch = 768, sequence = 8192,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = wsd { peak = 1.2e-3, final = 1.2e-5, warmup = 8e9, decay = 0.15 },
    clip = 1.0,
    proxy = { steps = 200, batch = 8, sequence = 128,
      lr = wsd { peak = 3e-3, final = 3e-5, warmup = 20, decay = 0.15 } },
  },
}
