-- refused: hostile_env.lua:3: attempt to call a nil value (global 'require')
local _ENV = {} x = 1
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
