-- refused: hostile_collectgarbage.lua:2: unknown name 'collectgarbage'; a recipe only declares, and has no 'collectgarbage' of Lua's
collectgarbage("stop")
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
