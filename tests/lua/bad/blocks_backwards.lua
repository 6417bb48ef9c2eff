-- refused: blocks_backwards.lua:5: precision.rules[1].blocks: no blocks are meant by these numbers of range; first(2), last(8), range(2, 5), every(4), last_fraction(0.15) or only { 3, 7 }; blocks are counted from 0
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = range(3, 1), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
