-- refused: format_changed.lua:2: a number format: values of a recipe never change; make a changed copy with derive(base, { ... })
nvfp4.block = {16, 16}
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
