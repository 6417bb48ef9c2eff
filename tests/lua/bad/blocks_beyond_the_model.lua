-- refused: blocks_beyond_the_model.lua:5: precision.rules[1].blocks: 'last 9' exceeds the model, which has 2 blocks; blocks are counted from 0 to 1
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = last(9), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
