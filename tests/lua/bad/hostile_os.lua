-- refused: hostile_os.lua:2: unknown name 'os'; a recipe only declares, and has no 'os' of Lua's
os.execute("true")
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
