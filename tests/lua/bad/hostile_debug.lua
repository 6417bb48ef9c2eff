-- refused: hostile_debug.lua:2: unknown name 'debug'; a recipe only declares, and has no 'debug' of Lua's
debug.sethook()
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
