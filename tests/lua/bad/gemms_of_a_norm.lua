-- refused: gemms_of_a_norm.lua:5: precision.rules[1].gemms: norm layers have no gemm whose operands could differ; use fp32, bf16 or fp16 for them
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "norm", gemms = { "fprop" }, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
