-- refused: predicate_raises.lua:5: unknown name 'layer.outfeatures'; did you mean 'layer.out_features'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", where = function(layer) return layer.outfeatures % 16 == 0 end, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
