-- refused: predicate_is_no_function.lua:5: precision.rules[1].where: cannot be a boolean; write where = function(layer) return layer.out_features % 16 == 0 end
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", where = true, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
