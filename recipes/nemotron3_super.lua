-- recipes/nemotron3_super.lua
-- The carve-outs of Nemotron 3 Super (its technical report; te_quant.cfg of Megatron-Bridge):
-- NVFP4 everywhere but in the last 15 % of the blocks and in attention, which stay in BF16, and
-- Mamba's output projections, which are MXFP8. Its model of 88 layers has latent experts and
-- multi-token prediction, kept in BF16 too; here the 12B hybrid stands for it.
local nemotron_h = require "models.nemotron_h"

local four_bit = gemm {
  weight     = nvfp4 { block = {16, 16} },
  activation = nvfp4,
  gradient   = nvfp4 { rounding = "stochastic" },
  wgrad      = { hadamard = hadamard { size = 16, signs = "fixed" } },
}

return recipe {
  version = 1,
  name    = "nemotron3_super",
  model   = nemotron_h "12b",
  proxy   = nemotron_h "12b_proxy",

  precision = {
    rules = {
      rule { "linear",                                       use = four_bit },
      rule { "*.out_proj",                                   use = mxfp8 },
      rule { { "*.mixer.qkv_proj", "*.mixer.o_proj" },       use = bf16 },
      rule { "linear", blocks = last_fraction(0.15),         use = bf16 },
    },
  },

  train = {
    tokens = 25e12, batch = 3072, sequence = 8192,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = wsd { peak = 4.5e-4, final = 4.5e-6, warmup = 200e9, decay = 0.2 },
    clip = 1.0,
    proxy = { steps = 200, batch = 8, sequence = 128,
      lr = wsd { peak = 3e-3, final = 3e-5, warmup = 20, decay = 0.2 } },
  },
}
