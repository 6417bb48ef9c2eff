-- refused: blocks_fraction_above_one.lua:5: precision.rules[1].blocks: last_fraction(2) names no blocks; give a fraction above 0 and up to 1
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = last_fraction(2), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
