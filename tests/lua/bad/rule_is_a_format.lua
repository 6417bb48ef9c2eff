-- refused: rule_is_a_format.lua:5: precision.rules[1]: cannot be a number format; write rule { "linear", use = bf16 }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { bf16 } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
