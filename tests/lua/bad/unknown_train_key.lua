-- refused: unknown_train_key.lua:5: train: no field 'bacth'; did you mean 'batch'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 }, bacth = 4 },
}
