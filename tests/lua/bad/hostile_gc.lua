-- refused: hostile_gc.lua:2: __gc is not available in a recipe
setmetatable({}, { __gc = function() while true do end end })
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
