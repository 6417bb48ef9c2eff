-- refused: blocks_every_zero.lua:5: precision.rules[1].blocks: every(0) names no blocks; give a whole number of 1 or more
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = every(0), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
