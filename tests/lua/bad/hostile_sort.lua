-- refused: hostile_sort.lua:2: invalid order function for sorting
local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function(a, b) return true end) end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
