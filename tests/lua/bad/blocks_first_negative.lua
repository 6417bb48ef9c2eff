-- refused: blocks_first_negative.lua:5: precision.rules[1].blocks: first(-1) names no blocks; give how many blocks, 1 or more
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = first(-1), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
