-- refused: block_under_a_wrong_scale.lua:5: precision.rules[1].use.scale_rule: scales in e4m3 are rounded to nearest; take "nearest" or four_over_six, or scale_format = e8m0
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = mxfp4 { block = {1, 16}, scale_format = e4m3, scale_rule = "floor" } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
