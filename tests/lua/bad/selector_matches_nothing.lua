-- refused: selector_matches_nothing.lua:5: precision.rules[1]: no layer matches 'output'; select a kind such as 'linear', or a path such as 'wte'
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "output", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
