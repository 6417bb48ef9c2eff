-- refused: count_with_a_fraction.lua:5: train.micro_batch: must be whole, not 1.5; give a whole number of 1 or more and at most 16777216
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 }, micro_batch = 1.5 },
}
