-- refused: use_is_missing.lua:5: precision.rules[1].use: missing; give a format (bf16, nvfp4 { ... }) or gemm { ... }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear" } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
