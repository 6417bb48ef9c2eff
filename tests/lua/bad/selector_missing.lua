-- refused: selector_missing.lua:5: precision.rules[1]: says no layers; begin with a kind or a path: rule { "linear", use = bf16 }
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
