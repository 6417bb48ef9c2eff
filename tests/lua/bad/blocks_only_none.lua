-- refused: blocks_only_none.lua:5: precision.rules[1].blocks: only { ... } names no blocks by this list; list whole numbers of 0 or more: only { 3, 7 }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", blocks = only {}, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
