-- refused: phase_starts_twice.lua:5: phases[2]: from and tokens both say where 'b' starts; give one of them
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  phases = { phase { "a" }, phase { "b", from = 0.5, tokens = 64 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
