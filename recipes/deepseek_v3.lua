-- recipes/deepseek_v3.lua
-- The FP8 training of DeepSeek-V3 (arXiv 2412.19437) on a small mixture of its shape: E4M3 in all
-- three products of all linear layers, experts too, tiles of 1x128 for activations and gradients
-- and of 128x128 for weights, partial sums moved to FP32 every 128 products, Adam's moments in
-- BF16. The router stays in FP32; embedding, head, norms and attention in BF16. Not here: the
-- E5M6 cache behind attention, and FP8 between ranks.
local deepseek_moe = require "models.deepseek_moe"
local tile = fp8_block { block = {1, 128} }

return recipe {
  version = 1,
  name    = "deepseek_v3",
  model   = deepseek_moe "small",

  precision = {
    rules = {
      rule { "linear", use = gemm {
        weight     = fp8_block { block = {128, 128} },
        activation = tile,
        gradient   = tile,
        accumulate = fp32,
        promote    = 128,
      } },
      rule { "router", use = fp32 },
    },
    state = { adam_m = bf16, adam_v = bf16 },
  },

  train = {
    steps = 300, batch = 16, micro_batch = 16, sequence = 128,
    optimizer = adamw { betas = {0.9, 0.95}, eps = 1e-8, weight_decay = 0.1 },
    lr = cosine { peak = 2e-3, final = 2e-4, warmup = 30 },
    clip = 1.0,
    seed = 1234,
  },
}
