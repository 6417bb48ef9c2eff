-- refused: model_of_no_such_size.lua:4: gpt2: no size '125m'; did you mean '124m'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "125m",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
