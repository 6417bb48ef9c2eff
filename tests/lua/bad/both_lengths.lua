-- refused: both_lengths.lua:3: train: steps and tokens are both given; give one of them
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 }, tokens = 1e6 },
}
