-- refused: format_in_capitals.lua:5: unknown name 'NVFP4'; did you mean 'nvfp4'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = NVFP4 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
