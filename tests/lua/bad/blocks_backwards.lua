-- refused: blocks_backwards.lua:5: precision.rules[1].blocks: range(3, 1) names no blocks; the first block comes after the last
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = range(3, 1), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
