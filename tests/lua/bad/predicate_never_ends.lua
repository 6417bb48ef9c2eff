-- refused: predicate_never_ends.lua:5: the recipe did not end within 20 million steps; it only declares: look for a loop without an end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", where = function(layer) while true do end end, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
