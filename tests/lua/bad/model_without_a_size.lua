-- refused: model_without_a_size.lua:4: model: cannot be a model without a size; name its size, one of 124m, 1558m, 355m, 774m, base, tiny
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2,
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
