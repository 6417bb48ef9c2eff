-- refused: hostile_concat_metamethod.lua:2: C stack overflow
local t = setmetatable({}, { __concat = function(a, b) return a .. b end }) local x = t .. t
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
