-- refused: hostile_concat.lua:2: the recipe makes a string of more than 64 KiB; it only declares: look for a string that grows
local t = {} for i = 1, 10000 do t[i] = ("x"):rep(1000) end while true do table.concat(t) end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
