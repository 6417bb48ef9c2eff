-- refused: wrong_type_text_for_count.lua:5: train.clip: cannot be 'much'; give a number of 0 or more and at most 1000000
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 }, clip = "much" },
}
