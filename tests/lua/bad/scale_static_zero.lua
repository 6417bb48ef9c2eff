-- refused: scale_static_zero.lua:5: precision.rules[1].use.scale.value: out of range: 0; give a number above 0
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = e4m3 { scale = static(0) } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
