-- refused: phase_starts_before_zero.lua:5: phases[2].from: out of range: -1; give a whole number, or a fraction of the run from 0.0 to 1.0
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  phases = { phase { "a" }, phase { "b", from = -1 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
