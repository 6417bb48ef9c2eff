-- refused: history_of_zero.lua:5: precision.rules[1].use.scale.history: out of range: 0; give a whole number of 1 or more and at most 65536
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = e4m3 { scale = delayed { history = 0 } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
