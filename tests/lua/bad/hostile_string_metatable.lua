-- refused: hostile_string_metatable.lua:2: attempt to index a string value
getmetatable("").__index = nil
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
