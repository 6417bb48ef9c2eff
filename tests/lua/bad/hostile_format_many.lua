-- refused: hostile_format_many.lua:2: the recipe makes a string of more than 64 KiB; it only declares: look for a string that grows
local f = ("%99s"):rep(10000) local s = f:format(table.unpack({}, 1, 10000))
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
