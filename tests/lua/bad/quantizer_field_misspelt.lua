-- refused: quantizer_field_misspelt.lua:5: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 { roundng = "stochastic" } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
