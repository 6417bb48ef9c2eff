-- refused: blocks_that_overlap.lua:5: precision.rules[2].blocks and precision.rules[3].blocks: the first 2 and the last 1 of 2 blocks overlap; make them smaller, or leave blocks out to speak of all
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 }, rule { "linear", blocks = first(2), use = bf16 }, rule { "linear", blocks = last(1), use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
