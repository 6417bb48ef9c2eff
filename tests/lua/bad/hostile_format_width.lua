-- refused: hostile_format_width.lua:2: invalid conversion specification: '%99999999d'
local s = string.format("%99999999d", 1)
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
