-- refused: blocks_only_one_that_is_not_there.lua:5: precision.rules[1].blocks: 'only 99' exceeds the model, which has 2 blocks; blocks are counted from 0 to 1
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = only { 99 }, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
