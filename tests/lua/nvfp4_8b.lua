-- NVFP4 for an 8B hybrid: another model, another length, the last eight blocks in BF16.
local nemotron_h = require "models.nemotron_h"

return recipe {
  version = 1,
  name = "nvfp4_8b_test",
  model = nemotron_h "8b",
  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight = nvfp4 { block = {16, 16} },
        activation = nvfp4,
        gradient = nvfp4 { rounding = "stochastic" },
        wgrad = { hadamard = hadamard { size = 16, signs = "fixed" } },
      } },
      rule { "linear", blocks = last(8), use = bf16 },
    },
  },
  train = {
    tokens = 1e12, batch = 768, sequence = 8192,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = wsd { peak = 8e-4, final = 8e-6, warmup = 8e9, decay = 0.15 },
    clip = 1.0,
  },
}
