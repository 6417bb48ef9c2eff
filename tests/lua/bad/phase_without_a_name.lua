-- refused: phase_without_a_name.lua:5: phases[1]: the phase has no name; write phase { "name", from = 0.8 }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  phases = { phase { from = 2 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
