-- refused: quantizer_value_misspelt.lua:5: precision.rules[1].use.wgrad.dy.rounding: no value 'stochastc'; did you mean 'stochastic'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = gemm { wgrad = { dy = nvfp4 { rounding = "stochastc" } } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
