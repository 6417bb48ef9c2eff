-- refused: rule_of_two_kinds.lua:5: precision.rules[1]: a text stands here without a name; several selectors are a list: rule { {"linear", "norm"}, use = bf16 }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", "norm", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
