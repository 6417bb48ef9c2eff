-- refused: hostile_index_metamethod.lua:2: C stack overflow
local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end local x = t[1]
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
