-- refused: use_is_text.lua:5: precision.rules[1].use: cannot be a text; formats are values: write bf16 without quotes
local gpt2 = require "models.gpt2"
return recipe {
  model = gpt2 "tiny",
  precision = { rules = { rule { "linear", use = "bf16" } } },
  train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-3, warmup = 1 } },
}
