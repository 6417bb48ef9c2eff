-- refused: hadamard_of_three.lua:5: precision.rules[1].use.hadamard.size: no value 3; it can be 2, 4, 8, 16, 32, 64 or 128
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = nvfp4 { hadamard = hadamard { size = 3 } } } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
