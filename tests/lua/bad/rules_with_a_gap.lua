-- refused: rules_with_a_gap.lua:3: recipe: a list has holes: some of its values are nil
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = bf16 }, nil, rule { "linear", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
