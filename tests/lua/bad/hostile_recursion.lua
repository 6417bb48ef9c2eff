-- refused: hostile_recursion.lua:2: the recipe uses more than 64 MiB of memory; it only declares: look for a table or a string that grows
local function f() return 1 + f() end f()
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
