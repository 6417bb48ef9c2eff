-- refused: predicate_gives_a_number.lua:5: where: the function returned a number for h.0.attn.c_attn; return true or false
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", where = function(layer) return 1 end, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
