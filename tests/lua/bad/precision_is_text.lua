-- refused: precision_is_text.lua:5: precision: cannot be a text; write precision = presets.nvfp4
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = "nvfp4",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
