-- refused: gemms_of_no_name.lua:5: precision.rules[1].gemms: no product 'forward'; it can be fprop, dgrad or wgrad
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", gemms = { "forward" }, use = bf16 } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
