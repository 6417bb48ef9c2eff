-- refused: allow_of_no_warning.lua:5: allow: no warning 'sr-foward'; did you mean 'sr-forward'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  allow = { "sr-foward" },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
