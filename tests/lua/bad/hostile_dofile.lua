-- refused: hostile_dofile.lua:2: unknown name 'dofile'; a recipe only declares, and has no 'dofile' of Lua's
dofile("/etc/passwd")
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
