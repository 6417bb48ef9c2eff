-- refused: four_over_six_bound.lua:5: precision.rules[1].use.scale_rule.bound: no value 300; it can be 256 or 448
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 { scale_rule = four_over_six { bound = 300 } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
