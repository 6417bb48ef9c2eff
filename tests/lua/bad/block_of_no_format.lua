-- refused: block_of_no_format.lua:5: precision.rules[1].use.block: no value {3, 5}; it can be tensor, row, 1x16, 1x32, 1x128, 16x16, 32x32 or 128x128
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 { block = {3, 5} } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
