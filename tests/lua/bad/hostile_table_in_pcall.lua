-- refused: hostile_table_in_pcall.lua:2: the recipe uses more than 64 MiB of memory; it only declares: look for a table or a string that grows
local t = {} while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = { i } end end) end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
