-- refused: hostile_unpack.lua:2: too many results to unpack
local x = select("#", table.unpack({}, 1, 1e7))
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
