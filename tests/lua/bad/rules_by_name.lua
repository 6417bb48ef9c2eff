-- refused: rules_by_name.lua:5: precision.rules.first: a list has no field 'first'; give the entries without names
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { first = rule { "linear", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
