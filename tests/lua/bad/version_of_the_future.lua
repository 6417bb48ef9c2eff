-- refused: version_of_the_future.lua:5: version: out of range: 2; give a whole number 1
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  version = 2,
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
