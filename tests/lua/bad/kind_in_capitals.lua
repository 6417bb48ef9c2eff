-- refused: kind_in_capitals.lua:5: precision.rules[1]: no layer matches 'LINEAR'; did you mean 'linear'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "LINEAR", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
