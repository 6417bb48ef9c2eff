-- refused: headroom_of_zero.lua:5: precision.rules[1].use.headroom: out of range: 0; give a number of 0.0625 or more and at most 16
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 { headroom = 0 } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
