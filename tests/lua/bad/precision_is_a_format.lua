-- refused: precision_is_a_format.lua:5: precision: cannot be a number format; write precision = presets.bf16
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = bf16,
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
