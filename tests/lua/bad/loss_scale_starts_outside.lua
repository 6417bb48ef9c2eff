-- refused: loss_scale_starts_outside.lua:5: precision.loss_scale.init: 0.5 is not between min 1 and max 1.67772e+07; start inside, or move min or max
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { base = fp16, loss_scale = dynamic { init = 0.5 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
