-- refused: replace_outside_derive.lua:5: phases: cannot be replace; give a list: { phase { ... }, phase { ... } }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  phases = replace { phase { "a" } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
