-- refused: norm_in_nvfp4.lua:5: precision.rules[1].use: norm layers cannot compute in nvfp4; use fp32, bf16 or fp16 for them
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "norm", use = nvfp4 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
