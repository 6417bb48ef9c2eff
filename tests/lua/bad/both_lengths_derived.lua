-- refused: both_lengths_derived.lua:3: train: steps and tokens are both given; give one of them
local gpt2 = require "models.gpt2"
return derive(recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}, { train = { steps = 300, tokens = 1e6 } })
