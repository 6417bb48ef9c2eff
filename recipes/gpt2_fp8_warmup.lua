-- recipes/gpt2_fp8_warmup.lua
-- FP8 after a start in BF16: for 1000 steps only the magnitudes are recorded, then delayed
-- scaling begins with full histories (Transformer Engine's advice to calibrate first; Megatron
-- switches formats by step in the same way).
local before = delayed { history = 1024, algo = "max" }

return derive(require "recipes.gpt2_base", {
  name = "gpt2_fp8_warmup",
  phases = {
    phase { "bf16" },
    phase { "fp8", steps = 1000, warm_histories = true, rules = {
      rule { "linear", use = gemm {
        weight     = e4m3 { scale = before },
        activation = e4m3 { scale = before },
        gradient   = e5m2 { scale = before },
      } },
    } },
  },
  train = { steps = 2000 },
})
