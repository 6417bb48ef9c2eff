-- refused: batch_not_divided.lua:3: train.micro_batch: batch 2 is no multiple of 3; take a micro_batch that divides the batch
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 }, micro_batch = 3 },
}
