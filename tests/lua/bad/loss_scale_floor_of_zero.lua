-- refused: loss_scale_floor_of_zero.lua:5: precision.loss_scale.min: out of range: 0; give a number above 0
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { base = fp16, loss_scale = dynamic { min = 0 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
