-- refused: hostile_dump.lua:2: unknown name 'string.dump'; a recipe only declares, and has no 'dump' of Lua's
local f = string.dump(function() end)
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
