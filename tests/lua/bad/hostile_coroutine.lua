-- refused: hostile_coroutine.lua:2: unknown name 'coroutine'; a recipe only declares, and has no 'coroutine' of Lua's
local co = coroutine.wrap(function() while true do end end) co()
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
