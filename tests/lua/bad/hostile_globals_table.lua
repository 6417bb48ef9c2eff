-- refused: hostile_globals_table.lua:2: unknown name '_G'; a recipe only declares, and has no '_G' of Lua's
_G.pcall = nil
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
