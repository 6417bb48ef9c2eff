-- refused: selector_matches_nothing.lua:5: precision.rules[1]: no layer matches 'output'; did you mean 'lm_head'?
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "output", use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
