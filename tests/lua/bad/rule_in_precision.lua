-- refused: rule_in_precision.lua:5: precision: rule stands here without a name; put rules in rules = { ... }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rule { "linear", use = bf16 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
