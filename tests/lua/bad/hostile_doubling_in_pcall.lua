-- refused: hostile_doubling_in_pcall.lua:2: the recipe makes a string of more than 64 KiB; it only declares: look for a string that grows
local s = "x" while true do pcall(function() s = s .. s end) end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
