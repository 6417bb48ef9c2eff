-- refused: format_of_a_preset.lua:5: precision.rules[1].use.format: mxfp8 does not have elements of e2m1; mxfp8 has elements of e4m3 or e5m2
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = mxfp8 { format = e2m1 } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
