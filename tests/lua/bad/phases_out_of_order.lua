-- refused: phases_out_of_order.lua:5: phases[3].from: 'c' does not start after 'b'; list phases in the order in which they start
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  phases = { phase { "a" }, phase { "b", from = 3 }, phase { "c", from = 2 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
