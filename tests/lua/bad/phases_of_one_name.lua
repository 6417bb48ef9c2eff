-- refused: phases_of_one_name.lua:5: phases[2]: there is a phase 'a' already; give each phase a name of its own
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  phases = { phase { "a" }, phase { "a", from = 2 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
